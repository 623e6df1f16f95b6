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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from uuid import uuid4
from weakref import ref

from agentscope_rx.agent.agent_parts import AgentParts
from agentscope_rx.agent.approvals import ApprovalRule, Approvals
from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.call_ids import CallIds
from agentscope_rx.agent.durable.journal import EffectJournal, SettledParts
from agentscope_rx.agent.durable.saved_run import SavedRun, digest_of
from agentscope_rx.agent.hearing import Hearing
from agentscope_rx.agent.interruption import Cut, InterruptSource
from agentscope_rx.agent.run_state import RunState
from agentscope_rx.agent.running_flag import RunningFlag
from agentscope_rx.agent.saved_copy import Binding, SavedCopy
from agentscope_rx.agent.saved_items import ItemsOfHistory, SavedItems
from agentscope_rx.agent.saved_state import FrozenConversation, Items, SavedState
from agentscope_rx.agent.snapshot import Snapshot
from agentscope_rx.agent.structured_output.pending import PendingOutput
from agentscope_rx.agent.sub_agent.pending import Pair, inner_pairs
from agentscope_rx.errors import ToolError
from agentscope_rx.memory import Memory
from agentscope_rx.memory.growing_view import GrowingView
from agentscope_rx.messages import ApprovalAnswer, Msg, ToolResultBlock, ToolUseBlock, open_calls
from agentscope_rx.messages.history import open_among
from agentscope_rx.parts import PartState, PartStates
from agentscope_rx.reactive.kernel.forking import new_rlock
from agentscope_rx.session import Session


