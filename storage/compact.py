"""``criticgen compact``: the small parts of a table, also as few files, so that reading all of it is quick.

    compact/NAME/ID.parquet   the rows of many parts, one part after the other
    compact/index.json        which parts each file holds, by path, size and time; written last

The parts stay as they are: a run looks at them alone, and what it fingerprints stays valid. The views read a compact
file in their place while each of them still stands as it was; a part that is written anew, or gone, puts its file out
of use until the next ``compact``. A kill at any moment leaves what was before; none of it has to be backed up.
"""

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from storage.ids import content_id
from storage.queries import INDEX, VIEWS, Part, compact_index, table_parts
from storage.schemas import Table
from storage.workspace import Workspace, read_parquet, whole_file, write_bytes

SMALL_BYTES = 32 * 2**20  # a larger part is left as it is
FILE_BYTES = 128 * 2**20
GROUP_ROWS = 65_536  # rows that are read together; a shard's rows lie in few of them


def compact(workspace: Workspace) -> dict[str, dict[str, int]]:
    """Join what is small. By table: ``parts`` that are joined, in so many ``files``."""
    root = workspace.root.resolve()
    with workspace.lock():
        known = compact_index(root)
        index: dict[str, Any] = {}
        counts: dict[str, dict[str, int]] = {}
        for name, parts in table_parts(root).items():
            groups = list(_groups(parts))
            counts[name] = {"parts": sum(map(len, groups)), "files": len(groups)}
            for group in groups:
                held = [[str(part.path).removeprefix(f"{root}/"), part.size, part.mtime_ns] for part in group]
                file = f"compact/{name}/{content_id(held)}.parquet"
                if file not in known or not (root / file).exists():
                    _join(workspace, VIEWS[name], group, file)
                index[file] = {"table": name, "parts": held}
        write_bytes(root / INDEX, orjson.dumps(index))
        for path in (root / "compact").rglob("*.parquet*"):  # of earlier indexes, and of a kill
            if str(path.relative_to(root)) not in index:
                path.unlink()
    return counts


def _groups(parts: list[Part]) -> Iterator[list[Part]]:
    """Small parts in the order of their names, as many as make a file; one alone is left as it is."""
    group: list[Part] = []
    for part in parts:
        if part.size > SMALL_BYTES:
            continue
        if group and sum(other.size for other in group) + part.size > FILE_BYTES:
            yield group
            group = []
        group.append(part)
    if len(group) > 1:
        yield group


def _join(workspace: Workspace, table: Table, parts: list[Part], file: str) -> None:
    schema = table.schema
    marked = {**(schema.metadata or {}), "criticgen.simulated": str(workspace.info["simulated"]).lower()}
    with (
        whole_file(workspace.root / file) as out,
        pq.ParquetWriter(out, schema.with_metadata(marked), compression="zstd") as writer,
    ):
        waiting: list[pa.Table] = []
        for part in parts:
            waiting.append(read_parquet(table, [part.file]).to_arrow().cast(schema))
            if sum(map(len, waiting)) >= GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
