"""Sorted hooks -> for each kind of event one operator, compiled once and never changed: see `hooks.collection`.

    no hook             nothing: the event itself
    plain functions     one loop of calls
    a coroutine or an Observable as an answer: the rest of the fold continues behind it

Laws: exactly one event out for each Pre or Post event in, checked by `hooks.validate`; chunks stay of their class. An
observer cannot change or stop anything: its answer is not looked at, and what it raises goes to the dropped-error hook.
Observers are all hooks on ErrorEvent, RetryEvent, MemoryEvent and PostObserveEvent, and `observe_only` ones on any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from functools import reduce
from inspect import isawaitable
from typing import TypeVar, cast

from reactivex import Observable, abc
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, HookError
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    Event,
    OutputChunkEvent,
    PostObserveEvent,
    PreObserveEvent,
)
from agentscope_rx.events.base import kinds_of_events
from agentscope_rx.hooks.base import DROP, Answer, Hook, OperatorHook
from agentscope_rx.hooks.error_notes import blamed, blaming
from agentscope_rx.hooks.shown_blocks import shown
from agentscope_rx.hooks.validate import check_piece, checked
from agentscope_rx.reactive import (
    Flow,
    Tail,
    catch,
    concat_map,
    empty,
    flow,
    from_awaitable,
    just,
    recurse,
    tail,
    then,
)
from agentscope_rx.reactive.kernel.dropped import report_dropped

E = TypeVar("E", bound=Event)
T = TypeVar("T")

Operator = Callable[[Observable[Event]], Observable[Event]]

CHUNKS_AHEAD = 16
"""How many chunks may wait for a slow chunk hook before the model is read no further."""
_ASKED_FOR = (OutputChunkEvent, PreObserveEvent, PostObserveEvent)
"""Seen by those hooks alone that name them: the first repeats a chunk that the hooks of all chunks, or of all events,
have seen; the others are not of a run."""


class CompiledHooks:
    """Hooks, sorted and compiled: those of one agent for one run."""

    def __init__(self, hooks: Iterable[Hook] = (), *, agent: str = "") -> None:
        if not isinstance(hooks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"hooks takes a list of hooks, not {hooks!r:.60}. Did you mean hooks=[...]?")
        given = list(hooks)
        for hook in given:
            if not isinstance(hook, Hook):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(
                    f"hooks takes Hook objects, not {hook!r:.60}. Decorate a function with @hook(PreReasoningEvent), "
                    "or make an object of your Hook class."
                )
            if hook.observe_only and isinstance(hook, OperatorHook):
                raise ConfigurationError(
                    f"{hook!r} cannot be observe_only: an operator makes the stream. Observe with "
                    "@hook(ReasoningChunkEvent, observe=True)."
                )
        self._agent = agent
        self.all: tuple[Hook, ...] = tuple(sorted(given, key=lambda hook: hook.priority))
        self._steps: dict[type[Event], tuple[Hook, ...]] = {}
        self._operators: dict[type[Event], Operator | None] = {}
        self.seen: frozenset[type[Event]] = frozenset(kind for kind in kinds_of_events() if given and self._for(kind))
        """The kinds that some hook looks at: what only hooks want to know need not be found out for the others."""

    def _for(self, kind: type[Event]) -> tuple[Hook, ...]:
        steps = self._steps.get(kind)
        if steps is None:
            steps = tuple(hook for hook in self.all if _looks_at(hook, kind))
            self._steps[kind] = steps
        return steps

    def fire(self, event: E) -> Flow[E]:
        """The event after all its hooks.

        Signals: one event, then completion; a `HookError`, or what a hook raised.
        Cancels: the hook in progress; the ones after it are not called.
        """
        steps = self._for(type(event))
        return recurse(lambda: _fold(event, steps, 0)) if steps else just(event)

    def fired(self, event: E, then: Callable[[E], Flow[T]]) -> Flow[T]:
        """What `then` gives for the event after all its hooks: that very flow if none looks at it.

        Signals: those of that flow; a `HookError`, or what a hook raised.
        Cancels: the hook in progress, or that flow.
        """
        return self.fire(event).pipe(concat_map(then)) if type(event) in self.seen else then(event)

    def observe(self, event: E) -> Flow[E]:
        """Show an event to all hooks, one after the other; a failing observer is reported and passed over.

        Signals: the event itself, once all have seen it.
        Cancels: the observer in progress; the ones after it are not called.
        """
        steps = [hook for hook in self._for(type(event)) if not isinstance(hook, OperatorHook)]
        if not steps:
            return just(event)
        seen = just(*steps).pipe(concat_map(lambda hook: _seen_by(hook, event) or empty()))
        return seen.pipe(then(lambda: just(event)))

    def watched(self, kind: type[Event], events: Flow[Event]) -> Flow[Event]:
        """The events, each of this kind observed on its way; those behind it wait. The very flow if no hook looks.

        Signals: the source's.
        Cancels: the source and the observer in progress.
        """
        if kind not in self.seen:
            return events
        return events.pipe(concat_map(lambda event: self.observe(event) if type(event) is kind else event))

    def chunks(self, kind: type[Event]) -> Operator | None:
        """The operator over the chunks of one kind; None if there is nothing to do."""
        if kind not in self._operators:
            self._operators[kind] = _compile_chunks(kind, self._for(kind), self._agent)
        return self._operators[kind]


def _looks_at(hook: Hook, kind: type[Event]) -> bool:
    if kind in _ASKED_FOR:
        return hook.kinds is not None and kind in hook.kinds
    return hook.kinds is None or issubclass(kind, hook.kinds)


def _ask(hook: Hook, event: Event) -> Answer:
    """What the hook answers. A context variable that it sets is set for itself alone."""
    return copy_context().run(hook.on_event, event)


def _seen_by(hook: Hook, event: Event) -> Flow[Event] | None:
    """The rest of an observation that takes time; None if there is none. Part of a subscription: the hook is asked now.

    Signals: completion, also where the observer fails, which is reported.
    Cancels: what the observer is waiting for.
    """

    def failed(error: Exception) -> Flow[Event]:
        report_dropped(error, f"hook {hook.name} on {type(event).__name__} of agent {event.agent}")
        return empty()

    try:
        answer: object = _ask(hook, event)
    except Exception as error:
        failed(error)
        return None
    if not isinstance(answer, abc.ObservableBase) and not isawaitable(answer):
        return None
    return _lift(cast("Answer", answer)).pipe(then(empty), catch(failed))


def _then(seen: Flow[Event], event: Event) -> Flow[Event]:
    return seen.pipe(then(lambda: just(event)))


def _fold(event: E, steps: Sequence[Hook], index: int) -> Flow[E]:
    """Call the hooks from `index` on; behind one that answers later the rest is a tail, so that no chain grows."""
    while index < len(steps):
        hook = steps[index]
        if hook.observe_only:
            index += 1
            seen = _seen_by(hook, event)
            if seen is None:
                continue
            return _behind(hook, event, _then(seen, event), steps, index)
        try:
            answer = _ask(hook, event)
        except Exception as error:
            blamed(error, hook, type(event), event.agent)
            raise
        index += 1
        if answer is None:
            continue
        if isinstance(answer, Event):
            event = checked(hook, event, answer)
            continue
        answers = _lift(answer).pipe(blaming(hook, type(event), event.agent))
        return _behind(hook, event, answers, steps, index)
    return just(event)


def _behind(hook: Hook, event: E, answers: Flow[Event], steps: Sequence[Hook], index: int) -> Flow[E]:
    """The rest of the fold, behind an answer that comes later."""

    def go_on(later: Event) -> E | Tail[E]:
        after = checked(hook, event, None if later is _UNCHANGED else later)
        return tail(lambda: _fold(after, steps, index)) if index < len(steps) else after

    # inside of `recurse`, which takes the tails out
    return cast("Flow[E]", _one(hook, event, answers).pipe(concat_map(go_on)))


def _one(hook: Hook, event: Event, answers: Flow[Event]) -> Flow[Event]:
    """Exactly one event out of an asynchronous answer; none at all, or two, is an error that names the hook."""

    def only(found: list[Event]) -> Event:
        if len(found) != 1:
            raise HookError(
                f"answered with {len(found)} events where exactly one is needed", hook=hook.name, event=event.type
            )
        return found[0]

    return answers.pipe(ops.take(2), ops.to_list(), ops.map(only))


class _Unchanged(Event):
    """A later answer of None."""


_UNCHANGED = _Unchanged()


def _lift(answer: Answer) -> Flow[Event]:
    """Any answer as a Flow of events; dropped and unchanged are told apart."""
    if answer is None:
        return just(_UNCHANGED)
    if answer is DROP:
        return empty()
    if isinstance(answer, Event):
        return just(answer)
    if isinstance(answer, abc.ObservableBase):
        return flow(cast("Observable[Answer]", answer)).pipe(concat_map(_lift))
    if isawaitable(answer):
        return from_awaitable(cast("Awaitable[Answer]", answer)).pipe(concat_map(_lift))
    return just(cast("Event", answer))


def _compile_chunks(kind: type[Event], steps: Sequence[Hook], agent: str) -> Operator | None:
    if not steps:
        return None
    if not issubclass(kind, (ChunkEvent, ActingChunkEvent)):
        raise ConfigurationError(f"{kind.__name__} is not a chunk event.")
    operators = [_chunk_operator(kind, step, agent) for step in steps]
    if issubclass(kind, ChunkEvent) and kind is not OutputChunkEvent:
        operators.append(shown)

    def compiled(chunks: Observable[Event]) -> Observable[Event]:
        return reduce(lambda source, operator: operator(source), operators, chunks)

    return compiled


def _chunk_operator(kind: type[Event], hook: Hook, agent: str) -> Operator:
    """One hook as an operator over the chunks, which must stay of their class."""

    def check(event: Event) -> Event:
        if type(event) is not kind:
            raise HookError(
                f"chunks must stay {kind.__name__}, found {type(event).__name__}: {event!r:.60}",
                hook=hook.name,
                event=kind.type,
            )
        return event

    if isinstance(hook, OperatorHook):
        return _operated(hook.operator, hook, kind, agent, check)
    if hook.observe_only:
        return concat_map(lambda event: _watched_chunk(hook, event), prefetch=CHUNKS_AHEAD)

    def step(event: Event) -> Event | Observable[Event]:
        try:
            answer = _ask(hook, event)
        except Exception as error:
            blamed(error, hook, kind, agent)
            raise
        if answer is None:
            return event
        if isinstance(answer, Event):
            return check_piece(hook, event, check(answer))
        answers = _lift(answer).pipe(blaming(hook, kind, agent))
        return answers.pipe(
            concat_map(lambda later: event if later is _UNCHANGED else check_piece(hook, event, check(later)))
        )

    return concat_map(step, prefetch=CHUNKS_AHEAD)


def _watched_chunk(hook: Hook, event: Event) -> Event | Observable[Event]:
    seen = _seen_by(hook, event)
    return event if seen is None else _then(seen, event)


def _operated(
    operator: Operator, hook: Hook, kind: type[Event], agent: str, check: Callable[[Event], Event]
) -> Operator:
    """A hook's own operator; what passes through it of an earlier hook's error is not its fault."""

    def over(chunks: Observable[Event]) -> Observable[Event]:
        try:
            out = operator(chunks)
        except Exception as error:
            blamed(error, hook, kind, agent)
            raise
        return flow(out).pipe(blaming(hook, kind, agent, unless_known=True), concat_map(check))

    return over
