"""Nothing vanishes: an error with nobody left to hear it comes here.

By default it is logged with its traceback; a program may install a handler of its own, and the test suite of this
library fails on any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger("agentscope_rx")


def _by_log(error: BaseException, where: str) -> None:
    _log.error("dropped in %s: %s", where, error, exc_info=error)


_handler: Callable[[BaseException, str], None] = _by_log


def on_dropped(handler: Callable[[BaseException, str], None] | None) -> None:
    """Let `handler(error, where)` hear of every dropped error; None restores logging.

    It may be called from any thread and should not raise.
    """
    global _handler
    _handler = handler or _by_log


def report_dropped(error: BaseException, where: str) -> None:
    """Report an error that no subscriber can hear of any more."""
    try:
        _handler(error, where)
    except Exception:
        _log.exception("the handler of dropped errors failed; the dropped error was %r in %s", error, where)