class Conversation:
    """One agent with one memory: its running flag, its pending calls and its approvals."""

    __slots__ = (
        "__weakref__",
        "_admitted",
        "_copies",
        "_id",
        "_saved_items",
        "active_groups",
        "approvals",
        "binding",
        "call_ids",
        "children",
        "cut_off",
        "flag",
        "flags",
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
        "view",
    )

    def __init__(self, name: str) -> None:
        self._id = ""
        self.names: tuple[str, ...] = (name,)  # its own, and those of members that speak for it
        self.flag: RunningFlag = RunningFlag(name)
        # with check_running=False every run has a flag of its own: each can be interrupted and waited for
        self.flags: set[RunningFlag] = {self.flag}
        self.lock: threading.RLock = new_rlock()
        """Held where a run takes pending calls, and where it leaves some."""
        self.call_ids: CallIds = CallIds()
        self.pending: frozenset[str] | None = None
        self.approvals: Approvals = Approvals()
        self.cut_off: tuple[Msg, ...] | None = None
        """The input of the last run, if a shutdown has cut it off: the same input resumes it."""
        self.output: PendingOutput | None = None
        """The output requested by the run that has left the pending calls: the run that settles them gives it."""
        self.interrupted: InterruptSource | None = None
        """Who interrupted the last run, if it ended by that. It is saved, so that another process knows, too."""
        self.binding: Binding | None = None
        """Where the conversation is saved at the end of each run, if anywhere."""
        self.active_groups: tuple[str, ...] | None = None
        """The groups of tools that a run has left active, if one has changed them."""
        self.parts: PartStates = PartStates()
        """What hooks and tools keep in this conversation: a plan, a mode."""
        self.registered: AgentParts | None = None
        """The objects whose state belongs to this conversation, if it is the one in the agent's own memory."""
        self.settled: SettledParts | None = None
        """What a checkpoint saves of `parts` while calls are in progress; None between runs."""
        self.children: SubConversations | None = None
        """The conversations of sub-agents within this one, if there were any."""
        self.unfinished: SavedRun | None = None
        """The run in progress at the last checkpoint within a run; after a load a run that another process has lost."""
        self.journal: EffectJournal | None = None
        """The tool calls that have begun, if checkpoints are made within runs, or were by another process."""
        self.jobs: Jobs | None = None
        """The work in the background, if the agent has tools for it."""
        self.view: GrowingView = GrowingView()
        """What requests send of the messages, if some have marks or short forms."""
        self.hearing: Hearing | None = None
        """What it hears of other agents, once it has been in a group of them."""
        self.on_run: Callable[[RunState], object] | None = None
        """Called with each new run, in the conversation of a sub-agent that is being called."""
        self._admitted = 0
        self._copies: list[SavedCopy] = []
        self._saved_items = ItemsOfHistory()

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self.names[0]

    @property
    def id(self) -> str:
        """The key of its session once it is bound to one; else an id that is made when it is first asked for."""
        if self.binding is not None:
            return self.binding.key
        if not self._id:
            self._id: str = uuid4().hex
        return self._id

    @property
    def runs(self) -> tuple[RunState, ...]:
        """The runs in progress or being cleaned up."""
        return tuple(run for flag in tuple(self.flags) if (run := flag.run) is not None)

    @property
    def entered(self) -> tuple[RunState, ...]:
        """The runs that can be interrupted: in progress, or waiting for the clean-up of another."""
        return tuple(run for flag in tuple(self.flags) for run in flag.interruptible)

    def entered_within(self) -> Iterator[RunState]:
        """The same, and those of the sub-agents."""
        yield from self.entered
        for child in () if self.children is None else self.children.all:
            if child.conversation is not None:
                yield from child.conversation.entered_within()

    @property
    def rules(self) -> tuple[ApprovalRule, ...]:
        """The answers that hold for later calls, the latest last."""
        return self.approvals.rules

    @property
    def saved_as(self) -> str | None:
        """The key of the session that the conversation is bound to, if any."""
        return None if self.binding is None else self.binding.key

    # --- pending calls --------------------------------------------------------------------------------------------

    def pending_in(self, history: Sequence[Msg], besides: RunState | None = None) -> tuple[ToolUseBlock, ...]:
        """The open calls of the history that this agent has to settle, without those of other runs in progress."""
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
        return Snapshot(self.pending or frozenset(), not self._others(run), self._admitted)

    def lost_in(self, history: Sequence[Msg], before: Snapshot) -> tuple[ToolUseBlock, ...]:
        """The open calls of the agent's last message that no run has left pending: memory kept no result of theirs.

        If other runs were in progress since the snapshot this cannot be known, and none is given.
        """
        known = self.pending
        if known is None or not before.alone or self._admitted != before.admitted:
            return ()
        return tuple(call for call in open_calls(history, self.names) if call.id not in known)

    def _others(self, besides: RunState | None) -> list[RunState]:
        return [run for run in self.runs if run is not besides and not run.calls.ended]

    @property
    def unsettled(self) -> frozenset[str] | None:
        """The pending calls, and those that the runs in progress are about to settle; None if not known."""
        open = frozenset(id for run in self._others(None) for id in tuple(run.calls.open))
        return open.union(self.pending or ()) if open else self.pending

    def answerable_in(self, history: Sequence[Msg]) -> tuple[ToolUseBlock, ...]:
        """The pending calls that a caller may answer: instead of a call whose sub-agent waits, that agent's calls."""
        leaves = self.leaves(self.pending_in(history))
        return leaves if self.journal is None else tuple(self.journal.marked(call) for call in leaves)

    def leaves(self, pending: tuple[ToolUseBlock, ...]) -> tuple[ToolUseBlock, ...]:
        """These calls; instead of one whose sub-agent waits, that agent's calls."""
        return pending if self.children is None else self.children.leaves(pending)

    def resumed(self, given: tuple[Msg, ...]) -> bool:
        """True if the input repeats that of the run that was cut off, which is remembered already."""
        cut_off = self.cut_off
        if self.unfinished is not None and given and digest_of(given) == self.unfinished["given"]:
            return True
        return bool(cut_off) and [_content(message) for message in cut_off] == [_content(message) for message in given]

    def admit(self, run: RunState, before: Snapshot) -> None:
        """The run has taken its input: the calls that were pending are its own now, or gone from the history."""
        run.calls.admitted = True
        self._admitted += 1
        self.pending = (self.pending or frozenset()).difference(before.pending, run.calls.open)
        if self.output is not None and self.output.calls.isdisjoint(self.pending):
            self.output = None

    def settle(self, key: str, at: int) -> dict[str, PartState | None]:
        """Let the states of the parts be those that are saved; returns what has changed since they last were.

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
        """Keep the calls that the run leaves pending. A run that was refused changes nothing.

        Called when the run is saved, and again when it is over: a later run may have settled the calls in between.
        """
        calls = run.calls
        if not calls.admitted:
            return
        if run.toolkit.active_groups != run.groups:
            self.active_groups = run.toolkit.active_groups
        left = frozenset(calls.open) if calls.pending else frozenset[str]()
        with self.lock:
            pending = self.pending or frozenset()
            if calls.ended:
                left &= pending & calls.left
                pending -= calls.left
            else:
                self.interrupted, self.unfinished, self.settled = run.interruption.ended_by, None, None
                cut_off = self.interrupted is not None and run.interruption.cut is Cut.SHUTDOWN
                if run.request is not None and run.request.output is not None and (left or cut_off):
                    self.output = PendingOutput(run.request.output, left)
            calls.ended, calls.left = True, left
            self.pending = pending | left
            self.approvals.keep(self.pending)
            if self.children is not None:
                self.children.keep(self.unsettled or ())
        self.call_ids.release(run.id, (other.id for other in self._others(run)))

    # --- the saved copy -------------------------------------------------------------------------------------------

    def copy_at(self, session: Session, key: str, entries: Collection[str]) -> SavedCopy:
        """The copy under this key of the session. Equal sessions have one copy."""
        with self.lock:
            for copy in self._copies:
                if copy.is_at(session, key):
                    return copy
            self._copies.append(SavedCopy(session, key, entries))
            return self._copies[-1]

    def items_of(self, history: Sequence[Msg]) -> SavedItems:
        """The messages as items of a session entry. The items of messages that were saved before are used again."""
        with self.lock:
            return self._saved_items.of(history)

    def keep_items(self, history: Sequence[Msg], items: SavedItems) -> None:
        """Note the items that the messages were read from."""
        with self.lock:
            self._saved_items.note(history, items)


def _content(message: Msg) -> tuple[object, ...]:
    return message.role, message.name, message.content


class Conversations:
    """An agent's conversations by memory object. Each is made at its first use, and is dropped with its memory."""

    def __init__(self, name: str, parts: Callable[[Memory], AgentParts | None] = lambda memory: None) -> None:
        self._name = name
        self._parts = parts
        self._lock = new_rlock()
        # by identity: memories may be equal, or not hashable
        self._by_id: dict[int, tuple[ref[Memory], Conversation]] = {}

    def of(self, memory: Memory) -> Conversation:
        """The conversation in this memory."""
        found = self._by_id.get(id(memory))
        return self._new(memory) if found is None else found[1]

    def _new(self, memory: Memory) -> Conversation:
        key = id(memory)
        with self._lock:
            if key not in self._by_id:
                by_id = self._by_id
                dropped = ref(memory, lambda _: by_id.pop(key, None))
                conversation = Conversation(self._name)
                conversation.registered = self._parts(memory)
                self._by_id[key] = (dropped, conversation)
            return self._by_id[key][1]

    @property
    def all(self) -> tuple[Conversation, ...]:
        """The conversations whose memory exists."""
        with self._lock:
            return tuple(conversation for _, conversation in tuple(self._by_id.values()))


