"""Sources that follow one another share a task; those that begin at once have tasks of their own."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from agentscope_rx.reactive import (
    Flow,
    SourceCancelledError,
    concat_map,
    flat_map,
    from_async_iterable,
    from_awaitable,
    from_callable,
    just,
    merge_ordered,
    recurse,
    tail,
)
from agentscope_rx.reactive.sources import tasks
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import record

NUMBER: ContextVar[int] = ContextVar("NUMBER", default=0)
VALUE: ContextVar[Any] = ContextVar("VALUE")


def in_a_row(count: int, make: Any) -> Flow[Any]:
    left = count

    def stage() -> Flow[Any]:
        nonlocal left
        left -= 1
        return make().pipe(concat_map(lambda value: just(value, tail(stage)) if left else just(value)))

    return recurse(stage)


async def current() -> int:
    return id(asyncio.current_task())


async def waiting() -> int:
    await asyncio.sleep(1)
    return id(asyncio.current_task())


def test_a_hundred_calls_in_a_row_are_one_task() -> None:
    async def main() -> None:
        for make in (lambda: from_callable(current), lambda: from_callable(waiting), lambda: from_awaitable(waiting())):
            heard = (await record(in_a_row(100, make))).heard
            assert len(heard) == 101 and len(set(heard[:-1])) == 1

    run_virtual(main())


def test_a_stream_and_a_call_behind_it_are_one_task() -> None:
    async def items() -> Any:
        yield await current()
        yield await waiting()

    async def main() -> None:
        heard = (await record(in_a_row(6, lambda: from_async_iterable(items).pipe(concat_map(last))))).heard
        assert len(set(heard[:-1])) == 1

    def last(value: int) -> Flow[int]:
        return just(value)

    run_virtual(main())


def test_a_changed_context_variable_stays_in_its_source() -> None:
    seen: list[int] = []

    async def changes() -> int:
        seen.append(NUMBER.get())
        NUMBER.set(len(seen) + 100)
        return id(asyncio.current_task())

    async def main() -> None:
        heard = (await record(in_a_row(5, lambda: from_callable(changes)))).heard
        assert seen == [0] * 5 and len(set(heard[:-1])) > 1
        assert NUMBER.get() == 0

    run_virtual(main())


class Unequal:
    """A value like an array: two of them have no truth value when they are compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("The truth value is ambiguous.")


@pytest.mark.parametrize("make", [Unequal, list])
def test_a_changed_context_variable_is_known_by_identity(make: Any) -> None:
    async def change() -> Any:
        before = VALUE.get()
        VALUE.set(make())
        return before

    async def main() -> None:
        own = make()
        VALUE.set(own)
        heard = (await record(in_a_row(3, lambda: from_callable(change)))).heard
        assert len(heard) == 4 and all(value is own for value in heard[:-1])

    run_virtual(main())


def test_those_that_begin_at_once_have_tasks_and_an_order() -> None:
    async def main() -> None:
        began: list[int] = []

        async def call(number: int) -> int:
            began.append(number)
            return id(asyncio.current_task())

        def several(_: object) -> Flow[int]:
            return merge_ordered([from_callable(lambda number=number: call(number)) for number in range(4)])

        heard = (await record(from_callable(current).pipe(concat_map(several)))).heard
        assert began == [0, 1, 2, 3] and len(set(heard[:-1])) == 4

    run_virtual(main())


def test_none_passes_a_source_that_waits_for_its_first_step() -> None:
    async def main() -> None:
        began: list[str] = []

        async def call(name: str) -> str:
            began.append(name)
            return name

        def both() -> Flow[str]:
            first = from_callable(lambda: call("a")).pipe(concat_map(lambda _: from_callable(lambda: call("c"))))
            return just("x", "y").pipe(
                flat_map(lambda each: first if each == "x" else from_callable(lambda: call("b")))
            )

        await record(both())
        assert began == ["a", "b", "c"]

    run_virtual(main())


def test_a_consumer_that_leaves_comes_before_the_next_source() -> None:
    async def main() -> None:
        began: list[str] = []

        async def call(name: str) -> str:
            began.append(name)
            return name

        values = in_a_row(3, lambda: from_callable(lambda: call("n")))
        async for _ in values:
            break
        assert began == ["n"]

    run_virtual(main())


def test_sources_that_never_wait_leave_turns_to_the_loop() -> None:
    async def main() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(others())
        await record(in_a_row(10 * tasks.IN_A_ROW, lambda: from_callable(current)))
        other.cancel()
        assert turns >= 10

    run_virtual(main())


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_cancellation_from_outside_ends_what_runs(after: int) -> None:
    async def main() -> None:
        ran: list[asyncio.Task[Any] | None] = []

        async def call() -> int:
            ran.append(asyncio.current_task())
            if len(ran) > after:
                await asyncio.sleep(100)
            return len(ran)

        recorded = asyncio.ensure_future(record(in_a_row(after + 1, lambda: from_callable(call))))
        await asyncio.sleep(1)
        task = ran[-1]
        assert task is not None
        task.cancel()
        heard = (await recorded).heard
        assert isinstance(heard[-1], SourceCancelledError) and heard[:-1] == list(range(1, after + 1))

    run_virtual(main())
