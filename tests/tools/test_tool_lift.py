"""Every kind of callable through `Toolkit.call`, on the library's loop and on a running one."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import reactivex
from calling import all_of, events, result, text_of, use
from reactivex import Observable

from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.reactive import WORKERS, Flow, empty, from_iterable
from agentscope_rx.tools import ToolChunk, ToolEvent, Toolkit, tool


def function(n: int) -> int:
    return n


async def coroutine(n: int) -> int:
    await asyncio.sleep(0)
    return n


def generator(n: int) -> Iterator[int]:
    yield from range(n)


def generator_with_return(n: int) -> Iterator[object]:
    yield from range(n)
    return {"sum": n}


async def async_generator(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i


def observable(n: int) -> Observable[int]:
    return reactivex.range(0, n)


def announced_flow(n: int) -> Flow[int]:
    return from_iterable(range(n))


def unannounced_observable(n: int):
    return reactivex.range(0, n)


async def coroutine_of_observable(n: int):
    return reactivex.range(0, n)


async def coroutine_of_async_generator(n: int):
    return async_generator(n)


def function_of_generator(n: int):
    return (i for i in range(n))


def announced_awaitable(n: int) -> Awaitable[int]:
    return coroutine(n)


def unannounced_awaitable(n: int):
    return coroutine(n)


def wrapped(inner: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(inner)
    def wrapper(*args: object, **kwargs: object) -> object:
        return inner(*args, **kwargs)

    return wrapper


class Call:
    def __call__(self, n: int) -> int:
        return n

    def method(self, n: int) -> int:
        return n


class AsyncCall:
    async def __call__(self, n: int) -> int:
        return n


class GeneratorCall:
    def __call__(self, n: int):
        yield from range(n)


KINDS: list[tuple[Callable[..., object], list[str], str]] = [
    # callable, progress, result of a call with n=2
    (function, [], "2"),
    (coroutine, [], "2"),
    (generator, ["0", "1"], "1"),
    (generator_with_return, ["0", "1", '{"sum":2}'], '{"sum":2}'),
    (async_generator, ["0", "1"], "1"),
    (observable, ["0", "1"], "1"),
    (announced_flow, ["0", "1"], "1"),
    # what does not say that it streams shows a value as progress once another has followed
    (unannounced_observable, ["0"], "1"),
    (coroutine_of_observable, ["0"], "1"),
    (coroutine_of_async_generator, ["0"], "1"),
    (function_of_generator, ["0"], "1"),
    (announced_awaitable, [], "2"),
    (unannounced_awaitable, [], "2"),
    (functools.partial(function), [], "2"),
    (functools.partial(coroutine), [], "2"),
    (functools.partial(async_generator), ["0", "1"], "1"),
    (wrapped(coroutine), [], "2"),
    (wrapped(generator), ["0"], "1"),
    (Call(), [], "2"),
    (Call().method, [], "2"),
    (AsyncCall(), [], "2"),
    (GeneratorCall(), ["0", "1"], "1"),
]


def check(found: list[ToolEvent], progress: list[str], text: str) -> None:
    *chunks, last = found
    assert [text_of(chunk) for chunk in chunks if isinstance(chunk, ToolChunk)] == progress
    assert len(chunks) == len(progress)
    assert isinstance(last, ToolResultBlock)
    assert (last.text, last.kind) == (text, None)


@pytest.mark.parametrize(("callable_", "progress", "text"), KINDS)
def test_kind_from_a_script(callable_: Callable[..., object], progress: list[str], text: str):
    check(events(callable_, n=2), progress, text)


@pytest.mark.parametrize(("callable_", "progress", "text"), KINDS)
def test_kind_under_a_running_loop(callable_: Callable[..., object], progress: list[str], text: str):
    async def main() -> list[ToolEvent]:
        toolkit = Toolkit([callable_])
        return await all_of(toolkit.call(use(toolkit.names[0], n=2)))

    check(asyncio.run(main()), progress, text)


def nothing() -> Flow[int]:
    return empty()


def no_items() -> Iterator[int]:
    yield from ()


async def no_async_items() -> AsyncIterator[int]:
    for i in ():
        yield i


def silent() -> None: ...


@pytest.mark.parametrize("callable_", [nothing, no_items, no_async_items, silent])
def test_a_tool_without_a_value_is_done(callable_: Callable[..., object]):
    check(events(callable_), [], "Done.")


def test_progress_is_shown_while_the_tool_runs():
    go_on = threading.Event()
    seen: list[ToolEvent] = []

    def steps() -> Iterator[str]:
        yield "half"
        assert go_on.wait(10)
        yield "whole"

    def on_next(event: ToolEvent) -> None:
        seen.append(event)
        go_on.set()

    done = threading.Event()
    Toolkit([steps]).call(use("steps")).subscribe(on_next, on_completed=done.set)
    assert done.wait(10)
    assert len(seen) == 3


def test_context_variables_are_visible_and_do_not_leak_back():
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")

    def blocking() -> str:
        before = user.get()
        user.set("tool")
        return before

    async def waiting() -> str:
        return user.get()

    def items() -> Iterator[str]:
        yield user.get()
        yield user.get()

    user.set("alice")
    assert [result(each).text for each in (blocking, waiting, items)] == ["alice"] * 3
    assert user.get() == "alice"


def test_blocking_functions_run_on_tools_or_toolkits_executor():
    def where() -> str:
        return threading.current_thread().name.partition("_")[0]

    with (
        ThreadPoolExecutor(1, thread_name_prefix="own") as own,
        ThreadPoolExecutor(1, thread_name_prefix="shared") as shared,
    ):
        named = tool(name="named", executor=own)(where)
        toolkit = Toolkit([where, named], executor=shared)
        texts = [text_of(toolkit.call(use(name)).run()) for name in ("where", "named")]
    assert texts == ["shared", "own"]
    assert result(where).text.startswith("agentscope-rx-worker")


def test_a_shut_down_executor_is_a_failure_the_model_sees():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    block = result(tool(executor=pool)(silent))
    assert block.kind is ToolResultKind.FAILED


def test_disposal_runs_the_finally_of_an_async_tool():
    ended: list[str] = []

    async def main() -> None:
        started = asyncio.Event()

        async def hang() -> None:
            try:
                started.set()
                await asyncio.Event().wait()
            finally:
                ended.append("hang")

        async def stream() -> AsyncIterator[int]:
            try:
                yield 1
                await asyncio.Event().wait()
            finally:
                ended.append("stream")

        running = Toolkit([hang]).call(use("hang")).as_task()
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with Toolkit([stream]).call(use("stream")) as flow:
            async for _ in flow:
                break

    asyncio.run(main())
    assert sorted(ended) == ["hang", "stream"]


def test_disposal_abandons_a_blocking_tool():
    started, release = threading.Event(), threading.Event()
    seen: list[ToolEvent] = []

    def block() -> str:
        started.set()
        assert release.wait(10)
        return "late"

    subscription = Toolkit([block]).call(use("block")).subscribe(seen.append)
    assert started.wait(10)
    before = WORKERS.statistics().abandoned
    subscription.dispose()
    # disposal is synchronous for the subscriber; its work is done on the library's loop, after which a later call runs
    assert result(silent).text == "Done."
    assert WORKERS.statistics().abandoned == before + 1
    release.set()
    assert seen == []
