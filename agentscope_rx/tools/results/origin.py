"""The origin of a result: the tool that gave what it holds, if another one has read it back from memory."""

from __future__ import annotations

from typing import Final

from agentscope_rx.messages import OutputBlock, ToolResultBlock, ToolUseBlock

READ_RESULT: Final = "read_result"
"""The name of the tool that reads results back."""

_ORIGIN = "origin"
"""The key of the origin in the metadata of a result."""


def read_back(of: ToolResultBlock, output: tuple[OutputBlock, ...]) -> ToolResultBlock:
    """A result with something of an earlier one; its origin is that of the earlier one."""
    return ToolResultBlock(of.id, READ_RESULT, output, metadata={_ORIGIN: origins(of)[-1]})


def output_of(call: ToolUseBlock, tool: str, output: tuple[OutputBlock, ...]) -> ToolResultBlock:
    """The result of this call with what another tool has shown so far; its origin is that tool."""
    return ToolResultBlock(call.id, call.name, output, metadata={_ORIGIN: tool})


def origins(result: ToolResultBlock) -> tuple[str, ...]:
    """The tool that gave the result and, behind it, the one whose result it has read back.

    A tool can claim any origin, so what holds for its own name holds in any case.
    """
    of = result.metadata.get(_ORIGIN)
    return (result.name, of) if isinstance(of, str) and of != result.name else (result.name,)
