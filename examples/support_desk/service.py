"""The HTTP service of the desk: conversations of many customers, a list of what waits, and its approval.

    python examples/support_desk/service.py [FOLDER] [PORT]         port 8000, conversations in ./desk-data

| request                                   | by       | answer                                                     |
|-------------------------------------------|----------|------------------------------------------------------------|
| POST /chat/{id} {"text"}                  | customer | the run as server-sent events; 409 while a refund waits    |
| GET /chat/{id}                            | customer | what was said so far                                       |
| GET /waiting                              | staff    | the calls of all conversations that wait for approval      |
| POST /waiting/{user}/{id} {"refuse": ...} | staff    | null approves, a reason refuses; the run that goes on      |

Look at: `ConversationPool`. One agent serves all conversations; each is loaded when it is needed and saved at the end
of a run, so a refund that waits outlasts a restart. The user comes from the token, never from the request's body.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

import uvicorn
from desk import desk
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentscope_rx import Approve, ConversationPool, JsonSession, Msg, Reject
from agentscope_rx.errors import AgentScopeError, ConfigurationError
from agentscope_rx.service import GuardOptions, RequestGuard, Runs, answer_error, sse_response

TOKENS = {"token-of-ann": "ann", "token-of-bob": "bob", "token-of-staff": "staff"}
"""A service of yours asks its authentication instead."""


def user_of(request: Request, *, staff: bool = False) -> str:
    """Who asks; 401 and 403 are the answers to all others."""
    user = TOKENS.get(request.headers.get("authorization", "").removeprefix("Bearer "))
    if user is None:
        raise HTTPException(401, "Send a token: authorization: Bearer ...")
    if (user == "staff") is not staff:
        raise HTTPException(403, "This is not for you.")
    return user


async def field(request: Request, name: str) -> str:
    """A text of the JSON body, "" for null; 422 is the answer to another body."""
    try:
        value = json.loads(await request.body())[name]
    except (ValueError, TypeError, KeyError):
        value = ...
    if value is not None and not isinstance(value, str):
        raise HTTPException(422, f'Send JSON with a text: {{"{name}": "..."}}')
    return value or ""


def application(folder: Path) -> Starlette:
    """The service, with all that it keeps in this folder."""
    store = JsonSession(folder / "conversations")
    # a second service on this folder waits for its turn
    pool = ConversationPool(desk(folder), store, max_kept=1000, max_idle=600, lease="queue")
    runs = Runs(keep_seconds=60)

    async def say(request: Request) -> Response:
        user, chat = user_of(request), request.path_params["id"]
        text = await field(request, "text")
        if await pool.pending_calls(user, chat):
            raise HTTPException(409, "A colleague is looking at your refund. We will write to you.")
        events = pool.stream(user, chat, text)
        # a customer who closes the page finds the answer later
        return sse_response(runs.add(events, on_disconnect="continue"))

    async def read(request: Request) -> Response:
        async with pool.conversation(user_of(request), request.path_params["id"]) as chat:
            return JSONResponse([f"{each.name}: {each.text}" for each in await chat.memory.get() if each.text])

    async def waiting(request: Request) -> Response:
        user_of(request, staff=True)
        found: list[dict[str, object]] = []
        for key in await store.keys():
            user, chat = map(unquote, key.split("/"))
            calls = await pool.pending_calls(user, chat)
            for call in calls:
                found.append({"user": user, "chat": chat, "tool": call.name, **call.input})
        return JSONResponse(found)

    async def decide(request: Request) -> Response:
        user_of(request, staff=True)
        user, chat = request.path_params["user"], request.path_params["id"]
        reason = await field(request, "refuse")
        calls = await pool.pending_calls(user, chat)
        if not calls:
            raise HTTPException(404, "Nothing waits here.")
        answers: list[Msg | Approve | Reject] = [Reject(call, reason) if reason else Approve(call) for call in calls]
        return sse_response(runs.add(pool.stream(user, chat, answers), on_disconnect="continue"))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with pool, runs:
            yield

    return Starlette(
        routes=[
            Route("/chat/{id}", say, methods=["POST"]),
            Route("/chat/{id}", read),
            Route("/waiting", waiting),
            Route("/waiting/{user}/{id}", decide, methods=["POST"]),
        ],
        middleware=[Middleware(RequestGuard, options=GuardOptions())],
        exception_handlers={AgentScopeError: answer_error},
        lifespan=lifespan,
    )


if __name__ == "__main__":
    # the guard's reminder to set a token: this service has tokens of its own
    logging.getLogger("agentscope_rx").setLevel(logging.ERROR)
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "desk-data")
    place.mkdir(parents=True, exist_ok=True)
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
    try:
        served = application(place)
    except ConfigurationError as error:
        sys.exit(f"error: {error}")
    uvicorn.run(served, port=port, log_level="warning", timeout_graceful_shutdown=5)
