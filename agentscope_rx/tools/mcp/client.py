"""`McpClient`: a client of one MCP server. It connects when first used, and again after the connection was lost.

    client = McpClient(McpStdio("uvx", ["mcp-server-time"]))
    toolkit.register_mcp(client).run()              # connects, lists, registers
    agent.call("What time is it in Tokyo?").run()   # the same connection, from any loop
    client.close().run()

The connection lives on the library's loop, so that it outlives each `run()` and each `asyncio.run()`; it is closed at
the interpreter's exit. Toolkits may share a client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
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
from agentscope_rx.tools.mcp.callbacks import elicitation_callback, roots_callback, sampling_callback
from agentscope_rx.tools.mcp.content import messages_of, resource_block, result_of_call
from agentscope_rx.tools.mcp.elicitation import Action, Answer, OnElicitation, Question, answer_to
from agentscope_rx.tools.mcp.limits import LIMIT_ERROR, MAX_LISTED, too_many_listed
from agentscope_rx.tools.mcp.server import McpHttp, McpServer, McpSse, McpStdio
from agentscope_rx.tools.mcp.session import ConnectionOptions, McpSession

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

CONNECT_SECONDS = 30.0
QUESTION_SECONDS = 600.0
"""How long a question of a server stays open for an answer."""
RECONNECT = RetryPolicy(
    stop=stop_after_attempt(4), wait=jittered(wait_exponential(multiplier=0.25, max=5)), retry=lambda state: True
)
"""How a lost connection is made again; the first connection has a single attempt."""

CallKey = tuple[str, str]
"""The id of a call and the name of its tool."""
MAX_PAGES = 200
"""How many pages of one list are read."""
MAX_SUSPENDED = 64
"""How many suspended calls stay open; beyond it the oldest is cancelled."""


class ToolListListener(Protocol):
    """Reacts to changes of a server's tools."""

    def refresh_soon(self) -> None:
        """The server reports that its tools have changed. Called on the library's loop."""
        ...


