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
from agentscope_rx.agent.run import Done, Run
from agentscope_rx.agent.run_history import run_history
from agentscope_rx.agent.run_probes import probed_run
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
from agentscope_rx.models.probing import IN_USE
from agentscope_rx.reactive import (
    Flow,
    Outcome,
    Scope,
    catch,
    concat,
    concat_map,
    count_abandoned,
    defer,
    empty,
    just,
    next_turn,
    recurse,
    shield,
    then,
    throw,
    using,
)
from agentscope_rx.reactive.kernel.observer import Sink, attach

T = TypeVar("T")


def connect_run(
    agent: AgentCore, given: ParsedInput, begin: Callable[[Scope], Run], out: Callable[[Flow[Event], Run], Flow[T]]
) -> Callable[[Sink[T], Scope], None]:
    """The function that a subscription calls: it begins a run, and attaches `out` of its events."""

    def connect(sink: Sink[T], scope: Scope) -> None:
        try:
            run = begin(scope.own_demand())
            if run.conversation.on_run is not None:
                run.conversation.on_run(run)
                _drained_with_parents(run)
        except Exception as error:
            failed: Flow[T] = throw(error)
            attach(next_turn(failed), sink, scope)
            return
        events = run_events(agent, run, given)
        if run.hooks.probes is not None or IN_USE.ever:
            events = probed_run(agent, run, given, events)
        attach(out(events, run), sink, run.scope)

    return connect


def _drained_with_parents(run: Run) -> None:
    """Let the shutdowns of the agents above wait for its background work: they know only that of their own runs."""
    jobs, above = run.conversation.jobs, run.parent
    while jobs is not None and above is not None:
        parent = cast("Run", above)
        shutdown = cast("AgentCore", parent.agent).shutdown
        if shutdown is not None:
            shutdown.drain(jobs)
        above = parent.parent


# --- the running flag ---------------------------------------------------------------------------------------------


def run_events(agent: AgentCore, run: Run, given: ParsedInput) -> Flow[Event]:
    """The events of the run, which holds the running flag of its conversation until just before its terminal signal.

    Signals: the events; `AgentBusyError` or `QueuedCallInterruptedError` instead of them, or the error of the run after
    its ErrorEvent.
    Cancels: the run. The flag is free once memory is repaired and the conversation saved.
    """
    conversation = run.conversation
    flag = conversation.flag if agent.check_running else RunningFlag(agent.name)

    begun = False

    def begin() -> Flow[Event]:
        return count_abandoned(with_lease(agent, run, after_lease), run.left_behind)

    def after_lease() -> Flow[Event]:
        nonlocal begun
        begun = True
        return _after_repair(agent, conversation, flag, lambda: _events(agent, run, given))

    def release(run: Run, ending: Outcome) -> Flow[object] | None:
        if not begun:
            # disposed or refused before it has begun: there is nothing to repair or to save
            return given_up(run, free)
        return _released(agent, run, ending, free)

    def free() -> None:
        if not run.inbox.closed:
            run.inbox.close()
        run.drop_timers()
        # they hold the sinks of the run
        run.wired.clear()
        conversation.end(run)
        flag.release(run)
        if flag is not conversation.flag:
            conversation.flags.discard(flag)

    def leave(run: Run) -> None:
        run.inbox.close()
        flag.leave(run)

    return using(partial(_acquire, agent, run, flag), lambda _: next_turn(defer(begin)), release, on_dispose=leave)


def _acquire(agent: AgentCore, run: Run, flag: RunningFlag) -> Flow[Run]:
    # a sub-agent's run is part of one that may still finish
    if agent.shutdown is not None and agent.shutdown.refuses and run.parent is None:
        run.inbox.close()
        return next_turn(throw(AgentShuttingDownError(agent.name)))
    run.conversation.flags.add(flag)
    entered = cast("Flow[Run]", flag.acquire(run, run.when_busy, agent.queue_limit))
    deadline = None if run.limits is None else run.limits.deadline
    return entered if deadline is None else entered.pipe(until(run, deadline, deadline))


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
    for other in tuple(conversation.flags):
        if other is not flag and (taken := other.take_lost()):
            lost = (*lost, *taken)
            if other is not conversation.flag:
                conversation.flags.discard(other)
    if not lost:
        return following()
    return concat(*(repair(agent, cast("Run", run)) for run in lost)).pipe(then(following))


# --- the events ---------------------------------------------------------------------------------------------------


