"""`draining_at_signals`: a signal to stop first drains the host, and then stops the server.

    SIGTERM --> the host refuses runs, /readyz is 503 --> all runs have ended, or were cut off --> the server's handler

The server's own handler would close its sockets at once. A second signal is the server's.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from agentscope_rx.agent.shutdown import ShutdownReport
from agentscope_rx.service.host import AgentHost

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger("agentscope_rx")


@contextmanager
def draining_at_signals(host: AgentHost) -> Generator[None]:
    """For the length of the block: the first SIGTERM or SIGINT drains the host.

    Enter it on the running loop, after the server has set its handlers, as in a lifespan. Outside the main thread,
    where no signal arrives, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {each: signal.getsignal(each) for each in SIGNALS}

    def restore() -> None:
        for each, handler in before.items():
            # None: the handler was not set from Python
            signal.signal(each, signal.SIG_DFL if handler is None else handler)

    def stop(number: int, frame: FrameType | None) -> None:
        restore()
        loop.call_soon_threadsafe(drain, number)

    def drain(number: int) -> None:
        _log.info("draining: no further run begins, those in progress have %s seconds", host.shutdown.timeout)

        def done(report: ShutdownReport) -> None:
            _log.info(
                "drained: %d runs ended, %d were cut off, %d are stuck",
                len(report.finished),
                len(report.cut_off),
                len(report.stuck),
            )
            # the server's handler is in place again
            signal.raise_signal(number)

        host.drain().subscribe(done)

    for each in SIGNALS:
        signal.signal(each, stop)
    try:
        yield
    finally:
        restore()
