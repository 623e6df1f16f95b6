"""The pending calls of a sub-agent, as the parent shows them.

    the sub-agent's reply           the parent's reply
                                    p     placeholder: waits for ["p/c"]
    c   placeholder                 p/c   placeholder, in its metadata: {"sub_agent": {path: ["p"], agents, tools}}

Ids are unique within a reply: the id of an inner call begins with that of the outer one. Levels add up: `p/c/d` is
inside `c`, which is inside `p`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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

_ASKS = (ToolResultKind.APPROVAL_REQUIRED, ToolResultKind.IN_DOUBT)

STOPPED = "The agent was stopped before this call."


class Pair(NamedTuple):
    """A pending call with its placeholder; `inner_id` is its id for the sub-agent."""

    call: ToolUseBlock
    placeholder: ToolResultBlock
    inner_id: str

    @property
    def answerable(self) -> bool:
        """True if a caller may answer it: it does not wait for other calls itself."""
        return not waits_inside(self.placeholder)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of the calls around it, outermost first."""
        return tuple(_place(self.placeholder).get("tools", ()))

    def answer(self, answer: ApprovalAnswer) -> ApprovalAnswer:
        """The answer for the sub-agent."""
        if isinstance(answer, Approve):
            return Approve(self.inner_id, answer.input, remember=answer.remember)
        return Reject(self.inner_id, answer.reason, remember=answer.remember)

    def result(self, result: ToolResultBlock) -> ToolResultBlock:
        """The result for the sub-agent."""
        return replace(result, id=self.inner_id)


def inner_pairs(call: ToolUseBlock, reply: Msg, answered: Collection[str] = ()) -> tuple[Pair, ...]:
    """The pending calls in the reply of the sub-agent that `call` runs, without those that were `answered`."""
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
    """The placeholder result of a call whose sub-agent has pending calls."""
    pairs = inner_pairs(call, reply, answered)
    leaves = [pair.call for pair in pairs if pair.answerable]
    asks = any(pair.placeholder.kind in _ASKS for pair in pairs)
    kind = ToolResultKind.APPROVAL_REQUIRED if asks else ToolResultKind.SUSPENDED
    text = f"{reply.name} waits for {', '.join(leaf.name for leaf in leaves) or 'its turn'}."
    place = {WAITS_FOR: [leaf.id for leaf in leaves]} if leaves else {}
    return ToolResultBlock(call.id, call.name, (TextBlock(text),), kind, {SUB_AGENT: {**_TOP, **place}})


_TOP: Mapping[str, Sequence[str]] = {"path": (), "agents": (), "tools": ()}


def _within(
    call: ToolUseBlock, agent: str, place: Mapping[str, Sequence[str]], answered: Collection[str]
) -> dict[str, object]:
    """The metadata `sub_agent` of an inner call, one level further out."""
    outer: dict[str, object] = {
        "path": [call.id, *place.get("path", ())],
        "agents": [agent, *place.get("agents", ())],
        "tools": [call.name, *place.get("tools", ())],
    }
    if WAITS_FOR in place:
        outer[WAITS_FOR] = [f"{call.id}/{each}" for each in place[WAITS_FOR] if each not in answered]
    return outer


def _place(placeholder: ToolResultBlock) -> Mapping[str, Sequence[str]]:
    place = placeholder.metadata.get(SUB_AGENT)
    return cast("Mapping[str, Sequence[str]]", place) if isinstance(place, Mapping) else {}


def without_results(messages: Iterable[Msg], ids: Collection[str]) -> tuple[Msg, ...]:
    """The messages without these results. A message that held nothing else is left out."""
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
