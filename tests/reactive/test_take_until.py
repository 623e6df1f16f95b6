"""take_until: a signal ends a stream normally, at once or when its clean-up is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import OneShotEvent, concat, defer, from_callable, from_iterable, just, never, take_until
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, after, record, turns


@given(at=st.integers(0, 5), grace=st.sampled_from([0.0, 1.0, 10.0]))
def test_the_values_before_the_signal_then_completion(at: int, grace: float) -> None:
    async def main() -> None:
        signal = OneShotEvent()
        log: list[str] = []
        asyncio.get_running_loop().call_later(at + 0.5, signal.fire)
        source = concat(*[after(1, i, log=log) for i in range(3)])
        recorder = await record(source.pipe(take_until(signal, grace=grace)))
        assert recorder.heard == [*range(min(at, 3)), "|"]
        assert recorder.at[-1] == min(at + 0.5, 3)
        await asyncio.sleep(10)
        assert log.count("start") == log.count("end") == min(at + 1, 3)

    run_virtual(main())


def test_a_signal_that_has_fired_starts_nothing() -> None:
    async def main() -> None:
        signal = OneShotEvent()
        signal.fire()
        log: list[str] = []
        assert (await record(after(1, 1, log=log).pipe(take_until(signal)))).heard == ["|"]
        assert log == []

    run_virtual(main())


def test_an_observable_is_no_signal() -> None:
    with pytest.raises(ConfigurationError, match=r"takes a OneShotEvent, not <.*reactivex's ops.take_until"):
        take_until(just(1))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("grace", "clean_up", "expected"), [(0, 5, 1), (3, 2, 3), (3, 5, 4), (3, 0, 1)])
def test_grace_waits_for_the_clean_up_but_not_for_ever(grace: float, clean_up: float, expected: float) -> None:
    async def main() -> None:
        signal = OneShotEvent()
        ended: list[float] = []
        loop = asyncio.get_running_loop()

        async def call() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(clean_up)
                ended.append(loop.time())

        loop.call_later(1, signal.fire)
        recorder = await record(from_callable(call).pipe(take_until(signal, grace=grace)))
        assert recorder.timeline == [(expected, "|")]
        await asyncio.sleep(20)
        assert ended == [1 + clean_up]

    run_virtual(main())


def test_disposal_during_grace_is_silent_and_forgets_the_signal() -> None:
    async def main() -> None:
        signal = OneShotEvent()

        async def call() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(5)

        recorder = Recorder().listen(from_callable(call).pipe(take_until(signal, grace=9)))
        await asyncio.sleep(1)
        signal.fire()
        await asyncio.sleep(1)
        recorder.dispose()
        await asyncio.sleep(20)
        assert recorder.heard == []
        other = OneShotEvent()
        Recorder().listen(never().pipe(take_until(other))).dispose()
        assert other._listeners == []
        assert (await record(just(1).pipe(take_until(other)))).heard == [1, "|"]
        assert other._listeners == []

    run_virtual(main())


def test_fired_from_inside_the_stream_itself() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for later in (None, loop.call_soon):
            signal = OneShotEvent()
            heard: list[Any] = []

            def hear(value: int, signal: OneShotEvent = signal, heard: list[Any] = heard, later: Any = later) -> None:
                heard.append(value)
                if value == 3:
                    signal.fire(later)

            from_iterable(range(10)).pipe(take_until(signal)).subscribe(
                hear, heard.append, lambda heard=heard: heard.append("|")
            )
            await turns()
            assert heard == [0, 1, 2, 3, "|"]

    run_virtual(main())


def test_fired_while_the_source_is_being_made() -> None:
    async def main() -> None:
        signal = OneShotEvent()
        log: list[str] = []

        def make() -> Any:
            signal.fire()
            return after(1, 1, log=log)

        assert (await record(defer(make).pipe(take_until(signal)))).heard == ["|"]
        await turns()
        assert log == []

    run_virtual(main())


def test_a_signal_happens_once() -> None:
    heard: list[int] = []
    signal = OneShotEvent()
    signal.listen(lambda: heard.append(1))
    forget = signal.listen(lambda: heard.append(2))
    forget()
    signal.fire()
    signal.fire()
    signal.listen(lambda: heard.append(3))
    assert heard == [1, 3]
