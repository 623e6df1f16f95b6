"""Exact counts of text: OpenAI's tokenizers (extra `[tokens]`, with their vocabularies), and any `tokenizer.json`.

The vocabulary is loaded in the constructor, which takes up to two seconds: create one counter at program start.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any, Literal

from agentscope_rx.errors import ConfigurationError, MissingExtraError
from agentscope_rx.models.tokens.costs import OPENAI, Costs
from agentscope_rx.models.tokens.counter import TextCounter

Encoding = Literal["o200k_base", "cl100k_base"]
_OLD = ("gpt-4-", "gpt-3.5", "gpt-35", "text-embedding-")
_PIECE = 40_000
"""The characters encoded at a time: the tokenizer accepts at most 200,000 tokens."""


class OpenAITokens(TextCounter):
    """Counts like OpenAI's models: `o200k_base` since gpt-4o, `cl100k_base` for gpt-4, gpt-3.5 and embeddings.

    Text is exact; the overhead follows OpenAI's published rule, and images `costs`.
    """

    def __init__(self, model_name: str = "gpt-4o", *, encoding: Encoding | None = None, costs: Costs = OPENAI) -> None:
        name = model_name.lower()
        old = name == "gpt-4" or name.startswith(_OLD)
        self.encoding: Encoding = encoding or ("cl100k_base" if old else "o200k_base")
        encode = _encoding(self.encoding).encode_ordinary
        super().__init__(lambda text: sum(len(encode(piece)) for piece in _pieces(text)), costs)


class FileTokens(TextCounter):
    """Counts by the `tokenizer.json` of an open model, as Hugging Face's `tokenizers` reads it."""

    def __init__(self, path: str | Path, costs: Costs | None = None) -> None:
        try:
            from tokenizers import Tokenizer  # pyright: ignore[reportMissingTypeStubs]
        except ImportError:
            raise MissingExtraError("tokenizers", "tokens") from None
        file = Path(path)
        if not file.is_file():
            raise ConfigurationError(f"FileTokens reads a model's tokenizer.json; there is no file {str(file)!r}.")
        try:
            tokenizer: Any = Tokenizer.from_file(str(file))
        except Exception as error:
            # the package raises a plain Exception for an invalid file
            raise ConfigurationError(f"{str(file)!r} is not a valid tokenizer.json: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        super().__init__(lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids), costs)


@cache
def _encoding(name: Encoding) -> Any:
    try:
        with warnings.catch_warnings():
            # it uses a function that is deprecated in Python 3.11, but not in 3.13
            warnings.simplefilter("ignore", DeprecationWarning)
            import bpe_openai  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise MissingExtraError("bpe-openai", "tokens") from None
    return bpe_openai.get_encoding(name)


def _pieces(text: str) -> list[str]:
    """The text in pieces that begin with a space, which is a token boundary."""
    pieces: list[str] = []
    at = 0
    while len(text) - at > _PIECE:
        end = text.rfind(" ", at + 1, at + _PIECE)
        end = end if end > 0 else at + _PIECE
        pieces.append(text[at:end])
        at = end
    return [*pieces, text[at:]]
