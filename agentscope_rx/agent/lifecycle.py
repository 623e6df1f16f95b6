"""The life of a run, which is the same for every kind of agent.

using(acquire the running flag and, if it is bound with one, the lease of the conversation; on the loop's next turn:
      repair the memory of lost runs -> PreCall |> hooks -> admit -> remember the input -> recurse(route)
          -> PostCall |> hooks
      |> hooks around the call |> deadline   |> on an error: close open calls, ErrorEvent
      release the flag)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, cast

from agentscope_rx.agent.background.feed import beside
from agentscope_rx.agent.beginning import Beginning
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.deadline import in_time, until
from agentscope_rx.agent.durable.durability import Durability
from agentscope_rx.agent.durable.resume import take_unfinished
from agentscope_rx.agent.hearing import tell
from agentscope_rx.agent.input import ParsedInput
from agentscope_rx.agent.leasing import bound, closing, given_up, guarded, lease_of, with_lease
from agentscope_rx.agent.notices import noticed
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.repair import repair, report_errors
from agentscope_rx.agent.run import NOTHING, Done, Run
from agentscope_rx.agent.run_history import run_history
from agentscope_rx.agent.running_flag import RunningFlag
from agentscope_rx.errors import AgentShuttingDownError
from agentscope_rx.events import ContextEvent, ErrorEvent, Event, MemoryEvent, PostCallEvent
from agentscope_rx.hooks import CallRequest
from agentscope_rx.hooks.notices import NoticeRequest
from agentscope_rx.hooks.wrapping.flows import AroundEvents
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg, ToolResultKind
from agentscope_rx.reactive import (
    Flow,
    Outcome,
    Scope,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    just,
    next_turn,
    onward,
    recurse,
    shield,
    steps,
    then,
    throw,
    using,
)
from agentscope_rx.reactive.kernel.fuse import Immediate
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.sources.blocking import abandoned_in

T = TypeVar("T")


# --- the running flag ---------------------------------------------------------------------------------------------


def run_events(agent: AgentCore, run: Run, given: ParsedInput) -> Flow[Event]:
    """The events of the run, which holds the running flag of its conversation until just before its terminal signal.

    Signals: the events; `AgentBusyError` or `QueuedCallInterruptedError` instead of them, or the error of the run after
    its ErrorEvent.
    Cancels: the run. The flag is free once memory is repaired and the conversation saved.
    """
    life = _Life(agent, run, given)
    return using(life.acquire, life.use, life.release, on_dispose=life.leave)


class _Life:
    """One run, from the acquisition of the running flag to its release."""

    __slots__ = ("_agent", "_begun", "_flag", "_given", "_run")

    def __init__(self, agent: AgentCore, run: Run, given: ParsedInput) -> None:
        self._agent = agent
        self._run = run
        self._given = given
        self._flag = run.conversation.flag if agent.check_running else RunningFlag(agent.name)
        self._begun = False

    def acquire(self) -> Flow[Run]:
        agent, run = self._agent, self._run
        # a sub-agent's run is part of one that may still finish
        if agent.shutdown is not None and agent.shutdown.refuses and run.parent is None:
            run.inbox.close()
            return next_turn(throw(AgentShuttingDownError(agent.name)))
        flag = self._flag
        run.conversation.add_flag(flag)
        if flag.take(run):
            return Immediate(run)
        entered = cast("Flow[Run]", flag.acquire(run, run.when_busy, agent.queue_limit))
        deadline = None if run.limits is None else run.limits.deadline
        return entered if deadline is None else entered.pipe(until(run, deadline, deadline))

    def use(self, run: Run) -> Flow[Event]:
        entering: Flow[Event] = Flow(self._enter)
        return next_turn(entering) if run.scope.work.outermost().subscribing else entering

    def _enter(self, sink: Sink[Event], scope: Scope) -> None:
        # the scope is that of `using`, and of nothing else
        abandoned_in(scope, self._run.left_behind)
        try:
            events = with_lease(self._agent, self._run, self._held)
        except Exception as error:
            failed: Flow[Event] = throw(error)
            events = failed
        attach(events, sink, scope)

    def _held(self) -> Flow[Event]:
        self._begun = True
        return _after_repair(self._agent, self._run.conversation, self._flag, self._events)

    # --- the events -----------------------------------------------------------------------------------------------

    def _events(self) -> Flow[Event]:
        agent, run, given = self._agent, self._run, self._given
        _go_on(agent, run, given)
        make = self._stages if agent.place is None else self._bound_stages
        around = run.hooks.around_call
        events = make() if around is None else _around_call(around, run, given, make)
        # an error is held back until the work that it has cut off has ended (tools' clean-up, writes to memory): only
        # then is it known which calls are open
        return catch(self._failed, settled=True)(guarded(run, in_time(run, events)))

    def _bound_stages(self) -> Flow[Event]:
        """The stages, once the conversation is bound to the session of the agent."""
        return concat(bound(self._agent, self._run), defer(self._when_bound))

    def _when_bound(self) -> Flow[Event]:
        # it may have been loaded only now
        run = self._run
        before = run.resumed
        _go_on(self._agent, run, self._given)
        events = self._stages()
        # the deadline of a run that goes on counts what the lost one has taken
        return events if run.resumed is before else in_time(run, events)

    def _stages(self) -> Flow[Event]:
        """From PreCall to the last event."""
        begin = Beginning(self._agent, self._run, self._given)
        return steps(begin.pre_call, begin.admit, begin.remember, self._rounds)

    def _rounds(self) -> Flow[Event]:
        """The stages of the agent, and what follows the last one."""
        agent, run = self._agent, self._run
        stages: Flow[Event] = recurse(partial(agent.route, run), done=Done, last=self._done)  # pyright: ignore[reportAssignmentType, reportArgumentType]
        jobs = run.conversation.jobs
        return stages if jobs is None else beside(jobs, run, stages)

    def _done(self, done: Done) -> Flow[Event]:
        return _end(self._agent, self._run, done)

    def _failed(self, error: Exception) -> Flow[Event]:
        return _fail(self._agent, self._run, error)

    # --- the release ----------------------------------------------------------------------------------------------

    def release(self, run: Run, ending: Outcome) -> Flow[object] | None:
        if not self._begun:
            # disposed or refused before it has begun: there is nothing to repair or to save
            return given_up(run, self._free)
        return _released(self._agent, run, ending, self._free)

    def _free(self) -> None:
        run, conversation, flag = self._run, self._run.conversation, self._flag
        if not run.inbox.closed:
            run.inbox.close()
        run.drop_timers()
        # it holds the sinks of the run
        run.round = None
        conversation.end(run)
        flag.release(run)
        if flag is not conversation.flag:
            conversation.drop_flag(flag)

    def leave(self, run: Run) -> None:
        run.inbox.close()
        self._flag.leave(run)


def between_runs(agent: AgentCore, memory: Memory, use: Callable[[Conversation], Flow[T]]) -> Flow[T]:
    """`use` the conversation while no run is in it: it is refused, or waits, as a call is, and repairs lost runs.

    Signals: those of `use`; `AgentBusyError`.
    Cancels: the waiting, or the flow of `use`.
    """
    return _hold(agent, memory, lambda run: use(run.conversation))


def close_pending(agent: AgentCore, memory: Memory, kind: ToolResultKind, text: str | None) -> Flow[None]:
    """Give the calls that are pending in this memory a result of this kind.

    Signals: completion; the errors of `between_runs`.
    Cancels: the waiting for the running flag.
    """

    def close(run: Run) -> Flow[None]:
        conversation = run.conversation
        before = conversation.snapshot(run)

        def close_in(history: Sequence[Msg]) -> Flow[None]:
            with conversation.lock:
                lost = conversation.lost_in(history, before)
                run.calls.take_over((*lost, *conversation.pending_in(history, run)))
                conversation.admit(run, before)
            return run.close_open(kind, text).pipe(then(end))

        def end() -> Flow[None]:
            conversation.end(run)
            return empty()

        return run.history().pipe(concat_map(close_in))

    return _hold(agent, memory, close)


def in_its_turn(agent: AgentCore, memory: Memory, use: Callable[[Run], Flow[T]]) -> Flow[T]:
    """`use` a run that is not a call: with the running flag, and the lease of the conversation, as it is stored.

    Signals: those of `use`; `AgentBusyError`; the errors of binding and of the lease.
    Cancels: the waiting, or the flow of `use`.
    """

    def begin(run: Run) -> Flow[T]:
        return bound(agent, run).pipe(then(lambda: guarded(run, use(run))))

    return _hold(agent, memory, begin, leased=True)


def _hold(agent: AgentCore, memory: Memory, use: Callable[[Run], Flow[T]], *, leased: bool = False) -> Flow[T]:
    def connect(sink: Sink[T], scope: Scope) -> None:
        run = agent.new_run(memory, scope, None, None)
        # it calls no model
        run.inbox.close()
        conversation = run.conversation
        flag = conversation.flag

        def begin(_: object) -> Flow[T]:
            return with_lease(agent, run, repaired) if leased else repaired()

        def repaired() -> Flow[T]:
            return _after_repair(agent, conversation, flag, lambda: use(run))

        def release(_: object, ending: Outcome) -> Flow[object] | None:
            return given_up(run, lambda: flag.release(run)) if leased else flag.release(run)

        attach(using(lambda: flag.acquire(run), begin, release, on_dispose=flag.leave), sink, scope)

    return Flow(connect)


def _after_repair(
    agent: AgentCore, conversation: Conversation, flag: RunningFlag, following: Callable[[], Flow[T]]
) -> Flow[T]:
    """`following()`, once the memory of lost runs is repaired: these could not repair it themselves."""
    lost = flag.take_lost()
    for other in conversation.flags:
        if other is not flag and (taken := other.take_lost()):
            lost = (*lost, *taken)
            if other is not conversation.flag:
                conversation.drop_flag(other)
    if not lost:
        return following()
    return concat(*(repair(agent, cast("Run", run)) for run in lost)).pipe(then(following))


# --- the events ---------------------------------------------------------------------------------------------------


def _go_on(agent: AgentCore, run: Run, given: ParsedInput) -> None:
    """Make the run the one that goes on with an unfinished one, and one that survives, as the conversation says."""
    conversation = run.conversation
    if conversation.unfinished is not None and run.resumed is None:
        take_unfinished(run, given)
    if conversation.journal is not None and run.durable is None:
        run.durable = Durability(run, conversation.journal, agent.state_persistence)


def _around_call(around: AroundEvents, run: Run, given: ParsedInput, begin: Callable[[], Flow[Event]]) -> Flow[Event]:
    """The events with the operators of hooks around them. The deadline and the end of a failed run are outside.

    A further attempt is refused once the run has taken its input, which PreCall reports.
    """
    request = CallRequest(source=run.source, input=given.messages, answers=given.answers)
    over = around.over(cast("Flow[object]", defer(begin)), request, lambda: run.calls.admitted)
    return cast("Flow[Event]", over)


# --- the end ------------------------------------------------------------------------------------------------------


def _end(agent: AgentCore, run: Run, done: Done) -> Flow[Event]:
    message = done.message
    if not run.inbox.closed:
        run.inbox.close()
    tidied = agent.tidied(run)
    if run.durable is not None and PostCallEvent in run.hooks.seen and not run.calls.open:
        # hooks may take their time, and the reply is there
        follow = partial(_post_call, agent, run, message)
        last = run.durable.before(run, "end", follow, reply=message)
    else:
        last = defer(partial(_post_call, agent, run, message))
    return last if tidied is NOTHING else concat(run.hooks.watched(MemoryEvent, tidied), last)


def _post_call(agent: AgentCore, run: Run, message: Msg) -> Flow[Event]:
    def fire(history: Sequence[Msg]) -> Flow[Event]:
        event = PostCallEvent(
            source=run.source, message=message, usage=run.usage.tokens, input=run.input.messages, history=history
        )
        return run.hooks.fire_then(event, end)

    def end(event: PostCallEvent) -> Flow[Event]:
        if event.message is message or event.message == message:
            return _save(agent, run, event)
        # a hook changed the reply: memory must hold the same
        changed = event.message.replace(id=message.id)

        def record(found: bool) -> None:
            if found:
                run.unemitted = [MemoryEvent(source=run.source, added=(changed,))]

        return shield(run.memory.replace(changed).pipe(concat_map(record))).pipe(
            then(lambda: _save(agent, run, event.replace(message=changed)))
        )

    return onward(run_history(run), fire) if PostCallEvent in run.hooks.seen else fire(())


def _save(agent: AgentCore, run: Run, event: PostCallEvent) -> Flow[Event]:
    """The last event, once the conversation is saved, if it is bound to a session, and others have heard the reply."""
    closing(run)
    checkpoint = agent.checkpoint(run)
    run.checkpointed, run.reply = True, event.message
    last = partial(tell, run.conversation.hearing, run.hooks, event)
    if run.hooks.noticing:
        request = NoticeRequest(before="end", source=run.source, history=run.history(), reply=event.message)
        last = partial(noticed, run, request, last)
    return last() if checkpoint is None else checkpoint.pipe(then(last))


def _fail(agent: AgentCore, run: Run, error: Exception) -> Flow[Event]:
    """Repair memory, save it, emit the ErrorEvent, then the error."""
    run.repaired = True
    run.count_asked()
    run.inbox.close()
    event = ErrorEvent.of(error, source=run.source)
    observed = cast("Flow[Event]", run.hooks.observe(event))
    last = report_errors(observed, f"hooks on the error of agent {run.name}", event)
    unemitted, run.unemitted = run.unemitted, []
    if run.input.unwritten:
        unwritten = tuple(message.id for message in run.input.unwritten)
        unemitted.append(MemoryEvent(source=run.source, removed=unwritten))
    left = run.hooks.watched(ContextEvent, just(*unemitted)) if unemitted else NOTHING
    repaired = run.hooks.watched(MemoryEvent, concat(left, repair(agent, run, ToolResultKind.FAILED)))
    return concat(repaired, _checkpoint(agent, run), last, throw(error))


def _checkpoint(agent: AgentCore, run: Run) -> Flow[Event]:
    def save() -> Flow[Event]:
        # begun only now: the repaired conversation is saved
        closing(run)
        checkpoint = agent.checkpoint(run)
        return NOTHING if checkpoint is None else checkpoint.pipe(then(lambda: NOTHING))

    # a save that has just failed is not tried again; without the lease it would be another's conversation
    lease = lease_of(run)
    skipped = run.checkpointed or (lease is not None and not lease.held)
    return NOTHING if skipped else report_errors(defer(save), f"saving agent {run.name}")


def _released(agent: AgentCore, run: Run, ending: Outcome, free: Callable[[], None]) -> Flow[object] | None:
    """Free the flag: at once if memory is whole, else after its repair."""
    if ending is Outcome.COMPLETED or (ending is Outcome.FAILED and run.repaired):
        return given_up(run, free)
    run.count_asked()

    def freed() -> Flow[object]:
        return given_up(run, free) or empty()

    return concat(cast("Flow[object]", concat(repair(agent, run), _checkpoint(agent, run))), defer(freed))
