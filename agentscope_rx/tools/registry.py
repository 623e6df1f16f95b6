"""`Registry`: the registered tools of a toolkit by name, in layers: those of an overlay hide equal names beneath.

agent's toolkit    one  two
run's overlay           two'  three          find("two") is two'; the toolkit itself does not change
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from agentscope_rx.errors import ConfigurationError, DuplicateToolError
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.tools.background import NEVER, check_alone
from agentscope_rx.tools.base import Tool, ToolSource
from agentscope_rx.tools.calls.execute import Plan
from agentscope_rx.tools.groups import Group, ToolGroups
from agentscope_rx.tools.limits import ToolLimits
from agentscope_rx.tools.meta_tool import MetaTool
from agentscope_rx.tools.options import Conflict, check_choice, free_name, under_name
from agentscope_rx.tools.wrapper import innermost, wraps

_STAYS = (None, NEVER)


class ToolEntry:
    """A registered tool with everything made of it once: its schema, its limits, the plan of its last config."""

    __slots__ = ("limits", "meta", "planned", "schema", "tool")

    def __init__(self, tool: Tool) -> None:
        self.tool: Tool = tool
        self.schema: ToolSchema = tool.schema
        self.limits: ToolLimits = tool.limits
        inner = innermost(tool)
        self.meta: MetaTool | None = inner if isinstance(inner, MetaTool) else None
        """The meta tool, wrapped or not: its schema depends on the groups."""
        self.planned: tuple[ExecutionConfig | None, Plan] | None = None
        """The plan of the last config."""

    def schema_in(self, tools: ToolSource) -> ToolSchema:
        """The schema as a model sees it, with these tools beside it."""
        return self.schema if self.meta is None else replace(self.meta.schema_in(tools), name=self.schema.name)

    def plan(self, given: ExecutionConfig | None, default: ExecutionConfig) -> Plan:
        """The plan for this config; an agent gives the same one with every call."""
        planned = self.planned
        if planned is not None and planned[0] is given:
            return planned[1]
        config = default if given is None else given.over(default)
        own = self.tool.execution_config
        plan = Plan(config if own is None else own.over(config), self.schema.name)
        # one assignment: toolkits are shared between threads
        self.planned = (given, plan)
        return plan


class Registry:
    """One layer of registered tools, with their groups, over the layer `beneath` it."""

    __slots__ = ("_changes", "background", "beneath", "entries", "groups")

    def __init__(self) -> None:
        self.beneath: Registry | None = None
        self.groups: ToolGroups = ToolGroups()
        self.background: bool = False
        """True if a tool that was added here, or beneath, may go on in the background."""
        self.entries: dict[str, ToolEntry] = {}
        """Those of this layer by name. Where each call of a tool looks it up, these are asked before `find`."""
        self._changes = 0

    def copy(self) -> Registry:
        """An independent registry of one layer with the same tools."""
        other = Registry()
        other.groups = self.groups.copy()
        other.background = self.background
        other.entries = {name: entry for name in self.names if (entry := self.find(name)) is not None}
        return other

    def overlay(self) -> Registry:
        """An empty layer over this one."""
        other = Registry()
        other.beneath = self
        other.background = self.background
        other.groups = self.groups.view()
        return other

    def find(self, name: str) -> ToolEntry | None:
        """The entry of this name, in this layer or beneath it."""
        entry = self.entries.get(name)
        return self.beneath.find(name) if entry is None and self.beneath is not None else entry

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools in the order of registration, those beneath first."""
        beneath = () if self.beneath is None else self.beneath.names
        return tuple(dict.fromkeys((*beneath, *self.entries)))

    def __len__(self) -> int:
        return len(self.entries) if self.beneath is None else len(self.names)

    @property
    def tools(self) -> list[Tool]:
        """All tools in the order of their names."""
        if self.beneath is None:
            return [entry.tool for entry in self.entries.values()]
        return [entry.tool for name in self.names if (entry := self.find(name)) is not None]

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of this layer."""
        return tuple(self.entries)

    @property
    def version(self) -> int:
        """A number that grows with each change of the tools or groups, in this layer or beneath it."""
        return self._changes + self.groups.changes + (0 if self.beneath is None else self.beneath.version)

    @property
    def returns_direct(self) -> bool:
        """True if a result of one of the tools may be the agent's reply."""
        for entry in self.entries.values():
            if entry.tool.return_direct:
                return True
        return self.beneath is not None and self.beneath.returns_direct

    def available(self) -> Iterator[ToolEntry]:
        """The entries of the tools that are in no group or in an active one."""
        if self.beneath is None and not self.groups.members:
            yield from tuple(self.entries.values())
            return
        for name in self.names:
            if self.groups.available(name) and (entry := self.find(name)) is not None:
                yield entry

    def add(self, tools: Sequence[Tool], group: Group, on_conflict: Conflict) -> tuple[Tool, ...]:
        """Add all of the tools or none; returns them as they are registered."""
        if on_conflict != "error":
            check_choice("on_conflict", on_conflict, Conflict)
        background = self.background
        entries: dict[str, ToolEntry] = {}
        members: dict[str, tuple[str, ...]] = {}
        added: list[Tool] = []
        for tool in tools:
            entry = entries.get(tool.name) or self.find(tool.name)
            if entry is not None and on_conflict == "error":
                raise DuplicateToolError(tool.name)
            if entry is not None and on_conflict == "rename":
                tool = under_name(tool, free_name(tool.name, {*entries, *self.names}))
            check_alone(tool.name, tool.exclusive, tool.background)
            if entry is None or on_conflict != "skip":
                entry = entries[tool.name] = ToolEntry(tool)
                members[tool.name] = () if group is None else self.groups.named(group)
                background = background or entry.tool.background not in _STAYS
            added.append(entry.tool)
        # an overlay does not change the members beneath; groups come first: a tool is never seen without its own
        self.groups.assign(members, separately=self.beneath is not None)
        self.entries.update(entries)
        self.background = background
        self._changes += len(entries)
        return tuple(added)

    def put(self, tool: Tool) -> None:
        """Put a changed tool in the place of the one of its name, in the same groups."""
        self.entries[tool.name] = ToolEntry(tool)
        self.background |= tool.background not in _STAYS
        self._changes += 1

    def remove(self, name: str, only: Tool | None = None) -> Tool | None:
        """Take a tool out of this layer; with `only`, if it is that very tool or a wrapper of it, else None."""
        entry = self.entries.get(name)
        if only is not None and (entry is None or not wraps(entry.tool, only)):
            return None
        if entry is None:
            found = self.find(name) is not None
            where = "belongs to the toolkit beneath this overlay: remove it there" if found else "is not registered"
            raise ConfigurationError(f"Tool {name!r} {where}.")
        del self.entries[name]
        self.groups.forget(name)
        self._changes += 1
        return entry.tool

    def remove_groups(self, removed: Collection[str]) -> tuple[Tool, ...]:
        """Take out these groups, and the tools that are in no other; returns the tools."""
        if self.beneath is not None:
            raise ConfigurationError("An overlay cannot remove groups: remove them from the toolkit beneath it.")
        left = self.groups.remaining(removed)
        tools = [self.remove(tool) for tool, groups in left.items() if not groups]
        self.groups.assign({tool: groups for tool, groups in left.items() if groups})
        self.groups.remove(removed)
        return tuple(tool for tool in tools if tool is not None)

    def replace(self, removed: Mapping[str, Tool], kept: Sequence[str], changed: Registry) -> None:
        """Take over a changed copy: its new tools stand at the place of the `removed` ones, among the `kept` ones."""
        before = [name for name in self.entries if name in removed]
        names = list(self.entries)
        at = sum(name in kept for name in names[: names.index(before[0])]) if before else len(kept)
        new = [name for name in changed.entries if name not in kept]
        self.groups.adopt(changed.groups)
        # one assignment: toolkits are shared between threads
        self.entries = {name: changed.entries[name] for name in [*kept[:at], *new, *kept[at:]]}
        self.background |= changed.background
        for name in set(before) - set(self.entries):
            self.groups.forget(name)
        self._changes += 1
