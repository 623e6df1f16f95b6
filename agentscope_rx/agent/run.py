"""`Run`: one call, with all the state that belongs to it and to nothing else.

The agent object is configuration plus memory. Whatever changes during a call is here, so that two assembled calls can
never swap anything. A run lives on one loop's thread; `interrupt` may come from any.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import uuid4

from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.run_stats import RunStats
from agentscope_rx.agent.sub_agent.child_tool import abandoned
from agentscope_rx.context import RuntimeContext
from agentscope_rx.context_store import ContextStore
from agentscope_rx.events import Event, EventSource, MemoryEvent, PostActingEvent
from agentscope_rx.hooks import CompiledHooks
from agentscope_rx.memory import Memory
from agentscope_rx.messages import (
    ChatUsage,
    GenerateReason,
    Msg,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    closing_results,
)
from agentscope_rx.models.options import GenerateOptions
from agentscope_rx.reactive import Flow, OneShotEvent, Scope, concat, concat_map, defer, empty, just, shield, then
from agentscope_rx.reactive.job import AbandonedCalls
from agentscope_rx.reactive.kernel.fuse import Immediate, reduced
from agentscope_rx.reactive.kernel.scope import clock_of
from agentscope_rx.tools import Toolkit

if TYPE_CHECKING:
    from agentscope_rx.agent.conversation import Conversation
    from agentscope_rx.agent.structured_output.request import OutputRequest

T = TypeVar("T")


NO_HOOKS = CompiledHooks()
NOT_BEGUN = "The run ended before this call had begun; it had no effect."


class InterruptSource(StrEnum):
    """Who asked for an interruption."""

    USER = "user"
    TOOL = "tool"
    SYSTEM = "system"


class Cut(StrEnum):
    """How an interrupted run ends: by a reply, by a last word or an error at its deadline, or to be resumed later."""

    REPLY = "reply"
    DEADLINE = "deadline"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class Done:
    """What the last stage of a run emits: the reply, remembered already."""

    message: Msg


class Run:
    """The state of one call.

    `open` are the calls in memory that have no result there yet, in call order; `pending` says that they are left so
    on purpose. `iteration` counts model rounds from 0. `toolkit` is the agent's, or an overlay with run-only tools.
    """

    __slots__ = (
        "__weakref__",
        "admitted",
        "answered",
        "asked",
        "begun",
        "checkpointed",
        "clock",
        "context",
        "context_store",
        "conversation",
        "cost",
        "cut",
        "ended",
        "extras",
        "given",
        "goto_count",
        "groups",
        "handed_down",
        "hooks",
        "id",
        "in_flight",
        "input",
        "interrupt",
        "interrupt_message",
        "interrupt_source",
        "interrupted_by",
        "iteration",
        "last_event",
        "left",
        "left_behind",
        "limits",
        "memory",
        "model_calls",
        "model_retries",
        "model_waiting",
        "name",
        "open",
        "options",
        "parent",
        "passes_by",
        "pending",
        "said",
        "scope",
        "seen_to",
        "seq",
        "source",
        "started",
        "system_message",
        "thinking",
        "timers",
        "tool_calls",
        "toolkit",
        "untold",
        "unwritten",
        "usage",
        "waiting",
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
        self.id = uuid4().hex
        self.name = name
        self.memory = memory
        self.scope = scope
        self.conversation = conversation
        self.context = context
        self.context_store: ContextStore | None = None
        """The agent's, as it was when the run began."""
        self.limits = limits
        self.toolkit = toolkit if toolkit is not None else Toolkit()
        self.hooks = hooks if hooks is not None else NO_HOOKS
        """The agent's, as they were when the run began."""
        self.groups: tuple[str, ...] = ()
        """The groups of tools that were active at the beginning."""
        self.source = EventSource(self.id, name, (self.id,), context)
        self.parent: Run | None = None
        """The run that this one is inside of, if it is a sub-agent's: what this one costs, that one costs, too."""
        self.asked: OutputRequest | None = None
        """What the reply is to hold, if anything: as the call asks, or as one that it goes on with has asked."""
        self.checkpointed = False
        self.given: tuple[Msg, ...] = ()
        """The input as the caller gave it."""
        self.input: tuple[Msg, ...] = ()
        """The input as it was remembered, after hooks."""
        self.seq = 0
        self.system_message: Msg | None = None
        self.iteration = 0
        self.goto_count = 0
        self.options: GenerateOptions | None = None
        """In place of the agent's, once a forced choice of tools has been met."""
        self.thinking = 0
        """Answers on end that were thinking alone."""
        self.model_calls = 0
        self.model_retries = 0
        self.model_waiting = False
        self.tool_calls = 0
        self.usage = ChatUsage()
        self.cost = 0.0
        self.left_behind = AbandonedCalls()
        """Its blocking calls that run on although it no longer waits for them."""
        self.untold: list[Event] = []
        """What memory says already and no listener has heard yet: told even if the run fails at that very moment."""
        self.unwritten: tuple[Msg, ...] = ()
        """The input, once it has been told of and until memory has it."""
        self.open: dict[str, ToolUseBlock] = {}
        self.pending = False
        self.admitted = False
        """Whether the input has been taken: from then on what was pending is this run's to settle."""
        self.left: frozenset[str] = frozenset()
        """The ids of the calls that it has left pending, once it has ended."""
        self.interrupted_by: InterruptSource | None = None
        """Who has asked for it, once the run ends by an interruption, and not in another way before that."""
        self.ended = False
        """Whether the conversation has taken notice of its end."""
        self.said: frozenset[str] = frozenset()
        """The ids of the messages that the caller gave, before hooks."""
        self.passes_by = False
        """Whether the input leaves the pending calls behind: they are closed before it."""
        self.answered: frozenset[str] = frozenset()
        """The ids of the pending calls that the input has decided, those that such calls are inside of included."""
        self.handed_down: frozenset[str] = frozenset()
        """The ids of the results in the input that are for calls of sub-agents, and remembered by those."""
        self.begun: set[str] = set()
        """The ids of the open calls that have been begun, in this run or, for all one knows, in one before it."""
        self.in_flight: dict[str, ToolUseBlock] = {}
        self.waiting: dict[str, ToolUseBlock] = {}
        """The calls of this round that have not begun."""
        self.clock = clock_of(scope.loop)
        self.started = self.last_event = scope.loop.time()
        self.seen_to = False
        """Whether the run has failed and its memory was repaired for that; not if its loop shuts down."""
        self.timers: list[TimerHandle] = []
        self.extras: dict[str, object] = {}
        """For what stages added by a subclass or feature keep for the length of the run, by name."""
        self.renew_interrupt()

    def renew_interrupt(self) -> None:
        """Forget an interruption that has been seen to: the run goes on and can be interrupted again."""
        self.interrupt = OneShotEvent()
        self.interrupt_message: Msg | None = None
        self.interrupt_source = InterruptSource.USER
        self.cut = Cut.REPLY
        scope = self.scope
        if (demand := scope.demand) is not None:
            # a consumer that has stalled does not keep the run from ending; after the others who listen have stopped
            self.interrupt.listen(lambda: scope.call_soon(demand.waive))

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked this run to end; it does so at its next check point."""
        return self.interrupt.fired

    @property
    def shut_down(self) -> bool:
        """Whether the run is being cut off to be resumed later: nothing more is begun."""
        return self.interrupt.fired and self.cut is Cut.SHUTDOWN

    def request_interrupt(self, message: Msg | None, source: InterruptSource, cut: Cut = Cut.REPLY) -> None:
        """Ask the run to end; from any thread. The first request counts."""

        def fire() -> None:
            if not self.interrupt.fired:
                self.interrupt_message = message
                self.interrupt_source = source
                self.cut = cut
                self.interrupt.fire(later=self.scope.call_soon)

        if self.scope.is_here():
            fire()
        else:
            self.scope.call_from_thread(fire)

    def within(self, parent: Run, call_id: str) -> None:
        """This run belongs to a call of that one."""
        self.parent = parent
        self.source = EventSource(self.id, self.name, (*parent.source.path, call_id, self.id), self.context)

    def cut_short(self, *, ending: bool) -> bool:
        """Whether an interruption decides what is next. A deadline does not if the run is `ending` well by itself."""
        return self.interrupt.fired and not (ending and self.cut is Cut.DEADLINE)

    def over(self) -> None:
        """The run has ended, or begun its last word: its timers are dropped."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()

    def stats(self) -> RunStats:
        """Where the run is at this moment; may be asked from any thread."""
        now = self.scope.loop.time()
        return RunStats(
            run_id=self.id,
            agent=self.name,
            turn=self.iteration,
            model_calls=self.model_calls,
            tool_calls=self.tool_calls,
            in_flight=tuple(self.in_flight.values()),
            waiting=tuple(self.waiting.values()),
            events=self.seq,
            queued=0 if self.scope.demand is None else self.scope.demand.depth,
            age=now - self.started,
            event_age=now - self.last_event,
            usage=self.usage,
            cost=self.cost,
            interrupted=self.interrupted,
            model_waiting=self.model_waiting,
            model_retries=self.model_retries,
            abandoned=self.left_behind.count,
        )

    def note(self, messages: Sequence[Msg], event: Event | None = None, *, heard: bool = False) -> None:
        """Keep the account of open calls for messages that are in memory now; calls that were `heard` are others'.

        `event` is what is going to tell of them.
        """
        if event is not None:
            self.untold.append(event)
        if heard:
            self.unwritten = ()
        for message in messages:
            for block in message.content:
                if type(block) is ToolUseBlock and not heard:
                    self.open[block.id] = block
            for block in message.content:
                if type(block) is ToolResultBlock:
                    self.open.pop(block.id, None)
                    self.begun.discard(block.id)
                    if self.conversation.children is not None:
                        self.conversation.children.settled(block.id)

    def remember(self, messages: Sequence[Msg], event: Event | None = None, *, heard: bool = False) -> Flow[None]:
        """Write to memory, whole even if the run is disposed meanwhile; keeps the account of open calls, and `event`,
        which the caller emits next, until it has been emitted."""
        if not messages:
            return just(None)
        return shield(self.memory.add(messages).pipe(concat_map(lambda done: self.note(messages, event, heard=heard))))

    def replied(self, message: Msg) -> Flow[Done]:
        """Remember the reply of a run that no Post event of a stage tells of: PostCall does, unless the run fails."""
        event = MemoryEvent(source=self.source, added=(message,))
        return self.remember((message,), event).pipe(then(lambda: just(Done(message))))

    def wrote(self, event: MemoryEvent, *writes: Flow[object]) -> Flow[Event]:
        """Do what the event says to what is remembered, whole even if the run is disposed meanwhile; then emit it."""

        def done() -> Flow[Event]:
            self.untold.append(event)
            return just(event)

        return shield(concat(*writes).pipe(then(done)))

    def remembered(self, messages: Sequence[Msg], event: Event, following: Callable[[], Flow[T]]) -> Flow[T]:
        """What `following` gives once `remember` is done: that very flow if memory takes no time.

        Part of a subscription (see `onward`): messages are written now.
        """
        if messages:
            kept = reduced(self.memory.add(messages))
            if type(kept) is not Immediate:
                noted = concat_map(lambda done: self.note(messages, event))(cast("Flow[None]", kept))
                return shield(noted).pipe(then(following))
            self.note(messages, event)
        return following()

    def history(self) -> Flow[Sequence[Msg]]:
        """The conversation now."""
        return self.memory.get()

    def close_open(
        self, kind: ToolResultKind = ToolResultKind.INTERRUPTED, text: str | None = None
    ) -> Flow[PostActingEvent]:
        """Give every open call an error result of this kind, in memory; emits their events.

        Hooks are not asked: the results are the engine's own words, and a failing hook may be why this is needed.
        """

        def close() -> Flow[PostActingEvent]:
            calls = tuple(self.open.values())
            if not calls or self.pending:
                return empty()
            return concat(*(self._close(call, kind, text) for call in calls))

        return defer(close)

    def close(self, lost: Sequence[ToolUseBlock]) -> Flow[PostActingEvent]:
        """Give calls that an earlier run should have closed their error results; emits their events."""
        self.begun.update(call.id for call in lost)
        return concat(*(self._close(call, ToolResultKind.INTERRUPTED, None) for call in lost))

    def _close(self, call: ToolUseBlock, kind: ToolResultKind, text: str | None) -> Flow[PostActingEvent]:
        message = Msg.tool(self.closing(call, kind, text), self.name)
        event = PostActingEvent(source=self.source, iteration=self.iteration, tool_use=call, message=message)
        closed = self.remember((message,), event).pipe(then(lambda: just(event)))
        children = self.conversation.children
        if children is None or (child := children.of_call(call.id)) is None:
            return closed
        # its sub-agent's own calls wait for nothing any more either
        return abandoned(child, self.toolkit, kind, text).pipe(then(lambda: closed))

    def closing(self, call: ToolUseBlock, kind: ToolResultKind, text: str | None = None) -> ToolResultBlock:
        """The error result of a call that gets no other; it says so if the call has not even begun."""
        if text is None and call.id not in self.begun:
            text = NOT_BEGUN
        return closing_results((call,), kind, text)[0]

    def final(self, message: Msg, reason: GenerateReason) -> Msg:
        """The message as the reply of this run: with its reason and what the whole run cost."""
        usage = self.usage if self.usage != ChatUsage() else message.usage
        if message.generate_reason is reason and message.usage == usage:
            return message
        return message.replace(generate_reason=reason, usage=usage)
