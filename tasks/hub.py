"""An export to the Hugging Face hub."""

from pathlib import Path

from storage.errors import UserError


def files_of(folder: Path) -> dict[str, int]:
    """The files that a push would send, by path in the folder: bytes. Raises ``UserError`` where there is no export."""
    if not (folder / "README.md").exists():
        raise UserError(f"{folder}: no export here; `criticgen run` or `criticgen export` writes one")
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}


def push(folder: Path, name: str, *, public: bool = False) -> str:
    """Make the hub's data set ``owner/name`` hold this export, and nothing else. Returns the commit's address.

    An interrupted push is gone on with by the same call; what an earlier export had and this one has not is deleted.
    A data set that is there keeps its visibility. The token is the hub's own (``HF_TOKEN``, or ``hf auth login``).
    Raises ``UserError``.
    """
    import httpx2
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    files_of(folder)
    api = HfApi()
    try:
        api.create_repo(name, repo_type="dataset", private=not public, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name,
            repo_type="dataset",
            folder_path=folder,
            delete_patterns="*",
            commit_message="RubricData and RefineData",
        )
    except (HfHubHTTPError, HFValidationError, httpx2.HTTPError, OSError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{name}: not pushed ({said}); set HF_TOKEN to a token that may write there, try again"
        ) from None
    return str(commit.commit_url)
