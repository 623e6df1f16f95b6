"""Runs over HTTP, as server-sent events. Needs the extra `service` (Starlette).

    app = create_app(agent, token="...")                 # a whole application for one agent, with our own events
    # several agents, for the clients of several protocols
    app = protocol_app(host, openai_routes(host), events_routes(host), token="...")

    # in a route of your own: it stops when its client leaves
    return sse_response(agent.stream(text))
    # it goes on without clients; or begins without one
    return sse_response(runs.add(agent.stream(text), on_disconnect="continue"))
    return sse_response(runs.add(agent.start(text)))
    # a client returns
    return sse_response(runs.find(run_id), after=last_event_id(request))

`RequestGuard` protects an application of your own; `create_app` has one.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from agentscope_rx.errors import EventsGoneError, MissingExtraError, RunStoppedError

if find_spec("starlette") is None:
    raise MissingExtraError("starlette", "service")

from agentscope_rx.guard import GuardOptions, RequestGuard
from agentscope_rx.lazy import import_lazily, leave_out_missing
from agentscope_rx.service.app import create_app
from agentscope_rx.service.application import protocol_app
from agentscope_rx.service.failure import (
    RunElsewhereError,
    RunLostError,
    ServiceError,
    ServiceStoppingError,
    TooManyRunsError,
    UnknownAgentError,
    UnknownRunError,
    answer_error,
)
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.blocks.routes import blocks_routes
from agentscope_rx.service.protocols.events.routes import events_routes
from agentscope_rx.service.protocols.openai.routes import openai_routes
from agentscope_rx.service.protocols.sse import SSEResponse, last_event_id, sse_response
from agentscope_rx.service.protocols.sse_format import EventEncoder
from agentscope_rx.service.runs.live_run import LiveRun, OnDisconnect
from agentscope_rx.service.runs.registry import Runs
from agentscope_rx.service.runs.relay import RunRelay
from agentscope_rx.service.runs.relayed_run import RelayedRun

if TYPE_CHECKING:
    from agentscope_rx.service.protocols.a2a import a2a_routes
    from agentscope_rx.service.protocols.ag_ui import AgUiState, ag_ui_routes

__all__ = [
    "AgUiState",
    "AgentHost",
    "EventEncoder",
    "EventsGoneError",
    "GuardOptions",
    "LiveRun",
    "OnDisconnect",
    "RelayedRun",
    "RequestGuard",
    "RunElsewhereError",
    "RunLostError",
    "RunRelay",
    "RunStoppedError",
    "Runs",
    "SSEResponse",
    "ServiceError",
    "ServiceStoppingError",
    "TooManyRunsError",
    "UnknownAgentError",
    "UnknownRunError",
    "a2a_routes",
    "ag_ui_routes",
    "answer_error",
    "blocks_routes",
    "create_app",
    "events_routes",
    "last_event_id",
    "openai_routes",
    "protocol_app",
    "sse_response",
]

_AG_UI = "agentscope_rx.service.protocols.ag_ui"
_LAZY: dict[str, str] = {"AgUiState": _AG_UI, "ag_ui_routes": _AG_UI}
leave_out_missing(__all__, {**dict.fromkeys(_LAZY, "ag_ui"), "a2a_routes": "a2a"})
_LAZY["a2a_routes"] = "agentscope_rx.service.protocols.a2a"


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
