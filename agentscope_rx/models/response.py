"""The increments of a model's stream. No chunk repeats the content of an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.blocks import AudioBlock, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock, VideoBlock
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.messages.msg import ChatUsage
from agentscope_rx.models.rates import RateHeaders


class FinishReason(StrEnum):
    """Why the model stopped, for all providers: `STOP`, `TOOL_CALLS`, `LENGTH`, `CONTENT_FILTER` or `OTHER`."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ToolUseDelta:
    """A piece of a tool call. Pieces with the same `index` are one call; any one of them has the `id` and `name`.

    `arguments` is the next piece of the arguments' JSON text.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    metadata: Mapping[str, object] = EMPTY


@dataclass(frozen=True, slots=True)
class AudioDelta:
    """A piece of the audio of an answer: `data` is base64 of whole bytes. All pieces form one `AudioBlock`."""

    data: str
    media_type: str = "audio/pcm"


ChunkBlock = TextBlock | ThinkingBlock | ToolUseDelta | AudioDelta | ToolUseBlock | ImageBlock | AudioBlock | VideoBlock
"""A text or thinking block is the next piece of such a block (see `ChatResponse.block`). The other blocks are complete,
except for the deltas."""


Numbered = tuple[int, ChunkBlock]
"""The number of a block, and a piece of it."""


@dataclass(frozen=True, slots=True)
class RetryNotice:
    """An attempt failed, and the next follows after `delay` seconds, by `model` if that is another one.

    With `discarded` the chunks of the failed attempt are void: drop what you have shown of them.
    """

    attempt: int
    delay: float
    error: Exception
    discarded: bool = False
    model: str | None = None


@dataclass(frozen=True, slots=True)
class WaitNotice:
    """The request waits for a rate limit; with `seconds`, it is admitted after this wait."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """One increment of an answer: new content, usage, or notices. No increment repeats an earlier one.

    | field           | has                                                                                        |
    |-----------------|--------------------------------------------------------------------------------------------|
    | `content`       | new text, thinking, pieces of tool calls or audio                                          |
    | `block`         | the number of the provider's block of the text and thinking; None if the API has no blocks |
    | `usage`         | the totals so far; it replaces an earlier one                                              |
    | `id`            | the provider's id of the whole answer                                                      |
    | `retry`, `wait` | a notice: such a chunk has no content, and its other fields belong to the failed attempt   |
    | `rates`         | the rest of the rate limits, on the first increment or before an error                     |

    Without block numbers all text of the answer is one block, even with thinking or calls between its pieces, and all
    thinking up to a signature is one block.
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
    """Groups consecutive pieces of the same block, as an increment holds pieces of one block."""
    for number, group in groupby(pieces, key=itemgetter(0)):
        yield number, tuple(piece for _, piece in group)
