"""`CompiledHooks`: sorted hooks as one operator for each kind of event; immutable, see `hooks.collection`.

    no hook                       the event itself
    plain functions               one loop of calls
    an awaitable or Observable    the remaining hooks are called after it

Laws: exactly one event comes out for each Pre or Post event, checked by `hooks.validate`. Chunks keep their class. An
observer cannot change or stop anything: its result is ignored, and its errors go to the dropped-error hook. Observers
are all hooks on ErrorEvent, RetryEvent, MemoryEvent, ContextEvent, PlanEvent, BackgroundEvent, HubEvent,
RetrievalEvent, CitationEvent and PostObserveEvent, and `observe_only` hooks on any event.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from copy import copy
from dataclasses import replace
from functools import reduce
from inspect import isawaitable
from typing import TypeVar, cast, overload

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
from agentscope_rx.events.base import EventSource, kinds_of_events
from agentscope_rx.hooks.asking import approval_by, approving_of, inherited_of, refusal_by, refusing_of
from agentscope_rx.hooks.base import DROP, Answer, Hook, OperatorHook, Tracer, check_priority
from agentscope_rx.hooks.error_notes import add_note, noting
from agentscope_rx.hooks.validate import check_chunk, checked
from agentscope_rx.hooks.wrapping.flows import AroundEvents, AroundModel, AroundTool, places
from agentscope_rx.hooks.wrapping.probes import Probes, probes_of
from agentscope_rx.messages import ContentBlock, ToolUseBlock
from agentscope_rx.models.accumulate import BlockBuilder, block_builder
from agentscope_rx.reactive import (
    Flow,
    Tail,
    catch,
    concat_map,
    defer,
    empty,
    flow,
    from_awaitable,
    just,
    recurse,
    tail,
    then,
)
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.tools.base import Tool

E = TypeVar("E", bound=Event)
T = TypeVar("T")

Operator = Callable[[Observable[Event]], Observable[Event]]

CHUNKS_AHEAD = 16
"""The number of chunks that may wait for a slow chunk hook before the model is read no further."""
_ON_REQUEST = (OutputChunkEvent, PreObserveEvent, PostObserveEvent)
"""Given only to hooks that name them: the first repeats a chunk that other hooks get, the others belong to no run."""


def in_order(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """The hooks by priority; `ConfigurationError` for what is no hook, or no list of them."""
    if not isinstance(hooks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"hooks takes a list of hooks, not {hooks!r:.60}. Did you mean hooks=[...]?")
    given = list(hooks)
    for hook in given:
        if not isinstance(hook, Hook):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"hooks takes Hook objects, not {hook!r:.60}. Decorate a function with @hook(PreReasoningEvent), "
                "make an object of your Hook class, or give an operator its place: around('model', operator)."
            )
        check_priority(f"Hook {hook.name}", hook.priority)
        if hook.observe_only and type(hook).compact is not Hook.compact:
            raise ConfigurationError(f"{hook!r} cannot be observe_only: a compaction changes the memory.")
        if hook.observe_only and type(hook).notices is not Hook.notices:
            raise ConfigurationError(f"{hook!r} cannot be observe_only: its notices are part of the stream.")
        if hook.observe_only and isinstance(hook, OperatorHook):
            raise ConfigurationError(
                f"{hook!r} cannot be observe_only: an operator makes the stream. Observe with "
                "@hook(ReasoningChunkEvent, observe=True)."
            )
    return tuple(sorted(given, key=lambda hook: hook.priority))


def compiled(hooks: Iterable[Hook], agent: str, process_wide: tuple[Tracer, ...]) -> CompiledHooks:
    """The hooks compiled; agents without any share one object."""
    if isinstance(hooks, tuple) and not hooks and not process_wide:
        return NO_HOOKS
    return CompiledHooks(hooks, agent=agent, process_wide=process_wide)


class CompiledHooks:
    """The hooks of one agent for one run, sorted and compiled."""

    def __init__(self, hooks: Iterable[Hook] = (), *, agent: str = "", process_wide: tuple[Tracer, ...] = ()) -> None:
        self._agent = agent
        self.all: tuple[Hook, ...] = in_order(hooks)
        self.revising: tuple[Hook, ...] = tuple(hook for hook in self.all if type(hook).revised is not Hook.revised)
        """Hooks with `revised`, asked at the end of a run."""
        self._steps: dict[type[Event], tuple[Hook, ...]] = {}
        self._operators: dict[type[Event], Operator | None] = {}
        self.seen: frozenset[type[Event]] = frozenset(
            kind for kind in kinds_of_events() if self.all and self._for(kind)
        )
        """The kinds that at least one hook gets. Data for hooks alone is not collected for others."""
        self.refusing: tuple[Hook, ...] = refusing_of(self.all)
        """Hooks with `refusal`, asked about each call."""
        self.compacting: tuple[Hook, ...] = tuple(hook for hook in self.all if type(hook).compact is not Hook.compact)
        """Hooks with `compact`, asked before each model request."""
        self.noticing: tuple[Hook, ...] = tuple(hook for hook in self.all if type(hook).notices is not Hook.notices)
        """Hooks with `notices`, asked before each model request and at the end of a run."""
        self.holding: tuple[Hook, ...] = tuple(hook for hook in self.all if type(hook).held is not Hook.held)
        """Hooks with `held`, asked before each compaction."""
        self.approving: tuple[Hook, ...] = approving_of(self.all)
        """Hooks with `approval`, asked about each call."""
        self.inherited: tuple[Hook, ...] = inherited_of(self.all)
        """Hooks of `for_sub_agents`, asked about the calls of sub-agents."""
        self.process_wide: tuple[Tracer, ...] = process_wide
        """The tracers of the process; only their probes are used."""
        self.probes: Probes | None = probes_of(self.all, process_wide)
        """The probes around calls, stages and tool calls; None if there are none."""
        self._set_around()

    def _set_around(self) -> None:
        """The operators around each flow; None where there are none, so that it costs nothing there."""
        found = places(self.all)

        def events(place: str) -> AroundEvents | None:
            return AroundEvents(found[place], self.watched) if place in found else None

        self.around_call: AroundEvents | None = events("call")
        self.around_reasoning: AroundEvents | None = events("reasoning")
        self.around_acting: AroundEvents | None = events("acting")
        self.around_summarizing: AroundEvents | None = events("summarizing")
        self.around_model: AroundModel | None = AroundModel(found["model"]) if "model" in found else None
        self.around_tool: AroundTool | None = AroundTool(found["tool"]) if "tool" in found else None

    def seen_by(self, probes: Probes) -> CompiledHooks:
        """The same hooks with other probes."""
        hooks = copy(self)
        hooks.probes = probes
        return hooks

    def _for(self, kind: type[Event]) -> tuple[Hook, ...]:
        steps = self._steps.get(kind)
        if steps is None:
            steps = tuple(hook for hook in self.all if _gets(hook, kind))
            self._steps[kind] = steps
        return steps

    def fire(self, event: E) -> Flow[E]:
        """Call the hooks of the event.

        Signals: the event as the hooks have left it; a `HookError`, or the error of a hook.
        Cancels: the hook in progress; the ones after it are not called.
        """
        steps = self._for(type(event))
        return recurse(lambda: _fold(event, steps, 0)) if steps else just(event)

    @overload
    def fire_then(self, event: E, then: Callable[[E], Flow[T]]) -> Flow[T]: ...
    @overload
    def fire_then(self, event: E, then: Callable[[E], T | Flow[T]]) -> T | Flow[T]: ...
    def fire_then(self, event: E, then: Callable[[E], T | Flow[T]]) -> T | Flow[T]:
        """`fire`, then `then(event)`: itself, if no hook gets the event. Part of a subscription (see `onward`).

        Signals: the value or the flow of `then(event)`; a `HookError`, or the error of a hook.
        Cancels: the hook in progress, or that flow.
        """
        return self.fire(event).pipe(concat_map(then)) if type(event) in self.seen else then(event)

    def observe(self, event: E) -> Flow[E]:
        """Call all hooks of the event as observers, one after the other; an error is reported to `on_dropped`.

        Signals: the event itself, after all of them.
        Cancels: the observer in progress; the ones after it are not called.
        """
        steps = [hook for hook in self._for(type(event)) if not isinstance(hook, OperatorHook)]
        if not steps:
            return just(event)
        seen = just(*steps).pipe(concat_map(lambda hook: _observe(hook, event) or empty()))
        return seen.pipe(then(lambda: just(event)))

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        """The text of the first hook that refuses the call; None if it may run. Raises the error of a hook."""
        return refusal_by(self.refusing, call, tool, source)

    def approval(self, call: ToolUseBlock, tool: Tool, source: EventSource) -> bool | None:
        """True if one hook wants approval, else False if one needs none, else None. Raises the error of a hook."""
        return approval_by(self.approving, call, tool, source)

    def watched(self, kind: type[Event], events: Flow[Event]) -> Flow[Event]:
        """Pass the events on, each of this kind after its observers; the same flow if no hook gets the kind.

        Signals: the source's.
        Cancels: the source and the observer in progress.
        """
        if kind not in self.seen:
            return events
        return events.pipe(concat_map(lambda event: self.observe(event) if type(event) is kind else event))

    def chunks(self, kind: type[Event]) -> Operator | None:
        """The operator on the chunks of one kind; None if no hook gets them."""
        if kind not in self._operators:
            self._operators[kind] = _compile_chunks(kind, self._for(kind), self._agent)
        return self._operators[kind]

    def one_by_one(self, kind: type[Event]) -> bool:
        """True if each hook on the chunks of this kind passes, changes or drops one after the other, in order."""
        return not any(isinstance(hook, OperatorHook) for hook in self._for(kind))


NO_HOOKS = CompiledHooks()
"""Those of an agent without hooks."""


def _gets(hook: Hook, kind: type[Event]) -> bool:
    if kind in _ON_REQUEST:
        return hook.kinds is not None and kind in hook.kinds
    return hook.kinds is None or issubclass(kind, hook.kinds)


def _call(hook: Hook, event: Event) -> Answer:
    """The result of the hook. A context variable that it sets stays within it."""
    return copy_context().run(hook.on_event, event)


def _observe(hook: Hook, event: Event) -> Flow[Event] | None:
    """Call the observer now; the rest of an observation that takes time, or None. Part of a subscription.

    Signals: completion, also if the observer fails, which is reported.
    Cancels: the awaitable or Observable of the observer.
    """

    def failed(error: Exception) -> Flow[Event]:
        report_dropped(error, f"hook {hook.name} on {type(event).__name__} of agent {event.agent}")
        return empty()

    try:
        answer: object = _call(hook, event)
    except Exception as error:
        failed(error)
        return None
    if not isinstance(answer, abc.ObservableBase) and not isawaitable(answer):
        return None
    return _lift(cast("Answer", answer)).pipe(then(empty), catch(failed))


def _then(observed: Flow[Event], event: Event) -> Flow[Event]:
    return observed.pipe(then(lambda: just(event)))


def _fold(event: E, steps: Sequence[Hook], index: int) -> Flow[E]:
    """Call the hooks from `index` on. After one that takes time the rest is a tail, so that no chain grows."""
    while index < len(steps):
        hook = steps[index]
        if hook.observe_only:
            index += 1
            observed = _observe(hook, event)
            if observed is None:
                continue
            return _continue(hook, event, _then(observed, event), steps, index)
        try:
            answer = _call(hook, event)
        except Exception as error:
            add_note(error, hook, type(event), event.agent)
            raise
        index += 1
        if answer is None:
            continue
        if isinstance(answer, Event):
            event = checked(hook, event, answer)
            continue
        answers = _lift(answer).pipe(noting(hook, type(event), event.agent))
        return _continue(hook, event, answers, steps, index)
    return just(event)


def _continue(hook: Hook, event: E, answers: Flow[Event], steps: Sequence[Hook], index: int) -> Flow[E]:
    """The remaining hooks, after the result of one that takes time."""

    def go_on(later: Event) -> E | Tail[E]:
        after = checked(hook, event, None if later is _UNCHANGED else later)
        return tail(lambda: _fold(after, steps, index)) if index < len(steps) else after

    # `recurse`, around this, subscribes to the tail
    return cast("Flow[E]", _one(hook, event, answers).pipe(concat_map(go_on)))


def _one(hook: Hook, event: Event, answers: Flow[Event]) -> Flow[Event]:
    """The one event of an asynchronous result; `HookError` for none or several."""

    def only(found: list[Event]) -> Event:
        if len(found) != 1:
            raise HookError(
                f"returned {len(found)} events where exactly one is needed", hook=hook.name, event=event.type
            )
        return found[0]

    return answers.pipe(ops.take(2), ops.to_list(), ops.map(only))


class _Unchanged(Event):
    """The result None of an awaitable or Observable."""


_UNCHANGED = _Unchanged()


def _lift(answer: Answer) -> Flow[Event]:
    """Any result as a Flow of events: empty for `DROP`, `_UNCHANGED` for None."""
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
        operators.append(_rebuild_views)

    def compiled(chunks: Observable[Event]) -> Observable[Event]:
        return reduce(lambda source, operator: operator(source), operators, chunks)

    return compiled


def _chunk_operator(kind: type[Event], hook: Hook, agent: str) -> Operator:
    """One hook as an operator on the chunks, which must keep their class."""

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
            answer = _call(hook, event)
        except Exception as error:
            add_note(error, hook, kind, agent)
            raise
        if answer is None:
            return event
        if isinstance(answer, Event):
            return check_chunk(hook, event, check(answer))
        answers = _lift(answer).pipe(noting(hook, kind, agent))
        return answers.pipe(
            concat_map(lambda later: event if later is _UNCHANGED else check_chunk(hook, event, check(later)))
        )

    return concat_map(step, prefetch=CHUNKS_AHEAD)


def _watched_chunk(hook: Hook, event: Event) -> Event | Observable[Event]:
    observed = _observe(hook, event)
    return event if observed is None else _then(observed, event)


def _operated(
    operator: Operator, hook: Hook, kind: type[Event], agent: str, check: Callable[[Event], Event]
) -> Operator:
    """The hook's own operator. An error of an earlier hook that passes through it keeps its note."""

    def over(chunks: Observable[Event]) -> Observable[Event]:
        try:
            out = operator(chunks)
        except Exception as error:
            add_note(error, hook, kind, agent)
            raise
        return flow(out).pipe(noting(hook, kind, agent, unless_noted=True), concat_map(check))

    return over


def _rebuild_views(chunks: Observable[Event]) -> Observable[Event]:
    """The same chunks, whose `.accumulated` is the sum of the chunks as they were shown.

        the model         my key is | 1234 | .
        a hook rewrites   my key is | **** | .
        .accumulated      in the hook 'my key is 1234', in the stream 'my key is ****'

    So a hook can inspect the whole block so far, because a secret may come in parts, and nothing that it has removed
    appears again.
    """
    return defer(lambda: concat_map(_ShownBlocks().add)(chunks))


class _ShownBlocks:
    """The blocks of one message as they were shown."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        # by the model's block; a chunk that a hook has made continues the block of its message and type
        self._blocks: dict[object, BlockBuilder[ContentBlock]] = {}

    def add(self, event: Event) -> Event:
        if not isinstance(event, ChunkEvent) or event.delta is None:
            return event
        delta = event.delta
        key = (event.view or event.message_id, type(delta))
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = block_builder(delta)
        return replace(event, view=block, count=block.add(delta))
