"""How tools come into a toolkit: one, or all of a source; what if a name is taken; presets changed later."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from agentscope_rx.errors import ConfigurationError, DuplicateToolError
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.coerce import public_methods, tools_of
from agentscope_rx.tools.entry import ToolEntry
from agentscope_rx.tools.groups import ToolGroups
from agentscope_rx.tools.options import (
    CommonOptions,
    Conflict,
    RegisterOptions,
    ToolOptions,
    check_choice,
    check_prefix,
    chosen,
    free_name,
    made,
    under_name,
    with_presets,
)
from agentscope_rx.tools.presets import PresetMode

if TYPE_CHECKING:
    from agentscope_rx.tools.toolkit import Toolkit

Group = str | Iterable[str] | None


class Registering(ToolGroups):
    """The part of a toolkit by which it is filled."""

    _base: Toolkit | None
    _entries: dict[str, ToolEntry]

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all tools."""

    @abstractmethod
    def _entry(self, name: str) -> ToolEntry | None: ...

    def register(
        self,
        tool: object,
        *,
        group: Group = None,
        on_conflict: Conflict = "error",
        **options: Unpack[RegisterOptions],
    ) -> Tool:
        """Add one tool, made of a function or callable object if it is none yet, and return it as it is registered.

        In a `group`, or several, it is available while one of them is active. `options` change how it looks and what
        becomes of its arguments and results (see `RegisterOptions`). If the name is taken it is an error, or this tool
        takes the place ("override"), is left out ("skip": the one that is there is returned) or gets the next free name
        ("rename": name_2, name_3, ...).
        Raises `ToolDefinitionError` for what cannot be a tool, `DuplicateToolError` if the name is taken,
        `ConfigurationError` if there is no such group.
        """
        return self._add([made(tool, ToolOptions(**options))], group, on_conflict)[0]

    def register_all(
        self,
        source: object,
        *,
        group: Group = None,
        presets: Mapping[str, Mapping[str, object]] | None = None,
        enable: Iterable[str] | None = None,
        disable: Iterable[str] = (),
        prefix: str = "",
        on_conflict: Conflict = "error",
        **options: Unpack[CommonOptions],
    ) -> tuple[Tool, ...]:
        """Add all or none of the tools of a source: an object's `@tool` methods (its class's own and inherited), those
        of a toolkit, of several sources; of anything else, the one tool it is.

        `presets` are by tool name, as are the tools that `enable` and `disable` name; `prefix` stands before each name.
        """
        presets = presets or {}
        check_prefix(prefix)
        found = chosen(tools_of(source), enable, disable, presets)
        names = [prefix + each.name if prefix else None for each in found]
        tools = [
            made(each, ToolOptions(name=name, presets=presets.get(each.name), **options))
            for each, name in zip(found, names, strict=True)
        ]
        return self._add(tools, group, on_conflict)

    def register_methods(
        self,
        source: object,
        *,
        group: Group = None,
        presets: Mapping[str, Mapping[str, object]] | None = None,
        enable: Iterable[str] | None = None,
        disable: Iterable[str] = (),
        prefix: str = "",
        on_conflict: Conflict = "error",
        **options: Unpack[CommonOptions],
    ) -> tuple[Tool, ...]:
        """Add the public methods of an object as tools, marked by `@tool` or not; otherwise as `register_all`.

        Only those that are added (see `enable`, `disable`) need annotations.
        """
        methods = {_name_of(each): each for each in public_methods(source)}
        for name in (*(enable or ()), *disable, *(presets or ())):
            if name not in methods:
                raise ConfigurationError(f"There is no method {name!r} here: there are {', '.join(sorted(methods))}.")
        wanted = methods if enable is None else set(enable)
        unwanted = set(disable)
        chosen_ones = [each for name, each in methods.items() if name in wanted and name not in unwanted]
        return self.register_all(
            chosen_ones, group=group, presets=presets, prefix=prefix, on_conflict=on_conflict, **options
        )

    def update_presets(
        self, name: str, presets: Mapping[str, object] | None, *, preset_mode: PresetMode | None = None
    ) -> Tool:
        """Give a tool these presets in the place of those it has (None: none), from its next call on; returns it.

        Copies of this toolkit keep their own; on an overlay it is for the overlay alone.
        """
        entry = self._entry(name)
        if entry is None:
            raise ConfigurationError(f"Tool {name!r} is not registered.")
        if preset_mode is not None:
            check_choice("preset_mode", preset_mode, PresetMode)
        changed = self._entries[name] = ToolEntry(with_presets(entry.tool, presets, preset_mode))
        self._changes += 1
        return changed.tool

    def _add(self, tools: Sequence[Tool], group: Group, on_conflict: Conflict) -> tuple[Tool, ...]:
        check_choice("on_conflict", on_conflict, Conflict)
        entries: dict[str, ToolEntry] = {}
        members = dict(self._members)
        added: list[Tool] = []
        for tool in tools:
            there = entries.get(tool.name) or self._entry(tool.name)
            if there is not None and on_conflict == "error":
                raise DuplicateToolError(tool.name)
            if there is not None and on_conflict == "rename":
                tool = under_name(tool, free_name(tool.name, {*entries, *self.names}))
            if there is None or on_conflict != "skip":
                there = entries[tool.name] = ToolEntry(tool)
                members.pop(tool.name, None)
                if groups := self._join(tool.name, group):
                    members[tool.name] = groups
            added.append(there.tool)
        # all or none; an overlay does not change what is beneath, and runs in progress see what is added beneath them
        if self._base is not None:
            self._members = members
        for name in entries:
            # first of all: a tool is never seen without its groups
            if name in members:
                self._members[name] = members[name]
            else:
                self._members.pop(name, None)
        self._entries.update(entries)
        self._changes += len(entries)
        return tuple(added)


def _name_of(method: object) -> str:
    return method.name if isinstance(method, Tool) else str(getattr(method, "__name__", ""))
