"""What an agent of a script has besides its model: a memory elsewhere, and who watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, ToolUseBlock
from agentscope_rx.agent import UsageLimits
from agentscope_rx.agent.run import Done, Run, Stage
from agentscope_rx.reactive import Flow, concat_map, defer, then, throw, timer
from agentscope_rx.session import Session
from tests.support.scripts.steps import Fault, Limit

T = TypeVar("T")


class Remote(InMemoryMemory):
    """Takes its time for everything, as a store elsewhere does."""

    def get(self):
        return timer(0.125).pipe(then(super().get))

    def add(self, messages):
        return timer(0.125).pipe(then(lambda: super(Remote, self).add(messages)))

    def replace(self, message):
        return timer(0.125).pipe(then(lambda: super(Remote, self).replace(message)))

    def delete(self, ids):
        return timer(0.125).pipe(then(lambda: super(Remote, self).delete(ids)))


class StoreDown(Exception):
    """What a memory of a script fails with."""


class Faulty:
    """Where the memories of a script fail, once, as `Fault` says; they are counted together, while `armed`."""

    def __init__(self, fault: Fault) -> None:
        self.way, self.left = fault.way, fault.at
        self.armed = False
        self.failed = ""
        """What has failed in this step."""

    def does(self, what: str, flow: Flow[T]) -> Flow[T]:
        if self.way == "raise" and self._now(what):
            raise StoreDown(what)
        return flow if self.way == "raise" else defer(lambda: self._begun(what, flow))

    def _begun(self, what: str, flow: Flow[T]) -> Flow[T]:
        if not self._now(what):
            return flow
        failed: Flow[T] = throw(StoreDown(what))
        match self.way:
            case "late":
                return timer(0.125).pipe(then(lambda: failed))
            case "after":
                return flow.pipe(then(lambda: failed))
            case _:
                return failed

    def _now(self, what: str) -> bool:
        if not self.armed:
            return False
        self.left -= 1
        if self.left == -1:
            self.failed = what
        return self.left == -1


class Brittle(InMemoryMemory):
    """Fails once, as a store elsewhere may."""

    def __init__(self, faulty: Faulty) -> None:
        super().__init__()
        self.faulty = faulty

    def get(self):
        return self.faulty.does("get", super().get())

    def add(self, messages):
        return self.faulty.does("add", super().add(messages))

    def replace(self, message):
        return self.faulty.does("replace", super().replace(message))

    def delete(self, ids):
        return self.faulty.does("delete", super().delete(ids))


class Unsteady(Session):
    """Fails once to save, as a store elsewhere may."""

    def __init__(self, session: Session, faulty: Faulty) -> None:
        self.session = session
        self.faulty = faulty

    def save_all(self, key, values, lists=None, **options):
        return self.faulty.does("save", self.session.save_all(key, values, lists, **options))

    def load_all(self, key, names=None):
        return self.session.load_all(key, names)

    def remove(self, key, name):
        return self.session.remove(key, name)

    def delete(self, key):
        return self.session.delete(key)

    def exists(self, key):
        return self.session.exists(key)

    def keys(self):
        return self.session.keys()


class Ending(ReActAgent):
    """Notes in `ends` to what end the stages of a run have come, whatever becomes of the run then."""

    ends: dict[str, Msg]

    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage:
        return self._noting(run, super().reasoning(run, sent_back=sent_back))

    def acting(self, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
        return self._noting(run, super().acting(run, calls))

    def summarizing(self, run: Run, which: str | None = None) -> Stage:
        return self._noting(run, super().summarizing(run, which))

    def _noting(self, run: Run, stage: Stage) -> Stage:
        def note(value: T) -> T:
            if isinstance(value, Done):
                self.ends[run.id] = value.message
            return value

        return stage.pipe(concat_map(note))


def limits_of(limit: Limit) -> UsageLimits:
    """The limits of a call."""
    then: Any = "summary" if limit.summary else "error"
    if limit.which == "deadline":
        # never at the very moment of anything else: which of two comes first would be a matter of rounding
        return UsageLimits(deadline=1.507 + limit.value * 0.25, summary_reserve=1.003, on_limit=then)
    return UsageLimits(**{limit.which: limit.value}, on_limit=then)
