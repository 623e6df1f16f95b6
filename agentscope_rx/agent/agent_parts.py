"""`AgentParts`: the objects of one agent whose state is saved with its own conversation, by name.

    registered     agent.register_state("counter", counter), agent.register_state("mood")
    found          the agent itself ("agent"), its hooks ("hook:Counter"), tools and the objects of their methods
                   ("tool:notes"), if they have the methods of a `StatePart`

A load is one step: every state is checked, then given to its part. If a part refuses its state, those that have taken
theirs get back what they had. A part without a saved state gets the one that it had when the agent first knew it, so
that nothing of one conversation stays in another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, cast
from weakref import ref

from agentscope_rx.errors import ConfigurationError, SavedStateError, SessionValueError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.hooks import Hook, Hooks
from agentscope_rx.memory import Memory
from agentscope_rx.parts import PartState, PartStates, dump_parts
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.session.entry import Unwritable, find_unwritable, too_deep
from agentscope_rx.session.state_part import StatePart, as_part, version_of
from agentscope_rx.tools import Tool
from agentscope_rx.tools.wrapper import innermost


class PartsOwner(Protocol):
    """An agent, as its parts see it."""

    name: str
    hooks: Hooks
    memory: Memory

    @property
    def own_tools(self) -> Iterable[Tool]:
        """Its tools."""
        ...


@dataclass(frozen=True, slots=True)
class AttributePart:
    """An attribute of the agent as a part: its value, or what the two functions make of it and it of them."""

    owner: ref[object]
    attribute: str
    to_json: Callable[..., object] | None = None
    from_json: Callable[..., object] | None = None

    def state(self) -> object:
        """The value as JSON."""
        value = getattr(self.owner(), self.attribute)
        return value if self.to_json is None else self.to_json(value)

    def load_state(self, value: object, version: int) -> None:
        """Set the attribute."""
        setattr(self.owner(), self.attribute, value if self.from_json is None else self.from_json(value))


class AgentParts:
    """The parts of one agent; it is held weakly."""

    __slots__ = ("_first", "_owner", "_registered")

    def __init__(self, owner: PartsOwner) -> None:
        self._owner = ref(owner)
        self._registered: dict[str, StatePart] = {}
        # the state that each part had when it was first seen
        self._first: dict[str, PartState] = {}

    def are_in(self, memory: Memory) -> bool:
        """True if the parts are saved with the conversation in this memory: the owner's own."""
        owner = self._owner()
        return owner is not None and owner.memory is memory

    def register(self, name: str, part: StatePart) -> None:
        """Add a part; `ConfigurationError` if the name is taken, or its state has no JSON form."""
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A part of the state needs a name that is not blank, not {name!r:.60}.")
        if as_part(part) is None:
            raise ConfigurationError(
                f"Part {name!r} needs the methods state() and load_state(value, version), and {part!r:.60} has not "
                "both."
            )
        for other, known in self.all().items():
            if other == name or known is part:
                raise ConfigurationError(f"Agent {self._name!r} has {known!r:.60} as part {other!r} of its state.")
        self._note(name, part)
        self._registered[name] = part

    def check(self, added: Sequence[Hook] = ()) -> None:
        """`ConfigurationError` if two parts, with hooks to be added, have one name, or a state has no JSON form.

        The agent itself, which may not be made yet, is left out.
        """
        parts = self.all(added)
        if not parts:
            return
        agent = cast("object", self._owner())
        for name, part in parts.items():
            if name not in self._first and part is not agent:
                self._note(name, part)

    def all(self, added: Sequence[Hook] = ()) -> dict[str, StatePart]:
        """The parts by name; `ConfigurationError` if two have the same."""
        parts: dict[str, StatePart] = dict(self._registered)
        found = self._found(added)
        if not found:
            return parts
        known = {id(part) for part in parts.values()}
        for name, part in found:
            if id(part) in known:
                continue
            known.add(id(part))
            if name in parts:
                raise ConfigurationError(
                    f"Agent {self._name!r} has two parts of its state named {name!r}: {parts[name]!r:.60} and "
                    f"{part!r:.60}. Give one of them another state_name."
                )
            parts[name] = part
        return parts

    def _found(self, added: Sequence[Hook]) -> list[tuple[str, StatePart]]:
        owner = self._owner()
        found: list[tuple[str, StatePart]] = []
        if owner is None:
            return found
        if (part := as_part(owner)) is not None:
            found.append((_name_of(part, "agent"), part))
        for hook in (*owner.hooks.all, *added):
            if (part := as_part(hook)) is not None:
                found.append((_name_of(part, f"hook:{hook.name}"), part))
        for tool in owner.own_tools:
            inner = innermost(tool)
            if (part := as_part(inner)) is not None:
                found.append((_name_of(part, f"tool:{inner.name}"), part))
            # an object with @tool methods
            bound: object = getattr(getattr(inner, "__wrapped__", None), "__self__", None)
            if bound is not None and (part := as_part(bound)) is not None:
                found.append((_name_of(part, f"tool:{type(bound).__name__}"), part))
        return found

    @property
    def _name(self) -> str:
        owner = self._owner()
        return "" if owner is None else owner.name

    def _note(self, name: str, part: StatePart) -> None:
        value = part.state()
        fault = unwritable(value)
        if fault is not None:
            raise ConfigurationError(
                f"The state of part {name!r} has no JSON form: at ${fault.path}, {fault.reason}. state() must return "
                "plain values: dict, list, str, int, float, bool, None."
            )
        self._first[name] = PartState(version_of(name, part), copied(value))

    # --- saving and loading ---------------------------------------------------------------------------------------

    def put_into(self, states: PartStates, key: str) -> None:
        """Put the state of each part among those of the conversation; `SessionValueError` if one has no JSON form."""
        for name, part in self._known().items():
            put_part(states, name, part, key)

    def _known(self) -> dict[str, StatePart]:
        parts = self.all()
        for name, part in parts.items():
            if name not in self._first:
                self._note(name, part)
        return parts

    def load(self, saved: Mapping[str, PartState], key: str) -> Callable[[], None]:
        """Give each part its state; returns what undoes this. `SavedStateError`, and nothing changed, if one fails."""
        parts = self._known()
        given = {name: saved.get(name, self._first[name]) for name in parts}
        for name, part in parts.items():
            check_version(key, name, part, given[name])
        return load_parts([(name, part, given[name]) for name, part in parts.items()], key)


