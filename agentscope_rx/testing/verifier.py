"""`verify`: what a flow must signal, step by step, in virtual time; and that nothing of it is left.

    verify(agent.stream("Weather?"))
        .expect_next_of(PreCallEvent)
        .expect_eventually(PostReasoningEvent)
        .expect_no_event(for_=3)
        .expect_next_of(ActingChunkEvent, text="Sunny", is_last=True)
        .expect_count(3)
        .expect_completed()
        .run()

| step                                    | holds if                                                             |
|-----------------------------------------|----------------------------------------------------------------------|
| `expect_next(a, b)`                     | the next signals are these values                                    |
| `expect_next_matching(predicate)`       | the next signal is a value for which it holds                        |
| `expect_next_of(Kind, attribute=value)` | the next signal is a value of that class with these attributes       |
| `expect_count(n)`                       | the next n signals are values                                        |
| `expect_eventually(Kind or predicate)`  | some value matches; those before it are passed over                  |
| `expect_no_event(for_=seconds)`         | there is no signal in the next seconds                               |
| `then_wait`, `then`, `then_request`, `then_interrupt` | (does something, and leaves what comes for the next step) |
| `expect_completed()`, `expect_error(Kind, match=)`, `then_dispose()` | the end                                 |

A signal that no step expects fails the step that finds it. Nothing happens before `run()` (or `await`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Self, TypeVar

from reactivex import Observable

from agentscope_rx.agent import Agent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import Msg
from agentscope_rx.testing.dropped import DroppedErrors, collect_dropped
from agentscope_rx.testing.record import Heard, Record, brief, several
from agentscope_rx.testing.script_runner import Playing, Step
from agentscope_rx.testing.virtual_time import run_virtual

T = TypeVar("T")

WITHIN = 3600.0
"""Seconds of virtual time that an expectation waits for its signal."""


def verify(source: Observable[T], *, within: float = WITHIN, demand: int | None = None) -> Verifier[T]:
    """The beginning of what this flow must signal when it is subscribed to, once.

    An expectation fails when nothing has come for `within` seconds. `demand`: how many values are asked for at first,
    by a consumer with back-pressure; without it as many as there are.
    """
    if demand is not None and demand < 0:
        raise ConfigurationError(f"demand must be at least 0, not {demand}.")
    return Verifier(_Plan(source, within, demand))


class _Dropped(NamedTuple):
    """An error that must be dropped."""

    kind: type[BaseException]
    match: str | None


@dataclass(frozen=True, slots=True)
class _Plan(Generic[T]):
    source: Observable[T]
    within: float
    demand: int | None
    steps: tuple[Step, ...] = ()
    drops: tuple[_Dropped, ...] = ()


class _Script(Generic[T]):
    """Steps so far. Each further one gives a new script: a beginning can be shared by several endings."""

    __slots__ = ("_plan",)

    def __init__(self, plan: _Plan[T]) -> None:
        self._plan = plan

    def _with(self, text: str, act: Callable[[Playing], object]) -> Self:
        return type(self)(replace(self._plan, steps=(*self._plan.steps, Step(text, act))))

    def then(self, action: Callable[[], object]) -> Self:
        """Call this now; what it returns is awaited if it can be. Its exceptions fail the test."""
        return self._with(f"then({_name(action)})", lambda playing: playing.call(action))

    def then_wait(self, seconds: float) -> Self:
        """Let time pass."""
        return self._with(f"then_wait({seconds:g})", lambda playing: playing.wait(seconds))


class Verifier(_Script[T]):
    """What is expected so far; ends with `expect_completed`, `expect_error` or `then_dispose`."""

    __slots__ = ()

    def expect_next(self, *values: T) -> Self:
        """The next signals are these values, in this order."""
        script = self
        for value in values:
            script = script._value(f"expect_next({brief(value)})", lambda heard, value=value: heard == value)
        return script

    def expect_next_matching(self, predicate: Callable[[T], object]) -> Self:
        """The next signal is a value for which the predicate holds."""
        return self._value(f"expect_next_matching({_name(predicate)})", predicate)

    def expect_next_of(self, kind: type[object], **attributes: object) -> Self:
        """The next signal is a value of this class, with attributes of these values."""

        def matches(value: object) -> bool:
            missing = object()
            return isinstance(value, kind) and all(
                getattr(value, name, missing) == wanted for name, wanted in attributes.items()
            )

        wanted = "".join(f", {name}={brief(value)}" for name, value in attributes.items())
        return self._value(f"expect_next_of({kind.__name__}{wanted})", matches)

    def expect_count(self, count: int) -> Self:
        """The next so many signals are values, whichever."""
        return self._with(f"expect_count({count})", lambda playing: playing.expect_values(count))

    def expect_eventually(self, wanted: type[object] | Callable[[T], object]) -> Self:
        """A value of this class comes, or one for which the predicate holds; values before it are passed over."""

        def matches(value: T) -> object:
            return isinstance(value, wanted) if isinstance(wanted, type) else wanted(value)

        return self._with(f"expect_eventually({_name(wanted)})", lambda playing: playing.expect_eventually(matches))

    def expect_no_event(self, *, for_: float) -> Self:
        """No signal comes in the next so many seconds; one that comes just then is the next step's."""
        return self._with(f"expect_no_event(for_={for_:g})", lambda playing: playing.expect_silence(for_))

    def then_request(self, count: int) -> Self:
        """Ask for so many values more; for a script that began with a `demand`."""
        if self._plan.demand is None:
            raise ConfigurationError("then_request: the script began without a demand, so all has been asked for.")
        return self._with(f"then_request({count})", lambda playing: playing.request(count))

    def then_interrupt(self, agent: Agent, msg: Msg | str | None = None) -> Self:
        """Interrupt the agent; it must be running."""

        def interrupt(playing: Playing) -> None:
            if not agent.interrupt(msg):
                playing.fail(f"agent {agent.name} was not running")

        return self._with(f"then_interrupt({agent.name})", interrupt)

    def expect_completed(self) -> Verification[T]:
        """The next signal is the completion."""
        return self._end("expect_completed()", lambda playing: playing.expect_end("completed", lambda heard: True))

    def expect_error(self, kind: type[Exception] = Exception, *, match: str | None = None) -> Verification[T]:
        """The next signal is an error of this class whose text the regular expression finds."""

        def matches(heard: Heard) -> bool:
            return isinstance(heard.value, kind) and (match is None or bool(re.search(match, str(heard.value))))

        told = kind.__name__ if match is None else f"{kind.__name__}, match={match!r}"
        return self._end(f"expect_error({told})", lambda playing: playing.expect_end("error", matches))

    def then_dispose(self) -> Verification[T]:
        """Dispose the run, which must not have ended; values that nobody asked about are let go."""
        return self._end("then_dispose()", lambda playing: playing.dispose())

    def _value(self, text: str, matches: Callable[[T], object]) -> Self:
        return self._with(text, lambda playing: playing.expect_value(matches))

    def _end(self, text: str, act: Callable[[Playing], object]) -> Verification[T]:
        return Verification(self._with(text, act)._plan)


