"""What is saved of a conversation, and how it comes back.

    session entry   kind    content
    "memory"        list    the messages, one item each: a save appends what is new
    "state"         value   {"version": 3, "agent": name, "pending": [ids] | null, "answers": [...], "rules": [...],
                             "cut_off": [messages] | null, "groups": [names] | null, "interrupted": source | null,
                             "output": {...} | null, "children": [...]}
    "child:0"       list    the messages of the sub-agent's conversation in slot 0
    "child:0/1"     list    those of the conversation that it has in its slot 1

`pending` null: not known, the history says it. `cut_off`: the input of a run that a shutdown has cut off. `groups`: the
groups of tools that are active; null (or, in version 1, nothing): those of the agent's toolkit. `interrupted` (from
version 3 on): who has interrupted the last run, if it has ended by that; `output`: what is asked for when that which
is pending goes on, with its JSON schema. `children` (not in
version 1): the conversations of sub-agents, each with its slot, the call that has taken it, what that waits for
and a state like this one. A slot is used again once its conversation is forgotten: the state says which lists count. A
state of a newer version is refused, never half read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NotRequired, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agentscope_rx.agent.conversation import ApprovalRule, Conversation
from agentscope_rx.agent.run import InterruptSource
from agentscope_rx.agent.saved_copy import SavedCopy
from agentscope_rx.agent.structured_output.pending import PendingOutput, SavedOutput, read_output, saved_output
from agentscope_rx.agent.sub_agent.sub_conversations import SubConversation, SubConversations
from agentscope_rx.errors import ConfigurationError, SavedStateError
from agentscope_rx.memory import Memory
from agentscope_rx.messages import ApprovalAnswer, Msg, ToolResultBlock
from agentscope_rx.messages.msg import read_message
from agentscope_rx.messages.sources import reading
from agentscope_rx.reactive import Flow, concat, concat_map, defer, empty, just, shield, then
from agentscope_rx.session import Saved, Session, Unchanging

if TYPE_CHECKING:
    from agentscope_rx.agent.agent import Agent

VERSION = 3
STATE = "state"
MEMORY = "memory"
CHILD = "child:"
_COMPARED = (MEMORY, STATE)
# (no sub-agent's conversation changes without the one that it is in)


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
    """The place that a conversation is saved to at the end of each of its runs.

    `file_root`: the folder whose files the messages in it may name; others come back locked.
    """

    session: Session
    key: str
    file_root: str | None = None


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
    interrupted: NotRequired[InterruptSource | None]
    output: NotRequired[SavedOutput | None]
    children: NotRequired[list[_Child]]


class _Child(TypedDict):
    id: str
    tool: str
    slot: int
    call: str | None
    begun: bool
    reply: Msg | None
    answers: list[ApprovalAnswer]
    results: list[ToolResultBlock]
    state: _State


_STATE = TypeAdapter(_State)


@dataclass(frozen=True, slots=True)
class _Messages:
    """A history as it was read, with the items that it was made of."""

    messages: tuple[Msg, ...]
    items: list[Unchanging]


@dataclass(frozen=True, slots=True)
class Frozen:
    """A sub-agent's conversation as it was read, before anybody has asked for it; `lists` by the place beneath it."""

    key: str
    state: _State
    lists: Mapping[str, _Messages]


Items = dict[str, list[Unchanging]]
"""Histories as items, by their place: "" is the conversation's own, "0/1" that in slot 1 of that in slot 0."""


def save(
    conversation: Conversation,
    name: str,
    memory: Memory,
    persistence: StatePersistence,
    binding: Binding,
    *,
    overwrite: bool = False,
) -> Flow[None]:
    """Write the conversation to the session, all of it in one step.

    Signals: one None when it is kept; `SessionConflictError` if the session holds what this conversation has neither
    read nor written (see `saved_copy`), unless that is to be overwritten; another `SessionError`.
    Cancels: nothing that has begun.
    """
    copy = _copy_of(conversation, binding)

    def write(found: tuple[_State, Items]) -> Flow[None]:
        state, items = found
        values = {STATE: _STATE.dump_python(state, mode="json")} if persistence.pending else {}
        lists = {_entry(place): each for place, each in items.items()} if persistence.memory else {}
        return copy.write(values, lists, overwrite=overwrite)

    # a sub-agent's memory without its state, or the other way round, would be no conversation
    deep = persistence.memory and persistence.pending
    # (what is written is taken with the turn in hand: a save that comes later never writes what is older)
    saving = defer(lambda: _written(conversation, name, memory, deep=deep).pipe(concat_map(write)))
    return shield(copy.turn.around(saving))


def _copy_of(conversation: Conversation, binding: Binding) -> SavedCopy:
    return conversation.copy_at(binding.session, binding.key, _COMPARED)


