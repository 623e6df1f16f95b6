"""`Shown`: each value of a call is shown once, by one rule for generators, emitters and Observables.

| a tool                                   | chunks as they come | last chunk event  | result    |
|------------------------------------------|---------------------|-------------------|-----------|
| returns a                                |                     | a                 | a         |
| emits a, b and returns c                 | a, b                | c                 | c         |
| yields a, b, c, or is an Observable of it | a, b, c            | nothing more      | c         |
| the same, and does not announce it       | a, b                | c                 | c         |
| yields a, b, with `result="joined"`      | a, b                | nothing more      | ab        |
| yields a, and fails                      | a                   | the error         | the error |

The chunk events of a call are its values in order: none is missing, and none comes twice. A value is shown when it
comes, because only the end of the call tells which one was the last. A result that was cut, or changed by
`postprocess`, is another value: it is shown.
"""

from __future__ import annotations

from agentscope_rx.messages import OutputBlock, ToolResultBlock
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.calls.signals import ToolChunk


class Shown:
    """The values of one call that have been shown."""

    __slots__ = ("_joined", "_last")

    def __init__(self, tool: Tool | None) -> None:
        self._joined = tool is not None and tool.result == "joined" and tool.postprocess is None
        self._last: tuple[OutputBlock, ...] | None = None

    def add(self, chunk: ToolChunk) -> None:
        """Take note of a chunk."""
        if not chunk.emitted:
            self._last = chunk.output

    def restart(self) -> None:
        """The attempt failed: its chunks do not count."""
        self._last = None

    def rest(self, result: ToolResultBlock) -> ToolResultBlock:
        """The part of the result that has not been shown: all of it, or nothing."""
        if self._last is None or result.kind is not None:
            return result
        whole = self._joined and "limited" not in result.metadata
        # identity: an equal output may be that of another value
        return result.replace(output=()) if whole or result.output is self._last else result
