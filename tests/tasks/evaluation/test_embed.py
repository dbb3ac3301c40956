import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from tasks.evaluation.embed import EmbedderError, embedder
from tasks.models.embeddings import EmbeddingsError


class Embeddings(BaseHTTPRequestHandler):
    """Vectors (length of the text, 1), the last text's first."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = [{"index": place, "embedding": [len(text), 1]} for place, text in enumerate(asked["input"])]
        if asked["model"] == "short":
            data.pop()
        body = json.dumps({"object": "list", "model": asked["model"], "data": data[::-1], "usage": {}}).encode()
        self.send_response(404 if asked["model"] == "none" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Embeddings) as served:
        threading.Thread(target=served.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}/v1"
        served.shutdown()


def test_an_endpoint_gives_each_text_its_vector_at_length_one(server: str) -> None:
    vectors = embedder(f"{server}#a-model")(["abc", "abcdefg"])
    assert vectors.ravel().tolist() == pytest.approx([3 / 10**0.5, 1 / 10**0.5, 7 / 50**0.5, 1 / 50**0.5])


def test_an_endpoint_that_fails_or_leaves_texts_out_is_named(server: str) -> None:
    with pytest.raises(EmbeddingsError, match="1 vectors for 2 texts"):
        embedder(f"{server}#short")(["a", "b"])
    with pytest.raises(EmbeddingsError, match="v1#none: NotFoundError"):
        embedder(f"{server}#none")(["a"])


def test_what_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EmbeddingsError, match="OPENAI_API_KEY is not set"):
        embedder("openai#text-embedding-3-small")
    with pytest.raises(EmbedderError, match="'word2vec' is not known: minilm, "):
        embedder("word2vec")


def test_the_default_embedder_works_offline_and_puts_like_beside_like() -> None:
    pytest.importorskip("onnxruntime", reason="the extra `embedder` is not installed")
    texts = ["The sum is wrong.", "The addition is incorrect.", "Penguins live in the south.", "word " * 600]
    vectors = embedder()(texts)
    assert vectors.shape == (4, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    similar, different = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert similar > 0.6 > 0.3 > different
    assert embedder()([texts[0]])[0] @ vectors[0] == pytest.approx(1, abs=1e-3)
