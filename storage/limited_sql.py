"""One SELECT of somebody's own in a process of its own: a time and a memory limit that hold whatever it does.

``python -m storage.limited_sql ROOT FORMAT ROWS`` reads SQL from its standard input and writes the result to its
standard output as an Arrow stream, CSV or Parquet. It ends with 2 and the message where the SQL cannot be run.
"""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from storage.queries import QueryError, open_database, run_select

if TYPE_CHECKING:
    import pyarrow as pa

SECONDS = 10.0
MEMORY_BYTES = 2 * 2**30  # of the process; the database itself keeps to half of it


@contextmanager
def run_limited(
    root: Path, sql: str, *, rows: int, form: str = "arrow", seconds: float = SECONDS
) -> Iterator[IO[bytes]]:
    """The first ``rows`` rows of the result in ``form``, as a file.

    Raises ``QueryError``, also where a limit was reached.
    """
    command = [sys.executable, "-m", "storage.limited_sql", str(root.resolve()), form, str(rows)]
    with tempfile.TemporaryFile() as found:
        try:
            done = subprocess.run(
                command, input=sql.encode(), stdout=found, stderr=subprocess.PIPE, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise QueryError(f"stopped: it took longer than {seconds:g} s") from None
        if done.returncode == 2:
            raise QueryError(done.stderr.decode(errors="replace").strip())
        if done.returncode:
            raise QueryError(f"stopped: it needed more memory than {MEMORY_BYTES // 2**20:,} MB")
        found.seek(0)
        yield found


def select_limited(root: Path, sql: str, *, rows: int, seconds: float = SECONDS) -> "pa.Table":
    """The first ``rows`` rows of the result. Raises ``QueryError``."""
    import pyarrow as pa

    with run_limited(root, sql, rows=rows, seconds=seconds) as found:
        return pa.ipc.open_stream(found).read_all()


def _main(root: str, form: str, rows: int) -> None:
    import pyarrow as pa

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    memory = f"{MEMORY_BYTES // 2**21}MB"
    with open_database(Path(root), memory_limit=memory, temp_directory="", threads="2") as database:
        found = run_select(database, sys.stdin.buffer.read().decode("utf-8", "replace"), rows)
    out = sys.stdout.buffer
    if form == "csv":
        from pyarrow import csv

        csv.write_csv(_flat(found), out)
    elif form == "parquet":
        from pyarrow import parquet

        parquet.write_table(found, out, compression="zstd")
    else:
        with pa.ipc.new_stream(out, found.schema) as stream:
            stream.write_table(found)


def _flat(table: "pa.Table") -> "pa.Table":
    """Lists and structs as JSON text: CSV has no word for them."""
    import orjson
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            texts = [None if v is None else orjson.dumps(v, default=str).decode() for v in table[place].to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


if __name__ == "__main__":
    try:
        _main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    except QueryError as error:
        sys.stderr.write(str(error))
        sys.exit(2)
    except MemoryError:
        sys.exit(3)
