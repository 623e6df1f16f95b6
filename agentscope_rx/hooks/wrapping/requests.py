"""The requests that operators around a call, a stage, a model call or a tool call get beside the flow; read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal, Protocol

from agentscope_rx.events.base import NOWHERE, EventSource, HasSource
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Approve, Msg, Reject, ToolUseBlock
from agentscope_rx.models.options import GenerateOptions, ToolSchema

StageName = Literal["reasoning", "acting", "summarizing"]


class ConversationId(Protocol):
    """The conversation that a run belongs to."""

    @property
    def id(self) -> str:
        """The key that it is saved by, once it is bound to a session; else an id of this process."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(HasSource):
    """What every request has: the run that it belongs to, with its `run_id`, `agent`, `path` and `context`."""

    source: EventSource = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest(Request):
    """A call with its `input`, as the caller gave it, before hooks on PreCall.

    `conversation` and `is_workflow` are for probes. `is_workflow` is true for a `Pipeline`, where a program and not a
    model decides on the next step.
    """

    input: tuple[Msg, ...] = ()
    answers: tuple[Approve | Reject, ...] = ()
    conversation: ConversationId | None = field(default=None, compare=False, repr=False)
    is_workflow: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRequest(Request):
    """A stage of a run. `calls` are the tool calls of an acting stage."""

    stage: StageName
    iteration: int = 0
    calls: tuple[ToolUseBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest(Request):
    """A model call, as hooks on PreReasoning or PreSummary have left it.

    `messages` is the whole prompt. `options` are the agent's, which override those of the model itself.
    `response_tool` is the tool for a structured output, '' if there is none.
    """

    stage: StageName
    iteration: int = 0
    model_name: str = ""
    messages: Sequence[Msg] = ()
    tools: Sequence[ToolSchema] = ()
    options: GenerateOptions | None = None
    response_tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest(Request):
    """A tool call, as hooks on PreActing have left it. `schema` is None if there is no tool of this name."""

    iteration: int = 0
    call: ToolUseBlock
    schema: ToolSchema | None = None
