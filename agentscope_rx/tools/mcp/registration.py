"""`Registration`: the tools of one server in one toolkit, and their refresh when the server changes them.

    connect -> list -> make -> filter -> register all, or none
    the server reports a change -> the same again, replacing the old ones

| `enable`, `disable`      | what is registered                                  |
|--------------------------|-----------------------------------------------------|
| neither                  | all tools that the server lists                     |
| `enable=[names]`         | these                                               |
| `disable=[names]`        | all but these                                       |
| both                     | the enabled ones that are not disabled              |
| a name it does not list  | `ConfigurationError` with the names that it lists   |

After a change, names that the server no longer lists are ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, Self, Unpack
from weakref import ref

from mcp_types import Tool as Listed

from agentscope_rx.errors import AgentScopeError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, Outcome, concat_map, from_callable, just, spawn_background, using
from agentscope_rx.tools.argument_wrappers import PresetMode
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.groups import Group
from agentscope_rx.tools.mcp.client import McpClient
from agentscope_rx.tools.mcp.tool import McpApproval, McpTool
from agentscope_rx.tools.options import Conflict, RegisterAllOptions
from agentscope_rx.tools.results.postprocess import Postprocess
from agentscope_rx.tools.wrapper import innermost

_log = logging.getLogger("agentscope_rx")


class ToolTarget(Protocol):
    """What a registration needs of a toolkit."""

    def register_all(
        self,
        source: object,
        *,
        group: Group = None,
        on_conflict: Conflict = "error",
        **options: Unpack[RegisterAllOptions],
    ) -> tuple[Tool, ...]: ...
    def replace_tools(
        self, old: Mapping[str, Tool], register: Callable[[Self], Sequence[Tool]]
    ) -> tuple[Tool, ...]: ...
    def add_registration(self, registration: Registration) -> None: ...
    def take_out(self, name: str, only: Tool | None) -> Tool | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The selection of a server's tools, and the options of their registration."""

    enable: tuple[str, ...] | None
    disable: tuple[str, ...]
    prefix: str
    presets: Mapping[str, Mapping[str, object]]
    preset_mode: PresetMode
    group: Group
    postprocess: Postprocess | None
    on_conflict: Conflict
    execution_config: ExecutionConfig | None
    requires_approval: McpApproval

    def among(self, names: Iterable[str]) -> Choice:
        """The choice restricted to these names."""
        known = set(names)
        return replace(
            self,
            enable=None if self.enable is None else tuple(name for name in self.enable if name in known),
            disable=tuple(name for name in self.disable if name in known),
            presets={name: given for name, given in self.presets.items() if name in known},
        )

    async def prepare(self, tools: Iterable[McpTool]) -> None:
        """Prepare the tools that will be registered, yielding to the loop between them."""
        for tool in tools:
            if (self.enable is None or tool.name in self.enable) and tool.name not in self.disable:
                tool.prepare(self.requires_approval)
                await asyncio.sleep(0)

    def register(self, toolkit: ToolTarget, tools: Iterable[McpTool]) -> tuple[Tool, ...]:
        """Add the prepared tools to the toolkit, all or none."""
        return toolkit.register_all(
            tuple(tools),
            group=self.group,
            presets=self.presets,
            enable=self.enable,
            disable=self.disable,
            prefix=self.prefix,
            on_conflict=self.on_conflict,
            preset_mode=self.preset_mode,
            postprocess=self.postprocess,
            execution_config=self.execution_config,
        )


class Registration:
    """The tools of one server in one toolkit. The toolkit holds this object, which refers to it weakly."""

    def __init__(self, toolkit: ToolTarget, client: McpClient, choice: Choice, *, own: bool) -> None:
        self.client = client
        self.own = own
        """True if the toolkit made the client, and so closes it."""
        self._toolkit = ref(toolkit)
        self._choice = choice
        self._changes = 0
        self._refreshing = False
        self._tools: dict[str, Tool] = {}
        """The server's tools in the toolkit, without their wrappers, by their names there."""

    def begin(self) -> Flow[tuple[Tool, ...]]:
        """Connect, list, register.

        Signals: the tools as they are registered, completion; `McpError`, `ConfigurationError`: nothing is registered.
        Cancels: the connecting or the listing.
        """
        registered = self.client.tools().pipe(concat_map(lambda listed: from_callable(lambda: self._register(listed))))
        if not self.own:
            return registered

        def close_unless_completed(client: McpClient, outcome: Outcome) -> Flow[None] | None:
            return None if outcome is Outcome.COMPLETED else client.close()

        return using(lambda: just(self.client), lambda _: registered, close_unless_completed)

    def of(self, toolkit: ToolTarget) -> Registration:
        """The registration for a copy of the toolkit."""
        other = Registration(toolkit, self.client, self._choice, own=False)
        other._tools = dict(self._tools)
        self.client.listen(other)
        return other

    def end(self) -> None:
        """Remove the tools from the toolkit."""
        toolkit = self._toolkit()
        if toolkit is not None:
            for name, tool in self._tools.items():
                toolkit.take_out(name, tool)
        self._toolkit = _no_toolkit

    def refresh_soon(self) -> None:
        """Replace the tools after a change at the server. Called on the library's loop.

        During a refresh, further changes start only one more.
        """
        self._changes += 1
        if not self._refreshing:
            self._refreshing = True
            spawn_background(from_callable(self._refresh_all), f"the changed tools of MCP server {self.client.name!r}")

    async def _refresh_all(self) -> None:
        try:
            seen = 0
            while seen != self._changes:
                seen = self._changes
                await self._refresh()
        finally:
            self._refreshing = False

    async def _refresh(self) -> None:
        if self.client.closed:
            return
        try:
            listed = await self.client.tools()
            tools = await self._make(listed)
            choice = self._choice.among(tool.name for tool in tools)
            await choice.prepare(tools)
            toolkit = self._toolkit()
            if toolkit is not None:
                replaced = toolkit.replace_tools(self._tools, lambda other: choice.register(other, tools))
                self._tools = _own(replaced, tools)
        except AgentScopeError as error:
            _log.warning(
                "The changed tools of MCP server %r could not be registered, the old ones stay: %s",
                self.client.name,
                error,
            )

    async def _register(self, listed: tuple[Listed, ...]) -> tuple[Tool, ...]:
        tools = await self._make(listed)
        await self._choice.prepare(tools)
        toolkit = self._toolkit()
        if toolkit is None:
            return ()
        registered = self._choice.register(toolkit, tools)
        self._tools = _own(registered, tools)
        toolkit.add_registration(self)
        self.client.listen(self)
        return registered

    async def _make(self, listed: tuple[Listed, ...]) -> list[McpTool]:
        """The tools, yielding to the loop between them."""
        tools: list[McpTool] = []
        for each in listed:
            tools.append(McpTool(self.client, each))
            await asyncio.sleep(0)
        return tools


def _own(registered: Iterable[Tool], tools: Iterable[McpTool]) -> dict[str, Tool]:
    """The registered tools that come from these: with a name conflict another tool may have stayed."""
    made = {id(tool) for tool in tools}
    return {tool.name: innermost(tool) for tool in registered if id(innermost(tool)) in made}


def _no_toolkit() -> None:
    return None
