"""What waits inside of a call: a sub-agent's pending calls, as the parent shows them.

    the sub-agent's reply           the parent's reply
                                    p     placeholder: waits for ["p/c"]
    c   placeholder                 p/c   placeholder, in its metadata: {"sub_agent": {path: ["p"], agents, tools}}

An id is unique within the reply: those of calls inside begin with the call that they are inside of. Levels add up:
`p/c/d` waits inside of `c`, which is inside of `p`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from agentscope_rx.messages import (
    ApprovalAnswer,
    Approve,
    Msg,
    Reject,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.messages.msg import SUB_AGENT, WAITS_FOR, waits_inside

STOPPED = "The agent was stopped before this call."


class Pair(NamedTuple):
    """A call that waits, with its placeholder; `inner_id` is its id for the sub-agent."""

    call: ToolUseBlock
    placeholder: ToolResultBlock
    inner_id: str

    @property
    def answerable(self) -> bool:
        """Whether somebody may answer it: it does not itself wait for others."""
        return not waits_inside(self.placeholder)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the calls that it is inside of, outermost first."""
        return tuple(_place(self.placeholder).get("tools", ()))

    def answer(self, answer: ApprovalAnswer) -> ApprovalAnswer:
        """The answer as the sub-agent gets it."""
        if isinstance(answer, Approve):
            return Approve(self.inner_id, answer.input, remember=answer.remember)
        return Reject(self.inner_id, answer.reason, remember=answer.remember)

    def result(self, result: ToolResultBlock) -> ToolResultBlock:
        """The result as the sub-agent gets it."""
        return replace(result, id=self.inner_id)


def inner_pairs(call: ToolUseBlock, reply: Msg, answered: Collection[str] = ()) -> tuple[Pair, ...]:
    """What waits in the reply of the sub-agent that `call` has asked, but for what has been `answered`."""
    placeholders = {result.id: result for result in reply.tool_results}
    pairs: list[Pair] = []
    for inner in reply.tool_calls:
        if inner.id in answered:
            continue
        placeholder = placeholders.get(inner.id)
        if placeholder is None:
            placeholder = ToolResultBlock(inner.id, inner.name, (TextBlock(STOPPED),), ToolResultKind.SUSPENDED)
        id = f"{call.id}/{inner.id}"
        place = _within(call, reply.name, _place(placeholder), answered)
        shown = replace(placeholder, id=id, metadata={**placeholder.metadata, SUB_AGENT: place})
        pairs.append(Pair(replace(inner, id=id), shown, inner.id))
    return tuple(pairs)


def placeholder_of(call: ToolUseBlock, reply: Msg, answered: Collection[str] = ()) -> ToolResultBlock:
    """What stands for the result of a call whose sub-agent waits."""
    pairs = inner_pairs(call, reply, answered)
    leaves = [pair.call for pair in pairs if pair.answerable]
    asks = any(pair.placeholder.kind is ToolResultKind.APPROVAL_REQUIRED for pair in pairs)
    kind = ToolResultKind.APPROVAL_REQUIRED if asks else ToolResultKind.SUSPENDED
    text = f"{reply.name} waits for {', '.join(leaf.name for leaf in leaves) or 'its turn'}."
    place = {WAITS_FOR: [leaf.id for leaf in leaves]} if leaves else {}
    return ToolResultBlock(call.id, call.name, (TextBlock(text),), kind, {SUB_AGENT: {**_HERE, **place}})


_HERE: Mapping[str, Sequence[str]] = {"path": (), "agents": (), "tools": ()}


def _within(
    call: ToolUseBlock, agent: str, place: Mapping[str, Sequence[str]], answered: Collection[str]
) -> dict[str, object]:
    """Where something is that is there in the sub-agent that `call` has asked."""
    told: dict[str, object] = {
        "path": [call.id, *place.get("path", ())],
        "agents": [agent, *place.get("agents", ())],
        "tools": [call.name, *place.get("tools", ())],
    }
    if WAITS_FOR in place:
        told[WAITS_FOR] = [f"{call.id}/{each}" for each in place[WAITS_FOR] if each not in answered]
    return told


def _place(placeholder: ToolResultBlock) -> Mapping[str, Sequence[str]]:
    place = placeholder.metadata.get(SUB_AGENT)
    return cast("Mapping[str, Sequence[str]]", place) if isinstance(place, Mapping) else {}
