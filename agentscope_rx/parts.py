"""`PartStates`: the states of the parts of one conversation, by name. `Part`: the typed view of one of them.

A hook or a tool serves many conversations at once, so it keeps nothing of them in itself: its state in a conversation
is plain JSON here, with the version of its form. It is saved and loaded with the conversation.

    parts.get("plan")                        PartState(1, {"current": ...}), or None
    parts.swap("plan", before, after)        False if another one has changed it since `before` was read
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.reactive.kernel.forking import shared_lock

S = TypeVar("S")
R = TypeVar("R")


class PartState:
    """The state of one part: plain JSON, with the version of its form.

    `read` is the value that the part has read from it. It is immutable: a part replaces it.
    Most hooks use a `Part`, which does this.
    """

    __slots__ = ("read", "state", "version")

    def __init__(self, version: int, state: object, read: object = None) -> None:
        self.version: int = version
        self.state: object = state
        self.read: object = read

    def __repr__(self) -> str:
        return f"<PartState version {self.version}>"


class PartStates:
    """The states of the parts of one conversation, by name: `event.source.parts`, `context.parts` of a tool.

    Its methods may be called from any thread.
    """

    __slots__ = ("__weakref__", "_lock", "_states")

    def __init__(self) -> None:
        self._lock = shared_lock()
        # each change replaces it, so that `get` needs no lock
        self._states: Mapping[str, PartState] = {}

    def get(self, name: str) -> PartState | None:
        """The state of this part; None if it has none."""
        return self._states.get(name)

    def swap(self, name: str, before: PartState | None, after: PartState | None) -> bool:
        """Replace `before` by `after` (None: no state). False, without a change, if another state is there."""
        with self._lock:
            if self._states.get(name) is not before:
                return False
            others = {key: value for key, value in self._states.items() if key != name}
            self._states = others if after is None else {**others, name: after}
            return True

    @property
    def all(self) -> Mapping[str, PartState]:
        """The states now, by name. The mapping does not change later."""
        return self._states

    def dump(self) -> dict[str, dict[str, object]]:
        """All states as plain JSON: {name: {"version": ..., "state": ...}}."""
        return dump_parts(self._states)

    def restore(self, saved: Mapping[str, Mapping[str, object]]) -> None:
        """Replace all states by those of a dump. States of unknown parts are kept, too."""
        states = {name: PartState(_version(each), each.get("state")) for name, each in saved.items()}
        with self._lock:
            self._states = states

    def __repr__(self) -> str:
        return f"<PartStates {', '.join(self._states) or 'of none'}>"


def dump_parts(states: Mapping[str, PartState]) -> dict[str, dict[str, object]]:
    """The states as plain JSON: {name: {"version": ..., "state": ...}}."""
    return {name: {"version": each.version, "state": each.state} for name, each in sorted(states.items())}


def _version(saved: Mapping[str, object]) -> int:
    version = saved.get("version")
    return version if isinstance(version, int) else 0


class HasParts(Protocol):
    """A conversation (`agent.conversation()`), the source of an event, or the context of a tool call."""

    @property
    def parts(self) -> PartStates | None: ...


Where = HasParts | PartStates | None
"""The conversation that is meant; None, or one without parts: the part's own, for tools that are called by hand."""


class Part(Generic[S]):
    """The typed view of the state `name` in each conversation, for hooks and tools that serve many conversations.

        NOTES = Part("notes", 1, (), dump=list, read=lambda saved: tuple(saved))

        NOTES.get(event.source)                                             # in a hook
        NOTES.change(context, lambda notes: ((*notes, "hello"), None))      # in a tool, with its ToolContext
        NOTES.get(agent.conversation())                                     # in a program

    `dump` makes plain JSON of a state, and `read` a state of that. The state is saved and loaded with the conversation.
    """

    def __init__(
        self, name: str, version: int, default: S, *, dump: Callable[[S], object], read: Callable[[object], S]
    ) -> None:
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A part of a conversation needs a name, such as 'plan', not {name!r:.60}.")
        self.name = name
        self._version = version
        self._default = default
        self._dump = dump
        self._read = read
        self._alone = PartStates()

    def get(self, where: Where) -> S:
        """The state in this conversation, or the default. `InvalidInputError` if it cannot be read."""
        return self._value(self._parts(where).get(self.name))

    def change(self, where: Where, change: Callable[[S], tuple[S, R]]) -> R:
        """Replace the state by `change(state)[0]`, and return `change(state)[1]`. Nothing changes if `change` raises.

        `change` is called again if another thread has changed the state meanwhile.
        """
        parts = self._parts(where)
        while True:
            before = parts.get(self.name)
            old = self._value(before)
            new, rest = change(old)
            if new is old or parts.swap(self.name, before, PartState(self._version, self._dump(new), new)):
                return rest

    def _parts(self, where: Where) -> PartStates:
        if isinstance(where, PartStates):
            return where
        parts = None if where is None else where.parts
        return self._alone if parts is None else parts

    def _value(self, state: PartState | None) -> S:
        if state is None:
            return self._default
        if state.read is None:
            if state.version > self._version:
                raise InvalidInputError(
                    f"The state {self.name!r} of this conversation has version {state.version}, and this release reads "
                    f"up to {self._version}. Update agentscope-rx."
                )
            state.read = self._read(state.state)
        return state.read  # pyright: ignore[reportReturnType]
