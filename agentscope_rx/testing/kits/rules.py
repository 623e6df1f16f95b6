"""`Kit`: runs rules one by one, each on a loop of its own, and reports what was checked.

A rule is a coroutine function. It fails by an exception, by an error that it leaves in the dropped-error hook, and by a
task, a timer, a worker job or a thread that it leaves.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar, cast

from agentscope_rx.errors import AgentScopeError, ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive.kernel.runtime import running_loop
from agentscope_rx.testing.record import DroppedErrors, collect_dropped
from agentscope_rx.testing.virtual_time import VirtualLoop, run_virtual

T = TypeVar("T")

WITHIN = 3600.0
"""Seconds of virtual time that a rule may take."""
REAL_WITHIN = 60.0
QUIET = 60.0
"""Seconds of virtual time in which a late signal would come."""
REAL_QUIET = 0.01
THREADS_SECONDS = 5.0

Body = Callable[[DroppedErrors], Awaitable[object]]


class RuleBrokenError(AgentScopeError, AssertionError):
    """An implementation breaks a rule: `subject` names the implementation, `rule` the rule, `seen` its behaviour."""

    def __init__(self, subject: str, rule: str, law: str, seen: str) -> None:
        super().__init__(f"{subject} breaks rule {rule}: {law}\n  seen: {seen}")
        self.subject = subject
        self.rule = rule
        self.seen = seen


class SkippedRule(Exception):
    """Raised by a rule that does not apply; its text is the reason."""


@dataclass(frozen=True, slots=True)
class KitReport:
    """The result of a kit: the rules that were `checked`, and those that were `skipped`, each with the reason."""

    subject: str
    checked: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.subject}: {len(self.checked)} rules hold, {len(self.skipped)} skipped"]
        lines += [f"  {rule}" for rule in self.checked]
        lines += [f"  skipped {rule}: {reason}" for rule, reason in self.skipped]
        return "\n".join(lines)


class Kit:
    """Checks rules of one object and notes which."""

    def __init__(
        self,
        subject: str,
        *,
        real_time: bool = False,
        patience: float = 20.0,
        clean_up: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        if running_loop() is not None:
            raise ConfigurationError(
                "A kit runs its rules on loops of its own, and a loop is running here. "
                "Call it from a plain test function, or by asyncio.to_thread(...)."
            )
        self._subject = subject
        self._unnamed = "<lambda>" in subject
        self._real = real_time
        self._patience = patience
        self._clean_up = clean_up
        self._checked: list[str] = []
        self._skipped: list[tuple[str, str]] = []

    def named(self, make: Callable[[], T]) -> Callable[[], T]:
        """`make`; if it is a lambda without a name, the class of what it makes is the subject."""

        def call() -> T:
            made = make()
            if self._unnamed:
                self._subject, self._unnamed = type(made).__name__, False
            return made

        return call if self._unnamed else make

    def check(self, rule: str, law: str, body: Body) -> None:
        """Run one rule; `RuleBrokenError` if it does not hold."""
        threads = set(threading.enumerate())
        with collect_dropped() as dropped:
            try:
                self.run(self._bounded(body(dropped)))
            except SkippedRule as skipped:
                self.skip(rule, str(skipped))
                return
            except AssertionError as failure:
                raise self.broken(rule, law, "; ".join([str(failure), *dropped.as_lines()])) from failure
            except Exception as failure:
                raise self.broken(rule, law, "; ".join([f"it raised {failure!r}", *dropped.as_lines()])) from failure
            seen = [*_left(threads), *dropped.as_lines()]
        if seen:
            raise self.broken(rule, law, "; ".join(seen))
        self._checked.append(rule)

    def broken(self, rule: str, law: str, seen: str) -> RuleBrokenError:
        """The error for a rule that does not hold."""
        return RuleBrokenError(self._subject, rule, law, seen)

    def run(self, main: Coroutine[object, object, T]) -> T:
        """Run a coroutine on a new loop; nothing may be left on it."""
        if not self._real:
            return run_virtual(main, patience=self._patience)
        with asyncio.Runner() as runner:
            return runner.run(_checked(main))

    async def _bounded(self, body: Awaitable[object]) -> None:
        """The rule and the clean-up after it, in bounded time."""
        seconds = REAL_WITHIN if self._real else WITHIN
        try:
            async with asyncio.timeout(seconds):
                await body
                if self._clean_up is not None:
                    await self._clean_up()
        except TimeoutError as late:
            raise AssertionError(f"it had not ended {seconds:g} s later") from late

    def skip(self, rule: str, reason: str) -> None:
        """Note that a rule was not checked."""
        self._skipped.append((rule, reason))

    def report(self) -> KitReport:
        """What was checked."""
        return KitReport(self._subject, tuple(self._checked), tuple(self._skipped))


def name_of(make: object) -> str:
    """The name of a class or a function, for reports, without the function that it is defined in."""
    name = getattr(make, "__qualname__", None)
    return repr(make) if name is None else cast("str", name).rpartition(".<locals>.")[2]


def check_factory(make: object, what: str, example: str, name: str = "make") -> None:
    """`ConfigurationError` unless it can be called for a new object wherever a rule needs one."""
    if not callable(make):
        raise ConfigurationError(
            f"{name} must be a function that returns a new {what} at each call, such as {example}, not {make!r:.60}."
        )


async def quiet() -> None:
    """Wait until anything late would have come: a minute of virtual time, some turns of a loop in real time."""
    for _ in range(20):
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        await asyncio.sleep(REAL_QUIET)
    elif not loop.files:
        # (with a socket the clock would follow real time)
        await asyncio.sleep(QUIET)


def require(holds: object, seen: str) -> None:
    """Fail the rule, unless it holds; unlike `assert` this works under `python -O` too."""
    if not holds:
        raise AssertionError(seen)


def equal(found: object, expected: object, what: str) -> None:
    """Fail the rule, unless both are equal."""
    require(found == expected, f"{what} was {found!r:.300}, not {expected!r:.300}")


async def raises(awaitable: Awaitable[object], kind: type[Exception], what: str) -> None:
    """Fail the rule, unless the awaitable raises an error of this class."""
    try:
        found = await awaitable
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{what} raised {error!r:.300}, not {kind.__name__}") from error
    raise AssertionError(f"{what} raised nothing and gave {found!r:.200}, not {kind.__name__}")


async def _checked(main: Coroutine[object, object, T]) -> T:
    """The result, when no other task is left on the loop."""
    result = await main
    own = {asyncio.current_task()}
    for _ in range(100):
        if not asyncio.all_tasks() - own:
            return result
        await asyncio.sleep(REAL_QUIET)
    raise AssertionError(f"tasks are left: {asyncio.all_tasks() - own!r:.300}")


def _left(before: set[threading.Thread]) -> list[str]:
    """The threads that are left, after a while in which they may end."""
    deadline = time.monotonic() + THREADS_SECONDS
    left = _threads(before)
    while left and time.monotonic() < deadline:
        time.sleep(0.001)
        left = _threads(before)
    return [f"thread {name} is left" for name in left]


def _threads(before: set[threading.Thread]) -> list[str]:
    return [thread.name for thread in set(threading.enumerate()) - before if not thread.daemon]
