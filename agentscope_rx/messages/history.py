"""Views of a history in O(1), its open calls, and the results that close them.

A call is *open* while no later message has a result with its id. After any end of a run every call of an agent has
exactly one result, except in the last assistant message of a run that stopped on purpose: its open calls are *pending*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import overload

from agentscope_rx.messages.blocks import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.msg import Msg, MsgRole
from agentscope_rx.messages.places import Places


class History(Sequence[Msg]):
    """The first `length` messages of an append-only list, as a read-only sequence, made in O(1).

    The owner of the list may append to it, but must make a new list for any other change.
    """

    __slots__ = ("_length", "_messages", "_places")

    def __init__(
        self, messages: list[Msg] | None = None, length: int | None = None, places: Places | None = None
    ) -> None:
        self._messages = messages if messages is not None else []
        self._length = len(self._messages) if length is None else length
        self._places = places

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Msg: ...
    @overload
    def __getitem__(self, index: slice) -> list[Msg]: ...
    def __getitem__(self, index: int | slice) -> Msg | list[Msg]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step > 0:
                return self._messages[start:stop:step]
            return [self._messages[i] for i in range(start, stop, step)]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError("history index out of range")
        return self._messages[index]

    def __iter__(self) -> Iterator[Msg]:
        # the list may be appended to meanwhile; this view ends at its length
        return islice(self._messages, self._length)

    def __eq__(self, other: object) -> bool:
        return _same(self, other)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'History'")

    def is_of(self, other: History) -> bool:
        """True if both are views of one list: the shorter one is the beginning of the other."""
        return self._messages is other._messages

    def numbers_of(self, ids: Collection[str]) -> list[int]:
        """Like the function `numbers_of`; faster if the owner of the list keeps the places of ids."""
        if self._places is None:
            return _numbers_of(self, ids)
        return self._places.of(self._messages, self._length, ids)

    def __repr__(self) -> str:
        return f"History({self._length} messages)"


class Joined(Sequence[Msg]):
    """Several sequences of messages as one, without copying them."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: Sequence[Msg]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def __iter__(self) -> Iterator[Msg]:
        return chain.from_iterable(self._parts)

    @overload
    def __getitem__(self, index: int) -> Msg: ...
    @overload
    def __getitem__(self, index: slice) -> list[Msg]: ...
    def __getitem__(self, index: int | slice) -> Msg | list[Msg]:
        if isinstance(index, slice):
            return list(self)[index]
        if index < 0:
            index += len(self)
        if index >= 0:
            for part in self._parts:
                if index < len(part):
                    return part[index]
                index -= len(part)
        raise IndexError("index out of range")

    def __eq__(self, other: object) -> bool:
        return _same(self, other)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'Joined'")

    def __repr__(self) -> str:
        return f"Joined({len(self)} messages)"


def _same(one: Sequence[Msg], other: object) -> bool:
    """Views are equal to any sequence of equal messages."""
    if not isinstance(other, Sequence) or isinstance(other, str):
        return NotImplemented
    items: Sequence[object] = other  # pyright: ignore[reportUnknownVariableType]
    return len(items) == len(one) and all(a == b for a, b in zip(one, items, strict=True))


def numbers_of(messages: Sequence[Msg], ids: Collection[str]) -> list[int]:
    """The indexes of the messages with one of these ids, in order; an id may occur several times."""
    return messages.numbers_of(ids) if isinstance(messages, History) else _numbers_of(messages, ids)


def _numbers_of(messages: Sequence[Msg], ids: Collection[str]) -> list[int]:
    return [number for number, message in enumerate(messages) if message.id in ids]


def same_beginning(one: Sequence[Msg], other: Sequence[Msg]) -> int:
    """The number of messages that both begin with: in O(1) for views of one list, else by comparison."""
    shorter = min(len(one), len(other))
    if isinstance(one, History) and isinstance(other, History) and one.is_of(other):
        return shorter
    # a memory may make its messages anew at each reading
    differs = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a is not b and a != b)
    return next(differs, shorter)


