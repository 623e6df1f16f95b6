"""What is saved of a conversation, and how it comes back.

    session entry   kind    content
    "memory"        list    the messages, one item each: a save appends what is new
    "state"         value   {"version": 1, "agent": name, "pending": [ids] | null, "answers": [...], "rules": [...],
                             "cut_off": [messages] | null, "groups": [names] | null}

`pending` null: not known, the history says it. `cut_off`: the input of a run that a shutdown has cut off. `groups`: the
groups of tools that are active; null (or, in version 1, nothing): those of the agent's toolkit. A state of a newer
version is refused, never half read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agentscope_rx.agent.conversation import ApprovalRule, Conversation
from agentscope_rx.errors import SavedStateError
from agentscope_rx.memory import Memory
from agentscope_rx.message import ApprovalAnswer, Msg
from agentscope_rx.reactive import Flow, and_then, concat_map, just, map_flow, shielded
from agentscope_rx.session import Saved, Session

VERSION = 2
STATE = "state"
MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class StatePersistence:
    """What `save` and `load` are about: the messages, what is pending and approved, or both."""

    memory: bool = True
    pending: bool = True

    @classmethod
    def memory_only(cls) -> StatePersistence:
        """The messages alone."""
        return cls(pending=False)


@dataclass(frozen=True, slots=True)
class Binding:
    """The place that a conversation is saved to at the end of each of its runs."""

    session: Session
    key: str


class _Rule(TypedDict):
    tool: str
    input: dict[str, object] | None
    approved: bool
    reason: str


class _State(TypedDict):
    version: int
    agent: str
    pending: list[str] | None
    answers: list[ApprovalAnswer]
    rules: list[_Rule]
    cut_off: list[Msg] | None
    groups: NotRequired[list[str] | None]


_STATE = TypeAdapter(_State)


def save(
    conversation: Conversation, name: str, memory: Memory, persistence: StatePersistence, binding: Binding
) -> Flow[None]:
    """Write the conversation to the session, all of it in one step.

    Signals: one None when it is kept; a `SessionError`.
    Cancels: nothing that has begun.
    """
    values = {STATE: _state_of(conversation, name)} if persistence.pending else {}
    if not persistence.memory:
        return shielded(binding.session.save_all(binding.key, values))

    def write(history: Sequence[Msg]) -> Flow[None]:
        return binding.session.save_all(binding.key, values, {MEMORY: conversation.written(history)})

    return shielded(memory.get().pipe(concat_map(write)))


def load(
    conversation: Conversation, name: str, memory: Memory, persistence: StatePersistence, binding: Binding
) -> Flow[bool]:
    """Put what the session holds in the place of the conversation; with nothing there, leave it as it is.

    Everything is read and checked before anything is changed.

    Signals: whether there was anything; `SavedStateError` or a `SessionError`.
    Cancels: the reading; the change, once begun, runs to its end.
    """

    def restore(saved: Saved) -> Flow[bool]:
        found = (persistence.memory and MEMORY in saved.lists) or (persistence.pending and STATE in saved.values)
        if not found:
            return just(False)
        state = _read_state(binding.key, name, saved.values.get(STATE)) if persistence.pending else None
        put = _restored_state(conversation, state)
        if not (persistence.memory and MEMORY in saved.lists):
            put()
            return just(True)
        messages = _read_messages(binding.key, saved.lists[MEMORY])
        replaced = memory.clear().pipe(and_then(lambda: memory.add(messages)))
        return shielded(replaced.pipe(map_flow(lambda done: put()))).pipe(and_then(lambda: just(True)))

    return binding.session.load_all(binding.key, [MEMORY, STATE]).pipe(concat_map(restore))


def _state_of(conversation: Conversation, name: str) -> dict[str, object]:
    rules: list[_Rule] = [
        {
            "tool": rule.tool,
            "input": None if rule.input is None else dict(rule.input),
            "approved": rule.approved,
            "reason": rule.reason,
        }
        for rule in conversation.rules
    ]
    state: _State = {
        "version": VERSION,
        "agent": name,
        "pending": None if conversation.pending is None else sorted(conversation.pending),
        "answers": list(conversation.answers.values()),
        "rules": rules,
        "cut_off": None if conversation.cut_off is None else list(conversation.cut_off),
        "groups": None if conversation.active_groups is None else list(conversation.active_groups),
    }
    return cast("dict[str, object]", _STATE.dump_python(state, mode="json"))


def _read_state(key: str, name: str, value: object) -> _State | None:
    if value is None:
        return None
    version = cast("Mapping[str, object]", value).get("version") if isinstance(value, Mapping) else None
    if isinstance(version, int) and version > VERSION:
        raise SavedStateError(
            key, f"the state has version {version}, and this release reads up to {VERSION}. Update agentscope-rx."
        )
    try:
        state = _STATE.validate_python(value)
    except ValidationError as error:
        raise SavedStateError(key, f"entry {STATE!r} is not the state of a conversation: {error}") from error
    if state["agent"] != name:
        # its calls and results bear the other's name: nothing pending would be found again
        raise SavedStateError(key, f"it was saved by an agent named {state['agent']!r}, and this one is {name!r}.")
    return state


def _restored_state(conversation: Conversation, state: _State | None) -> Callable[[], None]:
    def put() -> None:
        pending = None if state is None else state["pending"]
        conversation.pending = None if pending is None else frozenset(pending)
        conversation.answers = {} if state is None else {answer.call_id: answer for answer in state["answers"]}
        conversation.restore_rules(() if state is None else [ApprovalRule(**rule) for rule in state["rules"]])
        cut_off = None if state is None else state["cut_off"]
        conversation.cut_off = None if cut_off is None else tuple(cut_off)
        groups = None if state is None else state.get("groups")
        conversation.active_groups = None if groups is None else tuple(groups)

    return put


def _read_messages(key: str, items: Sequence[object]) -> list[Msg]:
    messages: list[Msg] = []
    for index, item in enumerate(items):
        try:
            messages.append(Msg.from_dict(cast("Mapping[str, object]", item)))
        except ValueError as error:
            raise SavedStateError(key, f"item {index} of entry {MEMORY!r}: {error}") from error
    return messages
