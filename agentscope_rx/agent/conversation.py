"""`Conversation`: one agent with one memory, between and across its calls; and the conversations of its sub-agents.

One agent object serves many conversations at once: `agent.call(msg, memory=...)`. Each has its own running flag, its
own pending calls and its own remembered approvals; the agent keeps nothing of them.

    pending     None: not known (a fresh agent, a loaded history): the open calls of the history
                ids:  the open calls that this agent settles, whatever other agents have written to the history

Runs of one conversation may overlap (`check_running=False`), on several threads: an open call belongs to the
conversation while it is pending, and to one run from its `admit` to its `end`, both under `lock`.

A sub-agent's conversation is a conversation, too, and may have sub-agents of its own:

    Conversation --id-->   SubConversation: a memory, and the sub-agent's own Conversation in it
                 --call--> the SubConversation that this open call has begun

A sub-conversation is *taken* from the beginning of a call until the call has its result, over suspensions and restarts:
no other call uses it meanwhile. If there are too many, the least recently used of those not taken are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast
from uuid import uuid4
from weakref import ref

from agentscope_rx.agent.agent_parts import AgentParts
from agentscope_rx.agent.approvals import ApprovalRule, Approvals
from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.call_ids import CallIds
from agentscope_rx.agent.durable.journal import EffectJournal, SettledParts
from agentscope_rx.agent.durable.saved_run import SavedRun, digest_of
from agentscope_rx.agent.hearing import Hearing
from agentscope_rx.agent.input import NO_IDS
from agentscope_rx.agent.interruption import Cut, InterruptSource
from agentscope_rx.agent.run_state import RunState
from agentscope_rx.agent.running_flag import RunningFlag
from agentscope_rx.agent.saved_copy import Binding, SavedCopy
from agentscope_rx.agent.saved_items import ItemsOfHistory, SavedItems
from agentscope_rx.agent.snapshot import Snapshot
from agentscope_rx.agent.structured_output.pending import PendingOutput
from agentscope_rx.memory import Memory
from agentscope_rx.memory.growing_view import GrowingView
from agentscope_rx.messages import Msg, ToolUseBlock, open_calls
from agentscope_rx.messages.history import open_among
from agentscope_rx.parts import PartState, PartStates
from agentscope_rx.reactive.kernel.forking import new_lock, new_rlock, shared_lock
from agentscope_rx.session import Session

if TYPE_CHECKING:
    from agentscope_rx.agent.sub_agent.conversations import SubConversations


_MAKING = new_lock()


class Conversation:
    """One agent with one memory: its running flag, its pending calls and its approvals."""

    __slots__ = (
        "__weakref__",
        "_admitted",
        "_approvals",
        "_call_ids",
        "_copies",
        "_flags",
        "_id",
        "_items",
        "_view",
        "active_groups",
        "binding",
        "children",
        "cut_off",
        "flag",
        "hearing",
        "interrupted",
        "jobs",
        "journal",
        "lock",
        "names",
        "on_run",
        "output",
        "parts",
        "pending",
        "registered",
        "settled",
        "unfinished",
    )

    def __init__(self, name: str) -> None:
        self._id = ""
        self.names: tuple[str, ...] = (name,)  # its own, and those of members that speak for it
        self.flag: RunningFlag = RunningFlag(name)
        self._flags: set[RunningFlag] | None = None
        self.lock: threading.RLock = new_rlock()
        """The lock held while a run takes or leaves pending calls."""
        self.pending: frozenset[str] | None = None
        self.cut_off: tuple[Msg, ...] | None = None
        """The input of the last run, if a shutdown has cut it off: the same input resumes it."""
        self.output: PendingOutput | None = None
        """The output requested by the run that has left the pending calls: the run that settles them gives it."""
        self.interrupted: InterruptSource | None = None
        """Who interrupted the last run, if it ended by that. It is saved, so that another process knows, too."""
        self.binding: Binding | None = None
        """The session and key that each run is saved to at its end; None if the conversation is not bound."""
        self.active_groups: tuple[str, ...] | None = None
        """The groups of tools that a run has left active, if one has changed them."""
        self.parts: PartStates = PartStates()
        """The state that hooks and tools keep in this conversation, such as a plan or a mode."""
        self.registered: AgentParts | None = None
        """The objects whose state belongs to this conversation, if it is the one in the agent's own memory."""
        self.settled: SettledParts | None = None
        """The states in `parts` that a checkpoint saves while calls are in progress; None between runs."""
        self.children: SubConversations | None = None
        """The conversations of sub-agents within this one, if there were any."""
        self.unfinished: SavedRun | None = None
        """The run in progress at the last checkpoint within a run; after a load a run that another process has lost."""
        self.journal: EffectJournal | None = None
        """The tool calls that have begun, if checkpoints are made within runs, or were by another process."""
        self.jobs: Jobs | None = None
        """The work in the background, if the agent has tools for it."""
        self.hearing: Hearing | None = None
        """The messages that it hears from other agents, once it has joined a group."""
        self.on_run: Callable[[RunState], object] | None = None
        """Called with each new run, in the conversation of a sub-agent that is being called."""
        self._admitted = 0
        self._copies: tuple[SavedCopy, ...] = ()
        # made when they are needed first: see the properties
        self._approvals: Approvals | None = None
        self._call_ids: CallIds | None = None
        self._items: ItemsOfHistory | None = None
        self._view: GrowingView | None = None

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self.names[0]

    @property
    def id(self) -> str:
        """The key of its session once it is bound to one; else an id of this process, made on first use."""
        if self.binding is not None:
            return self.binding.key
        if not self._id:
            self._id: str = uuid4().hex
        return self._id

    @property
    def approvals(self) -> Approvals:
        """The answers of callers: to pending calls, and those that hold for later ones."""
        found = self._approvals
        if found is None:
            with _MAKING:
                found = self._approvals = self._approvals or Approvals()
        return found

    @property
    def call_ids(self) -> CallIds:
        """The ids of the calls in this conversation."""
        found = self._call_ids
        if found is None:
            with _MAKING:
                found = self._call_ids = self._call_ids or CallIds()
        return found

    @property
    def view(self) -> GrowingView:
        """The messages as requests send them, if some have marks or short forms."""
        found = self._view
        if found is None:
            with _MAKING:
                found = self._view = self._view or GrowingView()
        return found

    def restore_approvals(self, approvals: Approvals) -> None:
        """Replace the answers by those that were saved."""
        self._approvals = approvals

    def take_over(self, other: Conversation) -> None:
        """Go on with the sub-agents, the approvals and the ids of calls of another one, whose agent has changed."""
        self.children, self._approvals, self._call_ids = other.children, other._approvals, other._call_ids

    # --- runs -----------------------------------------------------------------------------------------------------

    @property
    def flags(self) -> tuple[RunningFlag, ...]:
        """The flags of its runs. With check_running=False every run has one: each can be interrupted and waited for."""
        flags = self._flags
        return (self.flag,) if flags is None else (self.flag, *tuple(flags))

    def add_flag(self, flag: RunningFlag) -> None:
        """A run begins, with the conversation's flag or with one of its own."""
        if flag is not self.flag:
            with _MAKING:
                if self._flags is None:
                    self._flags = set()
                self._flags.add(flag)

    def drop_flag(self, flag: RunningFlag) -> None:
        """A run has ended."""
        if self._flags is not None:
            self._flags.discard(flag)

    @property
    def runs(self) -> tuple[RunState, ...]:
        """The runs in progress or being cleaned up."""
        return tuple(run for flag in self.flags if (run := flag.run) is not None)

    @property
    def entered(self) -> tuple[RunState, ...]:
        """The runs that can be interrupted: in progress, or waiting for the clean-up of another."""
        return tuple(run for flag in self.flags for run in flag.interruptible)

    def entered_within(self) -> Iterator[RunState]:
        """The runs that can be interrupted, those of the sub-agents included."""
        yield from self.entered
        for child in () if self.children is None else self.children.all:
            if child.conversation is not None:
                yield from child.conversation.entered_within()

    def jobs_below(self) -> Iterator[Jobs]:
        """The work in the background of the sub-agents' conversations, at every level."""
        for child in () if self.children is None else self.children.all:
            if child.conversation is not None:
                if child.conversation.jobs is not None:
                    yield child.conversation.jobs
                yield from child.conversation.jobs_below()

    @property
    def rules(self) -> tuple[ApprovalRule, ...]:
        """The answers that hold for later calls, the latest last."""
        return () if self._approvals is None else self._approvals.rules

    @property
    def saved_as(self) -> str | None:
        """The key of the session that the conversation is bound to, if any."""
        return None if self.binding is None else self.binding.key

    # --- pending calls --------------------------------------------------------------------------------------------

    def pending_in(self, history: Sequence[Msg], besides: RunState | None = None) -> tuple[ToolUseBlock, ...]:
        """The open calls of the history that this agent must settle, without those of other runs in progress."""
        known = self.pending
        if known is None:
            calls = open_calls(history, self.names)
        else:
            # messages of overlapping runs may have followed
            calls = open_among(history, self.names, known) if known else ()
        if not calls:
            return calls
        elsewhere = {id for run in self._others(besides) for id in tuple(run.calls.open)}
        return tuple(call for call in calls if call.id not in elsewhere)

    def snapshot(self, run: RunState) -> Snapshot:
        """The state before this run reads the history."""
        return Snapshot(self.pending or NO_IDS, not self._others(run), self._admitted)

    def lost_in(self, history: Sequence[Msg], before: Snapshot) -> tuple[ToolUseBlock, ...]:
        """The open calls of the agent's last message that no run has left pending: memory has lost their results.

        Empty if other runs were in progress since the snapshot, because their calls look the same.
        """
        known = self.pending
        if known is None or not before.alone or self._admitted != before.admitted:
            return ()
        return tuple(call for call in open_calls(history, self.names) if call.id not in known)

    def _others(self, besides: RunState | None) -> Sequence[RunState]:
        if self._flags is None and self.flag.is_held_by(besides):
            return ()
        return [run for run in self.runs if run is not besides and not run.calls.ended]

    @property
    def unsettled(self) -> frozenset[str] | None:
        """The pending calls, and those that the runs in progress are about to settle; None if not known."""
        open = frozenset[str](id for run in self._others(None) for id in tuple(run.calls.open))
        return open.union(self.pending or ()) if open else self.pending

    def answerable_in(self, history: Sequence[Msg]) -> tuple[ToolUseBlock, ...]:
        """The pending calls that a caller may answer; see `leaves`."""
        leaves = self.leaves(self.pending_in(history))
        return leaves if self.journal is None else tuple(self.journal.marked(call) for call in leaves)

    def leaves(self, pending: tuple[ToolUseBlock, ...]) -> tuple[ToolUseBlock, ...]:
        """These calls; the call of a sub-agent that waits is replaced by the sub-agent's own pending calls."""
        return pending if self.children is None else self.children.leaves(pending)

    def resumed(self, given: tuple[Msg, ...]) -> bool:
        """True if the input repeats the input of the run that was cut off, which memory has."""
        cut_off = self.cut_off
        if self.unfinished is not None and given and digest_of(given) == self.unfinished["given"]:
            return True
        return bool(cut_off) and [_content(message) for message in cut_off] == [_content(message) for message in given]

    def admit(self, run: RunState, before: Snapshot) -> None:
        """The run has taken its input. Calls that were pending are its own now, or gone from the history."""
        run.calls.admitted = True
        self._admitted += 1
        self.pending = self.pending.difference(before.pending, run.calls.open) if self.pending else NO_IDS
        if self.output is not None and self.output.calls.isdisjoint(self.pending):
            self.output = None

    def settle(self, key: str, at: int) -> dict[str, PartState | None]:
        """Take over the saved states of the parts; returns those that have changed since the last save.

        `at` is the number of the last end in the journal.
        """
        if self.registered is not None:
            self.registered.put_into(self.parts, key)
        states = self.parts.all
        before: Mapping[str, PartState] = {} if self.settled is None else self.settled.states
        self.settled = SettledParts(at, states)
        changed: dict[str, PartState | None] = {
            name: state for name, state in states.items() if before.get(name) is not state
        }
        return {**changed, **{name: None for name in before if name not in states}}

    def end(self, run: RunState) -> None:
        """Keep the calls that the run leaves pending; a refused run changes nothing.

        Call it when the run is saved, and again when it is over: a later run may have settled calls in between.
        """
        calls = run.calls
        if not calls.admitted:
            return
        if run.toolkit.active_groups != run.groups:
            self.active_groups = run.toolkit.active_groups
        left = frozenset(calls.open) if calls.pending else NO_IDS
        with self.lock:
            pending = self.pending or NO_IDS
            if calls.ended:
                left &= pending & calls.left
                pending -= calls.left
            else:
                self.interrupted, self.unfinished, self.settled = run.interruption.ended_by, None, None
                cut_off = self.interrupted is not None and run.interruption.cut is Cut.SHUTDOWN
                if run.request is not None and run.request.output is not None and (left or cut_off):
                    self.output = PendingOutput(run.request.output, left)
            calls.ended, calls.left = True, left
            self.pending = pending | left if left else pending
            if self._approvals is not None:
                self._approvals.keep(self.pending)
            if self.children is not None:
                self.children.keep(self.unsettled or ())
        if self._call_ids is not None and self._call_ids.claimed:
            self._call_ids.release(run.id, (other.id for other in self._others(run)))

    # --- the saved copy -------------------------------------------------------------------------------------------

    def copy_at(self, session: Session, key: str, entries: Collection[str]) -> SavedCopy:
        """The copy under this key of the session; equal sessions share one."""
        with self.lock:
            for copy in self._copies:
                if copy.is_at(session, key):
                    return copy
            self._copies = (*self._copies, SavedCopy(session, key, entries))
            return self._copies[-1]

    def items_of(self, history: Sequence[Msg]) -> SavedItems:
        """The messages as items of a session entry. Messages that were saved before keep their items."""
        with self.lock:
            return self._saved_items.of(history)

    def keep_items(self, history: Sequence[Msg], items: SavedItems) -> None:
        """Note the items that the messages were read from."""
        with self.lock:
            self._saved_items.note(history, items)

    @property
    def _saved_items(self) -> ItemsOfHistory:
        if self._items is None:
            self._items = ItemsOfHistory()
        return self._items


