"""`Windows`: cuts an answer into windows of text, which are judged before anything of them is shown.

    the model     He|llo. How a|re you?|<end>
    windows       [Hello.]  [ How are you?, final]

A window ends at the end of a sentence or a line, at `max_chars`, after `max_delay` seconds, and where something else
follows the text. What is no text passes, in its place.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import field, replace
from typing import Literal, NamedTuple

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import TextBlock, ThinkingBlock, ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.models.response import ChatResponse, ChunkBlock, ToolUseDelta
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.reactive import Scope
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink

Thinking = Literal["hold", "drop", "show"]
"""How thinking is treated: judged as text is, removed, or shown without being judged."""

EPSILON = 1e-6
_END = re.compile(r"[.!?\u2026](?=\s)|[\u3002\uff01\uff1f\n]")
_WHOLE_CALLS = 1_000_000
"""The index of the first call that has come in one piece; those in pieces have smaller ones."""


class Channel(NamedTuple):
    """A block of text, of thinking, or the arguments of a call of the response tool, by its number."""

    kind: Literal["text", "thinking", "call"]
    number: int | None

    def piece(self, text: str) -> ChatResponse:
        """A piece of the block."""
        if self.kind == "call":
            return ChatResponse((ToolUseDelta(self.number or 0, arguments=text),))
        block = TextBlock(text) if self.kind == "text" else ThinkingBlock(text)
        return ChatResponse((block,), block=self.number)


class Mark(NamedTuple):
    """So many characters that came at this time of the loop's clock."""

    time: float
    length: int


@dataclass(slots=True)
class Window:
    """Text of one block. `final`: nothing of the block follows; then comes `close`, the signature of thinking."""

    channel: Channel
    text: str
    marks: list[Mark]
    generation: int
    final: bool = False
    close: ThinkingBlock | None = None


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """How an answer is cut; see `GuardrailsHook`. `whole`: into one window for each block."""

    max_delay: float = 1.0
    max_chars: int = 2000
    reach: int = 0
    whole: bool = False
    thinking: Thinking = "hold"
    response_tool: str = ""


@dataclass(slots=True)
class Pending:
    """The text of a block that is in no window yet."""

    channel: Channel
    pieces: list[str] = field(default_factory=list[str])
    marks: list[Mark] = field(default_factory=list[Mark])
    length: int = 0
    has_end: bool = False
    """True if it has the end of a sentence or line."""


