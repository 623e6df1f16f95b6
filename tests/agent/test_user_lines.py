"""`Lines`: every line goes to exactly one waiter, in order, also when other waiters leave."""

from __future__ import annotations

import asyncio
import gc
import io
import queue
import threading
import time
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.agent.user.lines import Lines
from agentscope_rx.errors import EndOfInputError, UserInputError
from agentscope_rx.testing import run_virtual


class Keyboard:
    """A stream whose lines are typed by the test; counts the threads that read from it at once."""

    def __init__(self) -> None:
        self.typed: queue.Queue[str | Exception] = queue.Queue()
        self.reading = 0
        self.most = 0

    def type(self, *lines: str | Exception) -> None:
        for line in lines:
            self.typed.put(line)

    def readline(self) -> str:
        self.reading += 1
        self.most = max(self.most, self.reading)
        try:
            line = self.typed.get(timeout=100)
        finally:
            self.reading -= 1
        if isinstance(line, Exception):
            raise line
        return line

    async def until_read(self) -> None:
        """A read is in progress."""
        while not self.reading:  # noqa: ASYNC110 - another thread says so
            await asyncio.sleep(0)


def test_lines_come_in_order_without_their_ends():
    lines = Lines.of(stream := io.StringIO("one\ntwo\r\n\nlast"))
    assert [lines.next().run() for _ in range(4)] == ["one", "two", "", "last"]
    with pytest.raises(EndOfInputError, match="so there is no answer"):
        Lines.of(stream).next().run()


def test_one_stream_has_one_lines_object_and_is_not_kept_alive():
    stream = io.StringIO("one\n")
    assert Lines.of(stream) is Lines.of(stream)
    assert Lines.of(stream).next().run() == "one"
    gone = weakref.ref(stream)
    del stream
    deadline = time.monotonic() + 30
    while gone() is not None and time.monotonic() < deadline:
        gc.collect()
    assert gone() is None


def test_a_line_is_read_on_request_and_not_ahead():
    keyboard = Keyboard()
    lines = Lines.of(keyboard)
    flow = lines.next()
    assert keyboard.most == 0
    keyboard.type("one\n", "two\n")
    assert flow.run() == "one"
    assert keyboard.typed.qsize() == 1
    assert flow.run() == "two"


def test_the_line_of_an_abandoned_read_is_the_next_ones():
    """A blocked read cannot be stopped; the next to ask gets its line, and no second read is begun beside it."""

    async def main() -> None:
        keyboard = Keyboard()
        lines = Lines.of(keyboard)
        first = lines.next().as_task()
        await keyboard.until_read()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = lines.next().as_task()
        third = lines.next().as_task()
        await asyncio.sleep(0)
        keyboard.type("for the second\n", "for the third\n")
        assert [await second, await third] == ["for the second", "for the third"]
        assert keyboard.most == 1

    run_virtual(main())


def test_a_line_that_comes_without_a_waiter_is_kept():
    async def main() -> None:
        keyboard = Keyboard()
        lines = Lines.of(keyboard)
        left = lines.next().as_task()
        await keyboard.until_read()
        left.cancel()
        keyboard.type("early\n")
        while keyboard.reading:  # noqa: ASYNC110 - another thread says so
            await asyncio.sleep(0)
        assert await lines.next() == "early"
        keyboard.type("late\n")
        assert await lines.next() == "late"

    run_virtual(main())


def test_a_line_in_flight_when_its_waiter_leaves_is_not_lost():
    async def main() -> None:
        lines = Lines(iter(["one\n", "two\n"]).__next__)
        seen: list[str] = []
        subscription = lines.next().subscribe(seen.append)
        # the reader tells the loop that there is a line; this coroutine has its turn before
        for thread in threading.enumerate():
            if thread.name == "agentscope-rx-lines":
                thread.join(5)
        subscription.dispose()
        assert await lines.next() == "one"
        assert seen == []
        assert await lines.next() == "two"

    asyncio.run(main())


def test_a_line_that_is_no_longer_wanted_stays():
    async def main() -> None:
        lines = Lines(iter(["one\n", "two\n"]).__next__)
        asked = asyncio.Event()

        def wanted() -> bool:
            asked.set()
            return False

        unwanted = lines.next(wanted).as_task()
        await asked.wait()
        assert await lines.next() == "one"
        assert not unwanted.done()
        unwanted.cancel()
        assert await lines.next() == "two"

    asyncio.run(main())


def test_an_end_is_told_and_the_stream_asked_again():
    """Ctrl-D at a terminal ends one question; at a pipe each."""
    keyboard = Keyboard()
    keyboard.type("", "still here\n", EOFError())
    lines = Lines.of(keyboard)
    with pytest.raises(EndOfInputError):
        lines.next().run()
    assert lines.next().run() == "still here"
    with pytest.raises(EndOfInputError):
        lines.next().run()
    with pytest.raises(EOFError):
        Lines.of(io.StringIO()).next().run()


@pytest.mark.parametrize(
    "error", [OSError("broken"), ValueError("closed"), UnicodeDecodeError("utf-8", b"x", 0, 1, "")]
)
def test_a_stream_that_cannot_be_read_is_a_typed_error(error):
    keyboard = Keyboard()
    keyboard.type(error, "next\n")
    with pytest.raises(UserInputError, match="cannot be read") as caught:
        Lines.of(keyboard).next().run()
    assert caught.value.__cause__ is error
    assert not isinstance(caught.value, EOFError)
    assert Lines.of(keyboard).next().run() == "next"


def test_a_waiter_whose_loop_was_closed_takes_no_line():
    keyboard = Keyboard()
    lines = Lines.of(keyboard)
    loop = asyncio.new_event_loop()

    async def ask() -> None:
        lines.next().subscribe()
        await keyboard.until_read()

    loop.run_until_complete(ask())
    loop.close()
    keyboard.type("mine\n")
    assert lines.next().run() == "mine"


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_remaining_waiters_get_the_lines_and_none_is_lost(stays: list[bool]):
    """Law: what those who stay get, followed by what is asked later, is what was typed, in order."""

    async def main() -> None:
        keyboard = Keyboard()
        lines = Lines.of(keyboard)
        asked = [lines.next().as_task() for _ in stays]
        await asyncio.sleep(0)
        for task, stay in zip(asked, stays, strict=True):
            if not stay:
                task.cancel()
        typed = [f"{number}" for number in range(len(stays))]
        keyboard.type(*(f"{line}\n" for line in typed))
        got = [await task for task, stay in zip(asked, stays, strict=True) if stay]
        got += [await lines.next() for _ in range(len(stays) - len(got))]
        assert got == typed
        assert keyboard.most <= 1

    run_virtual(main())