def load_parts(parts: Iterable[tuple[str, StatePart, PartState]], key: str) -> Callable[[], None]:
    """Give each of these parts its state; returns what undoes this. After an error nothing is changed."""
    before: list[tuple[str, StatePart, PartState]] = []

    def undo() -> None:
        while before:
            name, part, state = before.pop()
            try:
                part.load_state(state.state, state.version)
            except Exception as error:
                report_dropped(error, f"giving part {name!r} back the state that it had")

    for name, part, state in parts:
        try:
            old = PartState(version_of(name, part), copied(part.state()))
        except Exception as error:
            undo()
            raise SavedStateError(
                key, f"part {name!r} does not give the state that it has now, to be put back if need be: {error}"
            ) from error
        before.append((name, part, old))
        try:
            part.load_state(copied(state.state), state.version)
        except Exception as error:
            undo()
            raise SavedStateError(
                key, f"part {name!r} does not take its state of version {state.version}: {error}"
            ) from error
    return undo


def check_version(key: str, name: str, part: StatePart, state: PartState) -> None:
    """`SavedStateError` if the state is of a newer version than the part knows."""
    known = version_of(name, part)
    if state.version > known:
        raise SavedStateError(
            key, f"part {name!r} was saved at version {state.version}, and reads up to {known}. Update it."
        )


def put_part(states: PartStates, name: str, part: StatePart, key: str) -> None:
    """Put the state of the part among those of the conversation; `SessionValueError` if it gives none."""
    try:
        value = part.state()
    except Exception as error:
        raise part_fault(key, name, Unwritable("", f"state() has failed: {error}")) from error
    fault = unwritable(value)
    if fault is not None:
        raise part_fault(key, name, fault)
    version, before = version_of(name, part), states.get(name)
    if before is None or (before.version, before.state) != (version, value):
        states.swap(name, before, PartState(version, copied(value)))


def checked_parts(states: Mapping[str, PartState], key: str) -> dict[str, dict[str, object]]:
    """The states as plain JSON; `SessionValueError` names the part whose state has no JSON form."""
    dumped = dump_parts(states)
    for name, each in dumped.items():
        fault = unwritable(each["state"])
        if fault is not None:
            raise part_fault(key, name, fault)
    return dumped


def part_fault(key: str, name: str, fault: Unwritable) -> SessionValueError:
    """The error for a state that has no JSON form."""
    return SessionValueError(key, "state", f"$.parts[{name!r}].state{fault.path}", fault.reason)


def unwritable(value: object) -> Unwritable | None:
    """The first place in the value that JSON has no form for."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return find_unwritable(value) or Unwritable("", f"{error}")
    return too_deep(value) if text.count("[") + text.count("{") > _DEEP else None


_DEEP = 190
"""Less brackets than this are no deep value: the state itself adds some levels."""


def copied(value: object) -> object:
    """A copy of a JSON value, as a load gives it."""
    return cast("object", json.loads(json.dumps(value)))


def _name_of(part: object, default: str) -> str:
    name = cast("object", getattr(part, "state_name", None))
    return name if isinstance(name, str) and name.strip() else default
