"""The history of a saved conversation: one record for each save, from which every earlier state can be made again.

    session entry   kind    content
    "history"       list    {"id": 3, "at": time, "run": id | null, "stage": "run", "parent": 2 | null, "messages": 6,
                             "lists": {name: {"kept": 4, "length": 6, "cut": [items]}}, "state": {...}}

A record says how its save has changed the lists of the conversation: it has kept the first `kept` items, has removed
those in `cut`, and the list has `length` items since. So the log is an undo log: the lists at a checkpoint are the
lists now with all later records undone, newest first. A save that only adds items stores none of them twice, and
records at the beginning of the log can be dropped.

`parent` is the checkpoint that the save went on from, which is not the one before it if the conversation had gone back.
Nothing is removed by going back: the log has every checkpoint, and a later one can be returned to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agentscope_rx.errors import CheckpointError, InvalidInputError, SavedStateError
from agentscope_rx.frozen_values import dataclass

T = TypeVar("T")

HISTORY: Final = "history"
"""The entry that holds the records."""
JOURNAL: Final = "journal"
"""The entry that holds the tool calls that have begun, and whose results the messages do not have yet."""
STATE: Final = "state"
"""The entry that holds the state of a conversation beside its messages."""
MEMORY: Final = "memory"
"""The entry that holds the messages of a conversation."""
CHILD: Final = "child:"
"""The beginning of the names of the entries that hold the messages of sub-agents."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved state of a conversation that can be returned to: `agent.load(session, key, at=checkpoint)`.

    | field | |
    |---|---|
    | `id` | counts from 1 |
    | `at` | the time of the save |
    | `run` | the id of the run that was saved, None for a save between runs |
    | `stage` | "run" for the end of a run, else the occasion of the save, such as "save" |
    | `parent` | the checkpoint that the save went on from |
    | `messages` | the number of messages |

    - It has the whole conversation: messages, pending calls, approvals, parts and sub-agents. A save that changes
      nothing makes none.
    - Going back changes the agent only. The session stays as it is until the next save, whose `parent` is the
      checkpoint that was loaded. Later checkpoints stay, too.
    - A record holds the state and no messages; messages that a save removes or replaces are kept in it. Going back
      costs reading the log.
    - The journal of tool calls is of the present: a call that had begun at the checkpoint is in doubt after going back,
      or in a fork.
    - One that does not exist, or was pruned, is a `CheckpointError`, which names those there are.
    - `bind(..., history=False)` keeps no history and drops the one that is there; so does a save of messages or state
      alone.
    """

    id: int
    at: datetime
    run: str | None
    stage: str
    parent: int | None
    messages: int


class ListChange(TypedDict):
    """How a save has changed a list."""

    kept: int
    length: int
    cut: list[object]


class HistoryRecord(TypedDict):
    """An item of the entry "history"."""

    id: int
    at: datetime
    run: str | None
    stage: str
    parent: int | None
    messages: int
    lists: dict[str, ListChange]
    state: dict[str, object]


@cache
def _adapter() -> TypeAdapter[HistoryRecord]:
    # built on first use: it costs more than importing the module
    return TypeAdapter(HistoryRecord)


def new_record(
    checkpoint: tuple[int, int | None],
    saved: tuple[str, str | None],
    messages: int,
    lists: Mapping[str, object],
    state: object,
) -> dict[str, object]:
    """The record of a save now: `checkpoint` is its id and its parent, `saved` the stage and the run."""
    (id, parent), (stage, run) = checkpoint, saved
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    head = {"id": id, "at": at, "run": run, "stage": stage, "parent": parent, "messages": messages}
    return {**head, "lists": lists, "state": state}


def lists_of_conversation(lists: Mapping[str, T]) -> dict[str, T]:
    """Those of the session's lists that hold messages of a conversation."""
    return {name: items for name, items in lists.items() if name == MEMORY or name.startswith(CHILD)}


class HistoryLog:
    """The records of one session, oldest first."""

    __slots__ = ("_key", "records")

    def __init__(self, key: str, items: Sequence[object]) -> None:
        self._key = key
        self.records: list[HistoryRecord] = [self._read(index, item) for index, item in enumerate(items)]

    def _read(self, index: int, item: object) -> HistoryRecord:
        try:
            return _adapter().validate_python(item)
        except ValidationError as error:
            raise SavedStateError(self._key, f"item {index} of entry {HISTORY!r} is no record: {error}") from error

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints, oldest first."""
        return [
            Checkpoint(each["id"], each["at"], each["run"], each["stage"], each["parent"], each["messages"])
            for each in self.records
        ]

    def index_of(self, id: int | None) -> int:
        """The index of a checkpoint (None: of the last one); `CheckpointError` names the ones there are."""
        if id is None and self.records:
            return len(self.records) - 1
        for index, record in enumerate(self.records):
            if record["id"] == id:
                return index
        ids = [record["id"] for record in self.records]
        raise CheckpointError(self._key, id, ids[0] if ids else None, ids[-1] if ids else None)

    def undo(self, index: int, lists: Mapping[str, Sequence[T]], item: Callable[[object], T]) -> dict[str, list[T]]:
        """The lists as they were at the checkpoint of this index; `item` makes an item of a JSON value.

        `SavedStateError` if a list was changed by other means than the saves in the log.
        """
        found = {name: list(items) for name, items in lists.items()}
        for record in reversed(self.records[index + 1 :]):
            for name, change in record["lists"].items():
                items = found.setdefault(name, [])
                if len(items) != change["length"] or change["kept"] > len(items):
                    raise SavedStateError(
                        self._key,
                        f"checkpoint {record['id']} left {change['length']} items in entry {name!r}, and it has "
                        f"{len(items)}: it was changed by other means than a save of the conversation. What is saved "
                        "now can be loaded.",
                    )
                items[change["kept"] :] = [item(each) for each in change["cut"]]
        return found


def checkpoint_id(at: object) -> int:
    """The id of a `Checkpoint`, or the id itself; `InvalidInputError` for anything else."""
    found = at.id if isinstance(at, Checkpoint) else at
    if not isinstance(found, int) or isinstance(found, bool):
        raise InvalidInputError(f"A checkpoint is given as a Checkpoint or as its id, not as {at!r:.60}.")
    return found