class Windows(OperatorSink):
    """The sink of a model call: passes `Window`s and, as they are, all responses without text."""

    __slots__ = (
        "_calls",
        "_due",
        "_ended",
        "_ids",
        "_open",
        "_options",
        "_pending",
        "_scope",
        "_sink",
        "_tail",
        "_timer",
        "generation",
    )

    def __init__(self, options: WindowOptions, sink: Sink[ChatResponse | Window], scope: Scope) -> None:
        super().__init__()
        self._options = options
        self._sink = sink
        self._scope = scope
        self._pending: Pending | None = None
        # the block of the last window, if more of it may follow
        self._open: Channel | None = None
        self._tail: tuple[Channel, float] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._ended = False
        # the indexes of calls of the response tool
        self._calls: set[int] = set()
        self._ids: set[str] = set()
        self.generation: int = 0
        """The number of attempts that have failed: windows of earlier ones are void."""

    def on_next(self, response: ChatResponse) -> None:
        if response.retry is not None or response.wait is not None:
            if response.retry is not None:
                self._drop()
            self._sink.on_next(response)
            return
        for block in response.content:
            if self.disposed:
                return
            self._take(block, response.block)
        if self._has_more(response) and not self.disposed:
            self._sink.on_next(replace(response, content=()) if response.content else response)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._drop()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._flush()
        # a check may still be in progress: what it leaves held is judged with the last window
        self._ended = True
        self._stop_timer()
        if not self.disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self._drop()
        super().dispose()

    def held(self, channel: Channel, since: float | None) -> None:
        """The end of a window is held since then, although it was judged; None: nothing is."""
        if since is not None and channel == self._open:
            # (else the window that ends the block has been cut already, and takes it along)
            self._tail = (channel, since)
            self._arm()

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _has_more(self, response: ChatResponse) -> bool:
        """True if there is more than content in it, and an id that is known already."""
        if response.id is not None and response.id not in self._ids:
            self._ids.add(response.id)
            return True
        reasons = response.finish_reason is not None or response.raw_finish_reason is not None
        return reasons or response.usage is not None or response.rates is not None or bool(response.metadata)

    def _take(self, block: ChunkBlock, number: int | None) -> None:
        if isinstance(block, TextBlock):
            self._add(Channel("text", number), block.text)
        elif isinstance(block, ThinkingBlock) and self._options.thinking != "show":
            if self._options.thinking == "hold":
                self._think(block, number)
        elif isinstance(block, ToolUseDelta) and self._is_response(block):
            self._flush_others(Channel("call", block.index))
            if block.id or block.name or block.metadata:
                self._sink.on_next(ChatResponse((replace(block, arguments=""),)))
            self._add(Channel("call", block.index), block.arguments)
        elif isinstance(block, ToolUseBlock) and block.name and block.name == self._options.response_tool:
            self._flush()
            index = _WHOLE_CALLS + len(self._calls)
            self._calls.add(index)
            self._sink.on_next(ChatResponse((ToolUseDelta(index, block.id, block.name, metadata=block.metadata),)))
            self._add(Channel("call", index), encode_json(thaw(block.input)) if block.raw is None else block.raw)
        else:
            # no text: what came before it is judged first
            self._flush()
            self._sink.on_next(ChatResponse((block,), block=number))

    def _is_response(self, delta: ToolUseDelta) -> bool:
        if delta.name and delta.name == self._options.response_tool:
            self._calls.add(delta.index)
        return delta.index in self._calls

    def _think(self, block: ThinkingBlock, number: int | None) -> None:
        channel = Channel("thinking", number)
        self._add(channel, block.thinking)
        if block.signature is not None or block.metadata:
            self._flush_others(channel)
            self._emit(self._pending or Pending(channel), final=True, close=replace(block, thinking=""))

    def _add(self, channel: Channel, text: str) -> None:
        if not text:
            return
        self._flush_others(channel)
        if self.disposed:
            return
        pending = self._pending
        if pending is None:
            pending = self._pending = Pending(channel)
        last = pending.pieces[-1][-1:] if pending.pieces else ""
        pending.pieces.append(text)
        pending.marks.append(Mark(self._scope.loop.time(), len(text)))
        pending.length += len(text)
        if self._options.whole:
            return
        if pending.length >= self._options.max_chars:
            self._emit(pending)
            return
        pending.has_end = pending.has_end or _END.search(last + text) is not None
        # what is within reach stays held anyway: shorter windows would only be judged more often
        if pending.has_end and pending.length >= self._options.reach // 2:
            self._cut(pending)
        else:
            self._arm()

    def _cut(self, pending: Pending) -> None:
        """Emit what came up to the last end of a sentence or line; the rest begins the next window."""
        text = "".join(pending.pieces)
        end = max((found.end() for found in _END.finditer(text)), default=0)
        if not end:
            self._arm()
            return
        rest = text[end:]
        marks = marks_from_end(pending.marks, len(rest))
        self._emit(Pending(pending.channel, [text[:end]], marks_from_start(pending.marks, end), end))
        if rest and not self.disposed:
            self._pending = Pending(pending.channel, [rest], marks, len(rest))
            self._arm()

    def _flush_others(self, channel: Channel) -> None:
        held = self._open if self._pending is None else self._pending.channel
        if held is not None and held != channel:
            self._flush()

    def _flush(self) -> None:
        if self._pending is not None:
            self._emit(self._pending, final=True)
        elif self._open is not None:
            self._emit(Pending(self._open), final=True)

    def _emit(self, pending: Pending, *, final: bool = False, close: ThinkingBlock | None = None) -> None:
        self._pending = self._tail = None
        self._open = None if final else pending.channel
        self._stop_timer()
        text = "".join(pending.pieces)
        self._sink.on_next(Window(pending.channel, text, pending.marks, self.generation, final, close))

    # --- the bound on the delay ---------------------------------------------------------------------------------------

    def _since(self) -> float | None:
        """The time at which the oldest held character came."""
        times = [] if self._tail is None else [self._tail[1]]
        if self._pending is not None and self._pending.marks:
            times.append(self._pending.marks[0].time)
        return min(times, default=None)

    def _arm(self) -> None:
        since = None if self._options.whole else self._since()
        if since is None or self.disposed or self._ended:
            return
        due = since + self._options.max_delay
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._scope.call_later(max(due - self._scope.loop.time(), 0.0), self._passed)

    def _passed(self) -> None:
        self._timer = None
        since = self._since()
        if self.disposed or since is None:
            return
        if since + self._options.max_delay > self._scope.loop.time() + EPSILON:
            self._arm()
            return
        channel = self._tail[0] if self._tail is not None else None
        pending = self._pending or (None if channel is None else Pending(channel))
        if pending is not None:
            self._emit(pending)

    def _drop(self) -> None:
        self.generation += 1
        self._pending = self._tail = self._open = None
        self._stop_timer()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def marks_from_start(marks: list[Mark], length: int) -> list[Mark]:
    """The marks of the first `length` characters."""
    kept: list[Mark] = []
    for mark in marks:
        if length <= 0:
            break
        kept.append(Mark(mark.time, min(mark.length, length)))
        length -= mark.length
    return kept


def marks_from_end(marks: list[Mark], length: int) -> list[Mark]:
    """The marks of the last `length` characters."""
    kept: list[Mark] = []
    for mark in reversed(marks):
        if length <= 0:
            break
        kept.append(Mark(mark.time, min(mark.length, length)))
        length -= mark.length
    kept.reverse()
    return kept
