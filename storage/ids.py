"""The one hash of the project. Every id is a hash of the content that decides it, so equal content has an equal id."""

import hashlib
from pathlib import Path

import orjson


def content_id(*parts: object) -> str:
    """32 hexadecimal digits (BLAKE2b, 128 bits) of the parts as one JSON array with sorted keys.

    At 100 million ids the odds of any collision are 1.5e-23. Text with lone surrogates raises
    ``TypeError``: sanitize it first.
    """
    encoded = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def file_id(path: Path) -> str:
    """The content hash of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
