"""`ResponseTool`: the tool by which a model gives its response. It checks the shape and returns the value."""

from __future__ import annotations

from collections.abc import Mapping

from agentscope_rx.agent.structured_output.schema import OutputSchema
from agentscope_rx.messages import TextBlock, ToolResultBlock
from agentscope_rx.messages.structured import STRUCTURED
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, just
from agentscope_rx.tools import Tool

ACCEPTED = "Successfully generated response."
"""The result's text for the model."""

RESPONSE_TEXT = "response_text"
"""The key, in the result's metadata, of the reply's text."""

_ONCE = ExecutionConfig(timeout=None, max_attempts=1)


class ResponseTool(Tool):
    """Takes the response of one run. It is in that run's toolkit only."""

    read_only = True

    def __init__(self, shape: OutputSchema, name: str, description: str) -> None:
        self.name = name
        self.description = description
        self.parameters: Mapping[str, object] = shape.schema
        self.execution_config: ExecutionConfig | None = _ONCE
        self._shape = shape

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The response, checked; `InvalidArgumentsError` if it does not have the shape."""
        return self._shape.read(arguments, self.name)

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """One result with the value in its metadata, which hooks may change: the changed value is that of the run.

        Signals: the result, completion.
        Cancels: nothing; it takes no time.
        """
        metadata = {STRUCTURED: self._shape.value(arguments), RESPONSE_TEXT: self._shape.text(arguments)}
        return just(ToolResultBlock("", self.name, (TextBlock(ACCEPTED),), metadata=metadata))


def is_response(result: ToolResultBlock) -> bool:
    """True if this result holds the response."""
    return not result.is_error and STRUCTURED in result.metadata
