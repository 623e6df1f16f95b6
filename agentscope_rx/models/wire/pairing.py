"""`paired`: calls and results in the one form that every chat API takes. Pure; all formatters use it.

| in the messages                                  | in the request                                            |
|--------------------------------------------------|-----------------------------------------------------------|
| a result, in any message                         | directly after the message of its call, in a tool message |
| messages between a call and its result           | after the result                                          |
| a call without a result, such as another agent's | followed by the result `NO_RESULT`                        |
| a result without its call                        | a user message with the name and the result, in its place |
| a second result of a call                        | the same                                                  |
| an id that was used before                       | another id, in call and result: APIs need unique ids      |

So every call has exactly one result, every result its call, and no id is used twice. Messages in order are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from agentscope_rx.messages import (
    ContentBlock,
    Msg,
    MsgRole,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    call_places,
)
from agentscope_rx.messages.history import Place

NO_RESULT = "There is no result of this call yet."
"""The result of a call that is still open, such as another agent's: providers refuse a call without one."""


def paired(messages: Sequence[Msg], wire_id: Callable[[str], str] = str) -> list[Msg]:
    """The messages with each call and its result together, as in the table above.

    `wire_id` gives the id as the API takes it: of two ids that become equal, one is replaced.
    """
    if not any(type(block) in (ToolUseBlock, ToolResultBlock) for message in messages for block in message.content):
        return list(messages)
    pairs = _Pairs(messages, wire_id)
    return [message for number in range(len(messages)) for message in pairs.sent(number)]


class _Pairs:
    """The result of each call, and the id that both are sent with."""

    __slots__ = ("_answered", "_calls", "_ids", "_messages", "_results")

    def __init__(self, messages: Sequence[Msg], wire_id: Callable[[str], str]) -> None:
        self._messages = messages
        self._calls = call_places(messages)
        self._ids = _ids(messages, wire_id)
        self._results: dict[int, list[Place]] = {}
        self._answered: set[str] = set()
        for result, call in self._calls.items():
            self._results.setdefault(call[0], []).append(result)
            self._answered.add(self._result(result).id)

    def sent(self, number: int) -> Iterator[Msg]:
        """The messages to send in place of this one."""
        message = self._messages[number]
        unmatched = list(self._unmatched(number, message))
        if message.role is not MsgRole.ASSISTANT and message.role is not MsgRole.SYSTEM:
            yield from unmatched
        if not message.tool_results:
            yield self._with_ids(number, message)
        elif rest := [block for block in message.content if type(block) is not ToolResultBlock]:
            yield self._with_ids(number, message, rest)
        if message.role is MsgRole.ASSISTANT:
            yield from self._unanswered(number, message)
            yield from self._answers(number)
        if message.role is MsgRole.ASSISTANT or message.role is MsgRole.SYSTEM:
            yield from unmatched

    def _with_ids(self, number: int, message: Msg, content: Sequence[ContentBlock] | None = None) -> Msg:
        """The message with this content, and with the calls' ids as they are sent."""
        if any((number, at) in self._ids for at in range(len(message.content))):
            named = [
                replace(block, id=self._ids.get((number, at), block.id)) if type(block) is ToolUseBlock else block
                for at, block in enumerate(message.content)
            ]
            content = [block for block in named if type(block) is not ToolResultBlock]
        return message if content is None else message.replace(content=content)

    def _unanswered(self, number: int, message: Msg) -> Iterator[Msg]:
        answered = {self._calls[result] for result in self._results.get(number, ())}
        none = [
            ToolResultBlock(self._ids.get((number, at), block.id), block.name, (TextBlock(NO_RESULT),))
            for at, block in enumerate(message.content)
            if type(block) is ToolUseBlock and (number, at) not in answered
        ]
        if none:
            yield Msg("tool", none, MsgRole.TOOL, id=message.id, timestamp=message.timestamp)

    def _answers(self, number: int) -> Iterator[Msg]:
        """The results of this message's calls, in their order, grouped in messages as they were."""
        groups: dict[int, list[ToolResultBlock]] = {}
        for at, block in self._results.get(number, ()):
            result = self._result((at, block))
            id = self._ids.get(self._calls[at, block])
            groups.setdefault(at, []).append(result if id is None else replace(result, id=id))
        for at, results in groups.items():
            source = self._messages[at]
            if source.role is MsgRole.TOOL and source.content == tuple(results):
                yield source
            else:
                yield source.replace(content=results, role=MsgRole.TOOL)

    def _result(self, place: Place) -> ToolResultBlock:
        return cast("ToolResultBlock", self._messages[place[0]].content[place[1]])

    def _unmatched(self, number: int, message: Msg) -> Iterator[Msg]:
        """A user message with the results that have no call, or whose call has another result."""
        blocks: list[ContentBlock] = []
        for at, block in enumerate(message.content):
            if type(block) is ToolResultBlock and (number, at) not in self._calls:
                which = f"{block.name} ({block.id})"
                if block.id in self._answered:
                    blocks.append(TextBlock(f"Another result of {which}:"))
                else:
                    blocks.append(TextBlock(f"Result of {which}, whose call is not in this conversation:"))
                blocks += block.output or (TextBlock("(nothing)"),)
        if blocks:
            metadata = message.metadata if message.role is MsgRole.TOOL else None
            yield Msg("user", blocks, id=message.id, timestamp=message.timestamp, metadata=metadata)


def _ids(messages: Sequence[Msg], wire_id: Callable[[str], str]) -> dict[Place, str]:
    """New ids for calls whose own was used before; equal messages give equal ids."""
    given = [
        ((number, at), block.id)
        for number, message in enumerate(messages)
        if message.role is MsgRole.ASSISTANT
        for at, block in enumerate(message.content)
        if type(block) is ToolUseBlock
    ]
    reserved = {wire_id(id) for _, id in given}
    if len(reserved) == len(given):
        return {}
    uses: dict[str, int] = {}
    ids: dict[Place, str] = {}
    for place, id in given:
        count = uses.get(wire_id(id), 0) + 1
        if count > 1:
            while wire_id(f"{id}_{count}") in reserved:
                count += 1
            ids[place] = f"{id}_{count}"
            reserved.add(wire_id(ids[place]))
        uses[wire_id(id)] = count
    return ids
