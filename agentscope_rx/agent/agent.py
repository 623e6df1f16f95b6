"""`Agent`: call, stream, start, enqueue, observe, interrupt, idle.

There is one implementation of a run, and `stream` shows all of it:

    stream(input)  =  the stages that a subclass provides, in the life of a run (see `agent.lifecycle`), numbered
    call(input)    =  the message of stream(input)'s last event
    start(input)   =  a handle that has subscribed to stream(input), for subscribers of its own

After the end of a run - completion, failure, interruption, disposal - every call in memory has its result, and the
running flag is free: for completion and failure before the terminal signal, for a disposal after its clean-up.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeVar, cast
from uuid import uuid4

from typing_extensions import Unpack

from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.handle.run_handle import KEPT_EVENTS, MAX_LOG_BYTES, RunHandle
from agentscope_rx.agent.inbox import When
from agentscope_rx.agent.input import CallInput, check_input, check_kind, check_kinds, check_name
from agentscope_rx.agent.interruption import InterruptSource, check_interrupt
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.observe import observe_messages, parse_call
from agentscope_rx.agent.revising import revise
from agentscope_rx.agent.run import NOTHING, Run, Stage
from agentscope_rx.agent.run_start import Out, RunStart
from agentscope_rx.agent.saving_agent import SavingAgent
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.stream import LastMessage, Numbering, reply_in
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.sub_agent.agent_tool import AgentTool, AgentToolOptions
from agentscope_rx.agent.system_prompt import SystemPrompt, check_system_prompt
from agentscope_rx.agent.transient import drop_transient
from agentscope_rx.agent.when_busy import QUEUE_LIMIT, WhenBusy, check_queue_limit, check_when_busy
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError, InvalidInputError, RunEndedError
from agentscope_rx.events import Event, EventStream, PreCallEvent, StreamOptions
from agentscope_rx.hooks import ClassHooks, Hook
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.hooks.collection import Hooks
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg, ToolUseBlock
from agentscope_rx.reactive import Flow, Scope, concat, concat_map, defer, empty, flat_map_iterable, just, then
from agentscope_rx.reactive.unbegun import Unbegun
from agentscope_rx.session import LeasePolicy, Session, WhenHeld
from agentscope_rx.tools import Toolkit

T = TypeVar("T")

ELSEWHERE = {
    **dict.fromkeys(("run", "run_sync", "arun", "invoke", "ainvoke", "reply"), "call"),
    **dict.fromkeys(("run_stream", "run_streamed", "astream", "reply_stream"), "stream"),
}
"""What other libraries call the methods that begin a run."""


class Agent(ClassHooks, SavingAgent):
    """The base class of agents: calls, streams, interruption, pending calls, saving. `ReActAgent` is the usual one.

    A subclass implements `route`, the first stage of a run. The options are those of `ReActAgent`.

    After every end of a run - completion, failure, interruption, disposal - each call in memory has its result, and the
    conversation is free for the next call: for completion and failure before the last signal, for a disposal after its
    clean-up. An agent belongs to no event loop and may be used from every thread.
    """

    def __init__(
        self,
        name: str,
        memory: Memory,
        *,
        sys_prompt: SystemPrompt | None = None,
        hooks: Iterable[Hook] = (),
        check_running: bool = True,
        when_busy: WhenBusy = "error",
        queue_limit: int = QUEUE_LIMIT,
        tracer: Tracer | None = None,
        limits: UsageLimits | None = None,
        state_persistence: StatePersistence | None = None,
        shutdown: GracefulShutdown | None = None,
        session: Session | str | PathLike[str] | None = None,
        session_key: str | None = None,
        checkpoint: Literal["run", "stage"] = "run",
        lease: LeasePolicy | WhenHeld | None = None,
    ) -> None:
        check_name(name)
        check_kind("memory", memory, Memory, needed=True)
        check_system_prompt(sys_prompt)
        check_kinds(
            ("tracer", tracer, Tracer), ("limits", limits, UsageLimits), ("shutdown", shutdown, GracefulShutdown)
        )
        self.name = name
        self.memory = memory
        self.sys_prompt = sys_prompt
        self.hooks: Hooks = self._all_hooks(hooks)
        if tracer is not None:
            self.hooks.add(tracer)
        self.check_running = check_running
        self.when_busy: WhenBusy = check_when_busy(when_busy, check_running)
        self.queue_limit: int = check_queue_limit(queue_limit)
        self.limits = limits
        self._save_in(state_persistence, session, session_key, checkpoint, lease)
        self.extras: dict[object, object] = {}
        """State of hooks and tools that lasts as long as the agent, each under a key of its own."""
        self.shutdown = shutdown
        if shutdown is not None:
            shutdown.add(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say how a run is begun here to those who know it by another library's name."""
            if name not in ELSEWHERE:
                return object.__getattribute__(self, name)  # with Python's own error, and of a property its own
            ours = ELSEWHERE[name]
            how = "read it with `async for`" if ours == "stream" else "await it, or run() it outside of a loop"
            message = f"{type(self).__name__!r} object has no attribute {name!r}. Use {ours}(...) and {how}."
            # with another `obj`, or Python adds "Did you mean: 'runs'?"
            raise AttributeError(message, name=name, obj=None)

    # --- calls ---------------------------------------------------------------------------------------

    def call(
        self,
        msgs: CallInput = None,
        *,
        context: RuntimeContext | None = None,
        memory: Memory | None = None,
        limits: UsageLimits | None = None,
        output: object = None,
        when_busy: WhenBusy | None = None,
    ) -> Flow[Msg]:
        """Answer the messages. Without messages, continue the conversation and run its pending calls.

        `msgs` is a text, a `Msg`, a list of these, or answers to pending calls (`Approve`, `Reject`, results). System
        messages are refused: use `sys_prompt`.

        - `context` holds objects for the hooks and tools of this call.
        - `memory` replaces the agent's own, so one agent can serve many conversations at once.
        - `limits` replace the agent's limits.
        - `output` is the type of the reply's value: a type, a JSON schema or a `StructuredOutput`.
        - `when_busy` replaces the agent's choice for a call during another one.

        Signals: the reply, at which the next call may begin; `AgentBusyError` if another call is in progress,
        `QueuedCallInterruptedError` if it was interrupted before its turn; the error of the run.
        Cancels: the wait for its turn, or the run. Its memory is repaired before another call begins.
        """
        if type(self).stream is not Agent.stream:
            # a subclass changes the events: the reply is the one in its last event
            events = self._overridden(msgs, None, context, memory, limits, output, when_busy)
            return events.pipe(flat_map_iterable(reply_in))
        start = self._begun_by(LastMessage, msgs, context, memory, limits, output, when_busy)
        start.unbegun = Unbegun("A call of agent", self.name, sys._getframe(1))
        return Flow(start.connect).holding(start.unbegun)

    def stream(
        self,
        msgs: CallInput = None,
        options: StreamOptions | None = None,
        *,
        context: RuntimeContext | None = None,
        memory: Memory | None = None,
        limits: UsageLimits | None = None,
        output: object = None,
        when_busy: WhenBusy | None = None,
    ) -> EventStream:
        """Like `call`, but emits the events of the run. The last event is a `PostCallEvent`, or an `ErrorEvent`.

        `.of_type(Kind)` on the stream selects events of one class; `.text()` is the text of the answer. `options`
        select the events.

        Signals: the events in order; completion, at which the next call may begin; errors as `call`, after an
        `ErrorEvent`.
        Cancels: as `call`.
        """
        start = self._begun_by(_numbering(options), msgs, context, memory, limits, output, when_busy)
        start.unbegun = Unbegun("A stream of agent", self.name, sys._getframe(1))
        return EventStream(start.connect).holding(start.unbegun)

    def start(
        self,
        msgs: CallInput = None,
        options: StreamOptions | None = None,
        *,
        context: RuntimeContext | None = None,
        memory: Memory | None = None,
        limits: UsageLimits | None = None,
        output: object = None,
        when_busy: WhenBusy | None = None,
        linger: float | None = None,
        capacity: int = KEPT_EVENTS,
        max_bytes: int = MAX_LOG_BYTES,
    ) -> RunHandle:
        """Begin a run on the loop's next turn, for any number of subscribers, who may come late, leave and return.

        The arguments are those of `stream`. By default the run goes on without subscribers; with `linger=30` it stops
        30 seconds after the last one has left. The handle keeps the last `capacity` events, of about `max_bytes`
        together. The handle's flows signal errors of the run, `AgentBusyError` included.
        """
        events = self._overridden(msgs, options, context, memory, limits, output, when_busy)
        return RunHandle(
            events, agent=self, id=uuid4().hex, linger=linger, capacity=capacity, max_bytes=max_bytes
        ).begin()

    def _overridden(
        self,
        msgs: CallInput,
        options: StreamOptions | None,
        context: RuntimeContext | None,
        memory: Memory | None,
        limits: UsageLimits | None,
        output: object,
        when_busy: WhenBusy | None,
    ) -> EventStream:
        """The public `stream`, which a subclass may override, perhaps without the arguments that few callers give."""
        stream = self.stream
        if options is not None:
            stream = partial(stream, options=options)
        if when_busy is not None:
            stream = partial(stream, when_busy=when_busy)
        return stream(msgs, context=context, memory=memory, limits=limits, output=output)

    def nested(
        self, msgs: CallInput, context: RuntimeContext | None, memory: Memory | None, output: object = None
    ) -> Flow[Event]:
        """The `stream` of a sub-agent's run, for the run of its parent."""
        if type(self).stream is not Agent.stream:
            if output is None:
                return self.stream(msgs, context=context, memory=memory)
            return self.stream(msgs, context=context, memory=memory, output=output)
        return EventStream(self._begun_by(Numbering, msgs, context, memory, None, output, None).connect)

    def _begun_by(
        self,
        out: Out[T],
        msgs: CallInput,
        context: RuntimeContext | None,
        memory: Memory | None,
        limits: UsageLimits | None,
        output: object,
        when_busy: WhenBusy | None,
    ) -> RunStart[T]:
        """Check the arguments now. Each subscription begins a run, and gets `out` of its events."""
        given = parse_call(msgs, self.name)
        if context is not None:
            check_input("context", context, RuntimeContext)
        if memory is not None:
            check_input("memory", memory, Memory)
        if limits is not None:
            check_input("limits", limits, UsageLimits)
        request = self.requested(output)
        busy = self.when_busy if when_busy is None else check_when_busy(when_busy, self.check_running)
        return RunStart(self, given, out, self.memory if memory is None else memory, context, limits, request, busy)

    def observe(self, msgs: CallInput, *, memory: Memory | None = None) -> Flow[None]:
        """Remember messages of other agents without answering; allowed during a run.

        Messages that come between calls and their results are sent to the model after the results. Hooks on
        PreObserveEvent may change them before they are stored; hooks on PostObserveEvent see them afterwards.

        Signals: one None when they are stored; a `HookError`, or the error of a hook on PreObserveEvent.
        Cancels: the hook in progress, and the write.
        """
        where = memory if memory is not None else self.memory
        observed = observe_messages(self.name, self.hooks, msgs, where)
        return observed if self.place is None else self.bound(where).pipe(then(lambda: observed))

    # --- in progress ----------------------------------------------------------------------------------------------

    def interrupt(
        self,
        msg: Msg | str | None = None,
        source: InterruptSource = InterruptSource.USER,
        *,
        memory: Memory | None = None,
        run_id: str | None = None,
    ) -> bool:
        """Ask the runs in progress to end normally. Thread-safe; False if there is no run.

        A run ends at its next check point: before a request to the model, before and after a batch of tools, and at
        once while it waits for a model or an interruptible tool. Hooks in progress finish. `msg` becomes the reply and
        is remembered; the default is a fixed text. It may hold no calls or results. The first request counts. From the
        PostCall hooks on an interruption has no effect.

        A queued call fails at once with `QueuedCallInterruptedError`; a call that waits for the clean-up of the
        previous run ends as soon as it begins. `memory` selects one conversation, `run_id` one run or queued call.
        `source` is recorded in `run.interrupt_source`. Pending calls are no run: answer them.
        """
        message = check_interrupt(msg, source)
        entered = [run for conversation in self._chosen(memory) for run in conversation.entered]
        runs = [run for run in entered if run_id is None or run.id == run_id]
        for run in runs:
            run.interruption.request(message, InterruptSource(source))
        return bool(runs)

    def enqueue(
        self, msgs: CallInput, when: When = "next_round", *, memory: Memory | None = None, run_id: str | None = None
    ) -> None:
        """Give messages to the run in progress. Thread-safe.

        "next_round": the run remembers them before its next model call. "idle": it remembers them where it would end
        normally, and goes on with another round. The run is the one in the agent's conversation, in that of `memory`,
        or the run `run_id`, also of a sub-agent. Messages that it does not take are in `RunHandle.unread`, for a hook
        or tool in `run.inbox.unread`. Each input is an `InputEvent` in the stream.

        `RunEndedError` if there is no such run, or if it takes no more input; `InboxFullError` if 100 inputs wait;
        `InvalidInputError` for anything but messages, or if several runs are in progress.
        """
        if run_id is not None:
            entered = (run for each in self._chosen(memory) for run in each.entered_within())
            runs = [run for run in entered if run.id == run_id]
        else:
            # of each flag the run that holds it, or the first that waits for it
            flags = self.conversation(memory).flags
            runs = [run for flag in flags for run in flag.interruptible[:1]]
        if len(runs) > 1:
            ids = [run.id for run in runs]
            raise InvalidInputError(f"Several runs are in progress in this conversation: give run_id=, one of {ids}.")
        if not runs:
            raise RunEndedError(self.name, run_id)
        cast("Run", runs[0]).inbox.put(msgs, when)

    def background(self, *, memory: Memory | None = None) -> Jobs:
        """The background work of the agent's conversation, or of that of `memory`: list it, stop it, wait for it."""
        conversation = self.conversation(memory)
        if conversation.jobs is not None:
            return conversation.jobs
        jobs = Jobs(conversation.parts)
        jobs.below = conversation.jobs_below
        return jobs

    def idle(self, *, memory: Memory | None = None) -> Flow[None]:
        """Wait until no run is in progress or being cleaned up. In a tool or hook this deadlocks.

        Signals: one None.
        Cancels: the waiting.
        """

        def all_idle() -> Flow[None]:
            flags = (flag.idle() for conversation in self._chosen(memory) for flag in conversation.flags)
            return concat(*flags).pipe(then(lambda: just(None)))

        return defer(all_idle)

    @property
    def running(self) -> bool:
        """True while a run is in progress or being cleaned up."""
        return bool(self.runs)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs in progress or being cleaned up; `run.stats()` is a snapshot of one."""
        return tuple(cast("Run", run) for conversation in self._conversations.all for run in conversation.runs)

    @property
    def entered(self) -> tuple[Run, ...]:
        """The runs that can be interrupted: in progress, or waiting for their turn."""
        return tuple(cast("Run", run) for conversation in self._conversations.all for run in conversation.entered)

    @property
    def discards_partial(self) -> bool:
        """True if memory does not keep an answer that a shutdown has cut off."""
        return self.shutdown is not None and self.shutdown.partial == "discard"

    def pending_calls(self, *, memory: Memory | None = None) -> Flow[tuple[ToolUseBlock, ...]]:
        """The calls that wait for `call()`, an approval or a result, also after `load`. It runs nothing.

        Signals: one tuple of calls, in call order; an empty one during a run, which owns the calls.
        Cancels: the reading.
        """
        where = memory if memory is not None else self.memory
        conversation = self._conversations.of(where)
        pending = where.get().pipe(concat_map(conversation.answerable_in))
        return pending if self.place is None else self.bound(where).pipe(then(lambda: pending))

    def conversation(self, memory: Memory | None = None) -> Conversation:
        """The state that this agent keeps between calls for one memory (default: its own): pending calls, approvals."""
        return self._conversations.of(memory if memory is not None else self.memory)

    def as_tool(
        self, name: str | None = None, description: str | None = None, **options: Unpack[AgentToolOptions]
    ) -> AgentTool:
        """Return this agent as a tool, named `call_<agent>` by default. For options see `AgentTool`."""
        return AgentTool(self, name=name, description=description, **options)

    def _chosen(self, memory: Memory | None) -> Sequence[Conversation]:
        return self._conversations.all if memory is None else (self._conversations.of(memory),)

    # --- for subclasses --------------------------------------------------------------------------------

    @abstractmethod
    def route(self, run: Run) -> Stage:
        """Return the first stage of a run, once its input has been remembered. Subclasses implement it."""

    def admit(self, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> Flow[Event]:
        """The step before the input is remembered (default: none). Raise an error to refuse the call."""
        if event.answers:
            raise InvalidInputError(f"{type(self).__name__} {self.name!r} has no calls to approve or reject.")
        return NOTHING

    def requested(self, output: object) -> OutputRequest | None:
        """The request for a structured `output`; `ConfigurationError` unless a subclass supports it."""
        if output is not None:
            raise ConfigurationError(f"{type(self).__name__} {self.name!r} does not take output=.")
        return None

    def ask(self, run: Run, request: OutputRequest) -> None:
        """Store the result of `requested` in the run."""
        raise NotImplementedError

    def tidied(self, run: Run) -> Flow[Event]:
        """Clean up memory at the end of every run, also of a failed one: `Hook.revised`, and marks."""
        if not run.hooks.revising:
            return drop_transient(run) if run.memory.marked else NOTHING
        return concat(revise(run), defer(lambda: drop_transient(run) if run.memory.marked else empty()))

    @property
    def _toolkit(self) -> Toolkit | None:
        """The tools of the agent, if it has any."""
        return None

    def new_run(self, memory: Memory, scope: Scope, context: RuntimeContext | None, limits: UsageLimits | None) -> Run:
        """The state of one call."""
        run = Run(
            self.name,
            memory,
            scope,
            conversation=self._conversations.of(memory),
            context=context,
            limits=limits if limits is not None else self.limits,
            toolkit=self._toolkit,
            hooks=self.hooks.compiled,
        )
        run.agent = self
        return run


def _numbering(options: StreamOptions | None) -> Out[Event]:
    """The sink that numbers the events which the options select."""
    check_input("options", options, StreamOptions)
    return Numbering if options is None else partial(Numbering, options=options)
