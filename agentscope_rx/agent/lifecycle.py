"""The envelope of a run: everything around its stages, the same for every kind of agent.

using(acquire the gate, and on the loop's next turn:
      memory of lost runs repaired -> PreCall |> hooks -> admit -> remember the input -> recurse(route)
          -> PostCall |> hooks
      |> deadline   |> errors: close open calls, ErrorEvent
      release the gate)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from reactivex import Observable

from agentscope_rx.agent.input import Given, check_words
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.repair import repaired, reported
from agentscope_rx.agent.run import Cut, Done, InterruptSource, Run
from agentscope_rx.agent.running_flag import RunningFlag
from agentscope_rx.agent.sub_agent.sub_conversations import without_results
from agentscope_rx.agent.system_prompt import system_message
from agentscope_rx.errors import AgentShuttingDownError, InvalidInputError, RunDeadlineError
from agentscope_rx.events import ErrorEvent, Event, MemoryEvent, PostCallEvent, PreCallEvent
from agentscope_rx.messages import Msg, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import (
    Flow,
    Outcome,
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
    timeout,
    using,
)
from agentscope_rx.reactive.kernel.observer import attach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentscope_rx.agent.agent import Agent
    from agentscope_rx.agent.conversation import Conversation, Look
    from agentscope_rx.memory import Memory
    from agentscope_rx.reactive import Scope
    from agentscope_rx.reactive.kernel.observer import Sink

T = TypeVar("T")


def enveloped(agent: Agent, run: Run, given: Given) -> Flow[Event]:
    """The events of the run, which holds the gate of its conversation until just before its terminal signal."""
    conversation = run.conversation
    gate = conversation.gate if agent.check_running else RunningFlag(agent.name)

    def acquire() -> Flow[Run]:
        # (a sub-agent's run is part of one that may still finish)
        if agent.shutdown is not None and agent.shutdown.refuses and run.parent is None:
            return next_turn(throw(AgentShuttingDownError(agent.name)))
        conversation.gates.add(gate)
        entered = gate.acquire(run)
        deadline = None if run.limits is None else run.limits.deadline
        return entered if deadline is None else entered.pipe(_until(run, deadline, deadline))

    begun = False

    def begin() -> Flow[Event]:
        nonlocal begun
        begun = True
        events = _whole(agent, conversation, gate, lambda: _events(agent, run, given))
        return count_abandoned(agent.tracer.trace_call(events, agent=agent.name, run_id=run.id), run.left_behind)

    def release(run: Run, ending: Outcome) -> Flow[object] | None:
        if not begun:
            # disposed of on the very turn of its subscription: nothing was done that could be repaired or saved
            free()
            return None
        return _released(agent, run, ending, free)

    def free() -> None:
        run.over()
        conversation.end(run)
        gate.release(run)
        if gate is not conversation.gate:
            conversation.gates.discard(gate)

    return using(
        acquire,
        lambda _: next_turn(defer(begin)),
        release,
        on_dispose=gate.leave,
    )


def held(agent: Agent, memory: Memory, use: Callable[[Conversation], Flow[T]]) -> Flow[T]:
    """Do something with a conversation while no run is in it; waits, refuses and repairs as a call does."""
    return _holding(agent, memory, lambda run: use(run.conversation))


def closed(agent: Agent, memory: Memory, kind: ToolResultKind, text: str | None) -> Flow[None]:
    """Give the calls that are pending in this memory a result of this kind.

    Signals: completion; as `held`.
    Cancels: as `held`.
    """

    def close(run: Run) -> Flow[None]:
        conversation = run.conversation
        before = conversation.look(run)

        def shut(history: Sequence[Msg]) -> Flow[None]:
            with conversation.lock:
                left = (*conversation.lost_in(history, before), *conversation.pending_in(history, run))
                run.open = {call.id: call for call in left}
                run.begun.update(run.open)
                conversation.admit(run, before)
            return run.close_open(kind, text).pipe(then(end))

        def end() -> Flow[None]:
            conversation.end(run)
            return empty()

        return run.history().pipe(concat_map(shut))

    return _holding(agent, memory, close)


def _holding(agent: Agent, memory: Memory, use: Callable[[Run], Flow[T]]) -> Flow[T]:
    def connect(sink: Sink[T], scope: Scope) -> None:
        run = agent.new_run(memory, scope, None, None)
        conversation = run.conversation
        gate = conversation.gate

        def begin(_: Run) -> Flow[T]:
            return _whole(agent, conversation, gate, lambda: use(run))

        def release(_: Run, ending: Outcome) -> None:
            gate.release(run)

        attach(using(lambda: gate.acquire(run), begin, release, on_dispose=gate.leave), sink, scope)

    return Flow(connect)


def _whole(agent: Agent, conversation: Conversation, gate: RunningFlag, following: Callable[[], Flow[T]]) -> Flow[T]:
    """What is to follow, once memory is whole: a run that was lost with its loop could not see to that."""
    lost = gate.take_lost()
    for other in tuple(conversation.gates):
        if other is not gate and (taken := other.take_lost()):
            lost = (*lost, *taken)
            if other is not conversation.gate:
                conversation.gates.discard(other)
    if not lost:
        return following()
    return concat(*(repaired(agent, each) for each in lost)).pipe(then(following))


def _events(agent: Agent, run: Run, given: Given) -> Flow[Event]:
    def ended(done: Done) -> Flow[Event]:
        return _ended(agent, run, done.message)

    stages = cast("Flow[Event]", recurse(lambda: agent.route(run), done=Done, last=ended))
    events = concat(_pre_call(agent, run, given), stages)
    if run.limits is not None and run.limits.deadline is not None:
        events = _bounded(run, run.limits, run.limits.deadline, events)
    return _ebbed(run, events).pipe(catch(lambda error: _failed(agent, run, error)))


def _ebbed(run: Run, events: Flow[Event]) -> Flow[Event]:
    """The events; an error of theirs once what it has cut off - tools' clean-up, writes to memory - has come to its
    end: until then nobody can say which calls are open."""
    return using(lambda: just(run), lambda _: events, lambda run, ending: None)


def _bounded(run: Run, limits: UsageLimits, deadline: float, events: Flow[Event]) -> Flow[Event]:
    """The events, ended at the deadline; if there is to be a last word, what is in progress is ended before.

    The clock runs from the beginning of the call: what it has waited at the gate is gone.
    """

    def begin() -> Flow[Event]:
        left = deadline - (run.scope.loop.time() - run.started)
        if left <= 0:
            raise RunDeadlineError(run.name, deadline)

        def soon() -> None:
            run.request_interrupt(None, InterruptSource.SYSTEM, Cut.DEADLINE)

        if limits.on_limit == "summary":
            run.timers.append(run.scope.call_later(max(0.0, left - limits.summary_reserve), soon))
        return events.pipe(_until(run, deadline, left))

    return defer(begin)


def _until(run: Run, deadline: float, left: float) -> Callable[[Observable[T]], Flow[T]]:
    return timeout(total=left, error=lambda which, limit: RunDeadlineError(run.name, deadline))


def _pre_call(agent: Agent, run: Run, given: Given) -> Flow[Event]:
    def begin(event: PreCallEvent) -> Flow[Event]:
        check_words(event.input)
        run.system_message = event.system_message
        run.input = event.input
        before = run.conversation.look(run)

        def settle(history: Sequence[Msg]) -> Flow[Event]:
            with run.conversation.lock:
                # what cannot be admitted raises here: it is neither shown nor remembered
                lost, settled = _admitted(agent, run, given, event, history, before)
            if run.handed_down:
                run.input = without_results(event.input, run.handed_down)
            shown = event
            if run.passes_by:
                # (an overlapping run may have left some since the hooks were asked)
                shown = event.replace(passes_by=True, pending=tuple(run.open.values()))
            if run.input is not event.input:
                shown = shown.replace(input=run.input)
            remembered = run.remember(run.input, heard=True).pipe(then(empty))
            run.unwritten = run.input
            if lost:
                # else the model would be told in each prompt from now on that their results are to come
                return concat(just(shown.replace(lost=lost)), run.close(lost), settled, remembered)
            return concat(just(shown), settled, remembered)

        return run.history().pipe(concat_map(settle))

    def ask(system: Msg | None) -> Flow[PreCallEvent]:
        return run.history().pipe(concat_map(lambda history: fire(history, system)))

    def fire(history: Sequence[Msg], system: Msg | None) -> Flow[PreCallEvent]:
        conversation = run.conversation
        # what a shutdown has cut off goes on if it is asked for again, or if nothing else is asked for
        resumed = conversation.resumed(given.messages)
        messages = () if resumed else given.messages
        run.given = messages or conversation.cut_off or ()
        run.said = frozenset(message.id for message in messages)
        return run.hooks.fire(
            PreCallEvent(
                source=run.source,
                input=messages,
                answers=given.answers,
                system_message=system,
                history=history,
                pending=run.conversation.pending_in(history, run),
            )
        )

    return system_message(agent.sys_prompt, run).pipe(concat_map(ask), concat_map(begin))


def _admitted(
    agent: Agent, run: Run, given: Given, event: PreCallEvent, history: Sequence[Msg], before: Look
) -> tuple[tuple[ToolUseBlock, ...], Flow[Event]]:
    """What is lost, and what must happen before the input is remembered."""
    conversation = run.conversation
    if given.empty and not event.input and (pending := conversation.pending_in(history, run)):
        raise InvalidInputError(
            f"An empty list answers none of the pending calls {[call.id for call in pending]}. To run them, "
            "give no input at all: call()."
        )
    lost = conversation.lost_in(history, before)
    _ask_again(agent, run, event, history)
    settled = agent.admit(run, event, history)
    conversation.admit(run, before)
    conversation.cut_off = None
    return lost, settled


def _ask_again(agent: Agent, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> None:
    """Ask for the output that is pending with what this run goes on with; one that the call asks for itself wins."""
    conversation = run.conversation
    left = conversation.output
    if left is None or (run.asked is not None and run.asked.output is not None):
        return
    answered = event.answers or any(message.tool_results for message in event.input)
    if run.said and not answered:
        # new words are a new question
        return
    pending = [call.id for call in conversation.pending_in(history, run)]
    if left.goes_on(pending, cut_off=conversation.cut_off is not None):
        run.asked = agent.requested(left.output)
        if run.asked is not None:
            agent.ask(run, run.asked)


def _ended(agent: Agent, run: Run, message: Msg) -> Flow[Event]:
    tidied = run.hooks.watched(MemoryEvent, agent.tidied(run))
    return concat(tidied, defer(lambda: _post_call(agent, run, message)))


def _post_call(agent: Agent, run: Run, message: Msg) -> Flow[Event]:
    def end(event: PostCallEvent) -> Flow[Event]:
        if event.message is message or event.message == message:
            return _saved(agent, run, event)
        # a hook changed the reply: memory must say the same
        changed = event.message.replace(id=message.id)

        def note(found: bool) -> None:
            if found:
                run.untold = [MemoryEvent(source=run.source, added=(changed,))]

        return shield(run.memory.replace(changed).pipe(concat_map(note))).pipe(
            then(lambda: _saved(agent, run, event.replace(message=changed)))
        )

    def fire(history: Sequence[Msg]) -> Flow[PostCallEvent]:
        return run.hooks.fire(
            PostCallEvent(source=run.source, message=message, usage=run.usage, input=run.input, history=history)
        )

    fired = run.history().pipe(concat_map(fire)) if PostCallEvent in run.hooks.seen else fire(())
    return fired.pipe(concat_map(end))


def _saved(agent: Agent, run: Run, event: PostCallEvent) -> Flow[Event]:
    """The last event, once the conversation is saved, if it is bound to a session."""
    checkpoint = agent.checkpoint(run)
    run.checkpointed = True
    return just(event) if checkpoint is None else checkpoint.pipe(then(lambda: just(event)))


def _failed(agent: Agent, run: Run, error: Exception) -> Flow[Event]:
    run.seen_to = True
    event = ErrorEvent.of(error, source=run.source)
    seen = cast("Flow[Event]", run.hooks.observe(event))
    told = reported(seen, f"hooks on the error of agent {run.name}", event)
    untold, run.untold = run.untold, []
    if run.unwritten:
        untold.append(MemoryEvent(source=run.source, removed=tuple(message.id for message in run.unwritten)))
    whole = run.hooks.watched(
        MemoryEvent, concat(just(*untold) if untold else empty(), repaired(agent, run, ToolResultKind.FAILED))
    )
    return concat(whole, _checkpoint(agent, run), told, throw(error))


def _checkpoint(agent: Agent, run: Run) -> Flow[Event]:
    def save() -> Flow[Event]:
        # asked for only now: what is saved is what has been repaired before
        checkpoint = agent.checkpoint(run)
        return empty() if checkpoint is None else checkpoint.pipe(then(lambda: cast("Flow[Event]", empty())))

    # (what could not be saved just now need not be tried again)
    return empty() if run.checkpointed else reported(defer(save), f"saving agent {run.name}")


def _released(agent: Agent, run: Run, ending: Outcome, free: Callable[[], None]) -> Flow[object] | None:
    if ending is Outcome.COMPLETED or (ending is Outcome.FAILED and run.seen_to):
        free()
        return None

    def freed() -> Flow[object]:
        free()
        return empty()

    return concat(cast("Flow[object]", concat(repaired(agent, run), _checkpoint(agent, run))), defer(freed))
