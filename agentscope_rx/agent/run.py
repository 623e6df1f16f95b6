"""`Run`: the state of one call, and of nothing else.

The agent object is configuration plus memory. All state that changes during a call is here, so that two calls can never
exchange any. A run lives on the thread of one loop; interruptions and `stats` may come from any thread.

| part           | holds                                                                 | file              |
|----------------|-----------------------------------------------------------------------|-------------------|
| `input`        | the input as given and as remembered, and the pending calls it decides | `input`          |
| `calls`        | the tool calls without a result, and how far each has come            | `open_calls`      |
| `usage`        | model and tool calls, tokens and costs, with the limits of them       | `limits`          |
| `interruption` | the request to end, if there is one                                   | `interruption`    |
| `inbox`        | input that came during the run, and is not remembered yet             | `inbox`           |
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, cast, overload

from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.durable.saved_run import SavedRun
from agentscope_rx.agent.inbox import Inbox
from agentscope_rx.agent.input import RunInput
from agentscope_rx.agent.interruption import Interruption, InterruptSource
from agentscope_rx.agent.limits import NO_USAGE, Usage, UsageLimits
from agentscope_rx.agent.open_calls import OpenCalls
from agentscope_rx.agent.run_state import Durable, RunState, RunStats
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.sub_agent.child_tool import close_child
from agentscope_rx.agent.when_busy import WhenBusy
from agentscope_rx.context import ContextStore, RuntimeContext
from agentscope_rx.events import Event, EventSource, MemoryEvent, PostActingEvent
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.hooks import CompiledHooks
from agentscope_rx.hooks.compose import NO_HOOKS
from agentscope_rx.memory import Memory
from agentscope_rx.messages import GenerateReason, Msg, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.msg import new_id
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions
from agentscope_rx.reactive import Flow, Scope, Tail, concat, concat_map, defer, empty, just, shield, then
from agentscope_rx.reactive.job import AbandonedCalls
from agentscope_rx.reactive.kernel.deadlines import clock_of
from agentscope_rx.reactive.kernel.fuse import Immediate, reduced
from agentscope_rx.tools import Toolkit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done:
    """The last item of a run's stages: the reply, which is remembered already."""

    message: Msg


NOTHING: Flow[Event] = empty()
"""What a step of a run returns that has nothing to do."""

Stage = Flow[Event | Done | Tail[Event | Done]]
"""A stage of a run: its events and, last, the next stage as a tail, or the reply."""

Emitted = Stage | Event | Done | Tail[Event | Done] | None
"""What a step of a stage gives (see `steps`): one of these, or a flow of them."""


