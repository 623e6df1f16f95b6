"""Groups of tools: what is in a group is shown to the model, and can be called, while a group of it is active.

    toolkit.create_tool_group("browser", "Read pages of the web", notes="Close every page that you open.")
    toolkit.register(open_page, group="browser")
    toolkit.update_tool_groups(["browser"], active=True)

| a tool          | is available                                  |
|-----------------|-----------------------------------------------|
| in no group     | always                                        |
| in some groups  | while at least one of them is active          |

Which groups are active is the business of each toolkit object: a copy has its own, and so has the view that a run works
with. What a run activates holds for its conversation, and is saved with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

from agentscope_rx.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """Tools that are switched together: `description` says what they are for, `notes` how to use them once active."""

    name: str
    description: str
    notes: str = ""


class ToolGroups:
    """The groups of a toolkit, who is in them, and which are active; `Toolkit` is one."""

    _groups: dict[str, ToolGroup]
    _members: dict[str, tuple[str, ...]]
    _active: tuple[str, ...]
    _changes: int

    def _no_groups(self) -> None:
        self._groups = {}
        # tool name -> the groups it is in
        self._members = {}
        # in the order of the groups' creation, so that equal sets are equal tuples
        self._active = ()

    def create_tool_group(self, name: str, description: str, *, active: bool = False, notes: str = "") -> ToolGroup:
        """Add a group, without tools yet: `register(tool, group=name)` puts them in.

        `description` helps a model to decide, `notes` are told to it when it activates the group.
        """
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A tool group needs a name, not {name!r}.")
        if not isinstance(description, str) or not description.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"Tool group {name!r} needs a description: it is what a model decides by, not {description!r:.60}."
            )
        if name in self._groups:
            raise ConfigurationError(f"There is a tool group {name!r} already.")
        group = self._groups[name] = ToolGroup(name, description, notes)
        self._changes += 1
        if active:
            self.update_tool_groups([name], active=True)
        return group

    def update_tool_groups(self, names: Iterable[str], active: bool) -> None:
        """Activate or deactivate these groups, and leave the others; with an unknown name, nothing is changed."""
        named = self.check_groups(names)
        now = {*self._active, *named} if active else {*self._active} - {*named}
        self._active = self._in_order(now)

    def set_active_groups(self, names: Iterable[str]) -> None:
        """Make these, and no others, the active groups; with an unknown name, nothing is changed."""
        self._active = self._in_order(self.check_groups(names))

    @property
    def groups(self) -> tuple[ToolGroup, ...]:
        """All groups, in the order of their creation."""
        return tuple(self._groups.values())

    @property
    def active_groups(self) -> tuple[str, ...]:
        """The names of the active groups, in the order of the groups' creation."""
        return self._active

    def groups_of(self, tool: str) -> tuple[str, ...]:
        """The names of the groups that a tool is in; none for one that is always available."""
        return self._members.get(tool, ())

    def available(self, tool: str) -> bool:
        """Whether a tool of this name may be called now, as far as groups go."""
        groups = self._members.get(tool)
        return not groups or any(group in self._active for group in groups)

    def check_groups(self, names: Iterable[str]) -> list[str]:
        """The names as a list; `ConfigurationError` for one that names no group."""
        given = cast("object", names)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ConfigurationError(f"Tool groups are given as a list of names, as in ['browser'], not {given!r:.60}.")
        found = list(names)
        for name in found:
            if name not in self._groups:
                close = get_close_matches(str(name)[:200], list(self._groups), 1)
                there_are = f"There are {', '.join(self._groups)}" if self._groups else "There are none yet"
                hint = f"Did you mean {close[0]!r}?" if close else f"{there_are}; create_tool_group(...) makes one."
                raise ConfigurationError(f"There is no tool group {name!r:.200}. {hint}")
        return found

    def _in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(name for name in self._groups if name in wanted)

    def _join(self, tool: str, group: str | Iterable[str] | None) -> tuple[str, ...]:
        """The groups that a tool is to be in, checked; what is in none needs no mention."""
        return () if group is None else tuple(self.check_groups([group] if isinstance(group, str) else group))
