"""`McpSession`: one connection to a server. A single task on the library's loop opens it, holds it and closes it.

    opening --ready--> open --close()---------> gone
                       open --connection lost--> gone
    opening --failed, or too slow-------------> gone

Calls do not pass through that task: each is a task of its own that writes to the session and waits for its answer. The
transport, the protocol's loops and the process have cancel scopes, which the same task must enter and leave.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version
from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakSet

import anyio
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    URL_ELICITATION_REQUIRED,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    LoggingMessageNotificationParams,
    ServerCapabilities,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agentscope_rx.errors import McpConnectionError, McpError, McpLimitError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive import OneShotEvent, from_callable, spawn_background
from agentscope_rx.reactive.kernel.forking import call_after_fork, keep_inherited
from agentscope_rx.tools.mcp.content import check_outputs
from agentscope_rx.tools.mcp.limits import LIMIT_ERROR, MAX_REQUESTS
from agentscope_rx.tools.mcp.server import McpServer, McpStreams

if TYPE_CHECKING:
    from mcp.client.session import ClientSession, IncomingMessage, ListRootsFnT, SamplingFnT
    from mcp_types import InputRequest, InputResponse, LoggingLevel
    from reactivex import abc

    from agentscope_rx.tools.mcp.call import OpenCall

T = TypeVar("T")

_log = logging.getLogger("agentscope_rx")

_FORGOTTEN = re.compile(r"session (not found|terminated|expired)|(invalid|no valid|unknown) session", re.IGNORECASE)
"""Texts by which servers report an unknown session: the protocol has an HTTP status for it (404), but no code."""

CLOSE_SECONDS = 10.0
"""How long a connection may take to close; a server's process has less time."""
EXIT_SECONDS = 3.0
"""How long all sessions together may take at the interpreter's exit; then the processes are killed."""

LOGGERS = 20
"""How many logger names a server may use; messages under further names are logged under the server's name."""
LOGGED_CHARACTERS = 10_000

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING}


class _Sessions(WeakSet["McpSession"]):
    def after_fork(self) -> None:
        """The connections belong to the parent process; this one makes its own."""
        global _exit_registered
        keep_inherited(*self)
        self.clear()
        _exit_registered = False


