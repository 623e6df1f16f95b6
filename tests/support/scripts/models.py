"""What the models of scripts are asked, and how they refuse it."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx import Msg
from agentscope_rx.errors import AgentScopeError, BadRequestError, ModelConnectionError
from agentscope_rx.models import (
    ChatModel,
    ChatResponse,
    CircuitBreaker,
    FallbackModel,
    HedgedModel,
    RateLimitedModel,
)
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.reactive import Flow, throw
from agentscope_rx.testing import ScriptedModel

MODES = ("native", "tool", "prompted")
ONCE = ExecutionConfig(max_attempts=1)


def choice_of(named: str) -> ToolChoice | None:
    """The choice of this tool, of any ("required"), or none."""
    if not named:
        return None
    return ToolChoice("required") if named == "required" else ToolChoice.specific(named)


class ModelDown(AgentScopeError):
    """The model fails, as a script says."""


class Down(ScriptedModel):
    """Fails, each time it is asked."""

    def __init__(self) -> None:
        super().__init__(ModelConnectionError("down"), repeat=True, output_modes=MODES, execution_config=ONCE)


def around(what: str, model: ScriptedModel) -> ChatModel:
    """The model, with others around it: limited (one answer at a time), fallback, breaker, hedged."""
    match what:
        case "limited":
            return RateLimitedModel(model, max_concurrency=1)
        case "fallback":
            return FallbackModel(Down(), model, after_content="restart")
        case "breaker":
            return CircuitBreaker(model, failures=2, reset=0.3)
        case "hedged":
            return HedgedModel(model, after=0.37)
        case _:
            return model


class Choosy(ScriptedModel):
    """Takes no forced call of the response tool, as models that think do not; that uses up no turn."""

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        if options.tool_choice == ToolChoice.specific("generate_response"):
            return throw(BadRequestError("This model does not support this tool_choice.", status=400))
        return super().do_stream(messages, tools, options)