class SubConversation:
    """One conversation of a sub-agent.

    `tool` is the tool by which the parent calls it, `slot` the place where it is saved. `call_id` is the call that has
    taken it; `begun` is true once that call's message was taken in. `reply` is the sub-agent's reply, if calls of it
    are pending; `answers` and `results` are for these calls, by the sub-agent's own ids, until it continues. Until its
    first use after a load, `memory` and `conversation` are None and `frozen` holds the loaded one. `checkpoint` is what
    is saved of it until the call has its result: its last checkpoint within the run, which may have gone on.

    A tool that calls several agents keeps in `agent` by which name it knows this one, in `label` what the model calls
    the conversation, and in `runs_on` the agent itself, in this process.
    """

    __slots__ = (
        "agent",
        "answers",
        "begun",
        "call_id",
        "checkpoint",
        "conversation",
        "frozen",
        "id",
        "label",
        "memory",
        "reply",
        "results",
        "runs_on",
        "slot",
        "tool",
    )

    def __init__(self, id: str, tool: str, slot: int) -> None:
        self.id: str = id
        self.tool: str = tool
        self.slot: int = slot
        self.agent: str | None = None
        self.label: str | None = None
        self.runs_on: object = None
        self.memory: Memory | None = None
        self.conversation: Conversation | None = None
        self.frozen: FrozenConversation | None = None
        self.checkpoint: tuple[SavedState, Items] | None = None
        self.free()

    def free(self) -> None:
        """No call has taken it any longer."""
        self.call_id: str | None = None
        self.begun: bool = False
        self.wait_for(None)

    def wait_for(self, reply: Msg | None) -> None:
        """It waits for the pending calls of this reply; with None, for nothing."""
        self.reply: Msg | None = reply
        self.checkpoint = None
        self.answers: dict[str, ApprovalAnswer] = {}
        self.results: dict[str, ToolResultBlock] = {}

    @property
    def answered(self) -> bool:
        """True if it has answers or results to continue with."""
        return bool(self.answers or self.results)


