"""The boundary to the subscriber: the grammar is kept, its exceptions stay its own, dispose() works from any thread."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
from reactivex import Observable
from reactivex.subject import Subject

from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    RetryPolicy,
    catch,
    concat,
    flat_map,
    flow,
    from_async_iterable,
    from_callable,
    from_iterable,
    just,
    merge_ordered,
    never,
    recurse,
    retry,
    tail,
    take_until,
    throw,
    timeout,
    timer,
    using,
)
from agentscope_rx.reactive.kernel.runtime import library_loop
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.recorder import Recorder, after, record, turns


async def _one() -> int:
    return 1


OPERATORS: dict[str, Callable[[Flow[Any]], Flow[Any]]] = {
    "none": lambda source: source,
    "flat_map": lambda source: source.pipe(flat_map(just)),
    "recurse": lambda source: recurse(lambda: concat(source, just(tail(lambda: source)))),
    "using": lambda source: using(lambda: just(1), lambda _: source, lambda *_: None),
    "merge_ordered": lambda source: merge_ordered([source, source]),
    "retry": lambda source: source.pipe(retry(RetryPolicy(stop=lambda state: False))),
    "catch": lambda source: source.pipe(catch(lambda error: just("caught"))),
    "timeout": lambda source: source.pipe(timeout(first=5, idle=5, total=50)),
    "take_until": lambda source: source.pipe(take_until(OneShotEvent())),
    "all": lambda source: using(
        lambda: just(1),
        lambda _: recurse(lambda: merge_ordered([source.pipe(timeout(idle=9), retry(RetryPolicy()), flat_map(just))])),
        lambda *_: None,
    ).pipe(catch(lambda error: just("caught")), take_until(OneShotEvent())),
}

SOURCES: dict[str, Callable[[], Flow[Any]]] = {
    "synchronous": lambda: just(1, 2, 3),
    "task": lambda: after(1, 1, 2, 3),
    "call": lambda: from_callable(_one),
    "timer": lambda: timer(1),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_subscribers_exception_disposes_and_never_comes_back(operator: str, source: str) -> None:
    async def main() -> None:
        heard: list[Any] = []

        def bad(value: object) -> None:
            heard.append(value)
            raise ValueError("mine")

        OPERATORS[operator](SOURCES[source]()).subscribe(bad, heard.append, lambda: heard.append("|"))
        await asyncio.sleep(20)
        assert len(heard) == 1

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('mine')]"
    assert dropped.where == ["a subscriber's callback"]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("source", SOURCES)
def test_no_signal_after_disposal_in_a_callback(operator: str, source: str) -> None:
    async def main() -> None:
        recorder = await record(OPERATORS[operator](concat(timer(1), SOURCES[source]())), 2)
        await asyncio.sleep(20)
        assert len(recorder.heard) <= 2

    run_virtual(main())


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("at", [None, 0.0, 0.5, 1.0, 1.5])
def test_no_signal_after_disposal_at_any_time(operator: str, at: float | None) -> None:
    async def main() -> None:
        log: list[str] = []
        recorder = Recorder().listen(OPERATORS[operator](concat(after(1, 1, log=log), after(1, 2, log=log))))
        if at is not None:
            await asyncio.sleep(at)
        recorder.dispose()
        recorder.subscription.dispose()
        begun = log.count("start")
        await asyncio.sleep(20)
        # what had begun has ended, nothing else has begun; run_virtual looks for tasks and timers
        assert log.count("start") == log.count("end") == begun

    run_virtual(main())


@pytest.mark.parametrize("which", ["on_error", "on_completed"])
def test_exceptions_of_the_last_callbacks_are_reported(which: str) -> None:
    def bad(*_: object) -> None:
        raise KeyError("callback")

    async def main() -> None:
        source = throw(ValueError()) if which == "on_error" else just(1)
        source.subscribe(on_error=bad, on_completed=bad)

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[KeyError('callback')]"


def test_an_error_without_on_error_is_reported() -> None:
    async def main() -> None:
        throw(ValueError("unheard")).subscribe(lambda value: None)

    with collect_dropped() as dropped:
        run_virtual(main())
    assert repr(dropped) == "[ValueError('unheard')]"
    assert dropped.where == ["a run without on_error"]


def test_the_grammar_is_kept_whatever_a_foreign_source_does() -> None:
    def unruly(observer: Any, scheduler: Any) -> None:
        observer.on_next(1)
        observer.on_completed()
        observer.on_next(2)
        observer.on_error(ValueError())

    class Raw(Observable[int]):
        def subscribe(self, on_next: Any = None, on_error: Any = None, on_completed: Any = None, **_: Any) -> Any:
            on_next(1)
            on_completed()
            on_next(2)
            on_error(ValueError())
            on_completed()
            from reactivex.disposable import Disposable

            return Disposable()

    async def main() -> None:
        assert (await record(Observable(unruly))).heard == [1, "|"]
        assert (await record(Raw())).heard == [1, "|"]
        assert (await record(flow(Raw()).pipe(flat_map(just)))).heard == [1, "|"]

    run_virtual(main())


def test_a_foreign_source_that_raises_in_subscribe_is_an_error() -> None:
    class Raising(Observable[int]):
        def subscribe(self, *_: Any, **__: Any) -> Any:
            raise ValueError("subscribe")

    async def main() -> None:
        assert repr((await record(just(1).pipe(flat_map(lambda _: Raising())))).heard) == "[ValueError('subscribe')]"

    run_virtual(main())


def test_observers_are_taken_as_well_as_callbacks() -> None:
    async def main() -> None:
        subject: Subject[int] = Subject()
        heard: list[Any] = []
        subject.subscribe(heard.append, heard.append, lambda: heard.append("|"))
        just(1, 2).subscribe(subject)
        assert heard == [1, 2, "|"]
        just(1).subscribe()

    run_virtual(main())


# --- threads ----------------------------------------------------------------------------------------------------------


def test_a_threads_subscription_uses_the_librarys_loop() -> None:
    heard: list[Any] = []
    done = threading.Event()

    def note(value: Any) -> None:
        heard.append((value, asyncio.get_running_loop() is library_loop(), threading.current_thread().name))

    concat(just(1), from_callable(_one)).subscribe(note, on_completed=done.set)
    assert done.wait(5)
    assert heard == [(1, True, "agentscope-rx-loop")] * 2


def test_dispose_from_another_thread_during_a_value() -> None:
    delivering, disposed = threading.Event(), threading.Event()
    heard: list[int] = []
    ended = threading.Event()

    async def items() -> Any:
        try:
            for i in range(100):
                yield i
                await asyncio.sleep(0)
        finally:
            ended.set()

    def slow(value: int) -> None:
        heard.append(value)
        delivering.set()
        assert disposed.wait(5)

    subscription = from_async_iterable(items).subscribe(slow)
    assert delivering.wait(5)
    subscription.dispose()
    disposed.set()
    assert ended.wait(5)
    assert heard == [0]


def test_no_signal_after_dispose_from_another_thread_many_times() -> None:
    source = from_async_iterable(_count)
    for n in range(50):
        reached = threading.Event()
        after_dispose: list[int] = []
        disposed = threading.Event()

        def note(
            value: int, n: int = n, reached: Any = reached, disposed: Any = disposed, late: Any = after_dispose
        ) -> None:
            was_disposed = disposed.is_set()
            if value == n % 7:
                reached.set()
            if was_disposed:
                late.append(value)

        subscription = source.subscribe(note)
        assert reached.wait(5)
        subscription.dispose()
        disposed.set()
        # at most the signal in progress; a full turn of the loop later none
        turned = threading.Event()
        library_loop().call_soon_threadsafe(lambda turned=turned: library_loop().call_soon(turned.set))
        assert turned.wait(5)
        seen = len(after_dispose)
        assert seen <= 1
        subscription.dispose()


async def _count() -> Any:
    i = 0
    while True:
        yield i
        i += 1
        await asyncio.sleep(0)


def test_disposed_before_the_loop_got_to_it_it_never_starts() -> None:
    made: list[int] = []
    blocked, release = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        release.wait(5)

    library_loop().call_soon_threadsafe(block)
    assert blocked.wait(5)
    subscription = from_iterable(made.append(i) or i for i in range(3)).subscribe()
    subscription.dispose()
    release.set()
    assert just(1).run() == 1
    assert made == []


def test_a_subjects_signals_from_threads_are_serial() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        subject: Subject[int] = Subject()
        threads_seen: set[str] = set()
        recorder = Recorder()
        piped = flow(subject).pipe(flat_map(lambda v: just(v, -v)))
        recorder.subscription = piped.subscribe(
            lambda value: (threads_seen.add(threading.current_thread().name), recorder.on_next(value)),
            recorder.on_error,
            recorder.on_completed,
        )

        def emit(n: int) -> None:
            with loop.hold():
                for i in range(1, 51):
                    subject.on_next(n * 100 + i)

        threads = [threading.Thread(target=emit, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # from the loop's own thread, and yet behind what the others have sent
        subject.on_next(1000)
        subject.on_completed()
        await recorder.end()
        assert threads_seen == {threading.current_thread().name}
        assert recorder.heard[-3:] == [1000, -1000, "|"]
        positive = [value for value in recorder.heard[:-3] if value > 0]
        assert recorder.heard[:-3] == [sign * value for value in positive for sign in (1, -1)]
        for n in range(4):
            own = [value for value in positive if n * 100 < value <= n * 100 + 50]
            assert own == sorted(own)
            assert len(own) == 50

    run_virtual(main())


def test_dispose_of_a_virtual_loops_run_from_a_thread() -> None:
    async def main() -> None:
        log: list[str] = []
        recorder = Recorder().listen(after(1000, 1, log=log))
        await turns()
        thread = threading.Thread(target=recorder.dispose)
        thread.start()
        thread.join()
        await turns()
        assert log == ["start", "end"]

    run_virtual(main())


def test_each_subscription_captures_its_own_context() -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var")

    async def read() -> str:
        return var.get()

    async def main() -> None:
        source = just(1).pipe(flat_map(lambda _: timer(1)), flat_map(lambda _: from_callable(read)))
        tasks = []
        for name in "abc":
            var.set(name)
            tasks.append(source.as_task())
        assert await asyncio.gather(*tasks) == ["a", "b", "c"]

    run_virtual(main())


def test_a_blocking_callback_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentscope_rx.reactive.kernel import subscription

    monkeypatch.setattr(subscription, "SLOW_CALLBACK_SECONDS", -1.0)
    done = threading.Event()
    just(1, 2, 3).subscribe(lambda value: None, on_completed=done.set)
    assert done.wait(5)
    assert [record.levelname for record in caplog.records if "blocked" in record.message] == ["WARNING"]


def test_dispose_is_idempotent_and_after_the_end_does_nothing() -> None:
    async def main() -> None:
        recorder = await record(just(1))
        recorder.subscription.dispose()
        recorder.subscription.dispose()
        silent = never().subscribe()
        silent.dispose()
        silent.dispose()

    run_virtual(main())
