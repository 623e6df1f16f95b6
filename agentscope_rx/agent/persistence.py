"""`save` and `load`: a conversation to a session and back, with the conversations of its sub-agents.

The format is in `saved_state`, the treatment of conflicts in `saved_copy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from agentscope_rx.agent.agent_parts import checked_parts
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.durable.journal import EffectJournal, read_journal
from agentscope_rx.agent.restoring import apply_ends, restoring
from agentscope_rx.agent.saved_copy import Binding, Entries, Note, SavedCopy
from agentscope_rx.agent.saved_items import SavedItems
from agentscope_rx.agent.saved_state import (
    VERSION,
    Items,
    LoadedMessages,
    SavedChild,
    SavedPart,
    SavedRule,
    SavedState,
    dump_state,
    entry_name,
    open_paths,
    places_in,
    read_messages,
    read_state,
)
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.structured_output.pending import saved_output
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.errors import ConfigurationError, SavedStateError
from agentscope_rx.memory import Memory
from agentscope_rx.memory.views import without_transient
from agentscope_rx.messages import Msg
from agentscope_rx.messages.sources import reading
from agentscope_rx.parts import PartState
from agentscope_rx.reactive import Flow, catch, concat, concat_map, defer, empty, just, shield, then, throw
from agentscope_rx.session import Saved, Unchanging
from agentscope_rx.session.history import HISTORY, JOURNAL, MEMORY, STATE, HistoryLog, lists_of_conversation

_COMPARED = (MEMORY, STATE)
"""The entries compared after a conflict: a sub-agent's conversation changes only together with its parent's."""

# --- save ---------------------------------------------------------------------------------------------------------


def save(
    conversation: Conversation,
    name: str,
    memory: Memory,
    persistence: StatePersistence,
    binding: Binding,
    *,
    overwrite: bool = False,
    stage: str = "run",
    run: str | None = None,
) -> Flow[None]:
    """Write the conversation to the session in one step, at the cost of what is new in it.

    A whole conversation gets a checkpoint in the session's history, which tells the `stage` that the save was made for
    and the id of the `run`; a save without one (a part of the conversation, or `binding.history` is false) drops the
    history, because it would not fit any longer.

    Signals: one None when it is kept; `SessionConflictError` if the session holds entries that this conversation has
    neither read nor written (see `saved_copy`), unless `overwrite` is true; another `SessionError`.
    Cancels: nothing: a save, once begun, runs to its end.
    """
    copy = copy_of(conversation, binding)
    # a sub-agent's memory without its state, or its state without its memory, could not be continued
    deep = persistence.memory and persistence.pending
    # a durable memory cannot go back
    note = Note(stage, run) if deep and binding.history and not memory.durable else None

    def write(found: tuple[SavedState, Items]) -> Flow[None]:
        state, items = found
        values = {STATE: dump_state(state)} if persistence.pending else {}
        given = Entries(values, _lists(items, memory) if persistence.memory else {})
        journal = conversation.journal
        if journal is None or (effects := journal.keep(open_paths(state))) is None:
            return copy.write(given, note, overwrite=overwrite)
        written = copy.write(given, note, overwrite=overwrite, besides={JOURNAL: effects})
        return written.pipe(concat_map(lambda done: journal.saved()))

    # collected while the turn is held: a later save never writes an older state
    saving = defer(lambda: collect(conversation, name, memory, binding.key, deep=deep).pipe(concat_map(write)))
    return shield(copy.turn.around(saving))


def is_saved(conversation: Conversation, name: str, memory: Memory, binding: Binding) -> Flow[bool]:
    """Compare the whole conversation with what it has last read from the session, or written there; reads no session.

    Signals: True if nothing would be lost with the memory; the error of the memory or of the encoding.
    Cancels: the reading of the memory.
    """
    copy = copy_of(conversation, binding)

    def compare(found: tuple[SavedState, Items]) -> bool:
        state, items = found
        value = dump_state(state)
        if copy.empty:
            # an empty conversation that was never saved
            empty_state = dump_state(_state_of(Conversation(name), name, binding.key))
            return not any(_lists(items, memory).values()) and value == empty_state
        return copy.holds(Entries({STATE: value}, _lists(items, memory)))

    return defer(lambda: collect(conversation, name, memory, binding.key, deep=True).pipe(concat_map(compare)))


def _lists(items: Items, memory: Memory) -> dict[str, SavedItems]:
    """The histories as entries; a durable memory keeps its own messages."""
    return {entry_name(place): each for place, each in items.items() if place or not memory.durable}


def copy_of(conversation: Conversation, binding: Binding) -> SavedCopy:
    """What the conversation knows of its copy in the bound session."""
    return conversation.copy_at(binding.session, binding.key, _COMPARED)


def collect(
    conversation: Conversation, name: str, memory: Memory, key: str, *, deep: bool
) -> Flow[tuple[SavedState, Items]]:
    """The conversation's state and histories, with those of its sub-agents."""
    children = conversation.children.all if deep and conversation.children is not None else ()
    if deep and conversation.registered is not None and conversation.settled is None:
        conversation.registered.put_into(conversation.parts, key)
    # before memory is read: a call that gets its result meanwhile is still pending in the state, which is harmless
    state = _state_of(conversation, name, key)

    def with_history(history: Sequence[Msg]) -> Flow[tuple[SavedState, Items]]:
        items = {"": conversation.items_of(without_transient(history) if memory.marked else history)}
        each = (_collect_child(child, state, items, key) for child in children)
        return concat(*each).pipe(then(lambda: just((state, items))))

    return memory.get().pipe(concat_map(with_history))


