"""`read_result`: the tool by which a model reads a result that is in memory, and in its requests in a short form only.

    request   [90,000 of 190,000 characters are left out here. To read it, call read_result with call_id='call_7'.]
    model     read_result(call_id="call_7", pattern="ERROR")       read_result(call_id="call_7", offset=200)

It reads the conversation of its own run: a sub-agent reads that of the sub-agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Annotated

from pydantic import Field

from agentscope_rx.context_policy.short_results import MEDIA, media_text
from agentscope_rx.errors import ToolError
from agentscope_rx.messages import Msg, TextBlock, ToolResultBlock
from agentscope_rx.reactive import Flow, defer, flat_map_iterable, then
from agentscope_rx.tools import ToolContext, tool
from agentscope_rx.tools.calls.lift import kind_of, lift
from agentscope_rx.tools.files.encoding import lines_of
from agentscope_rx.tools.files.files import MAX_LINE, numbered
from agentscope_rx.tools.files.search import Search
from agentscope_rx.tools.results.convert import output_of
from agentscope_rx.tools.results.origin import READ_RESULT, read_back

PAGE = 20_000
"""How many characters one reading gives."""
LINES = 500
_NEAR = 5


@tool(name=READ_RESULT, read_only=True)
def read_result(
    call_id: Annotated[str, Field(description="The id of the call, as the notice has it.")],
    context: ToolContext,
    offset: Annotated[int, Field(description="The first line, counted from 1; from the end if negative.")] = 1,
    limit: Annotated[int, Field(description="How many lines at most.", ge=1)] = LINES,
    pattern: Annotated[
        str | None, Field(description="Only the lines that match this regular expression.", examples=["ERROR"])
    ] = None,
    block: Annotated[
        int | None, Field(description="Only this part of the result, such as a picture, counted from 1.", ge=1)
    ] = None,
) -> Flow[object]:
    """Read the whole result of an earlier tool call that is shown shortened or left out: its lines with line numbers.

    Very long lines are shown as several lines.
    """

    def begin() -> Flow[object]:
        sought = _Sought(call_id)
        read: Flow[Msg] = context.messages().pipe(flat_map_iterable(sought.look))
        page = partial(_page, sought, offset, limit, pattern, block)
        # on a worker: the text may be large, and a search takes time
        return read.pipe(then(lambda: lift(kind_of(page), page)))

    return defer(begin)


read_result.shared_by_hooks = True


class _Sought:
    """The result of a call among the messages that go by, and the calls that have one."""

    __slots__ = ("call_id", "found", "names")

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id.strip()
        self.found: ToolResultBlock | None = None
        self.names: dict[str, str] = {}

    def look(self, message: Msg) -> Sequence[Msg]:
        """Look at a message; lets none pass."""
        for result in message.tool_results:
            self.names[result.id] = result.name
            if result.id == self.call_id:
                # the latest one, if an id was used twice
                self.found = result
        return ()

    def result(self) -> ToolResultBlock:
        """The result; a `ToolError` that names near ids if there is none."""
        if self.found is not None:
            return self.found
        if not self.names:
            raise ToolError("This conversation has no results of tools yet.")
        near = get_close_matches(self.call_id[:200], self.names, _NEAR, 0.6)
        which = "Similar ids" if near else "The latest ids"
        listed = ", ".join(f"{id!r} ({self.names[id]})" for id in near or list(self.names)[: -_NEAR - 1 : -1])
        raise ToolError(f"This conversation has no result of a call {self.call_id!r:.200}. {which}: {listed}.")


def _page(sought: _Sought, offset: int, limit: int, pattern: str | None, number: int | None) -> ToolResultBlock:
    result = sought.result()
    return read_back(result, output_of(_part(result, offset, limit, pattern, number)))


def _part(result: ToolResultBlock, offset: int, limit: int, pattern: str | None, number: int | None) -> object:
    if number is not None:
        if number > len(result.output):
            raise ToolError(
                f"The result of {result.id!r} has {_blocks(len(result.output))}; there is no block {number}."
            )
        only = result.output[number - 1]
        if isinstance(only, MEDIA):
            return [TextBlock(f"Block {number} of {result.id!r}: {media_text(only)}"), only]
        text, media = only.text, ""
    else:
        text, media = result.text, _media(result)
    if not text:
        return media or f"The result of {result.id!r} ({result.name}) is empty."
    lines = _wrapped(lines_of(text))
    if pattern is not None:
        search = Search(pattern)
        # (bytes with a zero among them would be taken for no text)
        search.file(result.id, lambda: "\n".join(lines).replace("\0", "\ufffd").encode("utf-8", "replace"))
        return _joined(search.result(), media)
    first = offset if offset > 0 else max(1, len(lines) + 1 + offset) if offset < 0 else 1
    if first > len(lines):
        raise ToolError(f"The result of {result.id!r} has {len(lines)} lines; there is no line {first}.")
    return _joined(numbered(lines, first, limit, room=PAGE), media)


def _joined(text: str, media: str) -> str:
    return f"{text}\n{media}" if media else text


def _media(result: ToolResultBlock) -> str:
    found = [
        f"Block {number}: {media_text(block)}; to see it, give block={number}."
        for number, block in enumerate(result.output, 1)
        if isinstance(block, MEDIA)
    ]
    return f"({' '.join(found)})" if found else ""


def _blocks(number: int) -> str:
    return "1 block" if number == 1 else f"{number} blocks"


def _wrapped(lines: Sequence[str]) -> list[str]:
    """The lines, long ones as several: a result may be one line of JSON."""
    made: list[str] = []
    for line in lines:
        while len(line) > MAX_LINE:
            at = max(line.rfind(mark, MAX_LINE // 2, MAX_LINE) for mark in (" ", ",", ";")) + 1 or MAX_LINE
            made.append(line[:at])
            line = line[at:]
        made.append(line)
    return made
