"""Where an MCP server is: a command to run, a URL, or an object in this process.

| server                                | is reached by                                                                |
|---------------------------------------|------------------------------------------------------------------------------|
| `McpStdio(command, args, env=, cwd=)` | its standard input and output; started with the connection, ended with it    |
| `McpHttp(url, headers=, auth=)`       | streamable HTTP                                                              |
| `McpInMemory(server)`                 | calls: an object of the official SDK in this process, on the library's loop  |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.mcp.limits import MAX_MESSAGE_BYTES, Excess, checked_limit

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport
    from mcp.server import MCPServer, Server


@dataclass(slots=True)
class McpStreams:
    """A way to one server, not yet taken: what the SDK's client is made of, and what is known of the other end."""

    target: Transport | Server[Any] | MCPServer
    ended: Ended | None = None


class Ended(Protocol):
    """What a transport knows of the end of its server."""

    @property
    def excess(self) -> Excess:
        """What the server may say, and what was too much."""
        ...

    def words(self) -> str:
        """How the server ended and what it said last; '' if nothing is known."""
        ...

    async def wait(self) -> None:
        """Return when the server has ended, or has said too much."""
        ...


class McpServer(Protocol):
    """Where a server is."""

    def link(self) -> McpStreams:
        """A new way there; nothing happens before it is entered."""
        ...


@dataclass(frozen=True, slots=True)
class McpStdio:
    """A program that speaks MCP on its standard input and output.

    It gets `env` and a few variables of this process (PATH, HOME, ...), not the others: they may hold secrets. A line
    of more than `max_message_bytes` ends it; of its standard error the last words are kept.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | Path | None = None
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        checked_limit(self.max_message_bytes)
        if not isinstance(self.command, str) or not self.command:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"McpStdio takes a command, such as McpStdio('uvx', ['x']), not {self.command!r}.")
        if isinstance(self.args, str):
            raise ConfigurationError(f"McpStdio takes the arguments as a list, not as the text {self.args!r:.60}.")
        object.__setattr__(self, "args", tuple(str(each) for each in self.args))

    def link(self) -> McpStreams:
        """A new process."""
        from agentscope_rx.tools.mcp.stdio import Child

        child = Child(self.command, self.args, self.env, self.cwd, self.max_message_bytes)
        return McpStreams(child, child)


@dataclass(frozen=True, slots=True)
class McpHttp:
    """A server at a URL, by streamable HTTP; `auth` is an `httpx2.Auth`, such as the SDK's OAuth providers.

    A response, or one event of it, of more than `max_message_bytes` (decompressed) ends the connection.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: httpx2.Auth | None = field(default=None, repr=False)
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        checked_limit(self.max_message_bytes)
        if not isinstance(self.url, str) or not self.url.startswith(("http://", "https://")):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"McpHttp takes a URL such as 'https://example.com/mcp', not {self.url!r:.80}.")

    def link(self) -> McpStreams:
        """A client of its own for each connection."""
        from agentscope_rx.tools.mcp.http import Remote

        remote = Remote(self.url, self.headers, self.auth, self.max_message_bytes)
        return McpStreams(remote, remote)


@dataclass(frozen=True, slots=True)
class McpInMemory:
    """A server object of the official SDK, in this process; its handlers run on the library's loop."""

    server: Server[Any] | MCPServer = field(repr=False)

    def link(self) -> McpStreams:
        """The object itself."""
        return McpStreams(self.server)
