"""A loop that shuts down ends the runs left on it, whatever they wait for; it holds neither them nor itself."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

import pytest

from agentscope_rx.reactive import (
    Flow,
    RetryPolicy,
    Scope,
    SourceCancelledError,
    concat,
    from_callable,
    iterate_on_worker,
    just,
    never,
    on_worker,
    retry,
    throw,
    timer,
    using,
)
from agentscope_rx.reactive.kernel import runtime as runtimes
from agentscope_rx.reactive.kernel.dropped import CleanUpTimeoutError
from agentscope_rx.reactive.kernel.in_flight import InFlight
from agentscope_rx.testing import collect_dropped
from agentscope_rx.testing.virtual_time import virtual_loop
from tests.reactive.recorder import Recorder, turns

FOREVER = 3600.0
release = threading.Event()


def blocked() -> object:
    release.wait(20)
    return None


def scheduled(sink: Any, scope: Scope) -> None:
    """Waits for callbacks that each ask for the next: never a task, never a timer."""
    from agentscope_rx.reactive.kernel.observer import BooleanDisposable

    flag = BooleanDisposable()
    sink.on_subscribe(flag)

    def again() -> None:
        if not flag.disposed:
            scope.call_soon(again)

    again()


WAITS: dict[str, Callable[[], Flow[Any]]] = {
    "retry backoff": lambda: throw(ValueError()).pipe(
        retry(RetryPolicy(stop=lambda state: False, wait=lambda state: FOREVER))
    ),
    "timer": lambda: timer(FOREVER),
    "sync function": lambda: on_worker(blocked),
    "sync generator": lambda: iterate_on_worker(lambda: (blocked() for _ in range(3))),
    "never": never,
    "callbacks": lambda: Flow(scheduled),
    "task": lambda: from_callable(lambda: asyncio.sleep(FOREVER)),
}


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    release.clear()
    yield
    release.set()


@contextmanager
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def said(recorder: Recorder) -> list[object]:
    return [type(what) if isinstance(what, Exception) else what for what in recorder.heard]


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, virtual_loop], ids=["real", "virtual"])
@pytest.mark.parametrize("waits", WAITS)
def test_a_run_ends_with_its_loop_whatever_it_waits_for(waits: str, loop_factory: Any) -> None:
    log: list[object] = []

    async def main() -> Recorder:
        held = using(lambda: just("r"), lambda _: WAITS[waits](), lambda *_: log.append("released"))
        recorder = Recorder().listen(concat(just(1), held))
        await turns()
        return recorder

    for _ in range(2):
        with no_warnings(), asyncio.Runner(loop_factory=loop_factory) as runner:
            recorder = runner.run(main())
            assert said(recorder) == [1]
        assert said(recorder) == [1, SourceCancelledError]
    assert log == ["released"] * 2


def test_all_of_many_are_told_in_the_order_in_which_they_began() -> None:
    told: list[int] = []
    kept: list[object] = []

    async def main() -> None:
        for number in range(100):
            kept.append(never().subscribe(on_error=lambda error, number=number: told.append(number)))
        for subscription in kept[10:]:
            subscription.dispose()  # type: ignore[attr-defined]
        await just(1)

    asyncio.run(main())
    assert told == list(range(10))


def test_a_raising_subscriber_does_not_keep_others_waiting() -> None:
    told: list[object] = []

    def bad(error: Exception) -> None:
        raise KeyError("mine")

    async def main() -> list[object]:
        return [never().subscribe(on_error=hears) for hears in (bad, told.append, bad, told.append)]

    with collect_dropped() as dropped:
        kept = asyncio.run(main())
    assert [type(error) for error in told] == [SourceCancelledError] * 2
    assert repr(dropped) == "[KeyError('mine'), KeyError('mine')]"
    assert dropped.where == ["a subscriber's callback"] * 2
    del kept


def test_without_on_error_the_end_is_reported_as_any_error_is() -> None:
    async def main() -> object:
        return never().subscribe()

    with collect_dropped() as dropped:
        kept = asyncio.run(main())
    assert [type(error) for error in dropped] == [SourceCancelledError]
    del kept


def test_clean_ups_that_take_time_are_waited_for() -> None:
    log: list[object] = []

    async def slowly() -> None:
        await asyncio.sleep(0.01)
        log.append("released")

    async def main() -> Recorder:
        recorder = Recorder().listen(using(lambda: just(1), lambda _: never(), lambda *_: from_callable(slowly)))
        await turns()
        return recorder

    recorder = asyncio.run(main())
    assert said(recorder) == [SourceCancelledError]
    assert log == ["released"]


def test_clean_ups_that_take_too_long_are_reported() -> None:
    async def main() -> Recorder:
        return Recorder().listen(using(lambda: just(1), lambda _: never(), lambda *_: timer(60)))

    with collect_dropped() as dropped, asyncio.Runner(loop_factory=virtual_loop) as runner:
        recorder = runner.run(main())
    assert said(recorder) == [SourceCancelledError]
    assert [type(error) for error in dropped] == [CleanUpTimeoutError]


def test_a_new_subscription_at_shutdown_is_ended_once() -> None:
    told: list[object] = []
    kept: list[object] = []

    def listen(error: object = None) -> None:
        told.append(error)
        kept.append(never().subscribe(on_error=listen))

    async def main() -> None:
        listen()

    with no_warnings():
        asyncio.run(main())
    assert [type(each) for each in told] == [type(None), SourceCancelledError, SourceCancelledError]


def test_the_error_is_heard_in_the_subscribers_context() -> None:
    from contextvars import ContextVar

    name: ContextVar[str] = ContextVar("name", default="nobody")
    told: list[object] = []

    async def main() -> object:
        name.set("me")
        return never().subscribe(on_error=lambda error: told.append(name.get()))

    kept = asyncio.run(main())
    assert told == ["me"]
    del kept


def test_a_stream_that_is_left_half_way_is_left_without_a_word() -> None:
    async def reading() -> Any:
        async for value in concat(just(1), never()):
            yield value

    async def main() -> list[object]:
        # one that the loop closes, and one that lives on without a loop
        generator, iterator = reading(), aiter(concat(just(1), never()))
        assert await anext(generator) == await anext(iterator) == 1
        return [generator, iterator]

    with no_warnings():
        kept = asyncio.run(main())
    kept.clear()
    gc.collect()


def test_a_nested_run_ends_with_the_one_around_it() -> None:
    import reactivex.operators as ops

    told: list[object] = []
    again: list[int] = []

    def inner(sink: Any, scope: Scope) -> None:
        again.append(1)
        never()._attach(sink, scope)

    async def main() -> object:
        # the stock `retry` would begin anew if the inner run were ended first
        return Flow(inner).pipe(ops.map(lambda value: value), ops.retry()).subscribe(on_error=told.append)

    kept = asyncio.run(main())
    assert [type(error) for error in told] == [SourceCancelledError]
    assert again == [1]
    del kept


def test_a_loop_holds_no_run_and_the_library_no_loop() -> None:
    class Marked(asyncio.SelectorEventLoop):
        pass

    def live_on(loop: asyncio.AbstractEventLoop, shut_down: bool) -> None:
        async def main() -> None:
            kept = never().subscribe()
            await just(1)
            gone = ref(kept)
            del kept
            gc.collect()
            assert gone() is None, "a run without references that waits for nothing"

        try:
            loop.run_until_complete(main())
            if shut_down:
                loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    for shut_down in (True, False):
        loop = Marked()
        live_on(loop, shut_down)
        gone = ref(loop)
        del loop
        gc.collect()
        assert gone() is None


def test_a_loop_closed_without_shutdown_ends_no_run() -> None:
    async def main() -> Recorder:
        return Recorder().listen(timer(FOREVER))

    loop = asyncio.new_event_loop()
    with no_warnings():
        recorder = loop.run_until_complete(main())
        loop.close()
        del loop
        gc.collect()
    assert recorder.heard == []


def test_a_watched_run_costs_one_entry_that_goes_with_it() -> None:
    async def main() -> None:
        live = runtimes.runtime()._live
        for _ in range(10):
            await just(1)
            assert not live or gc.collect() >= 0
        gc.collect()
        assert not live

    asyncio.run(main())


def test_the_librarys_loop_ends_its_runs_at_exit() -> None:
    script = """
        import warnings
        warnings.simplefilter("error")
        from agentscope_rx.reactive import RetryPolicy, throw, just, never, retry, timer
        waits = throw(ValueError()).pipe(retry(RetryPolicy(stop=lambda s: False, wait=lambda s: 99.0)))
        kept = [each.subscribe(on_error=lambda e: print(type(e).__name__)) for each in (never(), timer(99), waits)]
        print(just("ready").run())
    """
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split() == ["ready", *["SourceCancelledError"] * 3]


def test_a_run_that_is_freed_after_its_loop_ended_is_no_error() -> None:
    """The collector may call back on another thread, when the runtime has forgotten its runs already."""

    class Run:
        def cut_off(self, error: Exception) -> InFlight:
            return InFlight()

    async def main() -> None:
        runtime: Any = runtimes.Runtime()
        for forget in (runtime._cut_off, runtime.after_fork):
            old, new = Run(), Run()
            runtime.watch(old)
            forget()
            assert not runtime._live
            runtime.watch(new)
            freed = threading.Thread(target=lambda runs=[old]: runs.clear())
            del old
            freed.start()
            freed.join()
            assert list(runtime._live) == [ref(new)]
            del new
            assert not runtime._live

    unraisable: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", unraisable.append)
        asyncio.run(main())
        gc.collect()
    assert not unraisable
