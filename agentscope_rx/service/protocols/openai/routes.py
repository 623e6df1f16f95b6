"""The routes of the endpoint that OpenAI's clients speak to: an agent's name is the name of a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.openai.chat import chat_completion
from agentscope_rx.service.protocols.openai.failures import openai_error
from agentscope_rx.service.protocols.openai.parked import MAX_PARKED, ParkedConversations
from agentscope_rx.service.protocols.openai.responses import delete_response, response
from agentscope_rx.service.protocols.openai.stored import MAX_STORED, StoredResponses

Endpoint = Callable[[Request], Awaitable[Response]]


def openai_routes(
    host: AgentHost, *, prefix: str = "/v1", max_parked: int = MAX_PARKED, max_stored: int = MAX_STORED
) -> list[Route]:
    """OpenAI's API for the agents of this host. Enter the host in the lifespan of the application.

    | request | answer |
    |---|---|
    | `POST /v1/chat/completions` | the agent's answer, whole or as a stream |
    | `POST /v1/responses` | the same by items, with stored conversations |
    | `DELETE /v1/responses/{id}` | forgets a stored conversation |
    | `GET /v1/models`, `GET /v1/models/{name}` | the agents |

    `max_parked` conversations are kept for the results of a client's tools, and `max_stored` responses if the host has
    no store.
    """
    parked, stored = ParkedConversations(max_parked), StoredResponses(host, max_stored)

    async def chat(request: Request) -> Response:
        return await chat_completion(request, host, parked)

    async def respond(request: Request) -> Response:
        return await response(request, host, stored)

    async def forget(request: Request) -> Response:
        return await delete_response(request, host, stored)

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_model(name) for name in host.agents]})

    async def model(request: Request) -> Response:
        return JSONResponse(_model(host.name_of(request.path_params["name"])))

    return [
        Route(f"{prefix}/chat/completions", _answered(chat), methods=["POST"]),
        Route(f"{prefix}/responses", _answered(respond), methods=["POST"]),
        Route(f"{prefix}/responses/{{response_id}}", _answered(forget), methods=["DELETE"]),
        Route(f"{prefix}/models", _answered(models), methods=["GET"]),
        Route(f"{prefix}/models/{{name:path}}", _answered(model), methods=["GET"]),
    ]


def _answered(endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose errors have OpenAI's form in every application."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:
            return openai_error(error)

    return answer


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentscope_rx"}
