"""What a model's stream carries: increments. Nothing in a chunk repeats what an earlier chunk said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

from agentscope_rx.messages.blocks import AudioBlock, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock, VideoBlock
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.messages.msg import ChatUsage
from agentscope_rx.models.rates import RateHeaders


class FinishReason(StrEnum):
    """Why the model stopped, in one vocabulary for all providers."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ToolUseDelta:
    """A piece of a tool call. Pieces with one `index` are one call; `id` and `name` come with any of them, once.

    `arguments` is the next piece of the arguments' JSON text.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    metadata: Mapping[str, object] = EMPTY


@dataclass(frozen=True, slots=True)
class AudioDelta:
    """A piece of the sound of an answer: base64 of whole bytes. All pieces of an answer are one `AudioBlock`."""

    data: str
    media_type: str = "audio/pcm"


ChunkBlock = TextBlock | ThinkingBlock | ToolUseDelta | AudioDelta | ToolUseBlock | ImageBlock | AudioBlock | VideoBlock
"""A text or thinking block is the next piece of a block of its kind (see `ChatResponse.block`); the others but the
deltas are whole."""


Numbered = tuple[int, ChunkBlock]
"""A piece with the number of its block."""


@dataclass(frozen=True, slots=True)
class RetryNotice:
    """An attempt failed and another will follow after `delay` seconds, of `model` if it is another one.

    If `discarded`, the chunks of the failed attempt were shown already and are void.
    """

    attempt: int
    delay: float
    error: Exception
    discarded: bool = False
    model: str | None = None


@dataclass(frozen=True, slots=True)
class WaitNotice:
    """The request waits for its turn; or, with `seconds`, it is let through after having waited so long."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """One increment of an answer: new content, or facts about the answer as they become known.

    `block` is the number of the wire's block that the text and thinking are pieces of. Without one the wire has no
    blocks: all text of the answer is one text, whatever thinking or calls come between its pieces, and all thinking up
    to a signature one thought.

    `usage` replaces an earlier one (providers send totals); `id` is the provider's id of the whole answer.
    A chunk with `retry` or `wait` has no content: see `RetryNotice` and `WaitNotice`. What else comes with `retry` is
    the failed attempt's.
    `rates` comes with the first increment of an answer whose headers told of limits, or alone before its error.
    """

    content: tuple[ChunkBlock, ...] = ()
    usage: ChatUsage | None = None
    finish_reason: FinishReason | None = None
    raw_finish_reason: str | None = None
    id: str | None = None
    metadata: Mapping[str, object] = EMPTY
    retry: RetryNotice | None = None
    wait: WaitNotice | None = None
    block: int | None = None
    rates: RateHeaders | None = None


def in_blocks(pieces: Iterable[Numbered]) -> Iterator[tuple[int, tuple[ChunkBlock, ...]]]:
    """The pieces of each block together, as they follow each other: what an increment can hold."""
    for number, group in groupby(pieces, key=itemgetter(0)):
        yield number, tuple(piece for _, piece in group)
