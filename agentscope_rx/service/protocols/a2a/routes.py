"""The routes of the protocol A2A: each agent of a host at an address of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import quote

from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import AgentCard, AgentSkill
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from a2a.utils.errors import ExtendedAgentCardNotConfiguredError, PushNotificationNotSupportedError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.a2a.bindings import Binding, Endpoint, rest_endpoint, rpc_endpoint
from agentscope_rx.service.protocols.a2a.card import card_of
from agentscope_rx.service.protocols.a2a.service import CANCEL_SECONDS, TaskService
from agentscope_rx.service.protocols.a2a.tasks import MAX_TASKS, Tasks
from agentscope_rx.service.runs.live_run import OnDisconnect, OnDisconnectChoice, bounds_of


def a2a_routes(
    host: AgentHost,
    *,
    url: str,
    prefix: str = "/a2a",
    descriptions: Mapping[str, str] | None = None,
    skills: Mapping[str, Sequence[AgentSkill]] | None = None,
    version: str = "1.0.0",
    card: Callable[[AgentCard], AgentCard] | None = None,
    output: object = None,
    on_disconnect: OnDisconnectChoice = OnDisconnect.CONTINUE,
    cancel_seconds: float = CANCEL_SECONDS,
    max_tasks: int = MAX_TASKS,
) -> list[Route]:
    """A2A 1.0 for the agents of this host, over JSON-RPC and HTTP+JSON. Enter the host in the application's lifespan.

    | address | answer |
    |---|---|
    | `/a2a/NAME/.well-known/agent-card.json` | the card of an agent; of a host's only agent also without `/a2a/NAME` |
    | `POST /a2a/NAME` | JSON-RPC |
    | `/a2a/NAME/message:send`, `.../tasks/ID` | HTTP+JSON |

    A task's context is a stored conversation of the host, and each of its messages a run. Tasks are in memory: the last
    `max_tasks` of them.

    - `url`: where clients reach the application, such as `https://example.com`.
    - `descriptions`, `skills`: for the cards, by the agent's name; skills are by default the agent's tools. `card`
      changes a card, for example to name its security schemes.
    - `output`: the structured output that each reply has, as a data part.
    - `on_disconnect`: a task goes on without clients; a number is the seconds after which it stops.
    - `cancel_seconds`: how long an interrupted run may take to end before it is stopped.
    """
    bounds_of(on_disconnect, None, 1)
    tasks = Tasks(max_tasks)
    routes: list[Route] = []
    for name, agent in host.agents.items():
        path = f"{prefix}/{quote(name, safe='')}"
        service = TaskService(host, name, tasks, on_disconnect=on_disconnect, output=output, grace=cancel_seconds)
        made = card_of(
            agent,
            name,
            url.rstrip("/") + path,
            description=(descriptions or {}).get(name, ""),
            version=version,
            skills=(skills or {}).get(name),
        )
        shown = _card(made if card is None else card(made))
        routes.append(Route(f"{path}{AGENT_CARD_WELL_KNOWN_PATH}", shown, methods=["GET"]))
        if len(host.agents) == 1:
            routes.append(Route(AGENT_CARD_WELL_KNOWN_PATH, shown, methods=["GET"]))
        routes.append(Route(path, rpc_endpoint(service), methods=["POST"]))
        routes += _rest(path, service)
    return routes


def _card(card: AgentCard) -> Endpoint:
    shown = agent_card_to_dict(card)

    async def answer(request: Request) -> Response:
        return JSONResponse(shown)

    return answer


def _rest(path: str, service: TaskService) -> list[Route]:
    operations: tuple[tuple[str, list[str], Callable[[Binding, object], Awaitable[Response]]], ...] = (
        ("/message:send", ["POST"], Binding.send),
        ("/message:stream", ["POST"], Binding.stream),
        ("/tasks/{id}:cancel", ["POST"], Binding.cancel),
        ("/tasks/{id}:subscribe", ["GET", "POST"], Binding.subscribe),
        ("/tasks/{id}/pushNotificationConfigs", ["GET", "POST"], _no_push),
        ("/tasks/{id}/pushNotificationConfigs/{push}", ["GET", "DELETE"], _no_push),
        ("/tasks/{id}", ["GET"], Binding.get),
        ("/tasks", ["GET"], Binding.list),
        ("/extendedAgentCard", ["GET"], _no_card),
    )
    return [Route(path + below, rest_endpoint(service, do), methods=methods) for below, methods, do in operations]


async def _no_push(binding: Binding, given: object) -> Response:
    raise PushNotificationNotSupportedError


async def _no_card(binding: Binding, given: object) -> Response:
    raise ExtendedAgentCardNotConfiguredError