class McpClient:
    """A client of one MCP server, with at most one connection at a time. Several toolkits may share it.

        client = McpClient(McpStdio("uvx", ["mcp-server-time"]))
        toolkit.register_mcp(client).run()              # connects, lists, registers
        agent.call("What time is it in Tokyo?").run()   # the same connection, from any loop
        client.close().run()

    | argument           | sets                                                                                     |
    |--------------------|------------------------------------------------------------------------------------------|
    | `name`             | the server's name; by default its program or host, so two servers of `uvx` need names    |
    | `connect_timeout`  | seconds for connecting and for every request but calls, which have their tools' timeouts |
    | `reconnect`        | the attempts to connect again after a lost connection: a `RetryPolicy`, 4 by default     |
    | `on_elicitation`   | answers the server's questions at once; without it they suspend the call (see `answer`)  |
    | `question_timeout` | how long a question stays open (10 minutes)                                              |
    | `sampling`         | a model that the server may use                                                          |
    | `roots`            | the folders that the server may work in                                                  |
    | `mode`             | "auto", or "legacy" for servers that ask questions during a call in the older way        |

    The connection lives on the library's loop. So it outlives each `run()` and each `asyncio.run()`, and servers do not
    affect each other.

    | event | effect |
    |---|---|
    | the server ends during a call | the call fails, with the way the server ended and its last output |
    | the next call | connects again |
    | a connection fails or is late | `McpConnectionError`; the first connection has one attempt |
    | `close()` | current and later calls fail with `McpClosedError` |
    | nothing refers to the client, or the program ends | it is closed; processes that do not end are killed |

    On stdio in mode "legacy" a question does not name its call: all calls of one run wait, and with calls of several
    runs the server gets an error.
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
                f"McpClient takes McpStdio(...), McpHttp(...), McpSse(...) or McpInMemory(...), not {server!r:.60}."
            )
        for option, seconds in (("connect_timeout", connect_timeout), ("question_timeout", question_timeout)):
            if not seconds > 0:
                raise ConfigurationError(f"{option} must be more than 0 seconds, not {seconds!r}.")
        if mode not in ("auto", "legacy", *MODERN_PROTOCOL_VERSIONS):
            known = ", ".join(MODERN_PROTOCOL_VERSIONS)
            raise ConfigurationError(
                f"mode must be 'auto', 'legacy' or a version of the protocol ({known}), not {mode!r}."
            )
        self.server = server
        self.name: str = default_name(server) if name is None else name
        self.mode = mode
        self.log_level: LoggingLevel | None = log_level
        self.connect_timeout = connect_timeout
        self.question_timeout = question_timeout
        self.on_elicitation = on_elicitation
        self.sampling = sampling
        self.roots: tuple[str, ...] = tuple(roots)
        self._reconnect = reconnect
        self._connections = ConnectionHolder()
        self._answers: dict[CallKey, Answer] = {}
        self._suspended: dict[CallKey, OpenCall] = {}
        # a client without references closes its connection
        finalize(self, self._connections.close_soon)
        call_after_fork(self)

    def after_fork(self) -> None:
        """The connection and its suspended calls belong to the parent; the next request makes a new connection."""
        keep_inherited(*self._suspended.values())
        self._suspended.clear()

    def __repr__(self) -> str:
        return f"<MCP client {self.name}>"

    # --- requests -------------------------------------------------------------------------------------------------

    def tools(self) -> Flow[tuple[Tool, ...]]:
        """The tools that the server lists now, in its order; connects if necessary.

        Signals: the SDK's tools, completion; `McpError`.
        Cancels: the request, or the connecting.
        """
        return self._request(lambda session: _pages(session, "tools"))

    def resources(self) -> Flow[tuple[Resource, ...]]:
        """The resources that the server lists. Signals and cancels as `tools`."""
        return self._request(lambda session: _pages(session, "resources"))

    def prompts(self) -> Flow[tuple[Prompt, ...]]:
        """The prompts that the server lists. Signals and cancels as `tools`."""
        return self._request(lambda session: _pages(session, "prompts"))

    def read_resource(self, uri: str) -> Flow[tuple[OutputBlock, ...]]:
        """The resource at this URI, as blocks. Signals and cancels as `tools`."""

        async def read(session: ClientSession) -> tuple[OutputBlock, ...]:
            return tuple(resource_block(each) for each in (await session.read_resource(uri)).contents)

        return self._request(read)

    def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Flow[tuple[Msg, ...]]:
        """A prompt of the server with these arguments, as messages. Signals and cancels as `tools`."""

        async def get(session: ClientSession) -> tuple[Msg, ...]:
            return messages_of(await session.get_prompt(name, dict(arguments or {})), self.name)

        return self._request(get)

    def call(self, name: str, arguments: Mapping[str, object], context: ToolContext) -> Flow[ToolResultBlock]:
        """Calls the server's tool `name`. Its progress is emitted through `context`.

        Signals: the result; `ToolSuspend` if the server asks a person a question, `McpError`.
        Cancels: the call. The server is notified, and disposal has finished when the call's task has.
        """
        return on_library_loop(from_callable(lambda: self._call(name, arguments, context)))

    def answer(
        self, placeholder: ToolResultBlock, content: Mapping[str, object] | None = None, *, action: Action = "accept"
    ) -> None:
        """Answer the question of a suspended call, which continues when it runs again, as by `agent.call()`.

            reply = agent.call("Book a table").run()
            client.answer(reply.tool_results[0], {"people": 4})       # or action="decline"
            reply = agent.call().run()

        `placeholder` is the call's result of kind `suspended`, from the reply: `text` has the question, its metadata
        the form's schema. `InvalidInputError` if the content does not fit that schema. Call it from any thread. Later
        than `question_timeout`, or in another process, the call is made again, and the answer is given when the server
        asks the same question: keep the reply (`to_json()`).
        """
        answer = answer_to(placeholder, self.name, action, content or {})
        self._answers[(placeholder.id, placeholder.name)] = answer

    def close(self) -> Flow[None]:
        """Close the connection for good. Calls in progress and later calls fail with `McpClosedError`.

        Signals: None when the connection has ended, completion.
        Cancels: nothing.
        """
        return on_library_loop(shield(from_callable(self._close)))

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._connections.closed

    def listen(self, listener: ToolListListener) -> None:
        """Call the listener when the server's tools change; only a weak reference to it is kept."""
        self._connections.listeners.add(listener)

    # --- on the library's loop ------------------------------------------------------------------------------------

    def _request(self, request: Callable[[ClientSession], Awaitable[T]]) -> Flow[T]:
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
        """The connection, made if there is none; concurrent callers wait for the same one."""
        connections = self._connections
        async with connections.lock:
            if connections.closed:
                raise McpClosedError(self.name)
            if connections.session is None or connections.session.stale:
                opened = from_callable(self._open)
                if connections.session is not None:
                    opened = opened.pipe(retry(replace(self._reconnect, retry=self._should_retry)))
                try:
                    connections.session = await opened
                except McpConnectionError:
                    if connections.closed:
                        raise McpClosedError(self.name) from None
                    raise
            return connections.session

    def _should_retry(self, state: RetryCallState) -> bool:
        return not self._connections.closed and self._reconnect.retry(state)

    def _options(self) -> ConnectionOptions:
        return ConnectionOptions(
            name=self.name,
            mode=self.mode,
            connect_timeout=self.connect_timeout,
            log_level=self.log_level,
            elicitation=elicitation_callback(self.name, self.on_elicitation),
            has_handler=self.on_elicitation is not None,
            sampling=sampling_callback(self.sampling),
            roots=roots_callback(self.roots),
            changed=self._connections.changed,
        )

    async def _open(self) -> McpSession:
        connections = self._connections
        if connections.closed:
            raise McpClosedError(self.name)
        session = McpSession(self.server, self._options())
        connections.sessions.add(session)
        session.gone.listen(lambda: connections.sessions.discard(session))
        await session.open()
        return session

    async def _close(self) -> None:
        connections = self._connections
        connections.closed = True
        # without the lock, which a connecting task holds: that ends now, and no other connection is made
        for session in tuple(connections.sessions):
            await session.close(McpClosedError(self.name))
        self._suspended.clear()
        self._answers.clear()

    async def _call(self, name: str, arguments: Mapping[str, object], context: ToolContext) -> ToolResultBlock:
        key = (context.call.id, context.call.name)
        answer = self._answers.pop(key, None)
        open_call = await self._resume(key, answer)
        for again in (True, False):
            if open_call is None:
                open_call = await self._begin(name, arguments, context, answer)
            try:
                outcome = await open_call.follow(context)
            except McpConnectionError as error:
                if not (again and error.forgotten):
                    raise
                open_call = None
                continue
            if isinstance(outcome, Question):
                await self._suspend(key, open_call)
                raise outcome.suspension()
            return result_of_call(context.call, outcome)
        raise AssertionError

    async def _begin(
        self, name: str, arguments: Mapping[str, object], context: ToolContext, answer: Answer | None
    ) -> OpenCall:
        session = await self._session()
        open_call = OpenCall(session, self.name, self.question_timeout, context.run_id)
        if answer is not None:
            open_call.given.append(answer)
        open_call.begin(name, arguments)
        return open_call

    async def _resume(self, key: CallKey, answer: Answer | None) -> OpenCall | None:
        """The suspended call, with its answer; None if the call must be made again."""
        open_call = self._suspended.pop(key, None)
        if open_call is None:
            return None
        if open_call.failed or (answer is not None and not open_call.answer(answer)):
            await open_call.cancel()
            return None
        return open_call

    async def _suspend(self, key: CallKey, open_call: OpenCall) -> None:
        self._suspended[key] = open_call
        while len(self._suspended) > MAX_SUSPENDED:
            await self._suspended.pop(next(iter(self._suspended))).cancel()


