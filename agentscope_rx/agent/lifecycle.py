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
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.deadline import in_time, until
from agentscope_rx.agent.durable.durability import Durability
from agentscope_rx.agent.durable.resume import remembered_input, requested_by, restore, resumed_run, take_unfinished
from agentscope_rx.agent.hearing import tell
from agentscope_rx.agent.input import ParsedInput, check_input_messages, named_as_called
from agentscope_rx.agent.leasing import bound, closing, given_up, guarded, lease_of, with_lease
from agentscope_rx.agent.notices import noticed
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.repair import repair, report_errors
from agentscope_rx.agent.run import NOTHING, Done, Run
from agentscope_rx.agent.run_history import run_history
from agentscope_rx.agent.running_flag import RunningFlag
from agentscope_rx.agent.snapshot import Snapshot
from agentscope_rx.agent.sub_agent.pending import without_results
from agentscope_rx.agent.system_prompt import system_message
from agentscope_rx.errors import AgentShuttingDownError, InvalidInputError
from agentscope_rx.events import ContextEvent, ErrorEvent, Event, MemoryEvent, PostCallEvent, PreCallEvent
from agentscope_rx.hooks import CallRequest
from agentscope_rx.hooks.notices import NoticeRequest
from agentscope_rx.hooks.wrapping.flows import AroundEvents
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg, ToolResultKind, ToolUseBlock
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
    then,
    throw,
    using,
)
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
        run.conversation.add_flag(self._flag)
        entered = cast("Flow[Run]", self._flag.acquire(run, run.when_busy, agent.queue_limit))
        deadline = None if run.limits is None else run.limits.deadline
        return entered if deadline is None else entered.pipe(until(run, deadline, deadline))

    def use(self, run: Run) -> Flow[Event]:
        return next_turn(Flow(self._enter))

    def _enter(self, sink: Sink[Event], scope: Scope) -> None:
        # the scope is that of `using`, and of nothing else
        abandoned_in(scope, self._run.left_behind)
        attach(defer(self._begin), sink, scope)

    def _begin(self) -> Flow[Event]:
        return with_lease(self._agent, self._run, self._held)

    def _held(self) -> Flow[Event]:
        self._begun = True
        return _after_repair(self._agent, self._run.conversation, self._flag, self._events)

    def _events(self) -> Flow[Event]:
        return _events(self._agent, self._run, self._given)

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


def _events(agent: AgentCore, run: Run, given: ParsedInput) -> Flow[Event]:
    _go_on(agent, run, given)
    make = partial(_stages if agent.place is None else _bound_stages, agent, run, given)
    around = run.hooks.around_call
    events = make() if around is None else _around_call(around, run, given, make)
    # an error is held back until the work that it has cut off has ended (tools' clean-up, writes to memory): only then
    # is it known which calls are open
    return guarded(run, in_time(run, events)).pipe(catch(partial(_fail, agent, run), settled=True))


def _bound_stages(agent: AgentCore, run: Run, given: ParsedInput) -> Flow[Event]:
    """The same, once the conversation is bound to the session of the agent."""

    def go_on() -> Flow[Event]:
        # it may have been loaded only now
        before = run.resumed
        _go_on(agent, run, given)
        events = _stages(agent, run, given)
        # the deadline of a run that goes on counts what the lost one has taken
        return events if run.resumed is before else in_time(run, events)

    return concat(bound(agent, run), defer(go_on))


def _stages(agent: AgentCore, run: Run, given: ParsedInput) -> Flow[Event]:
    """From PreCall to the last event."""
    stages = cast("Flow[Event]", recurse(partial(agent.route, run), done=Done, last=partial(_end, agent, run)))
    if run.conversation.jobs is not None:
        stages = beside(run.conversation.jobs, run, stages)
    return concat(defer(partial(_pre_call, agent, run, given)), stages)


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


# --- the beginning ------------------------------------------------------------------------------------------------


