"""`OutputRequest`: the output of one call, decided before it begins: the shape, and how this model is asked for it.

| mode given | finish="text"                                            | finish="tool"        |
|------------|----------------------------------------------------------|----------------------|
| auto       | the model's best: native, else tool, else prompted       | tool                 |
| another    | that one, if the model supports it                       | `ConfigurationError` |
"""

from __future__ import annotations

from dataclasses import field

from agentscope_rx.agent.structured_output.config import DESCRIPTION, RESPONSE_TOOL, StructuredOutput
from agentscope_rx.agent.structured_output.finish import FinishShape
from agentscope_rx.agent.structured_output.response_tool import ResponseTool
from agentscope_rx.agent.structured_output.schema import OutputSchema
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.chat_model import ChatModel, OutputSupport

FINISH_DESCRIPTION = (
    "Give the final answer. Call this function when you have all the information needed to provide a complete answer."
)

_BEST: tuple[OutputSupport, ...] = ("native", "tool", "prompted")
_ALWAYS: OutputSupport = "prompted"


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """One request. `output` is None for a finish tool with text only."""

    output: StructuredOutput | None
    mode: OutputSupport
    finish: bool = False
    shape: OutputSchema = field(init=False, compare=False, repr=False)
    tool: ResponseTool | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        output = self.output
        if self.finish:
            shape: OutputSchema = FinishShape(None if output is None else output.schema)
        elif output is not None:
            shape = output.shape
        else:
            raise ConfigurationError("A request needs an output, the finish tool, or both.")
        object.__setattr__(self, "shape", shape)
        tool = None
        if self.mode == "tool":
            plain = FINISH_DESCRIPTION if self.finish else DESCRIPTION
            tool = ResponseTool(shape, self.name, plain if output is None else output.description)
        object.__setattr__(self, "tool", tool)

    @property
    def name(self) -> str:
        """The name of the response tool, and of the schema."""
        return RESPONSE_TOOL if self.output is None else self.output.name


def request_of(output: StructuredOutput | None, model: ChatModel, *, finish: bool) -> OutputRequest | None:
    """The request to this model; None without an output and a finish tool. `ConfigurationError` for a wrong mode."""
    if output is None:
        return OutputRequest(None, "tool", finish=True) if finish else None
    supported = model.output_modes
    if finish:
        if output.mode not in ("auto", "tool"):
            raise ConfigurationError(f"finish='tool' gives the output by a tool: mode={output.mode!r} does not fit.")
        return OutputRequest(output, "tool", finish=True)
    if output.mode == "auto":
        for mode in _BEST:
            if mode in supported:
                return OutputRequest(output, mode)
        return OutputRequest(output, _ALWAYS)
    if output.mode not in supported:
        raise ConfigurationError(
            f"Model {model.model_name} does not support mode={output.mode!r}; "
            f"it supports {', '.join(mode for mode in _BEST if mode in supported)}."
        )
    return OutputRequest(output, output.mode)