_sessions = _Sessions()
call_after_fork(_sessions)


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The options of each connection of one client. They hold no reference to the client."""

    name: str
    mode: str = "auto"
    connect_timeout: float = 30.0
    log_level: LoggingLevel | None = "info"
    elicitation: Callable[[McpSession, ElicitRequestParams], Awaitable[ElicitResult | ErrorData]] | None = None
    has_handler: bool = False
    """True if a function answers questions, so that calls are not suspended."""
    sampling: SamplingFnT | None = None
    roots: ListRootsFnT | None = None
    changed: Callable[[], object] | None = None


class McpSession:
    """One connection. Used on the library's loop, but for `close_soon`."""

    def __init__(self, server: McpServer, options: ConnectionOptions) -> None:
        self._link: McpStreams = server.link()
        self._options = options
        self._client: Client | None = None
        self._opened = OneShotEvent()
        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._owner: abc.DisposableBase | None = None
        self._failure: Exception | None = None
        self._busy = 0
        self._started = False
        self._loggers: set[str] = set()
        self._questions = 0
        self.calls: set[OpenCall] = set()
        self.stale = False
        """True if new calls need another connection; this one closes after its last call."""
        self.gone: OneShotEvent = OneShotEvent()
        self.exited: threading.Event = threading.Event()

    # --- lifecycle ------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect; `McpConnectionError` if that fails or takes too long. Afterwards the session is open or gone."""
        _sessions.add(self)
        _register_exit()
        self._owner = spawn_background(from_callable(self._run), f"the session with MCP server {self._options.name!r}")
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                await self._opened.wait()
        except TimeoutError:
            await self.close()
            raise self._lost(f"did not answer within {self._options.connect_timeout:g} s") from None
        except asyncio.CancelledError:
            await self.close()
            raise
        if self._client is None:
            await self.gone.wait()
            raise self._lost("cannot be reached") from self._failure

    async def close(self, error: Exception | None = None) -> None:
        """End all calls with this error, close, and return when everything has ended."""
        self.stale = True
        await self._end_calls(error)
        self._end.set()
        if self._client is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.gone.wait()
        # it is still opening, or does not close in time
        if self._owner is not None:
            self._owner.dispose()
        if not self._started:
            # a task that is cancelled before its first step never runs
            self._set_gone()
        await self.gone.wait()

    def close_soon(self) -> None:
        """Start closing, from any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end.set)

    async def _run(self) -> None:
        """The one task of the connection: opens it, waits for its end, closes it."""
        self._started = True
        try:
            async with self._connected() as client:
                check_outputs(client.session)
                self._client = client
                self._opened.fire()
                async with anyio.create_task_group() as tasks:
                    if _announces_changes(client):
                        tasks.start_soon(self._listen, client)
                    if self._link.ended is not None:
                        tasks.start_soon(self._until_ended, self._link.ended.wait)
                    await self._end.wait()
                    # before the calls end: they may be retried, which needs another connection
                    self.stale = True
                    await self._end_calls()
                    tasks.cancel_scope.cancel()
        except Exception as error:
            # an exception group, since transports run in task groups
            self._failure = _first_error(error)
        finally:
            self._set_gone()

    def _set_gone(self) -> None:
        self.stale = True
        _sessions.discard(self)
        self.exited.set()
        self._opened.fire()
        self.gone.fire()

    def _connected(self) -> Client:
        options = self._options
        return Client(
            self._link.target,
            mode=options.mode,
            client_info=Implementation(name="agentscope-rx", version=version("agentscope-rx")),
            cache=None,
            log_level=options.log_level,
            logging_callback=self._log,
            message_handler=self._on_message,
            elicitation_callback=None if options.elicitation is None else self._elicit,
            sampling_callback=options.sampling,
            list_roots_callback=options.roots,
        )

    async def _end_calls(self, error: Exception | None = None) -> None:
        for call in tuple(self.calls):
            await call.fail(error or self._lost("ended during the call"))

    async def _until_ended(self, wait: Callable[[], Awaitable[None]]) -> None:
        await wait()
        self._end.set()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes by the newer protocol. A lost subscription may hide a change, and so counts as one."""
        for pause in chain((1.0, 5.0, 15.0), repeat(60.0)):
            try:
                async with client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        self._changed()
                return
            except SubscriptionLost:
                _log.debug("MCP server %r: the subscription to changes was lost", self._options.name)
            except MCPError as error:
                _log.debug("MCP server %r has no subscription to changes: %s", self._options.name, error)
                return
            await asyncio.sleep(pause)
            self._changed()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification) and not _is_modern(self._client):
            self._changed()

    def _changed(self) -> None:
        if self._options.changed is not None:
            self._options.changed()

    async def _elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        assert self._options.elicitation is not None
        if self._questions >= MAX_REQUESTS:
            return ErrorData(code=INVALID_REQUEST, message=f"More than {MAX_REQUESTS} questions are open.")
        self._questions += 1
        try:
            return await self._options.elicitation(self, params)
        finally:
            self._questions -= 1

    async def _log(self, params: LoggingMessageNotificationParams) -> None:
        name = f"agentscope_rx.mcp.{self._options.name}"
        # loggers live as long as the process, so their number is bounded
        if params.logger and len(params.logger) <= 64 and len(self._loggers | {params.logger}) <= LOGGERS:
            self._loggers.add(params.logger)
            name += f".{params.logger}"
        text = params.data if isinstance(params.data, str) else repr(params.data)
        logging.getLogger(name).log(_LEVELS.get(params.level, logging.ERROR), "%s", text[:LOGGED_CHARACTERS])

    # --- requests -------------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declared."""
        return self._connected_client().server_capabilities

    @property
    def has_handler(self) -> bool:
        """True if a function answers questions, so that calls are not suspended."""
        return self._options.has_handler

    async def dispatch(self, key: str, request: InputRequest) -> InputResponse | ErrorData:
        """The client's response to a request that came in place of a result."""
        session = self._connected_client().session
        meta = request.params.meta if request.params else None
        return await session.dispatch_input_request(
            ClientRequestContext(session=session, request_id=key, meta=meta), request
        )

    async def ask(self, request: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Make one request. `McpConnectionError` if the connection ends, `McpError` if the server refuses."""
        client = self._connected_client()
        self._busy += 1
        try:
            return await request(client.session)
        except MCPError as error:
            raise self._error(error) from error
        except (RuntimeError, ValidationError) as error:
            # the SDK's errors for an answer that does not fit the protocol, or the tool's output schema
            raise McpError(
                f"MCP server {self._options.name!r} gave an answer that cannot be used: {error}",
                server=self._options.name,
            ) from error
        finally:
            self._busy -= 1
            if self.stale and not self._busy:
                self._end.set()

    def _connected_client(self) -> Client:
        if self._client is None or self.gone.fired:
            raise self._lost("is not connected")
        return self._client

    def _error(self, error: MCPError) -> McpError:
        if error.code == LIMIT_ERROR:
            return McpError(f"MCP server {self._options.name!r} {error.message}", server=self._options.name)
        ended = self._link.ended
        if ended is not None and ended.excess.what:
            self.stale = True
            return self._lost("ended during the call")
        if error.code == CONNECTION_CLOSED:
            self.stale = True
            return self._lost("ended during the call")
        if _FORGOTTEN.search(error.message):
            self.stale: bool = True
            return McpConnectionError(
                f"MCP server {self._options.name!r} has forgotten this session.",
                server=self._options.name,
                forgotten=True,
            )
        return McpError(
            f"MCP server {self._options.name!r} answered with error {error.code}: {error.message}{_hint(error)}",
            server=self._options.name,
            code=error.code,
        )

    def _lost(self, how: str) -> McpConnectionError:
        excess = None if self._link.ended is None else self._link.ended.excess
        if excess is not None and excess.what:
            text = f"MCP server {self._options.name!r} sent {excess.what}, and its connection was closed."
            return McpLimitError(text, server=self._options.name, option=excess.option, limit=excess.limit)
        text = f"MCP server {self._options.name!r} {how}."
        if (failure := self._failure) is not None:
            text += f" {type(failure).__name__}: {failure}."
        words = "" if self._link.ended is None else self._link.ended.words()
        return McpConnectionError(f"{text} {words}".strip(), server=self._options.name)


def _hint(error: MCPError) -> str:
    """What the user can do about the error."""
    if "back-channel" in error.message:
        return " (It asks in the middle of a call, as older servers do: connect with mode='legacy'.)"
    if error.code == URL_ELICITATION_REQUIRED:
        required = UrlElicitationRequiredError.from_error(error.error).elicitations
        return "".join(f" {each.message}: {each.url}" for each in required)
    return ""


def _is_modern(client: Client | None) -> bool:
    return client is not None and client.protocol_version in MODERN_PROTOCOL_VERSIONS


def _announces_changes(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return _is_modern(client) and tools is not None and bool(tools.list_changed)


def _first_error(error: BaseException) -> Exception:
    """The first error in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(repr(error))


_exit_registered = False


def _register_exit() -> None:
    # registered after the library loop's own handler, and so called before it
    global _exit_registered
    if not _exit_registered:
        _exit_registered = True
        atexit.register(_close_all)


def _close_all() -> None:
    sessions = list(_sessions)
    for session in sessions:
        session.close_soon()
    deadline = time.monotonic() + EXIT_SECONDS
    for session in sessions:
        session.exited.wait(max(0.0, deadline - time.monotonic()))
