"""Errors of tools."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agentscope_rx.errors.base import AgentScopeError, InvalidInputError


class ContextError(AgentScopeError, LookupError):
    """A RuntimeContext has no value of the requested type, or several; `wanted` names the type."""

    def __init__(self, message: str, *, wanted: str) -> None:
        super().__init__(message)
        self.wanted = wanted


class ApprovalError(AgentScopeError):
    """The approval rule of `tool` failed, or answered neither True, False nor None; the call did not run."""

    def __init__(self, message: str, *, tool: str, call_id: str) -> None:
        super().__init__(message)
        self.tool = tool
        self.call_id = call_id


class ToolError(AgentScopeError):
    """Raise it in a tool to give the model a plain error text; `retryable=True` lets a retry policy try again."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class PlanError(ToolError):
    """A change of a plan that its rules do not allow; nothing was changed. The text tells the model what to do."""


class ToolArgumentsError(ToolError):
    """`tool_arguments` of a run's RuntimeContext do not fit the tool that is called; `arguments` are their names.

    The text names them and no values: the model reads it.
    """

    def __init__(self, tool: str, arguments: Iterable[str]) -> None:
        self.tool = tool
        self.arguments: tuple[str, ...] = tuple(arguments)
        super().__init__(
            f"Tool {tool!r} cannot be called: it does not take what the caller of this run has given for "
            f"{', '.join(map(repr, self.arguments))} (tool_arguments). No other arguments can correct that."
        )


class WorkspaceError(ToolError):
    """A tool cannot use a path; `path` as it was given, `reason` in one word.

    Reasons: `absolute`, `parent`, `home`, `name`, `link`, `special`, `denied`, `read_only`, `too_large`, `quota`: not
    allowed, and nothing was changed. `missing`, `exists`, `folder`, `file`, `permission`, `changed`, `system`: not
    possible at the moment. `replaced`: the workspace is no longer the folder that it was made for.
    """

    def __init__(self, message: str, *, path: str, reason: str) -> None:
        super().__init__(message)
        self.path = path
        self.reason = reason


class CommandDeniedError(ToolError):
    """A command is not allowed and did not run; `command` is its text. The result is of kind `rejected`."""

    def __init__(self, message: str, *, command: str) -> None:
        super().__init__(message)
        self.command = command


class SubAgentError(ToolError):
    """A sub-agent's run failed with `error`; `agent` is its name, `conversation_id` that of its messages."""

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
    """Raise it in a tool whose result comes from outside the run; the call stays pending until then.

    `reason` is a text, and `metadata` JSON, for the person or program that gives the result. It is never retried.
    """

    def __init__(self, reason: str | None = None, **metadata: object) -> None:
        super().__init__(reason or "Tool execution suspended")
        try:
            # as it comes back from JSON
            self.metadata: dict[str, object] = json.loads(json.dumps(metadata, allow_nan=False)) if metadata else {}
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"The metadata of ToolSuspend(...) must be JSON: {error}") from error


class McpError(ToolError):
    """An MCP server refused a request, or its answer is invalid; `server` names it.

    `code` is the error code of the protocol, if there was one.
    """

    def __init__(self, message: str, *, server: str, code: int | None = None, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)
        self.server = server
        self.code = code


class McpConnectionError(McpError):
    """An MCP server could not be reached, or the connection ended; the next call connects again.

    `forgotten`: the server no longer knew the session, so it has not processed the request.
    """

    def __init__(self, message: str, *, server: str, forgotten: bool = False) -> None:
        super().__init__(message, server=server, retryable=True)
        self.forgotten = forgotten


class McpLimitError(McpConnectionError):
    """An MCP server sent more than `limit`, so the connection was closed; `option` is the name of the limit."""

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
