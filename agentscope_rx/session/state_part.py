"""`StatePart`: an object with state of its own that is saved and loaded with an agent's conversation.

    class Counter(Hook):                              # a hook, a tool, an object with @tool methods, an agent
        calls = 0

        def state(self):
            return {"calls": self.calls}

        def load_state(self, value, version):
            self.calls = value["calls"]

A hook or a tool with these two methods is a part by itself; others are registered: `agent.register_state("counter",
counter)`. A part belongs to the agent, so its state is saved with the agent's own conversation only. One that serves
several conversations keeps its state in `run.conversation.parts` instead (see `parts`).
"""

from __future__ import annotations

from typing import Protocol, cast

from agentscope_rx.errors import ConfigurationError


class StatePart(Protocol):
    """An object with state of its own that is saved and loaded with an agent's conversation.

        class Counter(Hook):
            calls = 0

            def state(self):
                return {"calls": self.calls}

            def load_state(self, value, version):
                self.calls = value["calls"]

    A hook, a tool, an object with `@tool` methods or an agent class with these two methods is a part by itself. Its
    name is `hook:` or `tool:` and its class (a tool: its name), `agent` for an agent class; `state_name` replaces it.
    Others are registered: `agent.register_state("counter", counter)`.

    - `state_version` (default 1) is saved with the state. `load_state` gets the version that was saved, to migrate an
      earlier one. A newer one is a `SavedStateError`.
    - A load is all or nothing: if a part raises, the parts before it get their old state back, and the messages stay.
    - A state without a JSON form is a `ConfigurationError` at registration, a `SessionValueError` at a save.
    - A part that the session does not know gets the state that it had when it was registered. A state that no part
      knows is kept, and saved again.
    - A part belongs to the agent: its state is saved with the agent's own conversation only. An object that serves
      several conversations keeps its state in each of them by a `Part`.
    """

    def state(self) -> object:
        """The state as plain JSON."""
        ...

    def load_state(self, value: object, version: int) -> None:
        """Continue with this state, which `state` returned at this `version`, the present or an earlier one.

        An error must leave the part as it was.
        """
        ...


def as_part(found: object) -> StatePart | None:
    """The object, if its class has the methods of a part; else None."""
    kind = type(found)
    is_one = callable(getattr(kind, "load_state", None)) and callable(getattr(kind, "state", None))
    return cast("StatePart", found) if is_one else None


def version_of(name: str, part: object) -> int:
    """The version of the form that the part saves now; `ConfigurationError` if it is no positive whole number."""
    version = cast("object", getattr(part, "state_version", 1))
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ConfigurationError(
            f"state_version of part {name!r} must be a whole number of at least 1, not {version!r:.60}."
        )
    return version
