"""Raised by tools and about them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agentscope_rx.errors.base import AgentScopeError, InvalidInputError


class ContextError(AgentScopeError, LookupError):
    """A RuntimeContext has no value of the type asked for, or several that would do; `wanted` names it."""

    def __init__(self, message: str, *, wanted: str) -> None:
        super().__init__(message)
        self.wanted = wanted


class ApprovalError(AgentScopeError):
    """A rule that says whether a call needs approval failed or gave no answer; nothing ran. `tool`: whose call."""

    def __init__(self, message: str, *, tool: str, call_id: str) -> None:
        super().__init__(message)
        self.tool = tool
        self.call_id = call_id


class ToolError(AgentScopeError):
    """Raise it in a tool to give the model a plain error text; `retryable=True` lets a retry policy try again."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class ToolArgumentsError(ToolError):
    """`tool_arguments` of a run's RuntimeContext do not fit the tool that is called; `arguments` are their names.

    The text names them and no values: the model reads it.
    """

    def __init__(self, tool: str, arguments: Iterable[str]) -> None:
        self.tool = tool
        self.arguments = tuple(arguments)
        super().__init__(
            f"Tool {tool!r} cannot be called: it does not take what the caller of this run has given for "
            f"{', '.join(map(repr, self.arguments))} (tool_arguments). No other arguments can correct that."
        )


class WorkspaceError(ToolError):
    """A path that a tool was given leads to nothing that it may use; `path` as it was given, `reason` in one word.

    Reasons: `absolute`, `parent`, `home`, `name`, `link`, `special`, `denied`, `read_only`, `too_large`, `quota`: not
    allowed, and nothing was touched. `missing`, `exists`, `folder`, `file`, `permission`, `changed`, `system`: not
    possible as things are. `replaced`: the workspace is no longer the folder that it was made for.
    """

    def __init__(self, message: str, *, path: str, reason: str) -> None:
        super().__init__(message)
        self.path = path
        self.reason = reason


class CommandDeniedError(ToolError):
    """A command that is not allowed and has not run; `command` as it was given. The result is of kind `rejected`."""

    def __init__(self, message: str, *, command: str) -> None:
        super().__init__(message)
        self.command = command


class SubAgentError(ToolError):
    """A sub-agent's run failed: `error` is what with, `agent` who, `conversation_id` whose memory holds what it did."""

    def __init__(self, agent: str, conversation_id: str, error: Exception) -> None:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        super().__init__(
            f"Agent {agent!r} failed (conversation_id: {conversation_id}): {what}",
            retryable=bool(getattr(error, "retryable", False)),
        )
        self.agent = agent
        self.conversation_id = conversation_id
        self.error = error


class ToolSuspend(ToolError):
    """Raise it in a tool to leave its call to somebody outside the run; the call waits for their result.

    `reason` is what they read, `metadata` (JSON) what else they need to know. Never retried.
    """

    def __init__(self, reason: str | None = None, **metadata: object) -> None:
        super().__init__(reason or "Tool execution suspended")
        try:
            # as a round trip gives it back
            self.metadata: dict[str, object] = json.loads(json.dumps(metadata, allow_nan=False)) if metadata else {}
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"What ToolSuspend(...) carries must be JSON: {error}") from error


class McpError(ToolError):
    """An MCP server refused a request, or answered with what cannot be used; `server` names it.

    `code` is that of the protocol's error, if it was one.
    """

    def __init__(self, message: str, *, server: str, code: int | None = None, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)
        self.server = server
        self.code = code


class McpConnectionError(McpError):
    """An MCP server could not be reached, or the connection ended; the next call connects again.

    `forgotten`: the server had forgotten the session, and so has done nothing.
    """

    def __init__(self, message: str, *, server: str, forgotten: bool = False) -> None:
        super().__init__(message, server=server, retryable=True)
        self.forgotten = forgotten


class McpLimitError(McpConnectionError):
    """An MCP server sent more than is read, and the connection was closed; `option` sets the limit, `limit` is it."""

    def __init__(self, message: str, *, server: str, option: str, limit: int) -> None:
        super().__init__(message, server=server)
        self.retryable = False
        self.option = option
        self.limit = limit


class McpClosedError(McpError):
    """The client of an MCP server has been closed: it makes no further calls."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"The client of MCP server {server!r} has been closed. Make a new McpClient to connect again.",
            server=server,
        )