class Verification(_Script[T]):
    """A whole script: `run()` it, or `await` it on a loop of your own (which should be in virtual time).

    Both give the `Record` of what was heard and raise `AssertionError` where it is not as expected, or if something is
    left when the clean-up is over: work of the run, an open response (or other async generator), an error that nobody
    heard of; and `run()` also for a task, a timer or a worker job.
    """

    __slots__ = ()

    def expect_dropped(self, kind: type[BaseException] = Exception, *, match: str | None = None) -> Self:
        """By the end an error of this class has gone to the dropped-error hook."""
        return type(self)(replace(self._plan, drops=(*self._plan.drops, _Dropped(kind, match))))

    def run(self) -> Record[T]:
        """Subscribe and go through the steps, on a loop in virtual time."""
        with collect_dropped() as dropped:
            try:
                record = run_virtual(self._play())
            except AssertionError as failure:
                for line in _told(dropped):
                    failure.add_note(line)
                raise
        self._check(dropped, record)
        return record

    def __await__(self) -> Generator[object, None, Record[T]]:
        return self._awaited().__await__()

    async def _awaited(self) -> Record[T]:
        with collect_dropped() as dropped:
            record = await self._play()
        self._check(dropped, record)
        return record

    async def _play(self) -> Record[T]:
        plan = self._plan
        return await Playing(plan.source, plan.within, plan.demand).play(plan.steps)

    def _check(self, dropped: DroppedErrors, record: Record[T]) -> None:
        left = list(zip(dropped, _told(dropped), strict=True))
        missing: list[str] = []
        for kind, match in self._plan.drops:
            found = [pair for pair in left if isinstance(pair[0], kind) and re.search(match or "", str(pair[0]))]
            if found:
                left.remove(found[0])
            else:
                missing.append(f"expect_dropped({kind.__name__}): there was none")
        if problems := missing + [line for _, line in left]:
            raise AssertionError("\n".join([*problems, record.told()]))


def _told(dropped: DroppedErrors) -> list[str]:
    return [f"dropped in {where}: {error!r}" for error, where in zip(dropped, dropped.where, strict=True)]


def _name(thing: object) -> str:
    return getattr(thing, "__name__", None) or several((thing,))
