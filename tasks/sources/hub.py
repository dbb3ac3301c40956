"""Data sets of the Hugging Face hub, by the Parquet copy that the hub keeps of each (branch refs/convert/parquet).

Files come one at a time, as they are read, into the hub's own cache, so that a small limit downloads one file
and a second run nothing. Without a connection the cache serves. A token (HF_TOKEN) is read by the hub's client.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.config import Source
from tasks.sources.faults import SourceError

logger = logging.getLogger(__name__)

BRANCH = "refs/convert/parquet"


def commit(source: Source) -> str:
    """The commit that the branch stands at: the hub's word, or without a connection the cache's.

    Raises ``SourceError``.
    """
    with _explained(source):
        return str(_revision(source).resolved)


def parquet_files(source: Source) -> Iterator[Path]:
    """The files of the source's configuration and split, in order; each is there when it is yielded.

    A split of more than 5 GB has only its first 5 GB in Parquet (``partial-<split>``): those are the rows then, with
    a warning. Raises ``SourceError`` for a data set, configuration or split that is not there, and for a download
    that fails.
    """
    import huggingface_hub as hf

    with _explained(source):
        revision = _revision(source)
        # The pattern asks for next to nothing: what is wanted of this call is the listing that it caches.
        hf.snapshot_download(source.hub or "", repo_type="dataset", revision=revision, allow_patterns=".gitattributes")
        listing = hf.get_cached_repo_tree(source.hub or "", repo_type="dataset", revision=revision)
    names = sorted(entry.path for entry in listing if entry.path.endswith(".parquet"))
    whole, part = (f"{source.hub_config}/{start}{source.split}/" for start in ("", "partial-"))
    wanted = [name for name in names if name.startswith(whole)]
    if not wanted:
        wanted = [name for name in names if name.startswith(part)]
        if wanted:
            logger.warning(
                "%s: the hub keeps only the first 5 GB as Parquet; the rows after them are not read", place(source)
            )
    if not wanted:
        there = sorted({" ".join(name.split("/")[:2]) for name in names if name.count("/") == 2})
        raise SourceError(
            f"{place(source)}: no such configuration and split; the hub has: {', '.join(there) or 'no Parquet files'}"
        )
    for name in wanted:
        with _explained(source):
            file = hf.hf_hub_download(source.hub or "", name, repo_type="dataset", revision=revision)
        yield Path(file)


def place(source: Source) -> str:
    return f"{source.hub} ({source.hub_config}, {source.split})"


def _revision(source: Source) -> Any:
    from huggingface_hub import HfApi, constants
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if constants.HF_HUB_DISABLE_PROGRESS_BARS is None:
        disable_progress_bars()
    return HfApi().resolve_revision(source.hub or "", repo_type="dataset", revision=BRANCH)


@contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Turns the client's errors into ``SourceError`` with what to do. The most special class comes first."""
    import httpx2
    from huggingface_hub import errors

    local = "or download a file yourself and give its `path:` in place of `hub:`"
    try:
        yield
    except errors.GatedRepoError:
        problem = f"access has to be granted; ask for it on the data set's page and set HF_TOKEN, {local}"
    except errors.RepositoryNotFoundError:
        problem = f"no such data set, or a private one; check the name, set HF_TOKEN where it is private, {local}"
    except errors.RevisionNotFoundError:
        problem = f"the hub keeps no Parquet copy of it (branch {BRANCH}); {local.removeprefix('or ')}"
    except errors.HFValidationError as error:
        problem = f"not a data set's name, which is owner/name: {error}"
    except (
        errors.RevisionResolutionError,
        errors.LocalEntryNotFoundError,
        errors.CachedRepoTreeNotFoundError,
    ) as error:
        problem = _unreachable(error, local)
    except (errors.HfHubHTTPError, httpx2.HTTPError, OSError, RuntimeError) as error:
        problem = f"the download failed ({type(error).__name__}: {_first_line(error)}); try again, {local}"
    else:
        return
    raise SourceError(f"{place(source)}: {problem}") from None


def _unreachable(error: Exception, local: str) -> str:
    from huggingface_hub import is_offline_mode

    if is_offline_mode():
        return f"not in the cache, and HF_HUB_OFFLINE forbids to fetch it; unset HF_HUB_OFFLINE, {local}"
    cause = error.__cause__ or error
    return (
        f"the hub cannot be reached and the cache does not hold all of it ({type(cause).__name__}: "
        f"{_first_line(cause)}); check the connection and the proxy settings, {local}"
    )


def _first_line(error: BaseException) -> str:
    return re.sub(r"\s+", " ", str(error))[:300]
