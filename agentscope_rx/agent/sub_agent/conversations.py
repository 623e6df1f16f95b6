"""`SubConversations`: the conversations of sub-agents within one conversation (see `agent.conversation`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, count
from typing import TYPE_CHECKING
from uuid import uuid4

from agentscope_rx.agent.saved_state import FrozenConversation, Items, SavedState
from agentscope_rx.agent.sub_agent.pending import Pair, inner_pairs
from agentscope_rx.errors import ToolError
from agentscope_rx.memory import Memory
from agentscope_rx.messages import ApprovalAnswer, Msg, ToolResultBlock, ToolUseBlock

if TYPE_CHECKING:
    from agentscope_rx.agent.conversation import Conversation


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
