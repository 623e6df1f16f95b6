"""What a toolkit has to do with MCP: it takes tools from servers, and can be one. Needs the extra `mcp`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, concat, defer, from_async_iterable, just
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.options import Conflict
from agentscope_rx.tools.presets import PresetMode
from agentscope_rx.tools.registering import Group
from agentscope_rx.tools.results.postprocess import Postprocess

if TYPE_CHECKING:
    from agentscope_rx.guard import GuardOptions
    from agentscope_rx.tools.mcp import McpApproval, McpClient, McpServer
    from agentscope_rx.tools.mcp.registration import Registration
    from agentscope_rx.tools.toolkit import Toolkit


class ToolServers:
    """The part of a toolkit that knows servers."""

    _registrations: list[Registration]

    def register_mcp(
        self,
        server: McpServer | McpClient,
        *,
        name: str | None = None,
        enable: Iterable[str] | None = None,
        disable: Iterable[str] | None = None,
        prefix: str | None = None,
        presets: Mapping[str, Mapping[str, object]] | None = None,
        preset_mode: PresetMode = "fixed",
        group: Group = None,
        postprocess: Postprocess | None = None,
        on_conflict: Conflict = "error",
        execution_config: ExecutionConfig | None = None,
        requires_approval: McpApproval = False,
    ) -> Flow[tuple[Tool, ...]]:
        """Add all or none of the tools of an MCP server; they follow it when it says that they have changed.

        `server` is `McpStdio`, `McpHttp` or `McpInMemory`, or an `McpClient` with more options, which may be shared
        between toolkits and is its owner's to close. `requires_approval` is True, or a function of each `McpTool`, such
        as `lambda tool: not tool.hints.read_only`. The rest is as for `register_all`, by the server's names.

        Signals: the tools as they are registered, completion; `McpError` if the server cannot be reached or refuses,
        `ConfigurationError` for what cannot be registered: then nothing is, and the connection is closed.
        Cancels: the connecting or the listing.
        """
        from agentscope_rx.tools.mcp.client import McpClient
        from agentscope_rx.tools.mcp.registration import Choice, Registration
        from agentscope_rx.tools.mcp.tool import tool_name

        def named(option: str, names: Iterable[str]) -> tuple[str, ...]:
            if isinstance(names, str):
                raise ConfigurationError(f"{option} takes several names, as in {option}=[{names!r}].")
            return tuple(tool_name(each) for each in names)

        choice = Choice(
            enable=None if enable is None else named("enable", enable),
            disable=named("disable", disable or ()),
            prefix=prefix or "",
            presets={tool_name(each): given for each, given in (presets or {}).items()},
            preset_mode=preset_mode,
            group=group if group is None or isinstance(group, str) else tuple(group),
            postprocess=postprocess,
            on_conflict=on_conflict,
            execution_config=execution_config,
            requires_approval=requires_approval,
        )
        if isinstance(server, McpClient) and name is not None:
            raise ConfigurationError("An McpClient has its name: give it to the client, not to register_mcp.")

        def begin() -> Flow[tuple[Tool, ...]]:
            own = not isinstance(server, McpClient)
            client = server if isinstance(server, McpClient) else McpClient(server, name=name)
            known = self.mcp.get(client.name)
            if known is not None and known is not client:
                raise ConfigurationError(
                    f"This toolkit has an MCP server {client.name!r} already: say which is which with name=..."
                )
            return Registration(cast("Toolkit", self), client, choice, own=own).begin()

        return defer(begin)

    @property
    def mcp(self) -> Mapping[str, McpClient]:
        """The clients of the servers that tools were taken from, by name."""
        return MappingProxyType({each.client.name: each.client for each in self._registrations})

    def remove_mcp(self, name: str) -> Flow[None]:
        """Take out a server's tools, and close its connection if this toolkit has made it.

        Signals: None when it is closed, completion; `ConfigurationError` if there is no such server.
        Cancels: nothing.
        """

        def begin() -> Flow[None]:
            gone = [each for each in self._registrations if each.client.name == name]
            if not gone:
                raise ConfigurationError(
                    f"This toolkit has no MCP server {name!r}; it has {', '.join(self.mcp) or 'none'}."
                )
            for each in gone:
                each.end()
                self._registrations.remove(each)
            return _closed(gone)

        return defer(begin)

    def serve_mcp(
        self,
        *,
        name: str = "toolkit",
        transport: Literal["stdio", "http"] = "stdio",
        host: str = "127.0.0.1",
        port: int = 8000,
        path: str = "/mcp",
        instructions: str | None = None,
        context: RuntimeContext | None = None,
        token: str | None = None,
        guard: GuardOptions | None = None,
        max_message_bytes: int | None = None,
    ) -> Flow[str]:
        """Serve the tools to MCP clients: `toolkit.serve_mcp(name="tools").run()` is a program that does.

        Each call gets `context`. By HTTP, `token` and `guard` say who is answered: see `mcp_app`, which is also for a
        server inside another application. On stdio, `max_message_bytes` (16 MiB) is the longest line that is read.

        Signals: where it serves ("stdio", or the URL), once it does; completion when the input ends; `SetupError` if it
        cannot listen, `McpLimitError` if the client on stdio sends too much.
        Cancels: the server, and the calls in progress.
        """
        from agentscope_rx.tools.mcp.limits import MAX_MESSAGE_BYTES, check_limit
        from agentscope_rx.tools.mcp.listening import on_port, on_stdio
        from agentscope_rx.tools.mcp.serving import mcp_app, mcp_server

        toolkit = cast("Toolkit", self)
        most = MAX_MESSAGE_BYTES if max_message_bytes is None else max_message_bytes
        check_limit(most)
        if transport == "stdio":
            return from_async_iterable(
                lambda: on_stdio(mcp_server(toolkit, name=name, instructions=instructions, context=context), most)
            )
        if transport != "http":  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigurationError(f"transport must be 'stdio' or 'http', not {transport!r}.")

        if type(port) is not int or not 0 <= port <= 65535:
            raise ConfigurationError(
                f"port must be a whole number from 0 (any that is free) to 65535, not {port!r:.60}."
            )

        def listen() -> AsyncGenerator[str]:
            app = mcp_app(
                toolkit,
                name=name,
                path=path,
                host=host,
                instructions=instructions,
                context=context,
                token=token,
                guard=guard,
            )
            return on_port(app, host, port, path)

        return from_async_iterable(listen)

    def add_registration(self, registration: Registration) -> None:
        """Note whose tools these are."""
        self._registrations.append(registration)

    def close(self) -> Flow[None]:
        """Close the connections that this toolkit has made; the tools stay, and say that their server is closed.

        Signals: None when nothing of them is left, completion. Cancels: nothing.
        """
        return defer(lambda: _closed(self._registrations))


def _closed(registrations: Sequence[Registration]) -> Flow[None]:
    clients = {id(each.client): each.client for each in registrations if each.own}
    return concat(*[client.close() for client in clients.values()], just(None))
