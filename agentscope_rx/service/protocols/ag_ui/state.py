"""`AgUiState`: the state that an agent and its client share during a run, and the patches that show its changes.

    @tool
    def add_step(step: str, state: Annotated[AgUiState, Inject]) -> str:
        state.update(steps=[*state.get("steps", []), step])      # the client gets a STATE_DELTA

The client sends its state with each request and keeps what it is shown, so the service stores none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages.frozen import encodable
from agentscope_rx.reactive.kernel.forking import new_lock

Operation = dict[str, object]


class AgUiState:
    """The shared state of one run: a JSON value. Thread-safe. Hooks and tools find it in the call's context.

    A change is shown with the run's next event, as a STATE_DELTA, or as a STATE_SNAPSHOT if the value is another kind
    of value or the patch would be longer. `InvalidInputError` for values without a JSON form.
    """

    def __init__(self, value: object = None) -> None:
        self._lock = new_lock()
        empty: object = {}
        self._json = _text(empty if value is None else value)
        self._shown = self._json

    @property
    def value(self) -> object:
        """A copy of the state."""
        return json.loads(self._json)

    def get(self, name: str, default: object = None) -> object:
        """A copy of one field; `default` if the state has none of this name."""
        value = self.value
        return cast("dict[str, object]", value).get(name, default) if isinstance(value, dict) else default

    def set(self, value: object) -> None:
        """Replace the whole state."""
        text = _text(value)
        with self._lock:
            self._json = text

    def update(self, **fields: object) -> None:
        """Set these fields; `InvalidInputError` if the state is no object."""
        with self._lock:
            value = json.loads(self._json)
            if not isinstance(value, dict):
                raise InvalidInputError(f"The state is {self._json:.60}, which has no fields. Use set() to replace it.")
            self._json = _text({**cast("dict[str, object]", value), **fields})

    def take_changes(self) -> tuple[object, list[Operation] | None] | None:
        """The state and the patch since the last call, None in place of the patch if a snapshot is due.

        None if nothing has changed.
        """
        shown, now = self._shown, self._json
        if now == shown:
            return None
        self._shown = now
        old, new = json.loads(shown), json.loads(now)
        patch = patch_of(old, new)
        if not patch:
            return None
        if patch[0]["path"] == "" or len(json.dumps(patch)) > max(len(now), 200):
            return new, None
        return new, patch


def patch_of(old: object, new: object, path: str = "") -> list[Operation]:
    """The operations of RFC 6902 that make `new` of `old`: add, remove and replace."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _of_objects(cast("dict[str, object]", old), cast("dict[str, object]", new), path)
    if isinstance(old, list) and isinstance(new, list):
        return _of_lists(cast("list[object]", old), cast("list[object]", new), path)
    # in Python 1 == True == 1.0
    same = type(cast("object", old)) is type(new) and old == new
    return [] if same else [{"op": "replace", "path": path, "value": new}]


def _of_objects(old: Mapping[str, object], new: Mapping[str, object], path: str) -> list[Operation]:
    made: list[Operation] = []
    for name in old:
        at = f"{path}/{_escaped(name)}"
        if name in new:
            made += patch_of(old[name], new[name], at)
        else:
            made.append({"op": "remove", "path": at})
    made += [{"op": "add", "path": f"{path}/{_escaped(name)}", "value": new[name]} for name in new if name not in old]
    return made


def _of_lists(old: Sequence[object], new: Sequence[object], path: str) -> list[Operation]:
    common = min(len(old), len(new))
    made: list[Operation] = []
    for at in range(common):
        made += patch_of(old[at], new[at], f"{path}/{at}")
    for at in range(len(old) - 1, common - 1, -1):
        made.append({"op": "remove", "path": f"{path}/{at}"})
    for each in new[common:]:
        made.append({"op": "add", "path": f"{path}/-", "value": each})
    return made


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _text(value: object) -> str:
    try:
        return encodable(json.dumps(value, allow_nan=False, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"The state must be a JSON value: {error}") from error