def _collect_child(child: SubConversation, state: SavedState, items: Items, key: str) -> Flow[None]:
    """Add the child to its parent's state and items."""

    def add(found: tuple[SavedState, Items]) -> Flow[None]:
        own, beneath = found
        saved: SavedChild = {
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
        if child.agent is not None:
            saved["agent"] = child.agent
        if child.label is not None:
            saved["label"] = child.label
        state.setdefault("children", []).append(saved)
        for place, each in beneath.items():
            items[f"{child.slot}/{place}" if place else f"{child.slot}"] = each
        return empty()

    if child.frozen is not None:
        return add((child.frozen.state, {place: each.items for place, each in child.frozen.lists.items()}))
    if child.checkpoint is not None:
        return add(child.checkpoint)
    conversation, memory = child.conversation, child.memory
    if conversation is None or memory is None:
        # taken by a call that has not begun it
        return empty()
    return collect(conversation, conversation.name, memory, key, deep=True).pipe(concat_map(add))


def _state_of(conversation: Conversation, name: str, key: str) -> SavedState:
    rules: list[SavedRule] = [
        {
            "tool": rule.tool,
            "input": None if rule.input is None else dict(rule.input),
            "approved": rule.approved,
            "reason": rule.reason,
        }
        for rule in conversation.approvals.rules
    ]
    settled = conversation.settled
    parts = conversation.parts.all if settled is None else settled.states
    state: SavedState = {
        "version": VERSION,
        "agent": name,
        "pending": None if (unsettled := conversation.unsettled) is None else sorted(unsettled),
        "answers": list(conversation.approvals.answers.values()),
        "rules": rules,
        "cut_off": None if conversation.cut_off is None else list(conversation.cut_off),
        "groups": None if conversation.active_groups is None else list(conversation.active_groups),
        "interrupted": conversation.interrupted,
        "output": saved_output(conversation.output),
        "parts": cast("dict[str, SavedPart]", checked_parts(parts, key)),
        "run": conversation.unfinished,
    }
    if settled is not None:
        state["settled"] = settled.at
    return state


# --- load ---------------------------------------------------------------------------------------------------------


def load(
    conversation: Conversation,
    name: str,
    memory: Memory,
    persistence: StatePersistence,
    binding: Binding,
    *,
    at: int | None = None,
) -> Flow[bool]:
    """Replace the conversation by the one that the session holds; without one, leave it as it is.

    Everything is read and checked before anything is changed. `at` is the id of a checkpoint: the conversation is the
    one of that time, and goes on from there.

    Signals: True if the session holds one, else False; `CheckpointError`, `SavedStateError` or a `SessionError`.
    Cancels: the reading; the change, once begun, runs to its end.
    """
    if at is not None and not (persistence.memory and persistence.pending):
        raise ConfigurationError("load(..., at=) goes back with all of a conversation: leave persistence= out.")
    loading = _Loading(conversation, name, memory, persistence, binding, at)
    return loading.copy.turn.around(defer(loading.begin))


class _Loading:
    """One subscription to `load` at a time: the caller holds the copy's turn."""

    __slots__ = (
        "_at",
        "_binding",
        "_conversation",
        "_effects",
        "_files",
        "_memory",
        "_name",
        "_persistence",
        "_places",
        "copy",
    )

    def __init__(
        self,
        conversation: Conversation,
        name: str,
        memory: Memory,
        persistence: StatePersistence,
        binding: Binding,
        at: int | None = None,
    ) -> None:
        self._conversation = conversation
        self._name = name
        self._memory = memory
        self._persistence = persistence
        self._binding = binding
        self._at = at
        self.copy = copy_of(conversation, binding)
        # others may have written the session: files that its messages name are not opened
        self._files = reading(binding.file_root, lock=True)
        self._places: list[str] = []
        self._effects: list[object] = []
        """The items of the journal."""

    def begin(self) -> Flow[bool]:
        self._places = []
        if self._at is not None:
            return self._binding.session.load_all(self._binding.key).pipe(concat_map(self._go_back))
        return self._read()

    def _read(self) -> Flow[bool]:
        names = [MEMORY, STATE, JOURNAL, *(entry_name(place) for place in self._places)]
        loaded = self._binding.session.load_all(self._binding.key, names)
        return loaded.pipe(concat_map(self._restore_all))

    def _restore_all(self, saved: Saved) -> Flow[bool]:
        self._effects = saved.lists.pop(JOURNAL, [])
        return self._restore(Entries.of(saved), saved.version)

    def _go_back(self, saved: Saved) -> Flow[bool]:
        """Restore the state of a checkpoint. What is stored stays as it is until the next save."""
        key = self._binding.key
        log = HistoryLog(key, saved.lists.get(HISTORY, []))
        index = log.index_of(self._at)
        # a call that is open there and has begun since is in doubt; calls that are not open there do not count
        self._effects = saved.lists.get(JOURNAL, [])
        stored = Entries.of(Saved(saved.values, lists_of_conversation(saved.lists)))
        lists = log.undo(index, stored.lists, Unchanging)
        then = Entries({STATE: log.records[index]["state"]}, {name: SavedItems(each) for name, each in lists.items()})
        return self._restore(then, saved.version, stored)

    def _restore(self, found: Entries, version: str | None, stored: Entries | None = None) -> Flow[bool]:
        """Put the conversation in place that was found; `stored` is what the session holds, if it is another one."""
        persistence, key = self._persistence, self._binding.key
        for name in (MEMORY, JOURNAL, STATE):
            if name in (found.lists if name == STATE else found.values):
                kinds = "list and no value" if name == STATE else "value and no list"
                raise SavedStateError(key, f"entry {name!r} is a {kinds}, so it is not an agent's: use another key.")
        if not _holds(found, persistence):
            self.copy.read(found, version, ())
            return just(False)
        value = found.values.get(STATE)
        state = read_state(key, self._name, value, self._files) if persistence.pending else None
        places = places_in(state) if state is not None and persistence.memory else []
        missing = [place for place in places if entry_name(place) not in found.lists]
        if missing and stored is None and places != self._places:
            # the places of sub-agents are known only now: read all again, so that all of it is of one save
            self._places = places
            return self._read()
        if missing:
            raise SavedStateError(key, f"entry {entry_name(missing[0])!r} is missing, which entry {STATE!r} names.")
        lists = {place: self._messages(found, entry_name(place)) for place in places}
        journal = None
        if state is not None and (self._effects or self._at is not None):
            journal = read_journal(key, self._effects, self._files, open_paths(state))
            apply_ends(state, journal)
        put_state = restoring(self._conversation, state, key, lists, journal)

        def put() -> None:
            put_state()
            taken = [*([MEMORY] if persistence.memory else []), *([STATE] if persistence.pending else [])]
            self.copy.read(found if stored is None else stored, version, taken, self._at)
            if journal is not None and state is not None and self._at is None:
                self.copy.restored_as(dump_state(state))

        return self._replace(found, state, put)

    def _messages(self, found: Entries, name: str) -> LoadedMessages:
        return read_messages(self._binding.key, name, found.lists[name], self._files)

    def _replace(self, found: Entries, state: SavedState | None, put: Callable[[], None]) -> Flow[bool]:
        memory = self._memory
        if not (self._persistence.memory and MEMORY in found.lists):

            def change() -> bool:
                self._load_parts(state)
                put()
                return True

            return defer(lambda: just(change()))
        if memory.durable:
            raise SavedStateError(
                self._binding.key,
                f"entry {MEMORY!r} holds messages, and the memory of the agent keeps its own. Load it into an "
                "InMemoryMemory, add its messages to this memory, and save under another key.",
            )
        own = self._messages(found, MEMORY)

        def replace() -> Flow[bool]:
            undo = self._load_parts(state)

            def failed(error: Exception) -> Flow[bool]:
                undo()
                return throw(error)

            replaced = memory.clear().pipe(then(lambda: memory.add(own.messages)))
            return replaced.pipe(concat_map(done), catch(failed))

        def done(_: object) -> bool:
            put()
            self._conversation.keep_items(own.messages, own.items)
            return True

        return shield(defer(replace))

    def _load_parts(self, state: SavedState | None) -> Callable[[], None]:
        """Give the agent's own parts their states; returns what undoes this."""
        registered = self._conversation.registered
        if registered is None or not self._persistence.pending:
            return lambda: None
        saved = {} if state is None else state.get("parts", {})
        states = {name: PartState(each["version"], each["state"]) for name, each in saved.items()}
        return registered.load(states, self._binding.key)


def bind(
    conversation: Conversation,
    name: str,
    memory: Memory,
    persistence: StatePersistence,
    binding: Binding,
) -> Flow[bool]:
    """`load`, then save the conversation as the binding says, at the end of each of its runs; signals as `load`."""

    def bound(found: bool) -> bool:
        bind_to(conversation, binding)
        return found

    return load(conversation, name, memory, persistence, binding).pipe(concat_map(bound))


def bind_to(conversation: Conversation, binding: Binding) -> None:
    """Save the conversation, which was loaded from there, as the binding says."""
    conversation.binding = binding
    copy_of(conversation, binding).lease_by(binding.lease)
    _begin_journal(conversation, binding)


def _begin_journal(conversation: Conversation, binding: Binding) -> None:
    if binding.checkpoint == "stage" and conversation.journal is None:
        conversation.journal = EffectJournal()


def refresh(
    conversation: Conversation, name: str, memory: Memory, persistence: StatePersistence, binding: Binding
) -> Flow[bool]:
    """`load` what another process has saved since, with the lease just acquired; compares the version first.

    Signals: True if it was loaded; `SessionConflictError` if this conversation has changes, too, which were not saved;
    as `load`.
    Cancels: as `load`.
    """
    copy = copy_of(conversation, binding)
    if copy.is_current:
        return just(False)

    def reload(saved: bool) -> Flow[bool]:
        if not saved:
            return copy.turn.around(defer(copy.confirm)).pipe(then(lambda: just(False)))
        return load(conversation, name, memory, persistence, binding).pipe(concat_map(loaded))

    def loaded(found: bool) -> bool:
        _begin_journal(conversation, binding)
        return found

    return is_saved(conversation, name, memory, binding).pipe(concat_map(reload))


def _holds(saved: Entries, persistence: StatePersistence) -> bool:
    return (persistence.memory and MEMORY in saved.lists) or (persistence.pending and STATE in saved.values)
