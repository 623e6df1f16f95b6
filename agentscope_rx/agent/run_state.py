"""`RunState`: a run, as conversations, running flags and sub-agents see it. `RunStats`: a snapshot of one.

`Run` refers to its conversation, and a conversation to its runs: it knows them by this protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from agentscope_rx.agent.durable.journal import Effect
from agentscope_rx.agent.durable.saved_run import Stage
from agentscope_rx.agent.inbox import Inbox
from agentscope_rx.agent.interruption import Interruption
from agentscope_rx.agent.limits import Usage
from agentscope_rx.agent.open_calls import OpenCalls
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.events import EventSource
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.hooks import CompiledHooks
from agentscope_rx.messages import ChatUsage, Msg, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.tools import Tool, Toolkit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunStats:
    """A run in progress at one moment. Ages and durations are in seconds of the loop's clock.

    - `in_flight`: tool calls that have begun. `waiting`: calls of this round that wait for a slot, a permit or a rate
      limit.
    - `model_waiting`: true while the model call waits for a permit or a rate limit. `model_retries`: its failed
      attempts.
    - `abandoned`: blocking calls of this run and of runs within it that go on in their threads without a caller.
    - `queued`: events that wait for a slow consumer. `event_age`: the time since the last event.
    - `waiting_for`: the id of the run before this one (see `when_busy`). `waiting_for_lease`: the process that holds
      the conversation's lease, in words. Both are None once the run has begun.
    """

    run_id: str
    agent: str
    turn: int
    model_calls: int
    tool_calls: int
    in_flight: tuple[ToolUseBlock, ...]
    waiting: tuple[ToolUseBlock, ...]
    events: int
    queued: int
    age: float
    event_age: float
    usage: ChatUsage
    cost: float
    interrupted: bool
    model_waiting: bool = False
    model_retries: int = 0
    abandoned: int = 0
    waiting_for: str | None = None
    waiting_for_lease: str | None = None


class RunState(Protocol):
    """A run, as far as its conversation is concerned; see `Run`."""

    id: str
    name: str
    scope: Scope
    source: EventSource
    calls: OpenCalls
    usage: Usage
    interruption: Interruption
    inbox: Inbox
    request: OutputRequest | None
    toolkit: Toolkit
    hooks: CompiledHooks
    groups: tuple[str, ...]
    parent: RunState | None
    durable: Durable | None

    def within(self, parent: RunState, call_id: str) -> None:
        """Make this the run of a sub-agent, which `parent` has called."""
        ...

    def stats(self) -> RunStats:
        """A snapshot of the run; from any thread."""
        ...


class Durable(Protocol):
    """The checkpoints and the journal of a run and of those within it; see `durable.durability.Durability`."""

    def before(
        self,
        run: RunState,
        stage: Stage,
        following: Callable[[], Flow[T]],
        *,
        sent_back: bool = False,
        limit: str | None = None,
        reply: Msg | None = None,
    ) -> Flow[T]:
        """Save the run before its next stage, then `following()`."""
        ...

    def records(self, tool: Tool) -> bool:
        """True if calls of this tool are written to the journal."""
        ...

    def begin(self, run: RunState, call: ToolUseBlock) -> Flow[None]:
        """Store that the call begins."""
        ...

    def end(self, run: RunState, call: ToolUseBlock, result: ToolResultBlock) -> Flow[None]:
        """Store the end of the call."""
        ...

    def find(self, run: RunState, call: ToolUseBlock) -> Effect | None:
        """The call as an earlier process has left it in the journal."""
        ...

    def answered(self, run: RunState, call_ids: Iterable[str]) -> None:
        """The caller has answered these calls."""
        ...

    def closing(self, run: RunState, call: ToolUseBlock) -> ToolResultBlock | None:
        """The result of a call that is closed, if the journal has the call."""
        ...
