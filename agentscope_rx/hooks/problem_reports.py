"""`ProblemReports`: problems that a hook finds at every call and reports once, such as a file that cannot be used.

`report_to` reports one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.forking import new_lock

E = TypeVar("E", bound=Exception)

REMEMBERED: Final = 1_000
"""Problems that are remembered, to be reported once."""


class ProblemReports(Generic[E]):
    """Reports each problem once, by its text: to `on_problem`, else as a dropped error. From any thread.

    `what` and `hook` name the subject and the reporter in dropped errors: "a skill", "a SkillsHook".
    """

    def __init__(self, on_problem: Callable[[E], object] | None, what: str, hook: str) -> None:
        self._on_problem = on_problem
        self._what = what
        self._hook = hook
        self._lock = new_lock()
        self._reported: set[str] = set()

    def report(self, problems: Iterable[E]) -> None:
        """Report those that are new. An `on_problem` that fails is reported with its problem, as dropped errors."""
        for each in problems:
            with self._lock:
                known = str(each) in self._reported
                if not known and len(self._reported) < REMEMBERED:
                    self._reported.add(str(each))
            if known:
                continue
            report_to(self._on_problem, each, self._what, f"on_problem of {self._hook}")


def report_to(listener: Callable[[E], object] | None, error: E, where: str, name: str) -> None:
    """Give the error to the listener, else to the dropped-error hook; both errors go there if the listener fails.

    `where` says what has failed, `name` is the listener's: "on_error of a SkillsHook".
    """
    if listener is None:
        report_dropped(error, where)
        return
    try:
        listener(error)
    except Exception as failure:
        report_dropped(error, where)
        report_dropped(failure, name)
