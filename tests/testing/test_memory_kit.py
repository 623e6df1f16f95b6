"""`check_memory`: the shipped memory keeps the laws, and each kind of fault is found."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, Memory, Msg
from agentscope_rx.reactive import Flow, concat, concat_map, defer, from_callable, just
from agentscope_rx.testing import check_memory
from tests.testing.faults import broken


@pytest.mark.spec("case 134")
def test_the_memory_in_process_keeps_the_laws():
    report = check_memory(InMemoryMemory)
    assert report.subject == "InMemoryMemory"
    assert {"order", "atomic", "snapshot", "threads", "get 1.08", "add loops, second"} <= set(report.checked)


class Prepends(InMemoryMemory):
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        def add() -> Flow[None]:
            self._messages = [*messages, *self._messages]
            return just(None)

        return defer(add)


class DropsMetadata(InMemoryMemory):
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        return defer(lambda: super(DropsMetadata, self).add([each.replace(metadata={}) for each in messages]))


class SignalsTwice(InMemoryMemory):
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        return concat(super().add(messages), just(None))


class CountsAsTrue(InMemoryMemory):
    def replace(self, message: Msg) -> Flow[Any]:
        def one() -> Flow[Any]:
            found = any(each.id == message.id for each in self._messages)
            return super(CountsAsTrue, self).replace(message) if found else just(0)

        return defer(one)


class Hot(InMemoryMemory):
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        self._messages.extend(messages)
        return just(None)


class ReadsAtOnce(InMemoryMemory):
    def get(self) -> Flow[Sequence[Msg]]:
        return just(self.messages)


class InParts(InMemoryMemory):
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        def add() -> Flow[None]:
            for message in messages:
                self._messages.append(message)
            return just(None)

        return defer(add)


class LiveView(InMemoryMemory):
    def get(self) -> Flow[Any]:
        return defer(lambda: just(self._messages))


class KeepsTheList(InMemoryMemory):
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        def add() -> Flow[None]:
            if self._messages or len(messages) < 2:
                return super(KeepsTheList, self).add(messages)
            self._messages = messages  # type: ignore[assignment]
            return just(None)

        return defer(add)


class ReplacesAtTheEnd(InMemoryMemory):
    def replace(self, message: Msg) -> Flow[bool]:
        def replace() -> Flow[bool]:
            kept = [each for each in self._messages if each.id != message.id]
            found = len(kept) < len(self._messages)
            self._messages = [*kept, message] if found else kept
            return just(found)

        return defer(replace)


class DeletesByCount(InMemoryMemory):
    def delete(self, ids: Sequence[str]) -> Flow[int]:
        async def delete() -> int:
            found = await super(DeletesByCount, self).delete(ids)
            return len(ids) if found else 0

        return from_callable(delete)


class ClearsMost(InMemoryMemory):
    def clear(self) -> Flow[None]:
        def clear() -> Flow[None]:
            # (of several different ones the first stays)
            self._messages = self._messages[:1] if len({each.id for each in self._messages}) > 1 else []
            return just(None)

        return defer(clear)


class Shared(InMemoryMemory):
    everything: list[Msg] = []

    def __init__(self) -> None:
        super().__init__()
        Shared.everything.clear()
        self._messages = Shared.everything

    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        def add() -> Flow[None]:
            self._messages += list(messages)
            return just(None)

        return defer(add)


class Interleaves(InMemoryMemory):
    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        async def add() -> None:
            for message in list(messages):
                self._messages.append(message)
                await asyncio.sleep(0)

        return from_callable(add)


class OneThread(InMemoryMemory):
    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        def add() -> Flow[None]:
            if threading.get_ident() != self.thread:
                raise RuntimeError("used on another thread than that it was made on")
            return super(OneThread, self).add(messages)

        return defer(add)


class LeavesAPart(InMemoryMemory):
    def __init__(self) -> None:
        super().__init__()
        self.turn = asyncio.Lock()

    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        async def add() -> None:
            async with self.turn:
                for message in list(messages):
                    self._messages.append(message)
                    await asyncio.sleep(0)

        return from_callable(add)


class LosesMarks(InMemoryMemory):
    def replace(self, message: Msg) -> Flow[bool]:
        return super().replace(message.unmarked("done"))

    _replace_each = Memory._replace_each


class NeverMarked(InMemoryMemory):
    def replace(self, message: Msg) -> Flow[bool]:
        return super().replace(message).pipe(concat_map(self.forget))

    def forget(self, found: bool) -> Flow[bool]:
        self.marked = any(message.marks for message in self._messages[1:])
        return just(found)


class ReplacesTheFirst(InMemoryMemory):
    def replace_all(self, messages: Sequence[Msg]) -> Flow[int]:
        return super().replace_all(messages[:1])


class LooksForMarksOnly(InMemoryMemory):
    def add(self, messages: Sequence[Msg], marks: Collection[str] = ()) -> Flow[None]:
        def look(done: None) -> None:
            self.marked = any(message.marks for message in self._messages)

        return super().add(messages, marks).pipe(concat_map(look))


class DeletesTheFirst(InMemoryMemory):
    def delete_by_mark(self, mark: str) -> Flow[int]:
        return self.get_memory(mark).pipe(concat_map(lambda found: self.delete([each.id for each in found[:1]])))


class KeepsTheFirstSummary(InMemoryMemory):
    def compress(self, msg_ids: Collection[str], summary: str) -> Flow[int]:
        def compress(old: str) -> Flow[int]:
            return super(KeepsTheFirstSummary, self).compress(msg_ids, old or summary)

        return self.compressed_summary().pipe(concat_map(compress))


class ReadsTheEnd(InMemoryMemory):
    def read(self, *, mark: str | None = None, exclude_mark: str | None = None) -> Flow[Msg]:
        read = super().read(mark=mark, exclude_mark=exclude_mark)
        return read if mark or exclude_mark else Flow(read.pipe(ops.skip(1)))


FAULTS: list[tuple[Callable[[], InMemoryMemory], str]] = [
    (Prepends, "order"),
    (DropsMetadata, "whole"),
    (SignalsTwice, "one signal"),
    (CountsAsTrue, "one signal"),
    (Hot, "cold"),
    (ReadsAtOnce, "cold"),
    (InParts, "atomic"),
    (LiveView, "snapshot"),
    (KeepsTheList, "snapshot"),
    (ReplacesAtTheEnd, "replace"),
    (DeletesByCount, "delete"),
    (ClearsMost, "clear"),
    (LosesMarks, "marks"),
    (NeverMarked, "marked late"),
    (ReplacesTheFirst, "replaced together"),
    (LooksForMarksOnly, "short forms"),
    (DeletesTheFirst, "delete by mark"),
    (KeepsTheFirstSummary, "compressed"),
    (ReadsTheEnd, "read"),
    (Shared, "apart"),
    (Interleaves, "concurrent"),
    (OneThread, "threads"),
    (LeavesAPart, "disposal"),
]


@pytest.mark.parametrize(("make", "rule"), FAULTS, ids=lambda each: getattr(each, "__name__", each))
def test_a_fault_of_a_memory_is_found(make: Callable[[], InMemoryMemory], rule: str):
    broken(lambda: check_memory(make), rule)


def test_each_rule_has_a_fault():
    own = [rule for rule in check_memory(InMemoryMemory).checked if not rule.startswith(("get ", "add "))]
    assert set(own) == {rule for _, rule in FAULTS}
