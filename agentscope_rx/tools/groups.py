"""Groups of tools: a tool in a group is shown to the model, and can be called, while one of its groups is active.

    toolkit.create_tool_group("browser", "Read pages of the web", notes="Close every page that you open.")
    toolkit.register(open_page, group="browser")
    toolkit.update_tool_groups(["browser"], active=True)

| a tool          | is available                                  |
|-----------------|-----------------------------------------------|
| in no group     | always                                        |
| in some groups  | while at least one of them is active          |

Each toolkit object has its own set of active groups: so has a copy, and so has the view that a run works with. The
groups that a run activates hold for its conversation, and are saved with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass

Group = str | Iterable[str] | None
"""The group or groups of a registration; None: the tool is always available."""


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """Tools that are switched together: `description` is their purpose, `notes` explain how to use them once active.

    A tool in groups is shown, and can be called, while one of them is active. A call of a hidden tool is a `not_found`
    result that names the group. Each toolkit object has its own set of active groups. The groups that a run activates
    hold for its conversation, and are saved with it; a saved group that no longer exists is ignored.
    """

    name: str
    description: str
    notes: str = ""


class ToolGroups:
    """The groups of one toolkit, their members, and which of them are active."""

    __slots__ = ("_created", "_groups", "active", "changes", "members")

    def __init__(self) -> None:
        self._groups: dict[str, ToolGroup] = {}
        # tool name -> its groups; a tool without a group has no entry
        self.members: dict[str, tuple[str, ...]] = {}
        # the groups that were created here, and not in what this is a copy of
        self._created: dict[str, ToolGroup] = {}
        # in the order of the groups' creation, so that equal sets are equal tuples
        self.active: tuple[str, ...] = ()
        self.changes: int = 0
        """The number of times that groups were created or removed."""

    def copy(self) -> ToolGroups:
        """Independent groups with the same content."""
        other = self.view()
        other._groups, other.members = dict(self._groups), dict(self.members)
        return other

    def view(self) -> ToolGroups:
        """The same groups and members, with a set of active groups of its own."""
        other = ToolGroups()
        other._groups, other.members, other.active = self._groups, self.members, self.active
        return other

    def create(self, name: str, description: str, *, active: bool, notes: str) -> ToolGroup:
        """Add a group without tools."""
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A tool group needs a name, not {name!r}.")
        if not isinstance(description, str) or not description.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Tool group {name!r} needs a description for the model, not {description!r:.60}.")
        if name in self._groups:
            raise ConfigurationError(f"There is a tool group {name!r} already.")
        group = self._groups[name] = self._created[name] = ToolGroup(name, description, notes)
        self.changes += 1
        if active:
            self.update([name], active=True)
        return group

    def update(self, names: Iterable[str], active: bool) -> None:
        """Activate or deactivate these groups, and leave the others; an unknown name changes nothing."""
        named = self.check(names)
        self.active = self._in_order({*self.active, *named} if active else {*self.active} - {*named})

    def set_active(self, names: Iterable[str]) -> None:
        """Make exactly these groups active; an unknown name changes nothing."""
        self.active = self._in_order(self.check(names))

    @property
    def all(self) -> tuple[ToolGroup, ...]:
        """All groups, in the order of their creation."""
        return tuple(self._groups.values())

    def of(self, tool: str) -> tuple[str, ...]:
        """The names of a tool's groups; none for a tool that is always available."""
        return self.members.get(tool, ())

    def available(self, tool: str) -> bool:
        """True if the tool is in no group or in an active one."""
        groups = self.members.get(tool)
        return not groups or any(group in self.active for group in groups)

    def check(self, names: Iterable[str]) -> list[str]:
        """The names as a list; `ConfigurationError` for an unknown group."""
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

    def named(self, group: Group) -> tuple[str, ...]:
        """The groups of a registration, checked."""
        return () if group is None else tuple(self.check([group] if isinstance(group, str) else group))

    def assign(self, members: Mapping[str, tuple[str, ...]], *, separately: bool = False) -> None:
        """Put each of these tools into its groups, and out of all others; `separately`: for this view alone."""
        if separately:
            self.members = dict(self.members)
        for tool, groups in members.items():
            if groups:
                self.members[tool] = groups
            else:
                self.members.pop(tool, None)

    def forget(self, tool: str) -> None:
        """Take a tool out of all groups."""
        self.members.pop(tool, None)

    def adopt(self, other: ToolGroups) -> None:
        """Take over the members of a copy, and the groups that were created in it."""
        for name in other._created:
            if name in self._groups:
                raise ConfigurationError(f"There is a tool group {name!r} already.")
        self._groups.update(other._created)
        self._created.update(other._created)
        self.changes += len(other._created)
        self.members.update(other.members)

    def remaining(self, removed: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The members as they will be without these groups; a tool that was in no other has none left."""
        return {tool: tuple(each for each in groups if each not in removed) for tool, groups in self.members.items()}

    def remove(self, names: Collection[str]) -> None:
        """Take out these groups; their tools stay in the others that they are in."""
        for name in names:
            del self._groups[name]
            self._created.pop(name, None)
        self.active = self._in_order(self.active)
        self.changes += 1

    def _in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(name for name in self._groups if name in wanted)