def _entry(place: str) -> str:
    return f"{CHILD}{place}" if place else MEMORY


def _written(conversation: Conversation, name: str, memory: Memory, *, deep: bool) -> Flow[tuple[_State, Items]]:
    """The conversation's state and histories, with those of its sub-agents."""
    children = conversation.children.all if deep and conversation.children is not None else ()

    def with_own(history: Sequence[Msg]) -> Flow[tuple[_State, Items]]:
        items = {"": conversation.written(history)}
        state = _state_of(conversation, name)
        each = (_child_written(child, state, items) for child in children)
        return concat(*each).pipe(then(lambda: just((state, items))))

    return memory.get().pipe(concat_map(with_own))


def _child_written(child: SubConversation, state: _State, items: Items) -> Flow[None]:
    """Add the child to its parent's state and items."""

    def add(found: tuple[_State, Items]) -> Flow[None]:
        own, beneath = found
        state.setdefault("children", []).append(
            {
                "id": child.id,
                "tool": child.tool,
                "slot": child.slot,
                "call": child.call_id,
                "begun": child.begun,
                "reply": child.reply,
                "answers": list(child.answers.values()),
                "results": list(child.results.values()),
                "state": own,
            }
        )
        for place, each in beneath.items():
            items[f"{child.slot}/{place}" if place else f"{child.slot}"] = each
        return empty()

    if child.frozen is not None:
        return add((child.frozen.state, {place: each.items for place, each in child.frozen.lists.items()}))
    conversation, memory = child.conversation, child.memory
    if conversation is None or memory is None:
        # taken by a call that has not come to begin it
        return empty()
    return _written(conversation, conversation.name, memory, deep=True).pipe(concat_map(add))


def load(
    conversation: Conversation, name: str, memory: Memory, persistence: StatePersistence, binding: Binding
) -> Flow[bool]:
    """Put what the session holds in the place of the conversation; with nothing there, leave it as it is.

    Everything is read and checked before anything is changed.

    Signals: whether there was anything; `SavedStateError` or a `SessionError`.
    Cancels: the reading; the change, once begun, runs to its end.
    """

    def restore(saved: Saved) -> Flow[bool]:
        if not _found(saved, persistence):
            copy.read(saved, ())
            return just(False)
        key = binding.key
        state = _read_state(key, name, saved.values.get(STATE), files) if persistence.pending else None
        places = _places(state) if state is not None and persistence.memory else []
        missing = [place for place in places if _entry(place) not in saved.lists]
        if missing and places != read:
            # who they are is known only now; all is read again, so that all of it is of one save
            read[:] = places
            return both()
        if missing:
            raise SavedStateError(key, f"entry {_entry(missing[0])!r} is missing, which entry {STATE!r} tells of.")
        lists = {place: _read_messages(key, _entry(place), saved.lists[_entry(place)], files) for place in places}
        restored = _restored_state(conversation, state, key, lists)

        def put() -> None:
            restored()
            copy.read(saved, parts)

        if not (persistence.memory and MEMORY in saved.lists):
            put()
            return just(True)
        own = _read_messages(key, MEMORY, saved.lists[MEMORY], files)
        replaced = memory.clear().pipe(then(lambda: memory.add(own.messages)))
        return shield(replaced.pipe(concat_map(lambda done: put()))).pipe(then(lambda: just(True)))

    def both() -> Flow[bool]:
        names = [MEMORY, STATE, *(_entry(place) for place in read)]
        return binding.session.load_all(binding.key, names).pipe(concat_map(restore))

    def begin() -> Flow[bool]:
        read.clear()
        return both()

    copy = _copy_of(conversation, binding)
    parts = [*([MEMORY] if persistence.memory else []), *([STATE] if persistence.pending else [])]
    read: list[str] = []
    # what is saved may have been written by others: it names files, and opens none
    files = reading(binding.file_root, lock=True)
    return copy.turn.around(defer(begin))


def _found(saved: Saved, persistence: StatePersistence) -> bool:
    return (persistence.memory and MEMORY in saved.lists) or (persistence.pending and STATE in saved.values)


def _places(state: _State) -> list[str]:
    """Where the histories of sub-agents are, in all levels."""
    found: list[str] = []
    for child in state.get("children", ()):
        slot = f"{child['slot']}"
        found += [slot, *(f"{slot}/{place}" for place in _places(child["state"]))]
    return found


