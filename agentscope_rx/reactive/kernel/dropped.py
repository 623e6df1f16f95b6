"""Dropped errors: those that no subscriber is left to receive. None is lost.

By default they are logged with their traceback. A program may install a handler of its own; the test suite of this
library fails on any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from agentscope_rx.errors import AgentScopeError

_log = logging.getLogger("agentscope_rx")


class CleanUpTimeoutError(AgentScopeError):
    """Cancelled work did not end in time, and the code that waited for it went on. Reported as a dropped error."""


def _log_it(error: BaseException, where: str) -> None:
    _log.error("dropped in %s: %s", where, error, exc_info=error)


_handler: Callable[[BaseException, str], None] = _log_it


def on_dropped(handler: Callable[[BaseException, str], None] | None) -> None:
    """Call `handler(error, where)` for every dropped error; None restores logging.

    An error is dropped when no subscriber can get it: an exception in a callback or an observer, an error after a
    disposal, a failing clean-up. The handler may be called from any thread and should not raise.
    """
    global _handler
    _handler = handler or _log_it


def report_dropped(error: BaseException, where: str) -> None:
    """Report an error that has no subscriber any more; `where` names the place."""
    try:
        _handler(error, where)
    except Exception:
        _log.exception("the handler of dropped errors failed; the dropped error was %r in %s", error, where)
