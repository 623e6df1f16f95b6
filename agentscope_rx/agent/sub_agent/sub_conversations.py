"""`SubConversations`: the conversations that sub-agents have within one conversation, and the calls that wait for them.

    a parent's conversation  --id-->  Child: a memory, and in it the sub-agent's own conversation
                             --call-->  the Child that this open call has begun

A child is *taken* from the beginning of a call until that call has its result, over suspensions and restarts: nothing
else is said in it meanwhile. Of those that are not taken, the least recently used go when there are too many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from agentscope_rx.agent.sub_agent.pending import Pair, inner_pairs
from agentscope_rx.errors import ToolError
from agentscope_rx.memory import Memory
from agentscope_rx.messages import ApprovalAnswer, Msg, ToolResultBlock, ToolUseBlock

if TYPE_CHECKING:
    from agentscope_rx.agent.conversation import Conversation
    from agentscope_rx.agent.persistence import Frozen


class SubConversation:
    """One conversation of a sub-agent.

    `tool` is the name that its parent calls it by, `slot` where it is saved. `call_id` is the call that has taken it,
    `begun` whether that one's message has been taken in. `reply` is the sub-agent's, if calls of it wait; `answers` and
    `results` are for those, by their own ids, until it goes on. `memory` is None while it is as it was `frozen`.
    """

    __slots__ = (
        "answers",
        "begun",
        "call_id",
        "conversation",
        "frozen",
        "id",
        "memory",
        "reply",
        "results",
        "slot",
        "tool",
    )

    def __init__(self, id: str, tool: str, slot: int) -> None:
        self.id = id
        self.tool = tool
        self.slot = slot
        self.memory: Memory | None = None
        self.conversation: Conversation | None = None
        self.frozen: Frozen | None = None
        self.rest()

    def rest(self) -> None:
        """No call has it any more."""
        self.call_id: str | None = None
        self.begun = False
        self.waits(None)

    def waits(self, reply: Msg | None) -> None:
        """This is what it waits for now, if anything."""
        self.reply = reply
        self.answers: dict[str, ApprovalAnswer] = {}
        self.results: dict[str, ToolResultBlock] = {}

    @property
    def answered(self) -> bool:
        """Whether there is something to go on with."""
        return bool(self.answers or self.results)


class SubConversations:
    """The children of one conversation, the most recently used last."""

    __slots__ = ("_by_call", "_by_id")

    def __init__(self, children: Iterable[SubConversation] = ()) -> None:
        self._by_id = {child.id: child for child in children}
        self._by_call = {child.call_id: child for child in self._by_id.values() if child.call_id is not None}

    @property
    def all(self) -> tuple[SubConversation, ...]:
        """Every child."""
        return tuple(self._by_id.values())

    def of_call(self, call_id: str) -> SubConversation | None:
        """The child that this call has begun."""
        return self._by_call.get(call_id)

    def take(self, tool: str, call_id: str, id: str | None, *, at_most: int) -> SubConversation:
        """The child of this id, or a new one, for this call; `ToolError` tells the model why it cannot be had."""
        child = self._found(tool, id) if id is not None else self._new(tool, at_most)
        child.call_id = call_id
        self._by_call[call_id] = child
        # the most recently used is the last
        self._by_id[child.id] = self._by_id.pop(child.id, child)
        return child

    def _found(self, tool: str, id: str) -> SubConversation:
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
        mine = [child for child in self._by_id.values() if child.tool == tool]
        free = [child for child in mine if child.call_id is None]
        for old in free[: max(0, len(mine) + 1 - at_most)]:
            del self._by_id[old.id]
        slots = {child.slot for child in self._by_id.values()}
        slot = next(number for number in range(len(slots) + 1) if number not in slots)
        id = uuid4().hex[:8]
        while id in self._by_id:
            id = uuid4().hex[:8]
        return SubConversation(id, tool, slot)

    def settled(self, call_id: str) -> None:
        """The call has its result."""
        child = self._by_call.pop(call_id, None)
        if child is not None:
            child.rest()

    def keep(self, pending: Collection[str]) -> None:
        """Of the calls, only these are still open."""
        for call_id in [each for each in self._by_call if each not in pending]:
            self.settled(call_id)

    # --- what waits -----------------------------------------------------------------------------------------------

    def pairs(self, call: ToolUseBlock) -> tuple[Pair, ...]:
        """What waits inside of this call, as the parent shows it: calls with their placeholders."""
        child = self._by_call.get(call.id)
        if child is None or child.reply is None:
            return ()
        return inner_pairs(call, child.reply, set(child.results))

    def leaves(self, pending: Iterable[ToolUseBlock]) -> tuple[ToolUseBlock, ...]:
        """The calls that somebody may answer: those of a sub-agent in the place of the one that waits for it."""
        found: list[ToolUseBlock] = []
        for call in pending:
            inner = [pair.call for pair in self.pairs(call) if pair.answerable]
            found += inner or [call]
        return tuple(found)

    def inside(self, pending: Iterable[ToolUseBlock]) -> dict[str, tuple[SubConversation, Pair]]:
        """Where answers to calls inside of these belong, by the ids that the parent shows."""
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
        """Keep what answers calls of sub-agents until those go on; the ids of the results that are theirs."""
        for answer in answers:
            if answer.call_id in inside:
                child, pair = inside[answer.call_id]
                child.answers[pair.inner_id] = pair.answer(answer)
        results = [result for message in messages for result in message.tool_results if result.id in inside]
        for result in results:
            child, pair = inside[result.id]
            child.results[pair.inner_id] = pair.result(result)
        return frozenset(result.id for result in results)


def without_results(messages: Iterable[Msg], ids: Collection[str]) -> tuple[Msg, ...]:
    """The messages without these results; one that held nothing else is left out."""
    kept: list[Msg] = []
    for message in messages:
        content = tuple(
            block for block in message.content if not (isinstance(block, ToolResultBlock) and block.id in ids)
        )
        if len(content) == len(message.content):
            kept.append(message)
        elif content:
            kept.append(message.replace(content=content))
    return tuple(kept)
