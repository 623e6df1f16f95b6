"""`Part`: the typed view of one state among the `PartStates` of a conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.parts import PartState, PartStates

S = TypeVar("S")
R = TypeVar("R")


class HasParts(Protocol):
    """A conversation (`agent.conversation()`), the source of an event, or the context of a tool call."""

    @property
    def parts(self) -> PartStates | None: ...


Where = HasParts | PartStates | None
"""The conversation that is meant; None, or one without parts: the part's own, for tools that are called by hand."""


class Part(Generic[S]):
    """The state `name` of each conversation: `dump` makes plain JSON of it, `read` a state of that."""

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
        """The state in this conversation; the default if it has none. `InvalidInputError` if it cannot be read."""
        return self._value(self._parts(where).get(self.name))

    def change(self, where: Where, change: Callable[[S], tuple[S, R]]) -> R:
        """Put `change(state)[0]` in the place of the state, and return the rest; nothing, if `change` raises.

        `change` may be called again, if another thread has changed the state meanwhile.
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