class Run:
    """The state of one call: all that changes during it. The agent is configuration and memory.

    | part           | holds                                                                  |
    |----------------|------------------------------------------------------------------------|
    | `input`        | the input as given and as remembered, and the pending calls it answers |
    | `calls`        | the tool calls without a result                                        |
    | `usage`        | model and tool calls, tokens and costs, with their limits              |
    | `interruption` | the request to end, if there is one                                    |
    | `inbox`        | enqueued input that is not remembered yet                              |
    | `iteration`    | the number of the model round, from 0                                  |

    A run lives on the thread of one loop; `interrupt` and `stats` may come from any thread.
    """

    __slots__ = (
        "__weakref__",
        "agent",
        "asked",
        "calls",
        "checkpointed",
        "clock",
        "context",
        "context_store",
        "conversation",
        "durable",
        "extras",
        "goto_count",
        "groups",
        "hooks",
        "id",
        "inbox",
        "input",
        "interruption",
        "iteration",
        "last_event",
        "left_behind",
        "limits",
        "memory",
        "model_waiting",
        "name",
        "options",
        "parent",
        "repaired",
        "reply",
        "request",
        "resumed",
        "round",
        "scope",
        "seq",
        "source",
        "started",
        "system_message",
        "thinking",
        "timers",
        "toolkit",
        "unemitted",
        "usage",
        "when_busy",
        "writes",
    )

    def __init__(
        self,
        name: str,
        memory: Memory,
        scope: Scope,
        *,
        conversation: Conversation,
        context: RuntimeContext | None = None,
        limits: UsageLimits | None = None,
        toolkit: Toolkit | None = None,
        hooks: CompiledHooks | None = None,
    ) -> None:
        self.id: str = new_id()
        self.name: str = name
        self.agent: object = None
        """The agent (`AgentCore`), for the engine's own tools."""
        self.memory: Memory = memory
        self.scope: Scope = scope
        self.conversation: Conversation = conversation
        self.context: RuntimeContext | None = context
        self.context_store: ContextStore | None = None
        """The agent's, as it was when the run began."""
        self.limits: UsageLimits | None = limits
        self.toolkit: Toolkit = toolkit if toolkit is not None else Toolkit()
        """The agent's, or an overlay with run-only tools."""
        self.hooks: CompiledHooks = hooks if hooks is not None else NO_HOOKS
        """The agent's, as they were when the run began."""
        self.groups: tuple[str, ...] = ()
        """The groups of tools that were active at the beginning."""
        self.source = EventSource(self.id, name, (self.id,), context, conversation.parts)
        self.parent: RunState | None = None
        """The run that called this one, if it is a sub-agent's run."""
        self.durable: Durable | None = None
        """The checkpoints within the run and the journal of its tools, if there are any."""
        self.resumed: SavedRun | None = None
        """The run of another process that this one goes on from."""
        self.input: RunInput = RunInput()
        self.when_busy: WhenBusy = "error"
        self.inbox: Inbox = Inbox(name, self.id, scope.loop)
        self.calls: OpenCalls = OpenCalls()
        self.usage: Usage = Usage(name, limits)
        self.interruption: Interruption = Interruption(scope)
        self.request: OutputRequest | None = None
        """The output that the reply is to have, if any: requested by the call, or by the run that this one resumes."""
        self.system_message: Msg | None = None
        self.options: GenerateOptions | None = None
        """Instead of the agent's, once the model has made a call that was forced by a tool choice."""
        self.iteration: int = 0
        self.goto_count: int = 0
        self.thinking: int = 0
        """The number of answers in a row that were thinking only."""
        self.model_waiting: bool = False
        self.asked: tuple[ResponseAccumulator, ChatModel] | None = None
        """The model call that has begun and is not counted yet."""
        """True while the model call waits for a permit or for its rate limit."""
        self.left_behind: AbandonedCalls = AbandonedCalls()
        """The blocking calls that continue although the run no longer waits for them."""
        self.unemitted: list[Event] = []
        """Events for writes already in memory, not yet emitted. A run that fails emits them before its error."""
        self.checkpointed: bool = False
        """True once the conversation was saved at the end of the run."""
        self.reply: Msg | None = None
        """The reply, once PostCall is over."""
        self.repaired: bool = False
        """True once memory was repaired because the run has failed."""
        self.writes: int = 0
        """The number of writes to memory that the run has begun."""
        self.seq: int = 0
        self.clock: Callable[[], float] = clock_of(scope.loop)
        self.started: float = self.clock()
        self.last_event: float = self.started
        self.timers: tuple[TimerHandle, ...] = ()
        self.round: tuple[object, Stage] | None = None
        """The chain of the reasoning stage, linked in the first round, and its state; None after the run."""
        self.extras: dict[str, object] = {}
        """State that stages of a subclass or a feature keep during the run, by name."""

    def __repr__(self) -> str:
        ending = ", ended" if self.calls.ended else ", interrupted" if self.interrupted else ""
        return f"<Run {self.id} of agent {self.name!r}, round {self.iteration}, {self.seq} events{ending}>"

    def enter(self, scope: Scope) -> None:
        """Live on in this scope, which is the run's own with another context; before anything has begun."""
        self.scope = scope
        self.interruption.enter(scope)

    # --- interruption ---------------------------------------------------------------------------------------------

    @property
    def interrupted(self) -> bool:
        """True once the run was asked to end; it does so at its next check point."""
        return self.interruption.event.fired

    @property
    def interrupt_message(self) -> Msg | None:
        """The message given to `interrupt`."""
        return self.interruption.message

    @property
    def interrupt_source(self) -> InterruptSource:
        """The origin of the interruption, once the run is `interrupted`."""
        return self.interruption.source

    # --- lifetime -------------------------------------------------------------------------------------------------

    def within(self, parent: RunState, call_id: str) -> None:
        """Make this the run of a sub-agent, which `parent` has called: its usage counts for the parent, too."""
        self.parent = parent
        self.durable = parent.durable
        self.usage.within(parent.usage)
        self.source: EventSource = EventSource(
            self.id, self.name, (*parent.source.path, call_id, self.id), self.context, self.conversation.parts
        )

    def take_id(self, id: str) -> None:
        """Give the run, which has just been made, this id."""
        self.id = id
        self.source = EventSource(id, self.name, (id,), self.context, self.conversation.parts)

    def drop_timers(self) -> None:
        """Drop the timers of the deadline: the run has ended, or its summary has begun."""
        for timer in self.timers:
            timer.cancel()
        self.timers = ()

    def stats(self) -> RunStats:
        """A snapshot of the run; from any thread."""
        now = self.scope.loop.time()
        used = self.usage
        awaited = self.conversation.flag.awaited_by(self)
        binding = self.conversation.binding
        lease = None if binding is None or self.conversation.flag.run is not self else binding.lease
        holder = None if lease is None else lease.waiting_for
        return RunStats(
            run_id=self.id,
            agent=self.name,
            turn=self.iteration,
            model_calls=used.model_calls,
            tool_calls=used.tool_calls,
            in_flight=tuple(self.calls.in_flight.values()),
            waiting=tuple(self.calls.waiting.values()),
            events=self.seq,
            queued=0 if self.scope.demand is None else self.scope.demand.depth,
            age=now - self.started,
            event_age=now - self.last_event,
            usage=used.tokens,
            cost=used.cost,
            interrupted=self.interrupted,
            model_waiting=self.model_waiting,
            model_retries=used.model_retries,
            abandoned=self.left_behind.count,
            waiting_for=None if awaited is None else awaited.id,
            waiting_for_lease=None if holder is None else str(holder),
        )

    # --- memory ---------------------------------------------------------------------------------------------------

    def history(self) -> Flow[Sequence[Msg]]:
        """The conversation now."""
        return self.memory.get()

    def record(self, messages: Sequence[Msg], event: Event | None = None, *, foreign: bool = False) -> None:
        """Account for messages that memory has now. `event` reports them later.

        Tool calls in `foreign` messages belong to others.
        """
        if event is not None:
            self.unemitted.append(event)
        if foreign:
            self.input.unwritten = ()
        children = self.conversation.children
        self.calls.record(messages, None if children is None else children.settle, foreign=foreign)

    def remember(self, messages: Sequence[Msg], event: Event | None = None, *, foreign: bool = False) -> Flow[None]:
        """Write messages to memory and `record` them. The caller emits `event` next.

        Signals: one None when they are written; the error of memory.
        Cancels: nothing: the write, once begun, runs to its end.
        """
        if not messages:
            return just(None)
        self.writes += 1
        written = self.memory.add(messages)
        return shield(written.pipe(concat_map(partial(self._recorded, messages, event, foreign))))

    @overload
    def remember_then(
        self, messages: Sequence[Msg], event: Event | None, following: Callable[[], Flow[T]], *, foreign: bool = False
    ) -> Flow[T]: ...
    @overload
    def remember_then(
        self,
        messages: Sequence[Msg],
        event: Event | None,
        following: Callable[[], T | Flow[T]],
        *,
        foreign: bool = False,
    ) -> T | Flow[T]: ...
    def remember_then(
        self,
        messages: Sequence[Msg],
        event: Event | None,
        following: Callable[[], T | Flow[T]],
        *,
        foreign: bool = False,
    ) -> T | Flow[T]:
        """`remember`, then `following()`. If memory takes no time, `following()` itself is returned, without operators.

        Call it within a subscription (see `onward`): the messages are written at once.
        """
        if messages:
            self.writes += 1
            written = reduced(self.memory.add(messages))
            if type(written) is not Immediate:
                done = partial(self._recorded, messages, event, foreign)
                recorded: Flow[None] = concat_map(done)(cast("Flow[None]", written))
                return shield(recorded).pipe(concat_map(lambda done: following()))
            # `record`, without its call
            if event is not None:
                self.unemitted.append(event)
            if foreign:
                self.input.unwritten = ()
            children = self.conversation.children
            self.calls.record(messages, None if children is None else children.settle, foreign=foreign)
        return following()

    def _recorded(self, messages: Sequence[Msg], event: Event | None, foreign: bool, done: None) -> None:
        self.record(messages, event, foreign=foreign)

    def count_asked(self) -> None:
        """Count the model call that has ended without an answer, if the provider has charged anything for it."""
        asked, self.asked = self.asked, None
        if asked is not None and (costs := asked[0].costs):
            self.usage.add_model_call(costs, asked[1].model_name)

    def end_with(self, message: Msg) -> Stage:
        """Remember a reply that no Post event of a stage reports; the PostCallEvent reports it.

        Signals: the reply; the error of memory.
        Cancels: nothing: the write, once begun, runs to its end.
        """
        event = MemoryEvent(source=self.source, added=(message,))
        return cast("Stage", self.remember((message,), event).pipe(then(lambda: just(Done(message)))))

    def write(self, event: MemoryEvent, *writes: Flow[object]) -> Flow[Event]:
        """Do the writes to memory that the event reports, then emit it.

        Signals: the event; the error of a write.
        Cancels: nothing: the writes, once begun, run to their end.
        """

        def done() -> Flow[Event]:
            self.unemitted.append(event)
            return just(event)

        self.writes += 1
        return shield(concat(*writes).pipe(then(done)))

    # --- the end --------------------------------------------------------------------------------------------------

    def close_open(
        self, kind: ToolResultKind = ToolResultKind.INTERRUPTED, text: str | None = None
    ) -> Flow[PostActingEvent]:
        """Give every open call an error result of this kind in memory, unless the run leaves them pending.

        Hooks do not see these results: a failing hook may be why they are needed.

        Signals: the event of each result.
        Cancels: nothing: a write, once begun, runs to its end.
        """

        def close() -> Flow[PostActingEvent]:
            calls = tuple(self.calls.open.values())
            if not calls or self.calls.pending:
                return empty()
            return concat(*(self._close(call, kind, text) for call in calls))

        return defer(close)

    def close_lost(self, lost: Sequence[ToolUseBlock]) -> Flow[PostActingEvent]:
        """Give calls that an earlier run has lost their error results; signals and cancels as `close_open`."""
        self.calls.begun.update(call.id for call in lost)
        return concat(*(self._close(call, ToolResultKind.INTERRUPTED, None) for call in lost))

    def _close(self, call: ToolUseBlock, kind: ToolResultKind, text: str | None) -> Flow[PostActingEvent]:
        known = None if self.durable is None else self.durable.closing(self, call)
        message = Msg.tool(known or self.calls.closing_result(call, kind, text), self.name)
        event = PostActingEvent(source=self.source, iteration=self.iteration, tool_use=call, message=message)
        closed = self.remember((message,), event).pipe(then(lambda: just(event)))
        children = self.conversation.children
        child = None if children is None else children.of_call(call.id)
        if child is None:
            return closed
        # the sub-agent's own pending calls are closed first
        return close_child(child, self, kind, text).pipe(then(lambda: closed))

    def final(self, message: Msg, reason: GenerateReason) -> Msg:
        """The message as the reply of this run: with its reason and the usage of the whole run."""
        tokens = self.usage.tokens
        usage = message.usage if tokens is NO_USAGE or tokens == NO_USAGE else tokens
        if message.generate_reason is reason and message.usage == usage:
            return message
        return message.replace(generate_reason=reason, usage=usage)
