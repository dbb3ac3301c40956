"""The hub's client against a small hub of our own on 127.0.0.1."""

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import polars as pl
import pytest
from huggingface_hub import constants

from tasks.config import Source
from tasks.sources import SourceError, load_source, source_fingerprint

COMMIT = "c0ffee" + "0" * 34
SOURCE = Source(name="gsm8k", adapter="gsm8k", hub="lab/gsm8k", hub_config="main", split="train")


def parquet(first: int, rows: int) -> bytes:
    numbers = range(first, first + rows)
    questions, answers = [f"What is {n} + 1?" for n in numbers], [f"#### {n + 1}" for n in numbers]
    frame = pl.DataFrame({"question": questions, "answer": answers})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


FILES = {
    ".gitattributes": b"",
    "main/train/0000.parquet": parquet(0, 3),
    "main/train/0001.parquet": parquet(3, 2),
    "big/partial-train/0000.parquet": parquet(9, 1),
}


class Hub(ThreadingHTTPServer):
    """Data set lab/gsm8k; lab/gated refuses, lab/raw has no Parquet copy, others are unknown."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str] = []


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(path)
        if path == "/api/datasets/lab/gsm8k/revision/refs/convert/parquet":
            self.reply(200, json.dumps({"id": "lab/gsm8k", "sha": COMMIT}).encode())
        elif path == f"/api/datasets/lab/gsm8k/tree/{COMMIT}":
            entries = [{"type": "file", "path": n, "size": len(d), "oid": oid(d)} for n, d in FILES.items()]
            self.reply(200, json.dumps(entries).encode())
        elif (name := path.removeprefix(f"/datasets/lab/gsm8k/resolve/{COMMIT}/")) in FILES:
            self.reply(200, FILES[name], ETag=f'"{oid(FILES[name])}"', **{"X-Repo-Commit": COMMIT})
        elif "lab/gated" in path:
            self.reply(403, b"{}", **{"X-Error-Code": "GatedRepo", "X-Error-Message": "ask first"})
        else:
            self.reply(404, b"{}", **{"X-Error-Code": "RevisionNotFound" if "lab/raw" in path else "RepoNotFound"})

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        for name, value in (("ENDPOINT", address), ("HF_HUB_CACHE", str(tmp_path)), ("HF_HUB_OFFLINE", False),
                            ("HUGGINGFACE_CO_URL_TEMPLATE", template)):  # fmt: skip
            monkeypatch.setattr(constants, name, value)
        yield server
        server.shutdown()


def load(source: Source, limit: int | None = None) -> list[str]:
    return load_source(source, limit=limit, max_characters=1000, skip_bad_rows=False).questions["text"].to_list()


def test_reads_every_file_of_the_split_in_order(hub: Hub) -> None:
    loaded = load_source(SOURCE, limit=None, max_characters=1000, skip_bad_rows=False)
    assert loaded.questions["text"].to_list() == [f"What is {n} + 1?" for n in range(5)]
    assert loaded.questions["source_row"].to_list() == [1, 2, 3, 4, 5]


def test_a_small_limit_downloads_one_file(hub: Hub) -> None:
    assert load(SOURCE, limit=2) == ["What is 0 + 1?", "What is 1 + 1?"]
    assert not any(path.endswith("0001.parquet") for path in hub.asked)


def test_a_second_run_downloads_nothing(hub: Hub) -> None:
    load(SOURCE)
    hub.asked.clear()
    load(SOURCE)
    assert hub.asked == ["/api/datasets/lab/gsm8k/revision/refs/convert/parquet"]


def test_offline_reads_from_the_cache(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    online = load(SOURCE), source_fingerprint(SOURCE)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert (load(SOURCE), source_fingerprint(SOURCE)) == online


def test_offline_without_the_files_says_so(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    load(SOURCE, limit=2)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load(SOURCE, limit=2) == ["What is 0 + 1?", "What is 1 + 1?"]
    with pytest.raises(SourceError, match="not in the cache, and HF_HUB_OFFLINE forbids"):
        load(SOURCE)
    with pytest.raises(SourceError, match="not in the cache, and HF_HUB_OFFLINE forbids"):
        source_fingerprint(SOURCE.model_copy(update={"hub": "lab/unknown"}))


def test_a_hub_that_is_down_says_what_to_check(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match=r"(?s)lab/gsm8k \(main, train\): the hub cannot be reached .*`path:`"):
        load(SOURCE)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lab/gated", "access has to be granted.*HF_TOKEN"),
        ("lab/unknown", "no such data set, or a private one.*HF_TOKEN"),
        ("lab/raw", "keeps no Parquet copy"),
        ("not a name", "not a data set's name"),
    ],
)
def test_a_data_set_that_cannot_be_had_says_why(hub: Hub, name: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        load(SOURCE.model_copy(update={"hub": name}))


def test_an_unknown_split_lists_those_there_are(hub: Hub) -> None:
    with pytest.raises(SourceError, match="the hub has: big partial-train, main train"):
        load(SOURCE.model_copy(update={"split": "test"}))


def test_a_split_converted_in_part_is_read_with_a_warning(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    assert load(SOURCE.model_copy(update={"hub_config": "big"})) == ["What is 9 + 1?"]
    assert "lab/gsm8k (big, train): the hub keeps only the first 5 GB" in caplog.text
