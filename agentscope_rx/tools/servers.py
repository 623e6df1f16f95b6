"""The MCP side of a toolkit: the servers that tools were taken from, and the server that a toolkit can be.

Needs the extra `mcp`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypedDict

from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, concat, defer, from_async_iterable, just
from agentscope_rx.tools.argument_wrappers import PresetMode
from agentscope_rx.tools.base import Tool, ToolSource, check_keywords
from agentscope_rx.tools.groups import Group
from agentscope_rx.tools.options import Conflict
from agentscope_rx.tools.results.postprocess import Postprocess

if TYPE_CHECKING:
    from agentscope_rx.guard import GuardOptions
    from agentscope_rx.tools.mcp import McpApproval, McpClient, McpServer
    from agentscope_rx.tools.mcp.registration import Choice, Registration, ToolTarget


class McpOptions(TypedDict, total=False):
    """Options of `Toolkit.register_mcp`; tools are named as the server names them."""

    name: str | None
    """The server's name in this toolkit."""
    enable: Iterable[str] | None
    """The tools to register; None: all."""
    disable: Iterable[str] | None
    """The tools to leave out."""
    prefix: str | None
    """Stands before each name."""
    presets: Mapping[str, Mapping[str, object]] | None
    """Arguments that are given here, by the server's tool name."""
    preset_mode: PresetMode
    group: Group
    postprocess: Postprocess | None
    on_conflict: Conflict
    execution_config: ExecutionConfig | None
    requires_approval: McpApproval
    """True, or a function of each `McpTool`, such as `lambda tool: not tool.hints.read_only`."""


class McpServerOptions(TypedDict, total=False):
    """Options of `Toolkit.serve_mcp`."""

    name: str
    transport: Literal["stdio", "http"]
    host: str
    port: int
    """0: any free one."""
    path: str
    instructions: str | None
    context: RuntimeContext | None
    """The context of each call."""
    token: str | None
    """The bearer token that HTTP clients need."""
    guard: GuardOptions | None
    """Which HTTP requests are answered (see `mcp_app`)."""
    max_message_bytes: int | None
    """The longest line that is read on stdio; None: 16 MiB."""


class ToolServers:
    """The MCP servers that the tools of one toolkit were taken from."""

    __slots__ = ("_registrations",)

    def __init__(self, registrations: Sequence[Registration] = ()) -> None:
        self._registrations = tuple(registrations)

    def copy(self, toolkit: ToolTarget) -> ToolServers:
        """The same servers for a copy of the toolkit."""
        return ToolServers([each.of(toolkit) for each in self._registrations])

    @property
    def clients(self) -> Mapping[str, McpClient]:
        """The clients of the servers, by name."""
        return MappingProxyType({each.client.name: each.client for each in self._registrations})

    def add(self, registration: Registration) -> None:
        """Keep a server's registration."""
        self._registrations = (*self._registrations, registration)

    def register(
        self, toolkit: ToolTarget, server: McpServer | McpClient, options: McpOptions
    ) -> Flow[tuple[Tool, ...]]:
        """Register a server's tools in the toolkit; see `Toolkit.register_mcp`."""
        from agentscope_rx.tools.mcp.client import McpClient
        from agentscope_rx.tools.mcp.registration import Registration

        check_keywords("register_mcp", options, McpOptions)
        choice = _choice(options)
        name = options.get("name")
        if isinstance(server, McpClient) and name is not None:
            raise ConfigurationError(
                "An McpClient has a name already: set it with McpClient(..., name=...), not in register_mcp."
            )

        def begin() -> Flow[tuple[Tool, ...]]:
            own = not isinstance(server, McpClient)
            client = server if isinstance(server, McpClient) else McpClient(server, name=name)
            known = self.clients.get(client.name)
            if known is not None and known is not client:
                raise ConfigurationError(
                    f"This toolkit has an MCP server {client.name!r} already. Give this one another name, with name=..."
                )
            return Registration(toolkit, client, choice, own=own).begin()

        return defer(begin)

    def remove(self, name: str) -> Flow[None]:
        """Take out a server's tools; see `Toolkit.remove_mcp`."""

        def begin() -> Flow[None]:
            removed = [each for each in self._registrations if each.client.name == name]
            if not removed:
                raise ConfigurationError(
                    f"This toolkit has no MCP server {name!r}; it has {', '.join(self.clients) or 'none'}."
                )
            for each in removed:
                each.end()
                self._registrations = tuple(other for other in self._registrations if other is not each)
            return _closed(removed)

        return defer(begin)

    def close(self) -> Flow[None]:
        """Close the connections that the toolkit made; see `Toolkit.close`."""
        return defer(lambda: _closed(self._registrations))


def _choice(options: McpOptions) -> Choice:
    from agentscope_rx.tools.mcp.registration import Choice
    from agentscope_rx.tools.mcp.tool import tool_name

    def named(option: str, names: Iterable[str]) -> tuple[str, ...]:
        if isinstance(names, str):
            raise ConfigurationError(f"{option} takes a list of names, as in {option}=[{names!r}].")
        return tuple(tool_name(each) for each in names)

    enable, group = options.get("enable"), options.get("group")
    return Choice(
        enable=None if enable is None else named("enable", enable),
        disable=named("disable", options.get("disable") or ()),
        prefix=options.get("prefix") or "",
        presets={tool_name(each): given for each, given in (options.get("presets") or {}).items()},
        preset_mode=options.get("preset_mode", "fixed"),
        group=group if group is None or isinstance(group, str) else tuple(group),
        postprocess=options.get("postprocess"),
        on_conflict=options.get("on_conflict", "error"),
        execution_config=options.get("execution_config"),
        requires_approval=options.get("requires_approval", False),
    )


def serve(toolkit: ToolSource, options: McpServerOptions) -> Flow[str]:
    """Serve the toolkit to MCP clients; see `Toolkit.serve_mcp`."""
    from agentscope_rx.tools.mcp.limits import MAX_MESSAGE_BYTES, check_limit
    from agentscope_rx.tools.mcp.listening import on_port, on_stdio
    from agentscope_rx.tools.mcp.serving import mcp_app, mcp_server

    check_keywords("serve_mcp", options, McpServerOptions)
    name, context = options.get("name", "toolkit"), options.get("context")
    transport, instructions = options.get("transport", "stdio"), options.get("instructions")
    limit = options.get("max_message_bytes")
    most = MAX_MESSAGE_BYTES if limit is None else limit
    check_limit(most)
    if transport == "stdio":
        return from_async_iterable(
            lambda: on_stdio(mcp_server(toolkit, name=name, instructions=instructions, context=context), most)
        )
    if transport != "http":  # pyright: ignore[reportUnnecessaryComparison]
        raise ConfigurationError(f"transport must be 'stdio' or 'http', not {transport!r}.")
    host, port, path = options.get("host", "127.0.0.1"), options.get("port", 8000), options.get("path", "/mcp")
    if type(port) is not int or not 0 <= port <= 65535:
        raise ConfigurationError(f"port must be a whole number from 0 (any that is free) to 65535, not {port!r:.60}.")

    def listen() -> AsyncGenerator[str]:
        app = mcp_app(
            toolkit,
            name=name,
            path=path,
            host=host,
            instructions=instructions,
            context=context,
            token=options.get("token"),
            guard=options.get("guard"),
        )
        return on_port(app, host, port, path)

    return from_async_iterable(listen)


def _closed(registrations: Sequence[Registration]) -> Flow[None]:
    clients = {id(each.client): each.client for each in registrations if each.own}
    return concat(*[client.close() for client in clients.values()], just(None))
