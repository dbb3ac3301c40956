"""A workspace: the folder that holds one data set.

    workspace.json            name, schema version, simulated or real
    lock                      held by the process that writes
    ledger/                   every response, as it came (storage/ledger.py)
    tables/NAME/...parquet    the tables of storage/schemas.py, rebuilt from the ledger at any time
    manifests/STAGE/....json  written last, so that its being there means that the stage's tables are complete
    exports/                  the data sets

Every file appears under its name by an atomic rename, whole or not at all.
"""

import fcntl
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from storage.errors import UserError
from storage.schemas import TABLES, VERSION, Table


class WorkspaceError(UserError):
    """The workspace cannot be used as asked; the message says why and what to do."""


class Held(WorkspaceError):
    """Another process writes to the workspace; the message names it."""


class WriteError(WorkspaceError, OSError):
    """A file could not be written, for lack of room or worse. What was kept before is kept."""


class Workspace:
    """The files of one data set. Opening makes the folder; ``create`` false refuses one that is not there."""

    def __init__(self, root: Path | str, *, create: bool = True) -> None:
        self.root = Path(root)
        if not create and not (self.root / "workspace.json").exists():
            raise WorkspaceError(f"{self.root}: no workspace here (`criticgen run CONFIG --workspace DIR` makes one)")
        info = self.info
        if info.get("version", VERSION) != VERSION:
            raise WorkspaceError(
                f"{self.root}: its tables have schema version {info['version']}, this release reads {VERSION}"
            )
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(f"{self.root}: cannot be made ({error.strerror})") from None

    @property
    def info(self) -> dict[str, Any]:
        return self._read_json(self.root / "workspace.json") or {}

    def claim(self, name: str, *, simulated: bool) -> None:
        """Write what this workspace is, or refuse a run that does not belong in it."""
        info = self.info
        if not info:
            info = {"name": name, "version": VERSION, "simulated": simulated, "created": now()}
            write_bytes(self.root / "workspace.json", orjson.dumps(info, option=orjson.OPT_INDENT_2))
        if info["simulated"] != simulated:
            held, asked = ("simulated", "real") if info["simulated"] else ("real", "simulated")
            raise WorkspaceError(f"{self.root}: holds {held} models' data; {asked} models need another workspace")
        if info["name"] != name:
            raise WorkspaceError(f"{self.root}: holds data set {info['name']!r}, not {name!r}; use another --workspace")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the workspace for writing. The lock of a dead process is free; a live one's is named in the error."""
        with (self.root / "lock").open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().decode(errors="replace").strip() or "another process"
                raise Held(f"{self.root}: in use by {holder}; wait for it or stop it") from None
            with suppress(OSError):  # a full disk: it only says who
                os.truncate(file.fileno(), 0)
                os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()} since {now()}\n".encode())
            yield

    def writer(self) -> str | None:
        """The process that holds the lock, None when nobody does. It does not touch the lock."""
        try:
            said = (self.root / "lock").read_text(errors="replace").strip()
            inode = (self.root / "lock").stat().st_ino
            locks = Path("/proc/locks").read_text()
        except OSError:  # no lock was ever taken, or the system does not list them
            return None
        held = any(f":{inode} " in line and " FLOCK " in line for line in locks.splitlines())
        return (said or "another process") if held else None

    # Tables

    def table_path(self, name: str, *parts: str) -> Path:
        """``tables/NAME/PART/.../PART.parquet``."""
        return self.root.joinpath("tables", name, *parts[:-1], parts[-1] + ".parquet")

    def write_table(self, name: str, frame: pl.DataFrame, *parts: str) -> None:
        """Write one part of a table. Columns must be the schema's, all and none else."""
        write_parquet(self.table_path(name, *parts), TABLES[name], frame, simulated=self.info["simulated"])

    def table_files(self, name: str, *parts: str) -> list[Path]:
        """The files of a table, or of those parts of it that ``parts`` begins (``"gsm8k-0000"``: of one shard)."""
        place = self.root.joinpath("tables", name, *parts)
        file = place.with_name(place.name + ".parquet")
        return [file] if file.exists() else sorted(place.rglob("*.parquet"))

    def read_table(self, name: str, *parts: str, columns: list[str] | None = None) -> pl.DataFrame:
        """The rows of a table, or of the parts that ``parts`` begins; no files, no rows."""
        return read_parquet(TABLES[name], self.table_files(name, *parts), columns)

    @staticmethod
    def sizes(files: Iterable[Path]) -> list[int]:
        """Bytes of each file, -1 where it is missing: kept in a manifest, they show a file that was cut."""
        return [file.stat().st_size if file.exists() else -1 for file in files]

    # Manifests

    def manifest_path(self, *parts: str) -> Path:
        return self.root.joinpath("manifests", *parts).with_suffix(".json")

    def read_manifest(self, *parts: str) -> dict[str, Any] | None:
        return self._read_json(self.manifest_path(*parts))

    def forget_manifest(self, *parts: str) -> None:
        """Before tables are written anew: a manifest must not vouch for tables it was not written after."""
        self.manifest_path(*parts).unlink(missing_ok=True)

    def write_manifest(self, manifest: Mapping[str, Any], *parts: str) -> None:
        path = self.manifest_path(*parts)
        write_bytes(path, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))

    def manifest_files(self, stage: str) -> list[Path]:
        """The stage's own manifest, and its batches'."""
        own = self.manifest_path(stage)
        return [*([own] if own.exists() else []), *sorted((self.root / "manifests" / stage).rglob("*.json"))]

    def manifests(self, stage: str) -> list[dict[str, Any]]:
        """The manifests of a stage's batches."""
        found = [self._read_json(path) for path in self.manifest_files(stage) if path != self.manifest_path(stage)]
        return [manifest for manifest in found if manifest]

    def prune(self, keep: Iterable[Path]) -> None:
        """Remove table parts and manifests outside ``keep``: settings changed, and they can be rebuilt."""
        kept = set(keep)
        for folder in ("tables", "manifests"):
            for path in (self.root / folder).rglob("*.*"):
                if path.is_file() and path not in kept:
                    path.unlink()

    @staticmethod
    def _read_json(path: Path) -> dict[str, Any] | None:
        try:
            value = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, IsADirectoryError):
            raise WorkspaceError(f"{path}: damaged; delete it and run again, nothing is paid twice") from None
        if not isinstance(value, dict):
            raise WorkspaceError(f"{path}: not what this project wrote")
        return value


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_bytes(path: Path, data: bytes) -> None:
    """Write durably and whole. Raises ``WriteError``."""
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that has its name once the block has ended: written aside, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise not_written(path, error) from None
        raise


