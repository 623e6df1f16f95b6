"""The place where a tracer gives and takes the W3C trace context of HTTP requests. Without one, it does nothing.

    traceparent: 00-<trace id>-<span id>-01        in a request to a model, and in a request to the service

`agentscope_rx.tracing.propagate_context` installs one. A model request pays for the look at one attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol


class TraceContext(Protocol):
    """Gives the trace context of the current span, and makes that of a request the current one."""

    def outgoing(self, host: str) -> Mapping[str, str]:
        """The headers of a request to this host that is made now; they may be empty."""
        ...

    def incoming(self, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """While it is entered, spans are children of the caller's; `headers` have names in lower case."""
        ...


class _Installed:
    """The one of the process; None, as at the beginning, is none."""

    __slots__ = ("here",)

    def __init__(self) -> None:
        self.here: TraceContext | None = None


TRACE_CONTEXT = _Installed()
