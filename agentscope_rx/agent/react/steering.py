"""Input to a live run, between its rounds (see `agent.inbox`).

take_input    due input as Input |> hooks |> remember, one event each; then the round
go_on         where the run would end normally: tail(reasoning) if input waits and a further round may begin
end_or_go_on  the same for a reply that is not remembered yet

The run ends nevertheless, and the input stays unread, if it was interrupted, or if a limit or `max_iters` allows no
further round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from agentscope_rx.agent.inbox import QueuedInput
from agentscope_rx.agent.input import check_enqueued
from agentscope_rx.agent.react.background_end import take_end
from agentscope_rx.agent.react.decide import Decision, before_reasoning
from agentscope_rx.agent.react.stage import ActingCore
from agentscope_rx.agent.react.waiting import wait_for_work, waits
from agentscope_rx.agent.run import Done, Run, Stage
from agentscope_rx.events import Event, InputEvent, MemoryEvent
from agentscope_rx.messages import Msg
from agentscope_rx.messages.msg import new_id
from agentscope_rx.reactive import (
    Flow,
    Tail,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    just,
    onward,
    shield,
    tail,
    then,
    throw,
)


def take_input(agent: ActingCore, run: Run, sent_back: bool, following: Callable[[], Stage]) -> Stage:
    """Remember the input that is due, then `following()`: at once if the round will not call the model.

    Signals: an `InputEvent` for each input; those of `following()`; a hook's error.
    Cancels: the hook in progress; a write to memory, once begun, runs to its end.
    """
    due = run.inbox.due()
    if not due or not _may_ask(agent, run, run.iteration, sent_back):
        return following()
    taken = [defer(lambda queued=queued: _take(run, queued)) for queued in due]
    # more may have come while hooks took their time
    return concat(*taken, defer(lambda: take_input(agent, run, sent_back, following)))


def go_on(agent: ActingCore, run: Run) -> Tail[Event | Done] | None:
    """The round that takes the input that waits (`run.inbox.at_end()`); None if no further round may begin."""
    if not _may_ask(agent, run, run.iteration + 1):
        return None
    run.iteration += 1
    return tail(lambda: agent.reasoning(run))


def at_end(agent: ActingCore, run: Run, reply: Msg) -> Tail[Event | Done] | None:
    """What follows in the place of the end: the wait for work in the background, or a round; None if the run ends.

    Memory has the reply.
    """
    if (jobs := waits(run)) is not None and _may_ask(agent, run, run.iteration + 1):
        return wait_for_work(agent, run, jobs, reply, go_on)
    return go_on(agent, run) if run.inbox.at_end() else None


def end_or_go_on(agent: ActingCore, run: Run, reply: Msg) -> Stage:
    """End with this reply, which memory does not have yet; with input that waits remember it, and go on.

    Signals: the reply; or a MemoryEvent with it, and a tail.
    Cancels: nothing: the write, once begun, runs to its end.
    """
    follow = at_end(agent, run, reply)
    if follow is None:
        return run.end_with(reply)
    event = MemoryEvent(source=run.source, added=(reply,))
    written = run.hooks.watched(MemoryEvent, run.write(event, cast("Flow[object]", run.memory.add((reply,)))))
    return concat(written, just(follow))


def _may_ask(agent: ActingCore, run: Run, iteration: int, sent_back: bool = False) -> bool:
    """True if a model round may begin now."""
    decision = before_reasoning(
        interrupted=run.interrupted or run.inbox.closed,
        limited=run.usage.limited and run.usage.before_model() is not None,
        iteration=iteration,
        max_iters=agent.max_iters,
        gotos=run.goto_count,
        sent_back=sent_back,
    )
    return decision is Decision.REASON


def _take(run: Run, queued: QueuedInput) -> Flow[Event]:
    """Input |> hooks |> remember; nothing once the run is interrupted."""
    if run.interrupted:
        return empty()
    if queued.job is not None:
        return take_end(run, queued, queued.job, partial(_remember, run, queued))

    def fire(history: Sequence[Msg]) -> Flow[Event]:
        messages = _with_own_ids(queued.messages, history)
        event = InputEvent(source=run.source, iteration=run.iteration, input=messages, when=queued.when)
        return run.hooks.fire_then(event, partial(_remember, run, queued))

    return onward(run.history(), fire)


def _with_own_ids(messages: Sequence[Msg], history: Sequence[Msg]) -> tuple[Msg, ...]:
    """The messages; one whose id memory has gets a new one, so that nothing takes it for the message there."""
    known = {message.id for message in history}
    own: list[Msg] = []
    for message in messages:
        own.append(message.replace(id=new_id()) if message.id in known else message)
        known.add(own[-1].id)
    return tuple(own)


def _remember(run: Run, queued: QueuedInput, event: InputEvent) -> Flow[Event]:
    """The event, once memory has its messages."""
    messages = check_enqueued(event.input)
    job, jobs = queued.job, run.conversation.jobs

    def taken() -> None:
        run.inbox.taken(queued)
        if job is not None and jobs is not None:
            jobs.delivered(job)

    def done(_: object) -> None:
        run.record(messages, event, foreign=True)
        run.input.enqueued += messages
        taken()

    if not messages:
        taken()
        return just(event)

    # in one piece: a run that is disposed of meanwhile must not give the input back as unread
    def write() -> Flow[None]:
        if job is not None and jobs is not None:
            jobs.delivering(job)
        return run.memory.add(messages).pipe(concat_map(done))

    written = defer(write)
    if job is not None and jobs is not None:

        def failed(error: Exception) -> Flow[None]:
            jobs.not_delivered(job)
            return throw(error)

        written = written.pipe(catch(failed))
    return shield(written).pipe(then(lambda: just(event)))
