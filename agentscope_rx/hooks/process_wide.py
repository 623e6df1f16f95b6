"""Tracers of the process: their probes see the runs of every agent, of those that exist already, too.

    trace_process(tracer)       in force for runs that begin from now on; a tracer is added once
    untrace_process(tracer)     runs in progress keep it

Both may be called from any thread. An agent with a tracer that stands `alone` has none of the process's: `UNTRACED` is
one that does nothing.
"""

from __future__ import annotations

from threading import Lock

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.reactive.kernel.forking import new_lock


class _ProcessWide:
    """The tracers; each change makes a new tuple, by which compiled hooks see that they are out of date."""

    __slots__ = ("lock", "tracers")

    def __init__(self) -> None:
        self.lock: Lock = new_lock()
        self.tracers: tuple[Tracer, ...] = ()


PROCESS_WIDE = _ProcessWide()


def trace_process(tracer: Tracer) -> None:
    """Let the probes of this tracer see every run that begins from now on. A second time changes nothing."""
    if not isinstance(tracer, Tracer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"trace_process takes a Tracer, not {tracer!r:.60}.")
    with PROCESS_WIDE.lock:
        if not any(each is tracer for each in PROCESS_WIDE.tracers):
            PROCESS_WIDE.tracers = (*PROCESS_WIDE.tracers, tracer)


def untrace_process(tracer: Tracer) -> None:
    """The tracer sees no run that begins from now on; nothing, if it saw none before."""
    with PROCESS_WIDE.lock:
        PROCESS_WIDE.tracers = tuple(each for each in PROCESS_WIDE.tracers if each is not tracer)


class _Untraced(Tracer):
    """Stands alone, and sees nothing."""

    alone = True


UNTRACED: Tracer = _Untraced()
"""Keeps an agent out of the traces of `instrument`: `ReActAgent(..., tracer=UNTRACED)`."""
