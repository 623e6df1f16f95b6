"""`Shown`: each value of a call is shown once, by one law for generators, emitters and Observables.

| a tool                                   | chunks as they come | last chunk event  | result    |
|------------------------------------------|---------------------|-------------------|-----------|
| returns a                                |                     | a                 | a         |
| emits a, b and returns c                 | a, b                | c                 | c         |
| yields a, b, c, or is an Observable of it | a, b, c            | nothing more      | c         |
| the same, and does not announce it       | a, b                | c                 | c         |
| yields a, b, with `result="joined"`      | a, b                | nothing more      | ab        |
| yields a, and fails                      | a                   | the error         | the error |

The chunk events of a call, one behind the other, are what it gave: nothing is missing, and nothing comes twice. A value
is shown when it comes, because only the end tells which was the last. Where the result has become another (it was cut,
or changed by `postprocess`), it has not been shown yet, and is.
"""

from __future__ import annotations

from agentscope_rx.messages import OutputBlock, ToolResultBlock
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.calls.signals import ToolChunk


class Shown:
    """What of one call has been shown."""

    __slots__ = ("_joined", "_last")

    def __init__(self, tool: Tool | None) -> None:
        self._joined = tool is not None and tool.result == "joined" and tool.postprocess is None
        self._last: tuple[OutputBlock, ...] | None = None

    def add(self, chunk: ToolChunk) -> None:
        """One chunk more."""
        if not chunk.emitted:
            self._last = chunk.output

    def restart(self) -> None:
        """The attempt failed: its chunks do not count."""
        self._last = None

    def rest(self, result: ToolResultBlock) -> ToolResultBlock:
        """What of the result has not been shown: all of it, or nothing."""
        if self._last is None or result.kind is not None:
            return result
        whole = self._joined and "limited" not in result.metadata
        # the very same: an equal one may be another value
        return result.replace(output=()) if whole or result.output is self._last else result
