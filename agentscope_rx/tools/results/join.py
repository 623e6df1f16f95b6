"""`Joined`: the result of a tool as all of its values: `@tool(result="joined")`.

    pieces     "one\\n" "two\\n" picture "three\\n" ...            shown as they come
    result     "one\\ntwo\\n", picture, "three\\n..."              text is joined as it is

If the limit cuts, only what it shows is held: the first `chars` characters, and about as many of the last.
"""

from __future__ import annotations

from collections import deque
from itertools import groupby

from agentscope_rx.messages import OutputBlock, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.tools.results.convert import DONE
from agentscope_rx.tools.results.result_limit import ASK_FOR_LESS, ResultLimit, ends, left_out_text, weight


class Joined:
    """Collects the values of one attempt; `limit` cuts the result, None keeps all of it."""

    __slots__ = ("_chars", "_held", "_late", "_late_chars", "_media_left_out", "_media_room", "_parts", "_total")

    def __init__(self, limit: ResultLimit | None) -> None:
        self._chars = None if limit is None else limit.chars
        self._media_room = None if limit is None else limit.media
        self._parts: list[str | OutputBlock] = []
        self._held = 0
        # the end of the text behind the first `chars` characters
        self._late: deque[str] = deque()
        self._late_chars = 0
        self._total = 0
        self._media_left_out = 0

    def add(self, output: tuple[OutputBlock, ...]) -> None:
        """Add the output of one value."""
        for block in output:
            if isinstance(block, TextBlock):
                self._add_text(block.text)
            else:
                self._add_media(block)

    def result(self, call: ToolUseBlock, last: ToolResultBlock | None) -> ToolResultBlock:
        """The result of `call`: all values, within the limit; its kind and metadata are those of the last one."""
        numbers: dict[str, object] = {}
        if self._media_left_out:
            numbers["media_left_out"] = self._media_left_out
        output = self._output(numbers)
        metadata = {} if last is None else {**last.metadata}
        if numbers:
            metadata["limited"] = numbers
        return ToolResultBlock(call.id, call.name, output or DONE, None if last is None else last.kind, metadata)

    def _output(self, numbers: dict[str, object]) -> tuple[OutputBlock, ...]:
        # texts with media between them count as separate lines
        runs = sum(1 for kind, _ in groupby(self._parts, lambda part: isinstance(part, str)) if kind)
        if self._chars is not None and self._total + max(runs - 1, 0) > self._chars:
            head = "".join(part for part in self._parts if isinstance(part, str))
            tail = "".join(self._late)
            if len(tail) < self._chars:
                tail = head + tail
            text, left_out = ends(head, tail, self._total, self._chars, ASK_FOR_LESS)
            numbers.update(chars=self._total, left_out=left_out)
            return (TextBlock(text), *(part for part in self._parts if not isinstance(part, str)))
        blocks: list[OutputBlock] = []
        words: list[str] = []
        for part in self._parts:
            if isinstance(part, str):
                words.append(part)
                continue
            if words:
                blocks.append(TextBlock("".join(words)))
                words = []
            blocks.append(part)
        if words:
            blocks.append(TextBlock("".join(words)))
        return tuple(blocks)

    def _add_text(self, text: str) -> None:
        self._total += len(text)
        if self._chars is None:
            self._parts.append(text)
            return
        room = self._chars - self._held
        if room > 0:
            self._parts.append(text[:room])
            self._held += min(len(text), room)
            text = text[room:]
        if text:
            text = text[-self._chars :]
            self._late.append(text)
            self._late_chars += len(text)
            while self._late_chars - len(self._late[0]) >= self._chars:
                self._late_chars -= len(self._late.popleft())

    def _add_media(self, block: OutputBlock) -> None:
        size = weight(block)
        if self._media_room is None or size <= self._media_room:
            if self._media_room is not None:
                self._media_room -= size
            self._parts.append(block)
        else:
            self._media_left_out += size
            self._add_text(left_out_text(block))