def _events(agent: AgentCore, run: Run, given: ParsedInput) -> Flow[Event]:
    _go_on(agent, run, given)

    def end(done: Done) -> Flow[Event]:
        return _end(agent, run, done.message)

    def begin() -> Flow[Event]:
        stages = cast("Flow[Event]", recurse(lambda: agent.route(run), done=Done, last=end))
        if run.conversation.jobs is not None:
            stages = beside(run.conversation.jobs, run, stages)
        if agent.place is None:
            return concat(_pre_call(agent, run, given), stages)

        def go_on() -> Flow[Event]:
            # it may have been loaded only now
            before = run.resumed
            _go_on(agent, run, given)
            events = concat(_pre_call(agent, run, given), stages)
            # the deadline of a run that goes on counts what the lost one has taken
            return events if run.resumed is before else in_time(run, events)

        return concat(bound(agent, run), defer(go_on))

    around = run.hooks.around_call
    events = begin() if around is None else _around_call(around, run, given, begin)
    events = in_time(run, events)
    # `using` holds an error back until the work that it has cut off has ended (tools' clean-up, writes to memory):
    # only then is it known which calls are open
    settled = using(lambda: just(run), lambda _: guarded(run, events), lambda run, ending: None)
    return settled.pipe(catch(lambda error: _fail(agent, run, error)))


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
    def with_history(system: Msg | None) -> Flow[PreCallEvent]:
        return run.history().pipe(concat_map(lambda history: fire(history, system)))

    def fire(history: Sequence[Msg], system: Msg | None) -> Flow[PreCallEvent]:
        conversation = run.conversation
        # a run that a shutdown has cut off is resumed by the same input, or by none
        messages = given_messages = () if conversation.resumed(given.messages) else given.messages
        if conversation.hearing is not None:
            messages = conversation.hearing.unheard(messages, history)
        pending = conversation.pending_in(history, run)
        named = named_as_called(messages, conversation.leaves(pending)) if pending else messages
        run.input.given = messages or conversation.cut_off or remembered_input(run, history)
        run.input.given_ids = frozenset(message.id for message in given_messages)
        return run.hooks.fire(
            PreCallEvent(
                source=run.source,
                input=named,
                answers=given.answers,
                system_message=system,
                history=history,
                pending=pending,
                resumes=None if run.resumed is None else resumed_run(run.resumed),
            )
        )

    def admit(event: PreCallEvent) -> Flow[Event]:
        check_input_messages(event.input)
        run.system_message = event.system_message
        run.input.messages = event.input
        # overlapping runs may have settled calls since the hooks saw the event: read again
        before = run.conversation.snapshot(run)
        return run.history().pipe(concat_map(lambda history: _admit(agent, run, given, event, history, before)))

    return system_message(agent.sys_prompt, run).pipe(concat_map(with_history), concat_map(admit))


def _admit(
    agent: AgentCore, run: Run, given: ParsedInput, event: PreCallEvent, history: Sequence[Msg], before: Snapshot
) -> Flow[Event]:
    """Take the input and the calls that it settles; a refused input raises, and is neither shown nor remembered."""
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
    events = concat(just(shown), run.close_lost(lost), settled, _remember_input(run))
    if run.hooks.around_call is not None:
        # an operator may hold it back until the run has failed
        run.unemitted.append(shown)
    return events


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


def _remember_input(run: Run) -> Flow[Event]:
    remembered = run.remember(run.input.messages, foreign=True)
    run.input.unwritten = run.input.messages
    if run.conversation.hearing is not None:
        run.conversation.hearing.note(run.input.messages)
    nothing: Flow[Event] = empty()
    return remembered.pipe(then(lambda: nothing))


# --- the end ------------------------------------------------------------------------------------------------------


def _end(agent: AgentCore, run: Run, message: Msg) -> Flow[Event]:
    if not run.inbox.closed:
        run.inbox.close()
    tidied = run.hooks.watched(MemoryEvent, agent.tidied(run))
    if run.durable is not None and PostCallEvent in run.hooks.seen and not run.calls.open:
        # hooks may take their time, and the reply is there
        follow = partial(_post_call, agent, run, message)
        return concat(tidied, run.durable.before(run, "end", follow, reply=message))
    return concat(tidied, defer(lambda: _post_call(agent, run, message)))


def _post_call(agent: AgentCore, run: Run, message: Msg) -> Flow[Event]:
    def fire(history: Sequence[Msg]) -> Flow[PostCallEvent]:
        event = PostCallEvent(
            source=run.source, message=message, usage=run.usage.tokens, input=run.input.messages, history=history
        )
        return run.hooks.fire(event)

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

    fired = run_history(run).pipe(concat_map(fire)) if PostCallEvent in run.hooks.seen else fire(())
    return fired.pipe(concat_map(end))


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
    left: Flow[Event] = run.hooks.watched(ContextEvent, just(*unemitted)) if unemitted else empty()
    repaired = run.hooks.watched(MemoryEvent, concat(left, repair(agent, run, ToolResultKind.FAILED)))
    return concat(repaired, _checkpoint(agent, run), last, throw(error))


def _checkpoint(agent: AgentCore, run: Run) -> Flow[Event]:
    def save() -> Flow[Event]:
        # begun only now: the repaired conversation is saved
        closing(run)
        checkpoint = agent.checkpoint(run)
        return empty() if checkpoint is None else checkpoint.pipe(then(lambda: cast("Flow[Event]", empty())))

    # a save that has just failed is not tried again; without the lease it would be another's conversation
    lease = lease_of(run)
    skipped = run.checkpointed or (lease is not None and not lease.held)
    return empty() if skipped else report_errors(defer(save), f"saving agent {run.name}")


def _released(agent: AgentCore, run: Run, ending: Outcome, free: Callable[[], None]) -> Flow[object] | None:
    """Free the flag: at once if memory is whole, else after its repair."""
    if ending is Outcome.COMPLETED or (ending is Outcome.FAILED and run.repaired):
        return given_up(run, free)
    run.count_asked()

    def freed() -> Flow[object]:
        return given_up(run, free) or empty()

    return concat(cast("Flow[object]", concat(repair(agent, run), _checkpoint(agent, run))), defer(freed))
