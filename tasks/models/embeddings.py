"""Embeddings from a server that speaks OpenAI's protocol."""

import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from storage.errors import UserError

TEXTS_AT_ONCE = 256


class EmbeddingsError(UserError):
    """The endpoint gave no embeddings."""


def endpoint(base_url: str | None, model: str, key_env: str) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """Texts to rows. ``base_url`` is OpenAI's own where it is None; a local server needs no key.

    Raises ``EmbeddingsError`` when OpenAI's key is missing, and, when asked, for any answer that is not one vector
    for each text.
    """
    import openai

    key = os.environ.get(key_env)
    if key is None and base_url is None:
        raise EmbeddingsError(f"embedder openai#{model}: {key_env} is not set")
    client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=5, timeout=120)

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        parts = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            asked = list(texts[start : start + TEXTS_AT_ONCE])
            try:
                answer = client.embeddings.create(model=model, input=asked, encoding_format="float")
            except (openai.OpenAIError, ValueError) as error:
                cause = f"{type(error).__name__}: {error}".split("\n")[0][:300]
                raise EmbeddingsError(f"embedder {base_url or 'openai'}#{model}: {cause}") from None
            rows = [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]
            if len(rows) != len(asked) or len({len(row) for row in rows}) != 1:
                raise EmbeddingsError(
                    f"embedder {base_url or 'openai'}#{model}: {len(rows)} vectors for {len(asked)} texts"
                )
            parts.append(np.array(rows, np.float32))
        return np.concatenate(parts) if parts else np.empty((0, 1), np.float32)

    return embed