def thawed(child: SubConversation, agent: Agent, make: Callable[[], Memory]) -> Flow[Memory]:
    """The memory of a sub-agent's conversation: it goes on with what was read of it.

    Signals: the memory; `SavedStateError` if that is another agent's.
    Cancels: nothing that has begun.
    """
    if child.memory is not None:
        return just(child.memory)
    memory = make()
    frozen = child.frozen
    conversation = agent.conversation(memory)
    if frozen is None:
        child.memory, child.conversation = memory, conversation
        return just(memory)
    _check_agent(frozen.key, agent.name, frozen.state)
    own = frozen.lists[""]
    beneath = {place: each for place, each in frozen.lists.items() if place}
    put = _restored_state(conversation, frozen.state, frozen.key, beneath)

    def done() -> Flow[Memory]:
        put()
        conversation.read(own.messages, own.items)
        child.memory, child.conversation, child.frozen = memory, conversation, None
        return just(memory)

    return shield(memory.add(own.messages).pipe(then(done)))


def _state_of(conversation: Conversation, name: str) -> _State:
    rules: list[_Rule] = [
        {
            "tool": rule.tool,
            "input": None if rule.input is None else dict(rule.input),
            "approved": rule.approved,
            "reason": rule.reason,
        }
        for rule in conversation.rules
    ]
    return {
        "version": VERSION,
        "agent": name,
        "pending": None if (unsettled := conversation.unsettled) is None else sorted(unsettled),
        "answers": list(conversation.answers.values()),
        "rules": rules,
        "cut_off": None if conversation.cut_off is None else list(conversation.cut_off),
        "groups": None if conversation.active_groups is None else list(conversation.active_groups),
        "interrupted": conversation.interrupted,
        "output": saved_output(conversation.output),
    }


def _read_state(key: str, name: str, value: object, files: dict[str, object]) -> _State | None:
    if value is None:
        return None
    version = cast("Mapping[str, object]", value).get("version") if isinstance(value, Mapping) else None
    if isinstance(version, int) and version > VERSION:
        raise SavedStateError(
            key, f"the state has version {version}, and this release reads up to {VERSION}. Update agentscope-rx."
        )
    try:
        state = _STATE.validate_python(value, context=files)
    except ValidationError as error:
        raise SavedStateError(key, f"entry {STATE!r} is not the state of a conversation: {error}") from error
    _check_agent(key, name, state)
    return state


def _check_agent(key: str, name: str, state: _State) -> None:
    if state["agent"] != name:
        # its calls and results bear the other's name: nothing pending would be found again
        raise SavedStateError(key, f"it was saved by an agent named {state['agent']!r}, and this one is {name!r}.")


def _restored_state(
    conversation: Conversation, state: _State | None, key: str, lists: Mapping[str, _Messages]
) -> Callable[[], None]:
    output = None if state is None else _read_output(key, state)
    children = [] if state is None else [_frozen(key, saved, lists) for saved in state.get("children", ()) if lists]

    def put() -> None:
        conversation.children = SubConversations(children) if children else None
        pending = None if state is None else state["pending"]
        conversation.pending = None if pending is None else frozenset(pending)
        conversation.answers = {} if state is None else {answer.call_id: answer for answer in state["answers"]}
        conversation.restore_rules(() if state is None else [ApprovalRule(**rule) for rule in state["rules"]])
        cut_off = None if state is None else state["cut_off"]
        conversation.cut_off = None if cut_off is None else tuple(cut_off)
        groups = None if state is None else state.get("groups")
        conversation.active_groups = None if groups is None else tuple(groups)
        conversation.interrupted = None if state is None else state.get("interrupted")
        conversation.output = output

    return put


def _read_output(key: str, state: _State) -> PendingOutput | None:
    try:
        return read_output(state.get("output"))
    except ConfigurationError as error:
        raise SavedStateError(key, f"the output that is asked for cannot be: {error}") from error


def _frozen(key: str, saved: _Child, lists: Mapping[str, _Messages]) -> SubConversation:
    child = SubConversation(saved["id"], saved["tool"], saved["slot"])
    child.call_id = saved["call"]
    child.begun = saved["begun"]
    child.reply = saved["reply"]
    child.answers = {answer.call_id: answer for answer in saved["answers"]}
    child.results = {result.id: result for result in saved["results"]}
    slot = f"{child.slot}"
    own = {place.removeprefix(slot).removeprefix("/"): each for place, each in lists.items() if _in(place, slot)}
    child.frozen = Frozen(key, saved["state"], own)
    return child


def _in(place: str, slot: str) -> bool:
    return place == slot or place.startswith(f"{slot}/")


def _read_messages(key: str, name: str, items: Sequence[object], files: dict[str, object]) -> _Messages:
    messages: list[Msg] = []
    for index, item in enumerate(items):
        try:
            messages.append(read_message(cast("Mapping[str, object]", item), files))
        except ValueError as error:
            raise SavedStateError(key, f"item {index} of entry {name!r}: {error}") from error
    return _Messages(tuple(messages), [Unchanging(item) for item in items])
