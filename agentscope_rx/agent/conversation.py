"""`Conversation`: what belongs to one agent with one memory, between and across its calls.

One agent object serves many conversations at once: `agent.call(msg, memory=...)`. Each has its own running flag, its
own pending calls and its own remembered approvals; nothing of them is kept on the agent.

    pending     None: not known (a fresh agent, a loaded history): the history says it
                ids:  the open calls that are this agent's to settle, whatever peers have put into the history
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from agentscope_rx.agent.call_ids import CallIds
from agentscope_rx.agent.run import Cut, InterruptSource, Run
from agentscope_rx.agent.running_flag import RunningFlag
from agentscope_rx.agent.saved_copy import SavedCopy
from agentscope_rx.agent.structured_output.pending import PendingOutput
from agentscope_rx.agent.sub_agent.sub_conversations import SubConversations
from agentscope_rx.memory import Memory
from agentscope_rx.messages import ApprovalAnswer, Approve, Msg, Reject, ToolUseBlock, open_calls
from agentscope_rx.messages.history import open_among
from agentscope_rx.reactive.kernel.forking import new_rlock
from agentscope_rx.session import Session, Unchanging

if TYPE_CHECKING:
    from agentscope_rx.agent.persistence import Binding
    from agentscope_rx.agent.sub_agent.parent_link import ParentLink


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """An answer that holds for calls to come: of `tool`, and with `input` only, unless that is None."""

    tool: str
    input: Mapping[str, object] | None
    approved: bool
    reason: str = ""

    def covers(self, call: ToolUseBlock) -> bool:
        """Whether this rule decides the call."""
        return call.name == self.tool and (self.input is None or self.input == call.input)


class Look(NamedTuple):
    """A conversation before its history is read: what is pending, whether no other run is in progress, and how many
    have taken their input."""

    pending: frozenset[str]
    alone: bool
    admitted: int


class Conversation:
    """One agent with one memory: the gate, what is pending, and what has been approved for good."""

    __slots__ = (
        "__weakref__",
        "_admitted",
        "_copies",
        "_name",
        "_rules",
        "_written",
        "active_groups",
        "answers",
        "binding",
        "bond",
        "call_ids",
        "children",
        "cut_off",
        "gate",
        "gates",
        "interrupted",
        "lock",
        "output",
        "pending",
    )

    def __init__(self, name: str) -> None:
        self._name = name
        self.gate = RunningFlag(name)
        # with check_running=False every run has a gate of its own: all can be interrupted and waited for
        self.gates: set[RunningFlag] = {self.gate}
        self.lock = new_rlock()
        """Held where a run takes what is pending, and where it leaves some: runs may overlap, on any thread."""
        self.call_ids = CallIds()
        self.pending: frozenset[str] | None = None
        self.answers: dict[str, ApprovalAnswer] = {}
        """Answers to pending calls that could not be acted on yet."""
        self.cut_off: tuple[Msg, ...] | None = None
        """The input of the last run, if a shutdown has cut that off: given again, it goes on from there."""
        self.output: PendingOutput | None = None
        """The output that was asked for by the run that has left what is pending: it is asked for again."""
        self.interrupted: InterruptSource | None = None
        """Who has interrupted the last run, if it has ended by that; saved, so that another process knows, too."""
        self.binding: Binding | None = None
        """Where it is saved at the end of each run, if anywhere."""
        self.active_groups: tuple[str, ...] | None = None
        """The groups of tools that a run has left active, if one has changed them."""
        self.children: SubConversations | None = None
        """The conversations that sub-agents have had within this one, if there were any."""
        self.bond: ParentLink | None = None
        """The call that the run in progress belongs to, if this is a sub-agent's conversation."""
        self._admitted = 0
        self._copies: list[SavedCopy] = []
        self._written: tuple[Sequence[Msg], list[Unchanging]] = ((), [])
        self._rules: list[ApprovalRule] = []

    @property
    def name(self) -> str:
        """The name of the agent whose it is."""
        return self._name

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs in progress or being cleaned up."""
        return tuple(run for gate in tuple(self.gates) if (run := gate.run) is not None)

    @property
    def entered(self) -> tuple[Run, ...]:
        """The runs that are to end by a reply yet: in progress, or waiting for the clean-up of another."""
        return tuple(run for gate in tuple(self.gates) for run in gate.interruptible)

    @property
    def rules(self) -> tuple[ApprovalRule, ...]:
        """What has been approved or rejected for good, the latest last."""
        return tuple(self._rules)

    @property
    def saved_as(self) -> str | None:
        """The key of the session that it is bound to, if it is."""
        return None if self.binding is None else self.binding.key

    def copy_at(self, session: Session, key: str, entries: Collection[str]) -> SavedCopy:
        """What is known of the copy under this key of the session: of two objects that reach the same one copy."""
        with self.lock:
            for copy in self._copies:
                if copy.is_at(session, key):
                    return copy
            self._copies.append(SavedCopy(session, key, entries))
            return self._copies[-1]

    def restore_rules(self, rules: Iterable[ApprovalRule]) -> None:
        """Put these in the place of the remembered answers."""
        self._rules = list(rules)

    def answer(self, given: Iterable[ApprovalAnswer], pending: Mapping[str, ToolUseBlock]) -> None:
        """Take the answers to pending calls, and remember those that are to hold for good."""
        for each in given:
            self.answers[each.call_id] = each
            if each.remember is not None:
                self._remember(each, pending[each.call_id])

    def _remember(self, answer: ApprovalAnswer, call: ToolUseBlock) -> None:
        edited = answer.input if isinstance(answer, Approve) else None
        given = call.input if edited is None else edited
        reason = answer.reason if isinstance(answer, Reject) else ""
        rule = ApprovalRule(
            call.name, given if answer.remember == "arguments" else None, isinstance(answer, Approve), reason
        )
        self._rules = [old for old in self._rules if (old.tool, old.input) != (rule.tool, rule.input)] + [rule]

    def decided(self, call: ToolUseBlock) -> ApprovalAnswer | None:
        """What has been said about this call: to itself, else by the latest rule that covers it."""
        answer = self.answers.get(call.id)
        if answer is not None or not self._rules:
            return answer
        for rule in reversed(self._rules):
            if rule.covers(call):
                return Approve(call) if rule.approved else Reject(call, rule.reason)
        return None

    def pending_in(self, history: Sequence[Msg], besides: Run | None = None) -> tuple[ToolUseBlock, ...]:
        """The open calls of the history that this agent has to settle, but for those of other runs in progress."""
        known = self.pending
        if known is None:
            calls = open_calls(history, self._name)
        else:
            # overlapping runs may have said something since
            calls = open_among(history, self._name, known) if known else ()
        if not calls:
            return calls
        elsewhere = {id for run in self._others(besides) for id in tuple(run.open)}
        return tuple(call for call in calls if call.id not in elsewhere)

    def look(self, run: Run) -> Look:
        """What is so before the history is read: overlapping runs may change it, and the history, meanwhile."""
        return Look(self.pending or frozenset(), not self._others(run), self._admitted)

    def lost_in(self, history: Sequence[Msg], before: Look) -> tuple[ToolUseBlock, ...]:
        """The open calls of the agent's last message that nobody has left open on purpose: no result of theirs could be
        kept. Where other runs were in progress since that look, nobody can say."""
        known = self.pending
        if known is None or not before.alone or self._admitted != before.admitted:
            return ()
        return tuple(call for call in open_calls(history, self._name) if call.id not in known)

    def _others(self, besides: Run | None) -> list[Run]:
        return [run for run in self.runs if run is not besides and not run.ended]

    @property
    def unsettled(self) -> frozenset[str] | None:
        """What is pending, and what the runs in progress are about to settle; None if that is not known."""
        open = frozenset(id for run in self._others(None) for id in tuple(run.open))
        return open.union(self.pending or ()) if open else self.pending

    def waits_in(self, history: Sequence[Msg]) -> tuple[ToolUseBlock, ...]:
        """The calls of the history that somebody may answer: in the place of one whose sub-agent waits, those of that
        sub-agent."""
        pending = self.pending_in(history)
        return pending if self.children is None else self.children.leaves(pending)

    def resumed(self, given: tuple[Msg, ...]) -> bool:
        """Whether the input repeats that of the run that was cut off: it is remembered already."""
        cut_off = self.cut_off
        return bool(cut_off) and [_said(message) for message in cut_off] == [_said(message) for message in given]

    def written(self, history: Sequence[Msg]) -> list[Unchanging]:
        """The messages as items to be saved; those that were written out before are not written out again."""
        before, items = self._written
        same = 0
        for old, message in zip(before, history, strict=False):
            if old is not message:
                break
            same += 1
        items = [*items[:same], *(Unchanging(message.to_dict()) for message in islice(history, same, None))]
        self._written = (history, items)
        return items

    def read(self, history: Sequence[Msg], items: list[Unchanging]) -> None:
        """The messages have been made of these items: they are not to be written out again."""
        self._written = (history, items)

    def admit(self, run: Run, before: Look) -> None:
        """The run has taken its input: what was pending is its own to settle, or is gone from the history."""
        run.admitted = True
        self._admitted += 1
        self.pending = (self.pending or frozenset()).difference(before.pending, run.open)
        if self.output is not None and self.output.calls.isdisjoint(self.pending):
            self.output = None

    def end(self, run: Run) -> None:
        """Keep what the run leaves pending; one that was refused leaves everything as it was."""
        if not run.admitted:
            return
        if run.toolkit.active_groups != run.groups:
            self.active_groups = run.toolkit.active_groups
        left = frozenset(run.open) if run.pending else frozenset[str]()
        with self.lock:
            pending = self.pending or frozenset()
            if run.ended:
                # said a second time: others may have settled meanwhile what it has left
                left &= pending & run.left
                pending -= run.left
            if not run.ended:
                self.interrupted = run.interrupted_by
                cut_off = run.interrupted_by is not None and run.cut is Cut.SHUTDOWN
                if run.asked is not None and run.asked.output is not None and (left or cut_off):
                    self.output = PendingOutput(run.asked.output, left)
            run.ended, run.left = True, left
            self.pending = pending | left
            if self.answers:
                self.answers = {id: answer for id, answer in self.answers.items() if id in self.pending}
            if self.children is not None:
                self.children.keep(self.unsettled or ())
        self.call_ids.release(run.id, (other.id for other in self._others(run)))


def _said(message: Msg) -> tuple[object, ...]:
    return message.role, message.name, message.content


class Conversations:
    """An agent's conversations, by memory object: each is made when it is first asked for, and goes with its memory."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = new_rlock()
        # by identity: a memory may be equal to another, or not hashable
        self._by_id: dict[int, tuple[ref[Memory], Conversation]] = {}

    def of(self, memory: Memory) -> Conversation:
        """The conversation in this memory."""
        found = self._by_id.get(id(memory))
        return self._made(memory) if found is None else found[1]

    def _made(self, memory: Memory) -> Conversation:
        key = id(memory)
        with self._lock:
            if key not in self._by_id:
                by_id = self._by_id
                gone = ref(memory, lambda _: by_id.pop(key, None))
                self._by_id[key] = (gone, Conversation(self._name))
            return self._by_id[key][1]

    @property
    def all(self) -> tuple[Conversation, ...]:
        """Those whose memory is still there."""
        with self._lock:
            return tuple(conversation for _, conversation in tuple(self._by_id.values()))