def _content(message: Msg) -> tuple[object, ...]:
    return message.role, message.name, message.content


class _OfMemory(ref[Memory]):
    """The conversation in a memory, which it holds weakly, among those of other memories."""

    __slots__ = ("conversation", "key", "others")

    conversation: Conversation
    key: int
    others: dict[int, _OfMemory]


def _dropped(found: ref[Memory]) -> None:
    """The memory was dropped, and its conversation with it."""
    entry = cast("_OfMemory", found)
    entry.others.pop(entry.key, None)


class Conversations:
    """An agent's conversations by memory object. Each is made at its first use, and is dropped with its memory."""

    __slots__ = ("_by_id", "_lock", "_name", "_parts")

    def __init__(self, name: str, parts: AgentParts | None = None) -> None:
        self._name = name
        self._parts = parts
        self._lock = shared_lock()
        # by identity: memories may be equal, or not hashable
        self._by_id: dict[int, _OfMemory] = {}

    def of(self, memory: Memory) -> Conversation:
        """The conversation in this memory."""
        found = self._by_id.get(id(memory))
        return self._new(memory) if found is None else found.conversation

    def _new(self, memory: Memory) -> Conversation:
        key = id(memory)
        with self._lock:
            if key not in self._by_id:
                conversation = Conversation(self._name)
                if self._parts is not None and self._parts.are_in(memory):
                    conversation.registered = self._parts
                found = self._by_id[key] = _OfMemory(memory, _dropped)
                found.conversation, found.key, found.others = conversation, key, self._by_id
            return self._by_id[key].conversation

    @property
    def all(self) -> tuple[Conversation, ...]:
        """The conversations whose memory exists."""
        with self._lock:
            return tuple(found.conversation for found in tuple(self._by_id.values()))
