"""`McpClient`: a server that tools may be taken from; connected when it is first needed, and again when it was lost.

    client = McpClient(McpStdio("uvx", ["mcp-server-time"]))
    toolkit.register_mcp(client).run()              # connects, lists, registers
    agent.call("What time is it in Tokyo?").run()   # the same connection, whatever loop asks
    client.close().run()

The connection lives on the library's loop, so it survives each `run()` and each `asyncio.run()`; at the interpreter's
exit it is closed. A client may be shared between toolkits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakSet, finalize

from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import LoggingLevel, PaginatedRequestParams, Prompt, Resource, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tenacity.stop import stop_after_attempt
from tenacity.wait import wait_exponential

from agentscope_rx.errors import ConfigurationError, McpClosedError, McpConnectionError
from agentscope_rx.messages import Msg, OutputBlock, ToolResultBlock
from agentscope_rx.models import ChatModel
from agentscope_rx.reactive import Flow, RetryPolicy, from_callable, jittered, on_library_loop, retry, shield
from agentscope_rx.reactive.kernel.forking import call_after_fork, keep_inherited
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.mcp.call import OpenCall
from agentscope_rx.tools.mcp.content import messages_of, resource_block, result_of_call
from agentscope_rx.tools.mcp.elicitation import OnElicitation, terms_of
from agentscope_rx.tools.mcp.guard import MAX_LISTED, TOO_MUCH, too_many
from agentscope_rx.tools.mcp.question import Action, Answer, Question, answer_to
from agentscope_rx.tools.mcp.server import McpHttp, McpServer, McpStdio
from agentscope_rx.tools.mcp.session import McpSession

if TYPE_CHECKING:
    from tenacity import RetryCallState

    from agentscope_rx.tools.mcp.registration import Registration

T = TypeVar("T")

CONNECT_SECONDS = 30.0
QUESTION_SECONDS = 600.0
"""How long a question of a server stays open for an answer."""
RECONNECT = RetryPolicy(
    stop=stop_after_attempt(4), wait=jittered(wait_exponential(multiplier=0.25, max=5)), retry=lambda state: True
)
"""How a connection that was lost is made again: the first one has one attempt."""

CallKey = tuple[str, str]
"""A call by its id and its tool."""
MAX_PAGES = 200
"""Pages of one list."""
KEPT = 64
"""Calls that wait for an answer; the oldest one beyond is cancelled."""


class McpClient:
    """One server, with at most one connection at a time.

    `connect_timeout` bounds connecting and all requests but calls, whose limits are the tools'. A connection that was
    lost is made again by the next call, as `reconnect` says. `on_elicitation` answers the
    server's questions at once; without it they suspend the call (see `answer`). `sampling` is a model that the server
    may ask, `roots` are folders that it is told of. `mode` is the protocol: `"auto"`, or `"legacy"` for servers that
    ask in the middle of a call.
    """

    def __init__(
        self,
        server: McpServer,
        *,
        name: str | None = None,
        connect_timeout: float = CONNECT_SECONDS,
        reconnect: RetryPolicy = RECONNECT,
        mode: str = "auto",
        on_elicitation: OnElicitation | None = None,
        question_timeout: float = QUESTION_SECONDS,
        sampling: ChatModel | None = None,
        roots: Sequence[str] = (),
        log_level: LoggingLevel | None = "info",
    ) -> None:
        if not callable(getattr(server, "link", None)):
            raise ConfigurationError(
                f"McpClient takes McpStdio(...), McpHttp(...) or McpInMemory(...), not {server!r:.60}."
            )
        for what, seconds in (("connect_timeout", connect_timeout), ("question_timeout", question_timeout)):
            if not seconds > 0:
                raise ConfigurationError(f"{what} must be more than 0 seconds, not {seconds!r}.")
        if mode not in ("auto", "legacy", *MODERN_PROTOCOL_VERSIONS):
            known = ", ".join(MODERN_PROTOCOL_VERSIONS)
            raise ConfigurationError(
                f"mode must be 'auto', 'legacy' or a version of the protocol ({known}), not {mode!r}."
            )
        self.server = server
        self.name = default_name(server) if name is None else name
        self.mode = mode
        self.log_level: LoggingLevel | None = log_level
        self.connect_timeout = connect_timeout
        self.question_timeout = question_timeout
        self.on_elicitation = on_elicitation
        self.sampling = sampling
        self.roots = tuple(roots)
        self._reconnect = reconnect
        self._held = ConnectionHolder()
        self._answers: dict[CallKey, Answer] = {}
        self._suspended: dict[CallKey, OpenCall] = {}
        # a client that nobody holds closes its connection
        finalize(self, self._held.let_go)
        call_after_fork(self)

    def after_fork(self) -> None:
        """The connection and what waits in it are the parent's: the next request makes another one."""
        keep_inherited(*self._suspended.values())
        self._suspended.clear()

    def __repr__(self) -> str:
        return f"<MCP client {self.name}>"

    # --- what it offers -------------------------------------------------------------------------------------------

    def tools(self) -> Flow[tuple[Tool, ...]]:
        """What the server lists now, in its order; connects if need be.

        Signals: the SDK's tools, completion; `McpError`.
        Cancels: the request, or the connecting.
        """
        return self._asked(lambda session: _pages(session, "tools"))

    def resources(self) -> Flow[tuple[Resource, ...]]:
        """The resources that the server lists. Signals and cancels as `tools`."""
        return self._asked(lambda session: _pages(session, "resources"))

    def prompts(self) -> Flow[tuple[Prompt, ...]]:
        """The prompts that the server lists. Signals and cancels as `tools`."""
        return self._asked(lambda session: _pages(session, "prompts"))

    def read_resource(self, uri: str) -> Flow[tuple[OutputBlock, ...]]:
        """What is at this URI, as blocks. Signals and cancels as `tools`."""

        async def read(session: ClientSession) -> tuple[OutputBlock, ...]:
            return tuple(resource_block(each) for each in (await session.read_resource(uri)).contents)

        return self._asked(read)

    def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Flow[tuple[Msg, ...]]:
        """A prompt of the server, filled in, as messages. Signals and cancels as `tools`."""

        async def get(session: ClientSession) -> tuple[Msg, ...]:
            return messages_of(await session.get_prompt(name, dict(arguments or {})), self.name)

        return self._asked(get)

    def call(self, name: str, arguments: Mapping[str, object], context: ToolContext) -> Flow[ToolResultBlock]:
        """Calls the tool that the server calls `name`; what it says of its progress is emitted through `context`.

        Signals: the result; `ToolSuspend` if the server asks a person something, `McpError`.
        Cancels: the call: the server is told, and its task here has ended when the clean-up has.
        """
        return on_library_loop(from_callable(lambda: self._call(name, arguments, context)))

    def answer(
        self, placeholder: ToolResultBlock, content: Mapping[str, object] | None = None, *, action: Action = "accept"
    ) -> None:
        """Answer the question of a suspended call; it goes on when it is run again, as by `agent.call()`.

        `placeholder` is the call's result of kind `suspended`, from the reply. Without `content` where some is asked,
        or with content that does not fit the question's schema, `InvalidInputError`. May be called from any thread,
        and also in another process than the one that was asked.
        """
        answer = answer_to(placeholder, self.name, action, content or {})
        self._answers[(placeholder.id, placeholder.name)] = answer

    def close(self) -> Flow[None]:
        """Close the connection for good; a call after that is a `McpClosedError`.

        Signals: None when nothing of it is left, completion. Calls in progress end with `McpClosedError`.
        Cancels: nothing.
        """
        return on_library_loop(shield(from_callable(self._close)))

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._held.closed

    def listen(self, listener: Registration) -> None:
        """Have the listener told when the server's tools change; held weakly."""
        self._held.listeners.add(listener)

    # --- within, on the library's loop ----------------------------------------------------------------------------

    def _asked(self, request: Callable[[ClientSession], Awaitable[T]]) -> Flow[T]:
        async def ask() -> T:
            for again in (True, False):
                session = await self._session()
                try:
                    async with asyncio.timeout(self.connect_timeout):
                        return await session.ask(request)
                except TimeoutError:
                    raise McpConnectionError(
                        f"MCP server {self.name!r} did not answer within {self.connect_timeout:g} s.", server=self.name
                    ) from None
                except McpConnectionError as error:
                    if not (again and error.forgotten):
                        raise
            raise AssertionError

        return on_library_loop(from_callable(ask))

    async def _session(self) -> McpSession:
        """The connection, made if there is none; those who come meanwhile wait for it."""
        held = self._held
        async with held.lock:
            if held.closed:
                raise McpClosedError(self.name)
            if held.session is None or held.session.stale:
                opened = from_callable(self._open)
                if held.session is not None:
                    opened = opened.pipe(retry(replace(self._reconnect, retry=self._tried_again)))
                try:
                    held.session = await opened
                except McpConnectionError:
                    if held.closed:
                        raise McpClosedError(self.name) from None
                    raise
            return held.session

    def _tried_again(self, state: RetryCallState) -> bool:
        return not self._held.closed and self._reconnect.retry(state)

    async def _open(self) -> McpSession:
        from agentscope_rx.tools.mcp.session import McpSession

        held = self._held
        if held.closed:
            raise McpClosedError(self.name)
        session = McpSession(self.server, terms_of(self, held.changed))
        held.sessions.add(session)
        session.gone.listen(lambda: held.sessions.discard(session))
        await session.open()
        return session

    async def _close(self) -> None:
        held = self._held
        held.closed = True
        # without the lock, which is held while a connection is made: that ends now, and none is made after it
        for session in tuple(held.sessions):
            await session.close(McpClosedError(self.name))
        self._suspended.clear()
        self._answers.clear()

    async def _call(self, name: str, arguments: Mapping[str, object], context: ToolContext) -> ToolResultBlock:

        key = (context.call.id, context.call.name)
        answer = self._answers.pop(key, None)
        open_call = await self._resumed(key, answer)
        for again in (True, False):
            if open_call is None:
                open_call = await self._begun(name, arguments, context, answer)
            try:
                outcome = await open_call.follow(context)
            except McpConnectionError as error:
                if not (again and error.forgotten):
                    raise
                open_call = None
                continue
            if isinstance(outcome, Question):
                await self._keep(key, open_call)
                raise outcome.suspension()
            return result_of_call(context.call, outcome)
        raise AssertionError

    async def _begun(
        self, name: str, arguments: Mapping[str, object], context: ToolContext, answer: Answer | None
    ) -> OpenCall:
        session = await self._session()
        open_call = OpenCall(session, self.name, self.question_timeout, context.run_id)
        if answer is not None:
            open_call.given.append(answer)
        open_call.begin(name, arguments)
        return open_call

    async def _resumed(self, key: CallKey, answer: Answer | None) -> OpenCall | None:
        """The call as it waits here; None if it has to be made again."""
        open_call = self._suspended.pop(key, None)
        if open_call is None:
            return None
        if open_call.failed or (answer is not None and not open_call.answer(answer)):
            await open_call.cancel()
            return None
        return open_call

    async def _keep(self, key: CallKey, open_call: OpenCall) -> None:
        self._suspended[key] = open_call
        while len(self._suspended) > KEPT:
            await self._suspended.pop(next(iter(self._suspended))).cancel()


