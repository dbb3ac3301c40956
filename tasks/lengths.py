"""How long a chat is for a trainer, in tokens of a named tokenizer, or by an estimate from its bytes."""

from collections.abc import Callable, Sequence
from pathlib import Path

from storage.errors import UserError
from tasks.targets import Chat

BYTES_PER_TOKEN = 4  # of English; a text in another script is nearer 3, and is estimated too short
TOKENS_PER_MESSAGE = 8  # role and marks that a chat template puts around a message, at most

Measure = Callable[[Sequence[Chat]], list[int]]


def measure(tokenizer: str | None) -> Measure:
    """A function from chats to their lengths in tokens, prompt and completion together.

    ``tokenizer`` is a folder with a ``tokenizer.json``, or a model's name on the hub; None estimates. Raises
    ``UserError`` where it cannot be loaded.
    """
    if tokenizer is None:
        return lambda chats: [
            sum(-(-len(text.encode()) // BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE for text in _texts(chat))
            for chat in chats
        ]
    encode = _load(tokenizer)

    def counted(chats: Sequence[Chat]) -> list[int]:
        texts = [_texts(chat) for chat in chats]
        lengths = iter(encode([text for of_chat in texts for text in of_chat]))
        return [sum(next(lengths) + TOKENS_PER_MESSAGE for _ in of_chat) for of_chat in texts]

    return counted


def _texts(chat: Chat) -> list[str]:
    return [message["content"] for part in ("prompt", "completion") for message in chat[part]]


def _load(name: str) -> Callable[[list[str]], list[int]]:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UserError("export.tokenizer needs the package tokenizers: pip install 'criticgen-data[train]'") from None
    folder = Path(name)
    try:
        if folder.is_dir():
            found = Tokenizer.from_file(str(folder / "tokenizer.json"))
        else:
            found = Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises bare Exception
        raise UserError(
            f"export.tokenizer {name!r}: cannot be loaded ({str(error).splitlines()[0]}); name a folder that has a "
            "tokenizer.json, or a model on the hub, or leave it out for an estimate"
        ) from None
    found.no_truncation()
    found.no_padding()
    return lambda texts: [len(one.ids) for one in found.encode_batch_fast(texts, add_special_tokens=False)]
