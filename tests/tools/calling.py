"""How the tests of this folder call a tool: through a toolkit, as a model would."""

from __future__ import annotations

from reactivex import operators as ops

from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow
from agentscope_rx.tools import ToolEvent, Toolkit, ToolRetry


def use(name: str, id: str = "1", /, **input: object) -> ToolUseBlock:
    """A model's call."""
    return ToolUseBlock(id, name, input)


def text_of(event: ToolEvent) -> str:
    """The first text of a chunk or of a result."""
    assert not isinstance(event, ToolRetry)
    block = event.output[0]
    assert isinstance(block, TextBlock)
    return block.text


def all_of(flow: Flow[ToolEvent]) -> Flow[list[ToolEvent]]:
    """Everything that a flow signals."""
    return flow.pipe(ops.to_list())


def events(tool: object, config: ExecutionConfig | None = None, /, **input: object) -> list[ToolEvent]:
    """All events of one call of the only tool."""
    toolkit = Toolkit([tool])
    return all_of(toolkit.call(use(toolkit.names[0], **input), config=config)).run()


def result(tool: object, config: ExecutionConfig | None = None, /, **input: object) -> ToolResultBlock:
    """The result of one call of the only tool."""
    *_, last = events(tool, config, **input)
    assert isinstance(last, ToolResultBlock)
    return last


def answer(toolkit: Toolkit, call: ToolUseBlock) -> ToolResultBlock:
    """The result of a call."""
    last = toolkit.call(call).run()
    assert isinstance(last, ToolResultBlock)
    return last
