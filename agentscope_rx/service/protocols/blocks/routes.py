"""The routes of AgentScope 2's chat: runs are begun by one request and read by another.

| request                        | answer                                                                              |
|--------------------------------|-------------------------------------------------------------------------------------|
| POST /chat/                    | `{"status": "started", "session_id"}` once the run has begun; with                  |
|                                | `Accept: text/event-stream` the events of the run                                   |
| GET /sessions/{id}/stream      | the events of the run in progress, and of those after it, until the client leaves   |
| POST /sessions/{id}/interrupt  | 202, `{"session_id", "interrupted"}`; false if no run is in progress                |

A body of `/chat/` has the `agent_id`, the `session_id` and the `input`: messages of a user, a USER_CONFIRM_RESULT, an
EXTERNAL_EXECUTION_RESULT, or null to go on. `agent_id` is a query parameter of the others; one agent needs none.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentscope_rx.agent import Agent, ReActAgent
from agentscope_rx.events.blocks.incoming import ExternalExecutionResult, IncomingMsg, UserConfirmResult
from agentscope_rx.messages import ApprovalAnswer, Msg, ToolUseBlock
from agentscope_rx.service.bodies import read_body
from agentscope_rx.service.failure import error_response
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.blocks.encoder import BlockEncoder
from agentscope_rx.service.protocols.blocks.session_stream import SessionStream
from agentscope_rx.service.protocols.events.routes import Endpoint, answered
from agentscope_rx.service.protocols.sse import sse_response
from agentscope_rx.service.runs.live_run import LiveRun
from agentscope_rx.tools import ExternalTool

CONTINUED = 1000


def _kind(given: object) -> str:
    if isinstance(given, list):
        return "messages"
    return str(cast("dict[str, object]", given).get("type", "message")) if isinstance(given, dict) else "message"


ChatInput = Annotated[
    Annotated[IncomingMsg, Tag("message")]
    | Annotated[list[IncomingMsg], Field(min_length=1), Tag("messages")]
    | Annotated[UserConfirmResult, Tag("USER_CONFIRM_RESULT")]
    | Annotated[ExternalExecutionResult, Tag("EXTERNAL_EXECUTION_RESULT")],
    Discriminator(_kind),
]


class ChatBody(BaseModel):
    """Begins a run in a stored conversation."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    agent_id: str | None = None
    session_id: str = Field(min_length=1, max_length=200)
    input: ChatInput | None


def blocks_routes(host: AgentHost, *, prefix: str = "/blocks") -> list[Route]:
    """AgentScope 2's chat, for the agents of this host. Enter the host in the lifespan of the application.

    A run that `POST /chat/` has begun goes on without a client, unless the request asks for its events itself: then it
    is as the `on_disconnect` of the host says.
    """
    chats = _Chats(host)

    def route(path: str, endpoint: Endpoint, method: str) -> Route:
        return Route(prefix + path, answered(endpoint), methods=[method])

    return [
        route("/chat/", chats.chat, "POST"),
        route("/chat", chats.chat, "POST"),
        route("/sessions/{session_id}/stream", chats.stream, "GET"),
        route("/sessions/{session_id}/interrupt", chats.interrupt, "POST"),
    ]


class _Chats:
    """The conversations of a host, as this protocol has them."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._continued: dict[str, str] = {}
        """By the id of a run, the last ones: the id of the parked reply that it continues. Readers may be behind."""

    async def chat(self, request: Request) -> Response:
        body = await read_body(request, ChatBody)
        host, user, session_id = self._host, self._host.user_of(request), body.session_id
        name = host.name_of(body.agent_id)
        input = await self._input(name, user, body)
        streamed = "text/event-stream" in request.headers.get("accept", "")
        live = host.begin(
            name,
            input,
            user=user,
            session_id=session_id,
            on_disconnect=None if streamed else "continue",
            when_busy="error",
        )
        if isinstance(body.input, (UserConfirmResult, ExternalExecutionResult)):
            self._continue(live, body.input.reply_id)
        if streamed:
            return sse_response(live, encoder=self._encoder(session_id))
        return _Started(live, session_id)

    async def stream(self, request: Request) -> Response:
        name, user, session_id = self._place(request)
        return SessionStream(self._host, (name, user, session_id), self._encoder(session_id))

    async def interrupt(self, request: Request) -> Response:
        name, user, session_id = self._place(request)
        live = await self._host.find_live(name, user, session_id)
        interrupted = live is not None and await self._host.finder.interrupt(live.id or "")
        return JSONResponse({"session_id": session_id, "interrupted": interrupted}, 202)

    def _place(self, request: Request) -> tuple[str, str, str]:
        host = self._host
        name = host.name_of(request.query_params.get("agent_id"))
        return name, host.user_of(request), request.path_params["session_id"]

    def _encoder(self, session_id: str) -> BlockEncoder:
        return BlockEncoder(session_id, self._continued)

    def _continue(self, live: LiveRun, reply_id: str) -> None:
        def begin() -> None:
            self._continued[live.id or ""] = reply_id
            if len(self._continued) > CONTINUED:
                del self._continued[next(iter(self._continued))]

        live.begun.listen(begin)

    async def _input(self, name: str, user: str, body: ChatBody) -> list[Msg | ApprovalAnswer] | None:
        given = body.input
        if given is None:
            return None
        if isinstance(given, IncomingMsg):
            return [given.to_msg()]
        if isinstance(given, list):
            return [each.to_msg() for each in given]
        if self._host.shared:
            # another process may have continued it: what is kept here may be old
            await self._host.pool(name).evict(user, body.session_id)
        calls = await self._host.pending_calls(name, user, body.session_id)
        pending = {call.id: call for call in calls}
        if isinstance(given, UserConfirmResult):
            return [*given.to_answers(pending)]
        return [*given.to_messages(_external(self._host.agent(name), pending))]


def _external(agent: Agent, pending: dict[str, ToolUseBlock]) -> dict[str, ToolUseBlock]:
    """The calls that a client may give the result of: a result of one that waits for approval would be forged."""
    if not isinstance(agent, ReActAgent):
        return pending
    toolkit = agent.toolkit
    return {
        id: call
        for id, call in pending.items()
        if call.name not in toolkit or isinstance(toolkit.get(call.name), ExternalTool)
    }


class _Started(Response):
    """Begins a run that goes on by itself, and answers when its first event has come."""

    def __init__(self, live: LiveRun, session_id: str) -> None:
        super().__init__()
        self._live = live
        self._session_id = session_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = JSONResponse({"status": "started", "session_id": self._session_id})
        try:
            reader = self._live.follow()
            try:
                await reader.wait()
            finally:
                await self._live.leave(reader)
        except Exception as error:
            answer = error_response(error)
        await answer(scope, receive, send)
