"""`McpTool`: a tool of an MCP server as a `Tool`. It has the server's schema; its arguments are checked here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import FrozenDict, freeze
from agentscope_rx.reactive import Flow
from agentscope_rx.tools.base import Approval, Tool, check_mark, check_name
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.schemas.check import SchemaCheck, fitting

if TYPE_CHECKING:
    from mcp_types import Tool as Listed

    from agentscope_rx.tools.mcp.client import McpClient


@dataclass(frozen=True, slots=True)
class McpAnnotations:
    """A server's description of a tool's behaviour, or None. It is a hint: a server may declare anything."""

    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


McpApproval = bool | Callable[["McpTool"], bool | Callable[[Mapping[str, Any]], bool]]
"""True if calls need approval: for all tools, or for each one, as in `lambda tool: not tool.hints.read_only`."""


class McpTool(Tool):
    """One tool of one server. `remote_name` is its name there; letters that models do not accept become `_`.

    The schema stays as the server wrote it, and arguments are checked against it before anything is sent. Results are
    text, images, audio and embedded resources; structured content is in `result.metadata["structured"]`. `isError` is a
    result of kind `failed`. Addresses and file names from a server are text for the model; nothing reads them. Progress
    becomes chunks of the call and resets its idle deadline. A call that is disposed of, interrupted or late is
    cancelled at the server. Log messages go to the logger `agentscope_rx.mcp.<name>`. `hints` are the server's claims
    about the tool, from which `read_only` and `idempotent` come: an untrusted server may claim anything.
    """

    def __init__(self, client: McpClient, listed: Listed) -> None:
        self.client = client
        self.remote_name: str = listed.name
        self.name: str = check_name(tool_name(listed.name))
        self.description: str = listed.description or ""
        self.parameters: Mapping[str, object] = freeze(listed.input_schema)
        self.output_schema: FrozenDict | None = None if listed.output_schema is None else freeze(listed.output_schema)
        self.hints: McpAnnotations = _hints(listed)
        self.read_only: bool = self.hints.read_only is True
        self.idempotent: bool = self.hints.idempotent is True
        self._check: SchemaCheck | None = None

    def __repr__(self) -> str:
        return f"<tool {self.name} of MCP server {self.client.name}>"

    def prepare(self, rule: McpApproval = False) -> None:
        """Check the schema and apply the approval rule, before registration; `ToolDefinitionError`."""
        self._check = self._make_check()
        self.requires_approval: Approval = check_mark(self.name, rule if isinstance(rule, bool) else rule(self))

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments if they fit the server's schema, or `InvalidArgumentsError` with every problem."""
        if self._check is None:
            self._check = self._make_check()
        return fitting(self._check, self.name, arguments)

    def _make_check(self) -> SchemaCheck:
        try:
            return SchemaCheck(self.parameters)
        except ConfigurationError as error:
            raise ToolDefinitionError(
                f"The arguments of tool {self.remote_name!r} of MCP server {self.client.name!r} cannot be checked: "
                f"{error} Leave it out with disable=[{self.remote_name!r}].",
                tool=self.name,
            ) from error

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Like `call_with`, without a caller context."""
        return self.call_with(arguments, ToolContext(ToolUseBlock("", self.name, arguments)))

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """One call, on the client's connection, which is made if there is none.

        Signals: the result, after progress emitted through the context; `ToolSuspend` if the server asks a person a
        question; `McpError`.
        Cancels: the call, and notifies the server.
        """
        return self.client.call(self.remote_name, arguments, context)


def tool_name(remote: str) -> str:
    """A server's tool name as models accept it: other characters than letters, digits, '_' and '-' become '_'."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", remote)


def _hints(listed: Listed) -> McpAnnotations:
    given = listed.annotations
    if given is None:
        return McpAnnotations(listed.title)
    return McpAnnotations(
        listed.title or given.title,
        given.read_only_hint,
        given.destructive_hint,
        given.idempotent_hint,
        given.open_world_hint,
    )