class SubConversations:
    """The conversations of sub-agents within one conversation, the most recently used last."""

    __slots__ = ("_by_call", "_by_id", "_held", "_slots")

    def __init__(self, children: Iterable[SubConversation] = ()) -> None:
        self._held: set[str] = set()
        self._by_id = {child.id: child for child in children}
        self._slots = {child.slot for child in self._by_id.values()}
        self._by_call = {child.call_id: child for child in self._by_id.values() if child.call_id is not None}

    @property
    def all(self) -> tuple[SubConversation, ...]:
        """Every child."""
        return tuple(self._by_id.values())

    def of_call(self, call_id: str) -> SubConversation | None:
        """The child that this call has begun."""
        return self._by_call.get(call_id)

    def take(self, tool: str, call_id: str, id: str | None, *, at_most: int) -> SubConversation:
        """The child of this id, or a new one, taken by this call; a `ToolError` tells the model why not."""
        return self._taken(self._find(tool, id) if id is not None else self._new(tool, at_most), call_id)

    def take_own(self, tool: str, call_id: str) -> SubConversation:
        """The one child of a tool that has no other, with the tool's name as its id; taken by this call."""
        return self._taken(self._find(tool, tool) if tool in self._by_id else self._made(tool, tool), call_id)

    def _taken(self, child: SubConversation, call_id: str) -> SubConversation:
        child.call_id = call_id
        self._by_call[call_id] = child
        # the most recently used is the last
        self._by_id[child.id] = self._by_id.pop(child.id, child)
        return child

    def _find(self, tool: str, id: str) -> SubConversation:
        child = self._by_id.get(id)
        if child is None or child.tool != tool:
            known = [each.id for each in self._by_id.values() if each.tool == tool and each.call_id is None]
            have = f"There are: {', '.join(known)}." if known else "There are none yet."
            raise ToolError(f"There is no conversation {id!r}. {have} Leave conversation_id out to begin a new one.")
        if child.call_id is not None:
            raise ToolError(
                f"Conversation {id!r} is taken by call {child.call_id!r}, which has no result yet. Wait for that, or "
                "leave conversation_id out to begin another one."
            )
        return child

    def _new(self, tool: str, at_most: int) -> SubConversation:
        same_tool = [child for child in self._by_id.values() if child.tool == tool]
        free = [child for child in same_tool if child.call_id is None]
        for old in free[: max(0, len(same_tool) + 1 - at_most)]:
            del self._by_id[old.id]
            self._slots.discard(old.slot)
        id = uuid4().hex[:8]
        while id in self._by_id:
            id = uuid4().hex[:8]
        return self._made(id, tool)

    def _made(self, id: str, tool: str) -> SubConversation:
        # the next number is mostly free
        slot = next(n for n in chain((len(self._slots),), count()) if n not in self._slots)
        self._slots.add(slot)
        return SubConversation(id, tool, slot)

    def settle(self, call_id: str) -> None:
        """The call has its result: its child is free, unless it works in the background."""
        child = None if call_id in self._held else self._by_call.pop(call_id, None)
        if child is not None:
            child.free()

    def hold(self, call_id: str) -> None:
        """The call goes on in the background: its child stays taken until `let_go`."""
        self._held.add(call_id)

    def let_go(self, call_id: str) -> None:
        """The work in the background has ended."""
        self._held.discard(call_id)
        self.settle(call_id)

    def keep(self, pending: Collection[str]) -> None:
        """Free the children of calls that are not among these."""
        for call_id in [each for each in self._by_call if each not in pending]:
            self.settle(call_id)

    # --- pending calls of sub-agents ------------------------------------------------------------------------------

    def pairs(self, call: ToolUseBlock) -> tuple[Pair, ...]:
        """The pending calls inside this call, with their placeholders, as the parent shows them."""
        child = self._by_call.get(call.id)
        if child is None or child.reply is None:
            return ()
        return inner_pairs(call, child.reply, set(child.results))

    def leaves(self, pending: Iterable[ToolUseBlock]) -> tuple[ToolUseBlock, ...]:
        """The calls that a caller may answer: a call that waits for its sub-agent is replaced by that agent's calls."""
        found: list[ToolUseBlock] = []
        for call in pending:
            inner = [pair.call for pair in self.pairs(call) if pair.answerable]
            found += inner or [call]
        return tuple(found)

    def inside(self, pending: Iterable[ToolUseBlock]) -> dict[str, tuple[SubConversation, Pair]]:
        """The children that answers to calls inside these belong to, by the ids that the parent shows."""
        return {
            pair.call.id: (child, pair)
            for call in pending
            if (child := self._by_call.get(call.id)) is not None
            for pair in self.pairs(call)
            if pair.answerable
        }

    def hand_down(
        self,
        inside: Mapping[str, tuple[SubConversation, Pair]],
        answers: Iterable[ApprovalAnswer],
        messages: Iterable[Msg],
    ) -> frozenset[str]:
        """Keep the answers and results for calls of sub-agents until these continue; gives the ids of the results."""
        for answer in answers:
            if answer.call_id in inside:
                child, pair = inside[answer.call_id]
                child.answers[pair.inner_id] = pair.answer(answer)
        results = [result for message in messages for result in message.tool_results if result.id in inside]
        for result in results:
            child, pair = inside[result.id]
            child.results[pair.inner_id] = pair.result(result)
        return frozenset(result.id for result in results)