class ConnectionHolder:
    """What a client has of its connection: the connection's own tasks must not hold the client."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.session: McpSession | None = None
        self.sessions: set[McpSession] = set()
        """This one, and stale ones whose last calls are in progress."""
        self.closed = False
        self.listeners: WeakSet[Registration] = WeakSet()
        call_after_fork(self)

    def after_fork(self) -> None:
        """The connections are the parent's, and so is the task that may hold the lock."""
        keep_inherited(*self.sessions)
        self.lock = asyncio.Lock()
        self.session = None
        self.sessions = set()

    def changed(self) -> None:
        """The server says that its tools have changed."""
        for listener in list(self.listeners):
            listener.refresh_soon()

    def let_go(self) -> None:
        """Close the connection, if there is one; from any thread."""
        for session in tuple(self.sessions):
            session.close_soon()


def default_name(server: McpServer) -> str:
    """What to call a server that was given no name."""
    if isinstance(server, McpStdio):
        return Path(server.command).name
    if isinstance(server, McpHttp):
        return server.url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    return str(getattr(getattr(server, "server", None), "name", None) or type(server).__name__)


async def _pages(session: ClientSession, what: Literal["tools", "resources", "prompts"]) -> tuple[Any, ...]:
    """All of a list that the server gives page by page; a list that is too long, or goes in a circle, is an error."""
    found: list[Any] = []
    cursors: set[str | None] = {None}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page: Any = await getattr(session, f"list_{what}")(
            params=None if cursor is None else PaginatedRequestParams(cursor=cursor)
        )
        found += getattr(page, what)
        if len(found) > MAX_LISTED:
            raise MCPError(TOO_MUCH, too_many(what))
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)
        if cursor in cursors:
            raise MCPError(TOO_MUCH, f"lists its {what} without end: a page is followed by one that came before it.")
        cursors.add(cursor)
    raise MCPError(TOO_MUCH, f"lists its {what} on more than {MAX_PAGES:,} pages: that many are not read.")
