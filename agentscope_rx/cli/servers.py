"""`--mcp COMMAND|URL`: the tools of MCP servers. Calls of tools that may change something wait for the person."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentscope_rx.errors import ConfigurationError, McpError, MissingExtraError
from agentscope_rx.tools import Toolkit

if TYPE_CHECKING:
    from agentscope_rx.tools.mcp import McpServer, McpTool


class UnusableServerError(ConfigurationError):
    """The tools of a server that `--mcp` names cannot be had."""


def add_servers(toolkit: Toolkit, specs: Iterable[str]) -> None:
    """Add the tools of each server; if one fails, those connected before it are closed."""
    try:
        for spec in specs:
            _add(toolkit, spec)
    except BaseException:
        toolkit.close().run()
        raise


def _add(toolkit: Toolkit, spec: str) -> None:
    try:
        # needs packages that only an extra brings
        from agentscope_rx.tools.mcp.client import default_name

        server = _server(spec)
        name = base = default_name(server)
        number = 1
        while name in toolkit.mcp:
            number += 1
            name = f"{base}-{number}"
        toolkit.register_mcp(server, name=name, requires_approval=_may_change).run()
    except MissingExtraError:
        raise
    except (ConfigurationError, McpError) as error:
        raise UnusableServerError(f"--mcp {spec}: {error}") from error


def _server(spec: str) -> McpServer:
    from agentscope_rx.tools.mcp import McpHttp, McpStdio

    if spec.startswith(("http://", "https://")):
        return McpHttp(spec)
    try:
        words = shlex.split(spec)
    except ValueError as error:
        raise ConfigurationError(f"this is no command: {error}.") from error
    if not words:
        raise ConfigurationError("it takes a command, such as 'uvx mcp-server-time', or a URL.")
    return McpStdio(words[0], words[1:])


def _may_change(tool: McpTool) -> bool:
    """All but what a server itself calls read-only."""
    return not tool.hints.read_only
