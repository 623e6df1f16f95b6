"""What the models of scripts are asked, and how they refuse it."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx import Msg
from agentscope_rx.errors import AgentScopeError, BadRequestError
from agentscope_rx.model import ChatResponse
from agentscope_rx.model.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.reactive import Flow, fail
from agentscope_rx.testing import ScriptedModel


def choice_of(named: str) -> ToolChoice | None:
    """The choice of this tool, of any ("required"), or none."""
    if not named:
        return None
    return ToolChoice("required") if named == "required" else ToolChoice.specific(named)


class ModelDown(AgentScopeError):
    """The model fails, as a script says."""


class Choosy(ScriptedModel):
    """Takes no forced call of the response tool, as models that think do not; that uses up no turn."""

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        if options.tool_choice == ToolChoice.specific("generate_response"):
            return fail(BadRequestError("This model does not support this tool_choice.", status=400))
        return super().do_stream(messages, tools, options)
