"""Kernel and stock operators mix freely: either may stand above, below or inside the other."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import BehaviorSubject, ReplaySubject, Subject

from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    catch,
    concat,
    concat_map,
    flat_map,
    flow,
    from_iterable,
    just,
    merge_ordered,
    recurse,
    tail,
    take_until,
    throw,
    timeout,
    timer,
    using,
)
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import Recorder, after, record, turns

KERNEL: list[Any] = [
    flat_map(just),
    concat_map(lambda v: just(v)),
    timeout(total=1e6),
    catch(lambda error: throw(error)),
    take_until(OneShotEvent()),
    lambda source: using(lambda: just(1), lambda _: source, lambda *_: None),
    lambda source: recurse(lambda: source),
    lambda source: merge_ordered([source]),
]
STOCK: list[Any] = [
    ops.map(lambda v: v),
    ops.filter(lambda v: True),
    ops.flat_map(lambda v: rx.just(v)),
    ops.flat_map(lambda v: just(v)),
    ops.do_action(lambda v: None),
    ops.take(10**6),
    ops.share(),
    ops.scan(lambda a, v: v, 0),
]


@given(
    chain=st.lists(st.sampled_from(range(16)), max_size=5),
    values=st.lists(st.integers(), max_size=4),
    source=st.sampled_from(["just", "stock", "late"]),
    take=st.none() | st.integers(1, 3),
)
def test_any_chain_of_identities_is_the_identity(
    chain: list[int], values: list[int], source: str, take: int | None
) -> None:
    async def main() -> None:
        made = {
            "just": lambda: just(*values),
            "stock": lambda: flow(rx.from_iterable(values)),
            "late": lambda: after(1, *values),
        }[source]()
        piped: Any = made
        for index in chain:
            piped = flow(piped).pipe((KERNEL + STOCK)[index])
            assert isinstance(piped, Flow)
        if take is not None:
            piped = piped.pipe(ops.take(take))
        assert (await record(piped)).heard == [*values[:take], "|"]

    run_virtual(main())


@given(chain=st.lists(st.sampled_from(range(16)), max_size=4))
def test_take_one_stops_an_endless_flow_below_any_chain(chain: list[int]) -> None:
    async def main() -> None:
        pulled: list[int] = []

        def endless() -> Any:
            while True:
                pulled.append(1)
                assert len(pulled) < 10
                yield len(pulled)

        piped: Any = from_iterable(endless())
        for index in chain:
            piped = flow(piped).pipe((KERNEL + STOCK)[index])
        assert (await record(flow(piped).pipe(ops.take(1)))).heard == [1, "|"]
        assert len(pulled) == 1

    run_virtual(main())


@given(chain=st.lists(st.sampled_from(range(16)), max_size=4), at=st.sampled_from([0.0, 0.5, 1.5]))
def test_disposal_reaches_the_source_through_any_chain(chain: list[int], at: float) -> None:
    async def main() -> None:
        log: list[str] = []
        piped: Any = concat(after(1, 1, log=log), after(1, 2, log=log))
        for index in chain:
            piped = flow(piped).pipe((KERNEL + STOCK)[index])
        recorder = Recorder().listen(piped)
        await asyncio.sleep(at)
        recorder.dispose()
        await turns()
        begun = log.count("start")
        assert log.count("end") == begun
        await asyncio.sleep(50)
        assert log.count("start") == begun

    run_virtual(main())


def test_pipe_stays_a_flow_and_fluent_methods_can_be_lifted() -> None:
    async def main() -> None:
        piped = just(1, 2, 3).pipe(ops.map(lambda v: v + 1), ops.filter(lambda v: v > 2))
        assert isinstance(piped, Flow)
        assert await piped == 4
        assert [v async for v in piped] == [3, 4]
        assert isinstance(just(1).pipe(), Flow)
        fluent = just(1, 2, 3).map(lambda v: v + 1).filter(lambda v: v > 2)
        assert [v async for v in flow(fluent)] == [3, 4]
        heard: list[Any] = []
        just(1, 2, 3).map(lambda v: v * 2).take(2).subscribe(heard.append, on_completed=lambda: heard.append("|"))
        assert heard == [2, 4, "|"]
        assert [v async for v in flow(just(1) + just(2))] == [1, 2]

    run_virtual(main())
    assert just(1, 2).pipe(ops.sum()).run() == 3


def test_a_fluent_take_stops_a_synchronous_run() -> None:
    async def main() -> None:
        built: list[int] = []

        def build() -> Flow[Any]:
            built.append(1)
            assert len(built) < 10
            return just(len(built), tail(build))

        for taken in (
            recurse(build).take(2),
            ops.take(2)(recurse(build)),
            ops.take(2)(recurse(build).map(lambda v: v)),
        ):
            built.clear()
            heard: list[Any] = []
            taken.subscribe(heard.append, heard.append, lambda heard=heard: heard.append("|"))
            assert heard == [1, 2, "|"]
            assert len(built) == 2

    run_virtual(main())


def test_published_flows_keep_their_connect() -> None:
    async def main() -> None:
        log: list[str] = []
        published: Any = after(1, 1, 2, log=log).pipe(ops.publish())
        first, second = Recorder().listen(published), Recorder().listen(published)
        await turns()
        assert log == []
        published.connect()
        await first.end()
        await second.end()
        assert first.heard == second.heard == [1, 2, "|"]
        assert log == ["start", "end"]

    run_virtual(main())


@pytest.mark.parametrize("kind", [Subject, ReplaySubject, lambda: BehaviorSubject(0)])
def test_subjects_inside_kernel_operators(kind: Any) -> None:
    async def main() -> None:
        subject = kind()
        gate: Any = Subject()
        recorder = Recorder().listen(just(1).pipe(flat_map(lambda _: subject), concat_map(just), ops.take_until(gate)))
        subject.on_next(1)
        subject.on_next(2)
        gate.on_next(None)
        subject.on_next(3)
        assert recorder.heard[-3:] == [1, 2, "|"]

    run_virtual(main())


def test_a_subject_fed_from_a_thread_inside_a_flow() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        subject: Subject[int] = Subject()

        def feed() -> None:
            with loop.hold():
                for i in range(100):
                    subject.on_next(i)
                subject.on_completed()

        source = just(1).pipe(flat_map(lambda _: subject), ops.map(lambda v: v), timeout(total=5))
        recorder = Recorder().listen(source.pipe(concat_map(just)))
        thread = threading.Thread(target=feed, name="feeder")
        thread.start()
        await recorder.end()
        thread.join()
        assert recorder.heard == [*range(100), "|"]

    run_virtual(main())


def test_stock_schedulers_on_other_threads_come_home() -> None:
    from reactivex.scheduler import NewThreadScheduler

    async def main() -> None:
        here = threading.current_thread().name
        seen: set[str] = set()
        source = just(1, 2, 3).pipe(ops.observe_on(NewThreadScheduler()), flat_map(just))
        recorder = Recorder()
        recorder.subscription = source.subscribe(
            lambda v: (seen.add(threading.current_thread().name), recorder.on_next(v)),
            recorder.on_error,
            recorder.on_completed,
        )
        await recorder.end()
        assert recorder.heard == [1, 2, 3, "|"]
        assert seen == {here}

    run_virtual(main())


def test_a_stock_operator_inside_each_of_ours_keeps_time() -> None:
    async def main() -> None:
        source = recurse(
            lambda: merge_ordered(
                [
                    just(1).pipe(ops.delay(2), timeout(total=3)),
                    concat(rx.timer(1), just(tail(lambda: rx.of(2).pipe(ops.delay(5))))),
                ]
            )
        )
        assert (await record(source)).timeline == [(2, 1), (2, 0), (7, 2), (7, "|")]

    run_virtual(main())


def test_kernel_flows_inside_stock_combinators() -> None:
    async def main() -> None:
        assert await flow(rx.zip(after(1, "a"), timer(2))) == ("a", 0)
        assert await flow(rx.combine_latest(just(1), after(1, 2))) == (1, 2)
        assert [v async for v in flow(rx.merge(after(2, "late"), after(1, "early")))] == ["early", "late"]
        assert await flow(rx.amb(after(2, "late"), after(1, "early"))) == "early"
        assert await flow(rx.fork_join(just(1, 2), after(1, 3))) == (2, 3)
        assert await flow(rx.concat(just(1), after(1, 2))).pipe(ops.to_list()) == [1, 2]
        assert await flow(rx.defer(lambda scheduler: just(1))) == 1
        assert await flow(rx.if_then(lambda: True, just(1), just(2))) == 1
        assert await just(1).pipe(ops.expand(lambda v: just(v + 1) if v < 200 else rx.empty())) == 200

    run_virtual(main())
