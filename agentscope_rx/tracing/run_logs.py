"""`add_run_to_logs`: the run, the agent and the tool call in each record of `logging` made during a run.

    logging.basicConfig(format="%(levelname)s %(agent)s %(run_id)s %(call_id)s %(message)s")
    add_run_to_logs()

| attribute  | is                                                              | outside of a run |
|------------|-----------------------------------------------------------------|------------------|
| `run_id`   | the id of the run; of the innermost one, in a sub-agent         | ""               |
| `agent`    | the name of its agent                                           | ""               |
| `run_path` | the ids of runs and calls from the outermost run to it, by "/"  | ""               |
| `call_id`  | the id of the tool call, in a tool                              | ""               |

The run is found by a context variable. So records of tools have it, on worker threads, too, and of tasks that tools
begin, and records of this library: retries, fallbacks, circuits, waits. A thread that a tool starts by itself has it if
it runs in a copy of the context (`contextvars.copy_context().run`). OpenTelemetry is not needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Final, NamedTuple

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events.base import EventSource
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.hooks.process_wide import trace_process, untrace_process
from agentscope_rx.hooks.wrapping.requests import CallRequest, ToolRequest
from agentscope_rx.reactive import Probe, Scope


class _Place(NamedTuple):
    source: EventSource
    call_id: str = ""


_NOWHERE: Final = _Place(EventSource())
_PLACE: ContextVar[_Place] = ContextVar("agentscope_rx_log_place", default=_NOWHERE)


class _Within(Probe[object]):
    """Not a probe: sets the place in the context of what it stands around."""

    __slots__ = ("_place",)

    def __init__(self, place: _Place) -> None:
        self._place = place

    def begin(self, scope: Scope) -> Context:
        context = scope.context.copy()
        context.run(_PLACE.set, self._place)
        return context


class RunLogs(Tracer):
    """The tracer that `add_run_to_logs` installs: it notes which run and which call are in progress."""

    beside = True

    def probe_call(self, request: CallRequest) -> Probe[object]:
        """Note the run."""
        return _Within(_Place(request.source))

    def probe_tool(self, request: ToolRequest) -> Probe[object]:
        """Note the call."""
        return _Within(_Place(request.source, request.call.id))


class RunLogFilter(logging.Filter):
    """A logging filter that adds `run_id`, `agent`, `run_path` and `call_id` to each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True, once the record has the attributes."""
        source, call_id = _PLACE.get()
        fields = record.__dict__
        fields.setdefault("run_id", source.run_id)
        fields.setdefault("agent", source.agent)
        fields.setdefault("run_path", "/".join(source.path))
        fields.setdefault("call_id", call_id)
        return True


_RUN_LOGS: Final = RunLogs()
_FILTER: Final = RunLogFilter()


def add_run_to_logs(*handlers: logging.Handler) -> Callable[[], None]:
    """Add `run_id`, `agent`, `run_path` and `call_id` to the log records of handlers; returns the undoing.

        handler.setFormatter(logging.Formatter("[%(agent)s %(run_id)s %(call_id)s] %(message)s"))
        undo = add_run_to_logs(handler)                # without a handler: those of the root logger

    Records of runs that begin from now on have them, on any thread or task of the run; elsewhere they are empty. A
    record that has such an attribute keeps it. A second call for a handler changes nothing. It needs no OpenTelemetry.
    """
    chosen = handlers or tuple(logging.getLogger().handlers)
    for handler in chosen:
        if not isinstance(handler, logging.Handler):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"add_run_to_logs takes handlers of logging, not {handler!r:.60}.")
    if not chosen:
        raise ConfigurationError(
            "The root logger has no handlers yet: call logging.basicConfig() before add_run_to_logs(), or give it the "
            "handlers."
        )
    for handler in chosen:
        # (adds it once)
        handler.addFilter(_FILTER)
    trace_process(_RUN_LOGS)

    def undo() -> None:
        for handler in chosen:
            handler.removeFilter(_FILTER)
        untrace_process(_RUN_LOGS)

    return undo