def _pre_call(agent: AgentCore, run: Run, given: ParsedInput) -> Flow[Event]:
    def with_history(system: Msg | None) -> Flow[Event]:
        return onward(run.history(), partial(fire, system, run.conversation.snapshot(run)))

    def fire(system: Msg | None, before: Snapshot, history: Sequence[Msg]) -> Flow[Event]:
        event = _pre_call_event(run, given, system, history)
        if PreCallEvent in run.hooks.seen:
            return run.hooks.fire_then(event, admit)
        return defer(partial(_admit, agent, run, given, event, history, before))

    def admit(event: PreCallEvent) -> Flow[Event]:
        # overlapping runs may have settled calls since the hooks saw the event: read again
        before = run.conversation.snapshot(run)
        return run.history().pipe(concat_map(lambda history: _admit(agent, run, given, event, history, before)))

    return onward(system_message(agent.sys_prompt, run), with_history)


def _pre_call_event(run: Run, given: ParsedInput, system: Msg | None, history: Sequence[Msg]) -> PreCallEvent:
    conversation = run.conversation
    # a run that a shutdown has cut off is resumed by the same input, or by none
    messages = given_messages = () if conversation.resumed(given.messages) else given.messages
    if conversation.hearing is not None:
        messages = conversation.hearing.unheard(messages, history)
    pending = conversation.pending_in(history, run)
    named = named_as_called(messages, conversation.leaves(pending)) if pending else messages
    run.input.given = messages or conversation.cut_off or remembered_input(run, history)
    run.input.given_ids = frozenset([message.id for message in given_messages])
    return PreCallEvent(
        source=run.source,
        input=named,
        answers=given.answers,
        system_message=system,
        history=history,
        pending=pending,
        resumes=None if run.resumed is None else resumed_run(run.resumed),
    )


def _admit(
    agent: AgentCore, run: Run, given: ParsedInput, event: PreCallEvent, history: Sequence[Msg], before: Snapshot
) -> Flow[Event]:
    """Take the input and the calls that it settles; a refused input raises, and is neither shown nor remembered."""
    if event.input is not given.messages:
        check_input_messages(event.input)
    run.system_message = event.system_message
    run.input.messages = event.input
    conversation = run.conversation
    with conversation.lock:
        if given.empty and not event.input and (pending := conversation.pending_in(history, run)):
            raise InvalidInputError(
                f"An empty list answers none of the pending calls {[call.id for call in pending]}. To run them, "
                "give no input at all: call()."
            )
        lost = conversation.lost_in(history, before)
        _request_pending_output(agent, run, event, history)
        if run.resumed is not None:
            restore(run, run.resumed, history)
        settled = agent.admit(run, event, history)
        conversation.admit(run, before)
        conversation.cut_off = None
        if run.resumed is None:
            conversation.unfinished = None
    shown = _shown(run, event, lost)
    run.input.unwritten = run.input.messages
    if conversation.hearing is not None:
        conversation.hearing.note(run.input.messages)
    if run.hooks.around_call is not None:
        # an operator may hold it back until the run has failed
        run.unemitted.append(shown)
    remembered = defer(partial(run.remember_then, run.input.messages, None, _nothing, foreign=True))
    if not lost and settled is NOTHING:
        return concat(just(shown), remembered)
    return concat(just(shown), run.close_lost(lost), settled, remembered)


def _request_pending_output(agent: AgentCore, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> None:
    """Request the output that an earlier run has left unanswered, unless the call requests one itself."""
    conversation = run.conversation
    left = conversation.output
    if run.resumed is not None:
        left = requested_by(run.resumed)
    if left is None or (run.request is not None and run.request.output is not None):
        return
    answered = event.answers or any(message.tool_results for message in event.input)
    if run.input.given_ids and not answered:
        # new messages are a new question
        return
    pending = [call.id for call in conversation.pending_in(history, run)]
    if run.resumed is not None or left.goes_on(pending, cut_off=conversation.cut_off is not None):
        run.request = agent.requested(left.output)
        if run.request is not None:
            agent.ask(run, run.request)


def _shown(run: Run, event: PreCallEvent, lost: tuple[ToolUseBlock, ...]) -> PreCallEvent:
    """The event with the fields that are known only after its hooks."""
    if run.input.handed_down:
        run.input.messages = without_results(event.input, run.input.handed_down)
    if run.input.passes_by:
        event = event.replace(passes_by=True, pending=tuple(run.calls.open.values()))
    if run.input.messages is not event.input:
        event = event.replace(input=run.input.messages)
    return event.replace(lost=lost) if lost else event


def _nothing() -> Flow[Event]:
    return NOTHING


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
        return NOTHING if checkpoint is None else checkpoint.pipe(then(_nothing))

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