def open_calls(history: Sequence[Msg], name: str | Collection[str]) -> tuple[ToolUseBlock, ...]:
    """The calls without a result in the last assistant message of the agent `name`, in call order.

    Messages and calls of other agents do not count. `name` may be several names, of agents that speak as one.
    """
    names = (name,) if isinstance(name, str) else name
    answered: set[str] = set()
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        if message.role is MsgRole.ASSISTANT and message.name in names:
            return tuple(call for call in message.tool_calls if call.id not in answered)
        answered.update(result.id for result in message.tool_results)
    return ()


def open_among(history: Sequence[Msg], name: str | Collection[str], ids: Collection[str]) -> tuple[ToolUseBlock, ...]:
    """The calls with these ids of the agent `name` that have no result, in call order, also if messages follow.

    The search goes back only until all are found. `name` may be several, as for `open_calls`.
    """
    names = (name,) if isinstance(name, str) else name
    sought, answered = set(ids), set[str]()
    found: list[ToolUseBlock] = []
    for index in range(len(history) - 1, -1, -1):
        if not sought:
            break
        message = history[index]
        if message.role is MsgRole.ASSISTANT and message.name in names:
            calls = [call for call in message.tool_calls if call.id in sought]
            sought.difference_update(call.id for call in calls)
            found[:0] = [call for call in calls if call.id not in answered]
        answered.update(result.id for result in message.tool_results)
    return tuple(found)


_CLOSING_TEXT = {
    ToolResultKind.INTERRUPTED: "The tool call was interrupted before it finished; its effect is unknown.",
    ToolResultKind.FAILED: "The run ended before the tool call finished; its effect is unknown.",
}


def closing_results(
    calls: Iterable[ToolUseBlock], kind: ToolResultKind = ToolResultKind.INTERRUPTED, text: str | None = None
) -> tuple[ToolResultBlock, ...]:
    """An error result for each open call."""
    return tuple(ToolResultBlock.error(call, kind, text or _CLOSING_TEXT.get(kind, kind.value)) for call in calls)


Place = tuple[int, int]
"""The index of a block's message, and the index of the block in its content."""


def call_places(messages: Sequence[Msg]) -> dict[Place, Place]:
    """The places of results, each with the place of its call; results without a call are left out.

    A result answers the latest earlier call of its id without a result (in its own message, any), so an id can be used
    again. Each call has at most one result. Only assistant messages have calls.
    """
    places: dict[Place, Place] = {}
    unanswered: dict[str, list[deque[Place]]] = {}
    for number, message in enumerate(messages):
        if message.role is MsgRole.ASSISTANT:
            own: dict[str, deque[Place]] = {}
            for at, block in enumerate(message.content):
                if type(block) is ToolUseBlock:
                    own.setdefault(block.id, deque()).append((number, at))
            for id, calls in own.items():
                unanswered.setdefault(id, []).append(calls)
        for at, block in enumerate(message.content):
            if type(block) is ToolResultBlock and (stack := unanswered.get(block.id)):
                places[number, at] = stack[-1].popleft()
                if not stack[-1]:
                    stack.pop()
    return places


def results_first(messages: Iterable[Msg]) -> Iterator[Msg]:
    """The messages in an order that every provider accepts: no message between calls and their results.

    An agent may observe a message while a tool runs: memory has it between the call and its result. Here it follows the
    result. Calls without a result delay no message.
    """
    given = list(messages)
    answers: list[set[Place]] = [set() for _ in given]
    answered: list[set[Place]] = [set() for _ in given]
    for (result, _), call in call_places(given).items():
        if result != call[0]:
            answers[result].add(call)
            answered[call[0]].add(call)
    queue = deque(range(len(given)))
    waiting: set[Place] = set()
    held: deque[int] = deque()
    while queue:
        number = queue.popleft()
        if waiting and not answers[number] & waiting:
            held.append(number)
            continue
        yield given[number]
        waiting -= answers[number]
        waiting |= answered[number]
        if not waiting and held:
            queue.extendleft(reversed(held))
            held.clear()
    yield from (given[number] for number in held)
