"""The saved form of a conversation: its entries in a session, and how they are read.

    session entry   kind    content
    "memory"        list    the messages, one item each: a save appends the new ones
    "state"         value   {"version": 4, "agent": name, "pending": [ids] | null, "answers": [...], "rules": [...],
                             "cut_off": [messages] | null, "groups": [names] | null, "interrupted": source | null,
                             "output": {...} | null, "children": [...], "checkpoint": 7,
                             "parts": {name: {"version": 1, "state": ...}}, "run": {...} | null, "settled": 3}
    "journal"       list    the tool calls that have begun (see `durable.journal`)
    "child:0"       list    the messages of the sub-agent's conversation in slot 0
    "child:0/1"     list    those of the conversation in slot 1 of that one
    "history"       list    a record for each save (see `session.history`)

| field of the state        | means                                                                                  |
|---------------------------|----------------------------------------------------------------------------------------|
| `pending`                 | null: not known, the open calls of the history                                         |
| `cut_off`                 | the input of a run that a shutdown has cut off                                         |
| `groups`                  | the active groups of tools; null (and in version 1): those of the agent's toolkit      |
| `interrupted` (version 3) | who interrupted the last run, if it ended by that                                      |
| `output` (version 3)      | the output, with its JSON schema, that the run which settles the pending calls gives   |
| `checkpoint` (version 4)  | the id of the last record of the history; 0: there was none                            |
| `parts` (version 4)       | what hooks, tools and others keep in the conversation (see `agent_parts` and `parts`)  |
| `children` (version 2)    | the conversations of sub-agents: slot, call that has taken it, pending calls, state    |
| `run` (version 4)         | the run in progress at this checkpoint (see `durable.saved_run`); null between runs    |
| `settled` (version 4)     | during a run: the number of the last end in the journal that `parts` have              |

A slot is used again once its conversation is dropped: the state says which lists count. A state of a newer version is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NotRequired, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agentscope_rx.agent.durable.saved_run import SavedRun
from agentscope_rx.agent.interruption import InterruptSource
from agentscope_rx.agent.saved_items import SavedItems
from agentscope_rx.agent.structured_output.pending import PendingOutput, SavedOutput, read_output
from agentscope_rx.errors import ConfigurationError, SavedStateError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ApprovalAnswer, Msg, ToolResultBlock
from agentscope_rx.messages.msg import read_message
from agentscope_rx.session.history import CHILD, MEMORY, STATE

VERSION = 4


class SavedRule(TypedDict):
    """An `ApprovalRule`."""

    tool: str
    input: dict[str, object] | None
    approved: bool
    reason: str


class SavedPart(TypedDict):
    """The state of a part, with the version of its form."""

    version: int
    state: object


class SavedState(TypedDict):
    """The entry "state"."""

    version: int
    agent: str
    pending: list[str] | None
    answers: list[ApprovalAnswer]
    rules: list[SavedRule]
    cut_off: list[Msg] | None
    groups: NotRequired[list[str] | None]
    interrupted: NotRequired[InterruptSource | None]
    output: NotRequired[SavedOutput | None]
    children: NotRequired[list[SavedChild]]
    checkpoint: NotRequired[int]
    parts: NotRequired[dict[str, SavedPart]]
    run: NotRequired[SavedRun | None]
    settled: NotRequired[int]


class SavedChild(TypedDict):
    """A `SubConversation`."""

    id: str
    tool: str
    slot: int
    call: str | None
    begun: bool
    reply: Msg | None
    answers: list[ApprovalAnswer]
    results: list[ToolResultBlock]
    state: SavedState
    agent: NotRequired[str]
    label: NotRequired[str]


@cache
def _adapter() -> TypeAdapter[SavedState]:
    # built on first use: it costs more than importing the module
    return TypeAdapter(SavedState)


Items = dict[str, SavedItems]
"""Histories as items, by their place: "" is the conversation's own, "0/1" that in slot 1 of that in slot 0."""


@dataclass(frozen=True, slots=True)
class LoadedMessages:
    """A history that was loaded, with the items that it was read from."""

    messages: tuple[Msg, ...]
    items: SavedItems


@dataclass(frozen=True, slots=True)
class FrozenConversation:
    """A sub-agent's conversation that was loaded and not used yet; `lists` by their places beneath it."""

    key: str
    state: SavedState
    lists: Mapping[str, LoadedMessages]


def entry_name(place: str) -> str:
    """The session entry of the history in this place."""
    return f"{CHILD}{place}" if place else MEMORY


def places_in(state: SavedState) -> list[str]:
    """The places of the histories of sub-agents, in all levels."""
    found: list[str] = []
    for child in state.get("children", ()):
        slot = f"{child['slot']}"
        found += [slot, *(f"{slot}/{place}" for place in places_in(child["state"]))]
    return found


def open_paths(state: SavedState) -> set[str] | None:
    """The paths of the pending calls, those of sub-agents included; None if they are not known."""
    if state["pending"] is None:
        return None
    found = set(state["pending"])
    for child in state.get("children", ()):
        if child["call"] is not None:
            inner = open_paths(child["state"])
            if inner is None:
                return None
            found.update(f"{child['call']}/{path}" for path in inner)
    return found


def dump_state(state: SavedState) -> object:
    """The state as plain JSON."""
    return _adapter().dump_python(state, mode="json")


def read_state(key: str, name: str, value: object, files: dict[str, object]) -> SavedState | None:
    """The state of the agent `name`; `SavedStateError` for another agent's, a newer or a broken one."""
    if value is None:
        return None
    version = cast("Mapping[str, object]", value).get("version") if isinstance(value, Mapping) else None
    if isinstance(version, int) and version > VERSION:
        raise SavedStateError(
            key, f"the state has version {version}, and this release reads up to {VERSION}. Update agentscope-rx."
        )
    try:
        state = _adapter().validate_python(value, context=files)
    except ValidationError as error:
        raise SavedStateError(key, f"entry {STATE!r} is not the state of a conversation: {error}") from error
    check_agent(key, name, state)
    return state


def check_agent(key: str, name: str, state: SavedState) -> None:
    """`SavedStateError` if another agent has saved the state: its calls and results are under the other name."""
    if state["agent"] != name:
        text = f"it was saved by an agent named {state['agent']!r}, and this one is {name!r}."
        raise SavedStateError(key, f"{text} Give this agent that name, or a key of its own.")


def read_pending_output(key: str, state: SavedState) -> PendingOutput | None:
    """The output that a run has left unanswered; `SavedStateError` if its schema cannot be used."""
    try:
        return read_output(state.get("output"))
    except ConfigurationError as error:
        raise SavedStateError(key, f"the output that was requested cannot be used: {error}") from error


def read_messages(key: str, name: str, items: SavedItems, files: dict[str, object]) -> LoadedMessages:
    """The messages of a list entry; `SavedStateError` names an item that is not a message."""
    messages: list[Msg] = []
    for index, item in enumerate(items):
        try:
            messages.append(read_message(cast("Mapping[str, object]", item.value), files))
        except ValueError as error:
            raise SavedStateError(key, f"item {index} of entry {name!r}: {error}") from error
    return LoadedMessages(tuple(messages), items)
