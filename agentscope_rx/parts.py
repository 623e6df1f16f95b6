"""`PartStates`: the states of the parts of one conversation, by name.

A hook or a tool serves many conversations at once, so it keeps nothing of them in itself: its state in a conversation
is plain JSON here, with the version of its form. It is saved and loaded with the conversation.

    parts.get("plan")                        PartState(1, {"current": ...}), or None
    parts.swap("plan", before, after)        False if another one has changed it since `before` was read
"""

from __future__ import annotations

from collections.abc import Mapping

from agentscope_rx.reactive.kernel.forking import new_lock


class PartState:
    """A state of one part: plain JSON with the version of its form. `read` is what the part has made of it, if it has.

    It does not change: a part replaces it.
    """

    __slots__ = ("read", "state", "version")

    def __init__(self, version: int, state: object, read: object = None) -> None:
        self.version: int = version
        self.state: object = state
        self.read: object = read

    def __repr__(self) -> str:
        return f"<PartState version {self.version}>"


class PartStates:
    """The states of the parts of one conversation. Its methods may be called from any thread."""

    __slots__ = ("__weakref__", "_lock", "_states")

    def __init__(self) -> None:
        self._lock = new_lock()
        # each change replaces it, so that `get` needs no lock
        self._states: Mapping[str, PartState] = {}

    def get(self, name: str) -> PartState | None:
        """The state of this part; None if it has none."""
        return self._states.get(name)

    def swap(self, name: str, before: PartState | None, after: PartState | None) -> bool:
        """Put `after` (None: nothing) in the place of `before`. False, and no change, if another state is there."""
        with self._lock:
            if self._states.get(name) is not before:
                return False
            others = {key: value for key, value in self._states.items() if key != name}
            self._states = others if after is None else {**others, name: after}
            return True

    @property
    def all(self) -> Mapping[str, PartState]:
        """The states now, by name; later changes are not in this mapping."""
        return self._states

    def dump(self) -> dict[str, dict[str, object]]:
        """All states as plain JSON: {name: {"version": ..., "state": ...}}."""
        return dump_parts(self._states)

    def restore(self, saved: Mapping[str, Mapping[str, object]]) -> None:
        """Replace all states by those of a dump; also those that no part here knows."""
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