class ConnectionHolder:
    """The connections of one client. Their tasks hold this object, so that they do not keep the client alive."""

    def __init__(self) -> None:
        self.lock: asyncio.Lock = asyncio.Lock()
        self.session: McpSession | None = None
        self.sessions: set[McpSession] = set()
        """The current one, and stale ones whose last calls are in progress."""
        self.closed = False
        self.listeners: WeakSet[ToolListListener] = WeakSet()
        call_after_fork(self)

    def after_fork(self) -> None:
        """The connections, and the task that may hold the lock, belong to the parent."""
        keep_inherited(*self.sessions)
        self.lock = asyncio.Lock()
        self.session = None
        self.sessions = set()

    def changed(self) -> None:
        """Notify the listeners that the server's tools have changed."""
        for listener in list(self.listeners):
            listener.refresh_soon()

    def close_soon(self) -> None:
        """Start closing the connections, from any thread."""
        for session in tuple(self.sessions):
            session.close_soon()


def default_name(server: McpServer) -> str:
    """The name of a server without a given one."""
    if isinstance(server, McpStdio):
        return Path(server.command).name
    if isinstance(server, (McpHttp, McpSse)):
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
            raise MCPError(LIMIT_ERROR, too_many_listed(what))
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)
        if cursor in cursors:
            raise MCPError(LIMIT_ERROR, f"lists its {what} without end: a page is followed by one that came before it.")
        cursors.add(cursor)
    raise MCPError(LIMIT_ERROR, f"lists its {what} on more than {MAX_PAGES:,} pages: that many are not read.")