def not_written(path: Path, error: OSError) -> WriteError:
    return WriteError(
        f"{path}: cannot be written ({error.strerror or error}); what was kept before is kept. "
        "Make room there, and the same command goes on from here"
    )


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_parquet(path: Path, table: Table, frame: pl.DataFrame, *, simulated: bool) -> None:
    """Write ``frame`` as ``table``, durably and whole, its metadata saying whether it is simulated.

    Wrong columns raise ``WorkspaceError``, a full disk ``WriteError``.
    """
    if set(frame.columns) != set(table.columns):
        unknown, missing = set(frame.columns) - set(table.columns), set(table.columns) - set(frame.columns)
        raise WorkspaceError(f"table {table.name}: unknown columns {sorted(unknown)}, missing {sorted(missing)}")
    arrow = frame.select(list(table.columns)).to_arrow().cast(table.schema)
    marked = {**(arrow.schema.metadata or {}), "criticgen.simulated": str(simulated).lower()}
    arrow = arrow.replace_schema_metadata(marked)
    with whole_file(path) as file:
        pq.write_table(arrow, file, compression="zstd")


def read_parquet(table: Table, paths: Iterable[Path], columns: list[str] | None = None) -> pl.DataFrame:
    """Rows of Parquet files that hold ``table``. Another version or a damaged file raises ``WorkspaceError``."""
    schema = table.schema
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)
    pieces = [schema.empty_table()]
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                version = (file.schema_arrow.metadata or {}).get(b"criticgen.version", b"none").decode()
                if version != VERSION:
                    raise WorkspaceError(f"{path}: schema version {version}, this release reads {VERSION}")
                pieces.append(file.read(columns=schema.names).cast(schema))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise WorkspaceError(f"{path}: damaged or not a {table.name} table ({error}); {_remedy(table)}") from None
    frame = pl.from_arrow(pa.concat_tables(pieces))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _remedy(table: Table) -> str:
    if table.name == "ledger":
        return (
            "it holds answers that were paid for: put it back from a copy. Without one, move it away: what it held "
            "will be asked and paid again"
        )
    if table.name == "splits":
        return "put it back from a copy. Without one, delete it: another split is made, with other questions held out"
    return "`criticgen rebuild` makes the tables anew from the ledger and asks no model"
