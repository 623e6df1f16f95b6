"""What is known of the parts of a run as they go: the values that spans, metrics and logs are made of.

    RunRecord                  one call of an agent
    +-- StageRecord            a reasoning, acting or summarizing stage (unless stages are left out)
        +-- ModelRecord        one attempt of a model call
        +-- ToolRecord         one tool call
            +-- RunRecord      a sub-agent's call

A record is filled while its part goes on, on the loop of the run; it is complete when `Recorder.end` gets it. Times are
seconds by the loop's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field

from agentscope_rx.hooks import CallRequest, StageRequest, ToolRequest
from agentscope_rx.messages import ChatUsage, GenerateReason, Msg, ToolResultBlock, ToolResultKind
from agentscope_rx.models.probing import AttemptRequest
from agentscope_rx.models.response import FinishReason
from agentscope_rx.reactive import Outcome


@dataclass(slots=True, eq=False, kw_only=True, weakref_slot=True)
class Record:
    """One part of a run, from its beginning to its end."""

    parent: Record | None = None
    """The part that it is in, of this run or, for a sub-agent's run, of the caller's."""
    around: Record | None = field(default=None, repr=False)
    """The innermost record where it began, which may be that of another tracer for the same part."""
    tracer: object = field(default=None, repr=False)
    """The tracer that keeps it."""
    clock: Callable[[], float] = field(repr=False)
    started: float
    ended: float | None = None
    outcome: Outcome | None = None
    """The end of the part; None while it goes on. A part that was disposed of was cancelled from outside."""
    error: Exception | None = None
    context: Context | None = field(default=None, repr=False)
    """The context that the part runs in, with its span, if there is one."""
    span: object = field(default=None, repr=False)
    """The span of the part, kept by `Spans`."""
    recorded: Exception | None = field(default=None, repr=False)
    """The error of a part within this one, which the span of that part shows."""

    @property
    def seconds(self) -> float:
        """The time from the beginning to the end, or until now."""
        return (self.clock() if self.ended is None else self.ended) - self.started

    @property
    def run(self) -> RunRecord | None:
        """The run that the part belongs to; None for a model call outside of a run."""
        record = self.parent
        while record is not None and not isinstance(record, RunRecord):
            record = record.parent
        return record


@dataclass(slots=True, eq=False, kw_only=True)
class RunRecord(Record):
    """One call of an agent, from the wait for its turn to its clean-up."""

    request: CallRequest = field(repr=False)
    began: float | None = None
    """When its turn came; None before."""
    reply: Msg | None = field(default=None, repr=False)
    usage: ChatUsage | None = None
    """The tokens of the whole run, those of its sub-agents included."""
    resumes: str | None = None
    """The id of the run, lost with its process, that this one goes on from."""
    model: AttemptRequest | None = field(default=None, repr=False)
    """The first request to a model."""
    model_attempts: int = 0
    tool_calls: int = 0

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self.request.agent

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.request.run_id

    @property
    def conversation_id(self) -> str:
        """The session key of the conversation if it has one, else an id of this process."""
        return "" if self.request.conversation is None else self.request.conversation.id

    @property
    def reason(self) -> GenerateReason | None:
        """The reason why the reply ended; None without a reply."""
        return None if self.reply is None else self.reply.generate_reason

    @property
    def pending(self) -> int:
        """The number of calls that the reply leaves pending, for an approval or a result."""
        return 0 if self.reply is None else len(self.reply.pending_calls)


@dataclass(slots=True, eq=False, kw_only=True)
class StageRecord(Record):
    """One stage of a round."""

    request: StageRequest = field(repr=False)
    attempts: int = 0
    """The number of attempts of model calls that have begun in it."""


@dataclass(slots=True, eq=False, kw_only=True)
class ModelRecord(Record):
    """One attempt of a model call."""

    request: AttemptRequest = field(repr=False)
    number: int = 1
    """The number of the attempt in its stage, from 1: retries, fallbacks and hedges count on."""
    first_chunk: float | None = None
    """When the first content came."""
    chunks: int = 0
    usage: ChatUsage | None = None
    finish_reason: FinishReason | None = None
    response_id: str | None = None
    answer: object = field(default=None, repr=False)
    """The content of the answer, if a recorder collects it."""

    @property
    def time_to_first_chunk(self) -> float | None:
        """Seconds until the first content; None if there was none."""
        return None if self.first_chunk is None else self.first_chunk - self.started


@dataclass(slots=True, eq=False, kw_only=True)
class ToolRecord(Record):
    """One tool call, from the wait for limits to its last attempt."""

    request: ToolRequest = field(repr=False)
    queued: float = 0.0
    """Seconds that it has waited for limits before it began."""
    attempts: int = 1
    result: ToolResultBlock | None = field(default=None, repr=False)
    """None if it was interrupted, disposed of, or has failed by a hook."""

    @property
    def kind(self) -> ToolResultKind | None:
        """The kind of a result that is no success, such as `failed`; None for a success, and without a result."""
        return None if self.result is None else self.result.kind
