"""`verify`: the signals that a flow must emit, step by step, in virtual time; and that it leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Generic, NamedTuple, Self, TypeVar

from reactivex import Observable

from agentscope_rx.agent import Agent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg
from agentscope_rx.testing.marbles import Marble, check_elements, marbles_of
from agentscope_rx.testing.record import DroppedErrors, RecordedSignal, Recording, brief, collect_dropped, several
from agentscope_rx.testing.script_runner import ScriptRunner, Step
from agentscope_rx.testing.virtual_time import run_virtual

T = TypeVar("T")

WITHIN = 3600.0
"""Seconds of virtual time that an expectation waits for its signal."""


def verify(source: Observable[T], *, within: float = WITHIN, demand: int | None = None) -> Verifier[T]:
    """Begin a script of the signals that this flow must emit, in order.

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
    | `expect_next_matching(predicate)`       | the next signal is a value for which the predicate is true           |
    | `expect_next_of(Kind, attribute=value)` | the next signal is a value of that class with these attributes       |
    | `expect_count(n)`                       | the next n signals are values                                        |
    | `expect_eventually(Kind or predicate)`  | some value matches; earlier values are skipped                       |
    | `expect_no_event(for_=seconds)`         | no signal comes in these seconds                                     |
    | `expect_marbles(diagram)`               | the signals of a marble diagram come at its times, to the end        |
    | `expect_completed()`, `expect_error(Kind, match=...)` | the stream ends this way                               |
    | `then_dispose()`                        | the run is in progress, and ends by a disposal                       |
    | `expect_dropped(Kind)`                  | an error of this class reached no subscriber                         |

    `then(function)`, `then_wait(seconds)`, `then_request(n)` and `then_interrupt(agent)` act between two expectations;
    a function may be a coroutine function.

    The flow is subscribed to when the script is run, once for each run. A signal that no step expects fails the next
    step; the failure shows the step, the signal, and all signals so far with their times. An expectation waits at most
    `within` seconds of virtual time for its signal. With `demand` the subscriber has back-pressure: it requests so many
    values at first, and more by `then_request`. After the end nothing may be left over, see `Verification`.
    """
    if demand is not None and demand < 0:
        raise ConfigurationError(f"demand must be at least 0, not {demand}.")
    return Verifier(_Plan(source, within, demand))


class _Dropped(NamedTuple):
    """An error that the run must drop."""

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
    """The steps so far. Each method returns a new script, so that several scripts can share a beginning."""

    __slots__ = ("_plan",)

    def __init__(self, plan: _Plan[T]) -> None:
        self._plan = plan

    def _with(self, text: str, act: Callable[[ScriptRunner], object]) -> Self:
        return type(self)(replace(self._plan, steps=(*self._plan.steps, Step(text, act))))

    def then(self, action: Callable[[], object]) -> Self:
        """Call the function, and await its result if it is awaitable. Its exceptions fail the test."""
        return self._with(f"then({_name(action)})", lambda runner: runner.call(action))

    def then_wait(self, seconds: float) -> Self:
        """Let these seconds of virtual time pass."""
        return self._with(f"then_wait({seconds:g})", lambda runner: runner.wait(seconds))


class Verifier(_Script[T]):
    """A script without its end, which is `expect_completed`, `expect_error`, `expect_marbles` or `then_dispose`.

    Each method returns a new script, so several scripts may share a beginning. `verify` lists the steps.
    """

    __slots__ = ()

    def expect_next(self, *values: T) -> Self:
        """Expect these values next, in this order."""
        script = self
        for value in values:
            script = script._value(f"expect_next({brief(value)})", lambda received, value=value: received == value)
        return script

    def expect_next_matching(self, predicate: Callable[[T], object]) -> Self:
        """Expect a value next for which the predicate is true."""
        return self._value(f"expect_next_matching({_name(predicate)})", predicate)

    def expect_next_of(self, kind: type[object], **attributes: object) -> Self:
        """Expect a value of this class next, with these attributes."""

        def matches(value: object) -> bool:
            missing = object()
            return isinstance(value, kind) and all(
                getattr(value, name, missing) == wanted for name, wanted in attributes.items()
            )

        wanted = "".join(f", {name}={brief(value)}" for name, value in attributes.items())
        return self._value(f"expect_next_of({kind.__name__}{wanted})", matches)

    def expect_count(self, count: int) -> Self:
        """Expect `count` values next."""
        return self._with(f"expect_count({count})", lambda runner: runner.expect_values(count))

    def expect_eventually(self, wanted: type[object] | Callable[[T], object]) -> Self:
        """Skip values until one is of this class, or the predicate is true for it."""

        def matches(value: T) -> object:
            return isinstance(value, wanted) if isinstance(wanted, type) else wanted(value)

        return self._with(f"expect_eventually({_name(wanted)})", lambda runner: runner.expect_eventually(matches))

    def expect_no_event(self, *, for_: float) -> Self:
        """Expect no signal for these seconds; a signal exactly at their end belongs to the next step."""
        return self._with(f"expect_no_event(for_={for_:g})", lambda runner: runner.expect_silence(for_))

    def then_request(self, count: int) -> Self:
        """Request `count` more values. The script needs a `demand`."""
        if self._plan.demand is None:
            raise ConfigurationError("then_request: the script has no demand, so all values are requested already.")
        return self._with(f"then_request({count})", lambda runner: runner.request(count))

    def then_interrupt(self, agent: Agent, msg: Msg | str | None = None) -> Self:
        """Interrupt the agent; it must be running."""

        def interrupt(runner: ScriptRunner) -> None:
            if not agent.interrupt(msg):
                runner.fail(f"agent {agent.name} was not running")

        return self._with(f"then_interrupt({agent.name})", interrupt)

    def expect_completed(self) -> Verification[T]:
        """Expect completion next."""
        return self._end("expect_completed()", lambda runner: runner.expect_end("completed", lambda signal: True))

    def expect_error(self, kind: type[Exception] = Exception, *, match: str | None = None) -> Verification[T]:
        """Expect an error of this class next, whose text matches the regular expression `match` (`re.search`)."""

        def matches(signal: RecordedSignal) -> bool:
            return isinstance(signal.value, kind) and (match is None or bool(re.search(match, str(signal.value))))

        expected = kind.__name__ if match is None else f"{kind.__name__}, match={match!r}"
        return self._end(f"expect_error({expected})", lambda runner: runner.expect_end("error", matches))

    def expect_marbles(
        self,
        diagram: str,
        *,
        values: Mapping[str, object] | None = None,
        frame: float = 0.1,
        error: type[Exception] = Exception,
    ) -> Verification[T]:
        """Expect the signals of a marble diagram, such as `"--a-(b,c)-|"`, at its times after the subscription.

        A character is `frame` seconds; the syntax is that of `ScriptedModel.marbles`. `values` has the value of an
        element, or a class or a predicate for it; an element without one is a text. `#` is an error of class `error`.
        """
        known = values or {}
        marbles = marbles_of(diagram, frame)
        check_elements(diagram, marbles, set(known))
        if not marbles or marbles[-1].kind == "next":
            raise ConfigurationError(f"The marble diagram {diagram!r} needs an end to expect: '|' or '#'.")
        script = self
        for marble in marbles:
            wanted = error if marble.kind == "error" else known.get(marble.element, marble.element)
            script = script._marble(marble, wanted)
        return Verification(script._plan)

    def _marble(self, marble: Marble, wanted: object) -> Self:
        def matches(signal: RecordedSignal) -> object:
            if marble.kind == "completed":
                return True
            if isinstance(wanted, type):
                return isinstance(signal.value, wanted)
            return wanted(signal.value) if callable(wanted) else signal.value == wanted

        text = f"expect_marbles, {marble.element or marble.kind} at {marble.at:g} s"
        return self._with(text, lambda runner: runner.expect_at(marble.at, marble.kind, matches))

    def then_dispose(self) -> Verification[T]:
        """Dispose the run, which must still be in progress; unchecked values are ignored."""
        return self._end("then_dispose()", lambda runner: runner.dispose())

    def _value(self, text: str, matches: Callable[[T], object]) -> Self:
        return self._with(text, lambda runner: runner.expect_value(matches))

    def _end(self, text: str, act: Callable[[ScriptRunner], object]) -> Verification[T]:
        return Verification(self._with(text, act)._plan)


class Verification(_Script[T]):
    """A complete script: `run()` it, or `await` it on a loop of your own, which should be in virtual time.

    Both return the `Recording` of the signals. They raise `AssertionError` at a signal that is not as expected, and if
    something is left after the clean-up: work of the run, an open response (or other async generator), a dropped error;
    `run()` also for a task, a timer or a worker job.
    """

    __slots__ = ()

    def expect_dropped(self, kind: type[BaseException] = Exception, *, match: str | None = None) -> Self:
        """Expect that an error of this class was dropped by the end."""
        return type(self)(replace(self._plan, drops=(*self._plan.drops, _Dropped(kind, match))))

    def run(self) -> Recording[T]:
        """Subscribe and take the steps on a loop in virtual time. `await` the verifier where a loop runs already."""
        with collect_dropped() as dropped:
            try:
                record = run_virtual(self._play())
            except AssertionError as failure:
                for line in dropped.as_lines():
                    failure.add_note(line)
                raise
        self._check(dropped, record)
        return record

    def __await__(self) -> Generator[object, None, Recording[T]]:
        return self._awaited().__await__()

    async def _awaited(self) -> Recording[T]:
        with collect_dropped() as dropped:
            record = await self._play()
        self._check(dropped, record)
        return record

    async def _play(self) -> Recording[T]:
        plan = self._plan
        return await ScriptRunner(plan.source, plan.within, plan.demand).play(plan.steps)

    def _check(self, dropped: DroppedErrors, record: Recording[T]) -> None:
        left = list(zip(dropped, dropped.as_lines(), strict=True))
        missing: list[str] = []
        for kind, match in self._plan.drops:
            found = [pair for pair in left if isinstance(pair[0], kind) and re.search(match or "", str(pair[0]))]
            if found:
                left.remove(found[0])
            else:
                missing.append(f"expect_dropped({kind.__name__}): none was dropped")
        if problems := missing + [line for _, line in left]:
            raise AssertionError("\n".join([*problems, record.as_text()]))


def _name(thing: object) -> str:
    return getattr(thing, "__name__", None) or several((thing,))
