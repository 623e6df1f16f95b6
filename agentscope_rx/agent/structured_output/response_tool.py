"""The tool by which a model hands over its response: it checks the shape, keeps the value, and runs nobody's code."""

from __future__ import annotations

from collections.abc import Mapping

from agentscope_rx.agent.structured_output.schema import OutputSchema
from agentscope_rx.messages import TextBlock, ToolResultBlock
from agentscope_rx.messages.structured import STRUCTURED
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, just
from agentscope_rx.tools import Tool

ACCEPTED = "Successfully generated response."
"""What the model is told."""

SAID = "response_text"
"""The key, in the result's metadata, of what the reply will say."""

_ONCE = ExecutionConfig(timeout=None, max_attempts=1)


class ResponseTool(Tool):
    """Takes the response of one run; it belongs to that run's toolkit alone."""

    def __init__(self, shape: OutputSchema, name: str, description: str) -> None:
        self.name = name
        self.description = description
        self.parameters = shape.schema
        self.execution_config = _ONCE
        self._shape = shape

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The response, checked; `InvalidArgumentsError` if it is not of the shape."""
        return self._shape.read(arguments, self.name)

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """One result, which carries the value in its metadata: what a hook makes of it is the value of the run.

        Signals: the result, completion.
        Cancels: nothing; it takes no time.
        """
        metadata = {STRUCTURED: self._shape.value(arguments), SAID: self._shape.text(arguments)}
        return just(ToolResultBlock("", self.name, (TextBlock(ACCEPTED),), metadata=metadata))


def accepted(result: ToolResultBlock) -> bool:
    """Whether this result brings the response."""
    return not result.is_error and STRUCTURED in result.metadata
