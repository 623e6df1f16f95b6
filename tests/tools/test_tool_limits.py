"""How often a tool may run: at once, in a time, alone; what one failure does to the others; nothing is lost of it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import pytest
from calling import all_of, text_of, use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, ToolDefinitionError, ToolError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import WORKERS, Flow, from_callable, just
from agentscope_rx.testing import run_virtual
from agentscope_rx.tools import Rate, Tool, ToolBegun, ToolEvent, Toolkit, ToolRetry, tool
from agentscope_rx.tools.wrappers import limited, prefixed
from tests.reactive.recorder import turns
from tests.reactive.test_workers import until


class Bench:
    """A tool of each kind, which notes when it runs."""

    def __init__(self) -> None:
        self.log: list[tuple[float, str, str]] = []

    def make(self, name: str, **limits: Any) -> Tool:
        @tool(name=name, **limits)
        async def work(seconds: float = 1.0, fails: bool = False, as_: str = "") -> str:
            """Works."""
            loop, label = asyncio.get_running_loop(), as_ or name
            self.log.append((loop.time(), "+", label))
            try:
                await asyncio.sleep(seconds)
                if fails:
                    raise ToolError("no luck")
                return f"{label} done"
            finally:
                self.log.append((loop.time(), "-", label))

        return work

    @property
    def begun(self) -> list[tuple[float, str]]:
        return [(when, name) for when, what, name in self.log if what == "+"]


def permits_of(made: Tool) -> tuple[int, int, int]:
    assert made.limits.permits is not None
    return made.limits.permits.statistics()


def results(events: list[ToolEvent]) -> list[ToolResultBlock]:
    return [each for each in events if isinstance(each, ToolResultBlock)]


def batch(toolkit: Toolkit, *calls: ToolUseBlock) -> list[ToolEvent]:
    return run_virtual(all_of(toolkit.call_all(calls)))


# --- what is said of a tool ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        {"max_concurrency": 0},
        {"max_concurrency": True},
        {"max_concurrency": 1.5},
        {"rate": 10},
        {"rate": (10, 60)},
        {"exclusive": "yes"},
    ],
)
def test_limits_that_cannot_be_are_refused_where_they_are_given(limits: dict[str, Any]):
    with pytest.raises(ToolDefinitionError, match=next(iter(limits))):
        Bench().make("t", **limits)


@pytest.mark.parametrize("options", [{"max_concurrency_total": 0}, {"on_failure": "stop"}])
def test_a_toolkits_limits_that_cannot_be(options: dict[str, Any]):
    with pytest.raises(ConfigurationError):
        Toolkit(**options)


def test_a_subclass_of_tool_says_its_limits_in_the_class():
    class Db(Tool):
        name = "db"
        max_concurrency = 1

        def call(self, arguments: Mapping[str, object]) -> Flow[object]:
            return from_callable(lambda: asyncio.sleep(5, "rows"))

    db, other = Db(), Db()
    assert db.limits is db.limits and db.limits is not other.limits

    async def main() -> float:
        await all_of(Toolkit([db]).call_all([use("db", "1"), use("db", "2")]))
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 10

    class Impossible(Db):
        max_concurrency = -1

    with pytest.raises(ToolDefinitionError, match="max_concurrency of tool 'db'"):
        Toolkit([Impossible()])


def test_a_method_has_one_limit_for_all_objects():
    class Service:
        @tool(max_concurrency=1)
        async def ask(self) -> str:
            await asyncio.sleep(1)
            return "answer"

    one, two = Service(), Service()
    assert one.ask.limits is two.ask.limits is Service.__dict__["ask"].limits


def test_a_wrapper_keeps_its_tools_limits_and_may_add_some():
    bench = Bench()
    inner = bench.make("one", max_concurrency=2, rate=Rate(100, per=1.0))
    (plain,), (narrow,) = prefixed("a_", inner), limited(prefixed("b_", inner), max_concurrency=1)
    (alone,) = limited(prefixed("c_", inner), exclusive=True)
    assert plain.limits is inner.limits is alone.limits and alone.exclusive and not inner.exclusive
    assert narrow.limits is narrow.limits and len(narrow.limits.gates) == 3 and len(narrow.limits.rates) == 1
    kit = Toolkit([inner, plain, narrow])
    batch(kit, *[use(name, f"{n}", as_=name) for n, name in enumerate(["b_one", "b_one", "one", "a_one", "b_one"])])
    assert bench.begun == [(0, "b_one"), (0, "one"), (1, "b_one"), (1, "a_one"), (2, "b_one")]
    assert permits_of(inner) == (2, 0, 0) and permits_of(narrow) == (1, 0, 0)
    with pytest.raises(ToolDefinitionError, match="max_concurrency"):
        Toolkit(limited(inner, max_concurrency=0))


# --- one round ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("R17")
def test_a_tool_at_its_limit_does_not_hold_up_the_others():
    """A call whose tool is full lets later calls of other tools begin; those of one tool stay in order."""
    bench = Bench()
    one, many = bench.make("one", max_concurrency=1), bench.make("many")
    toolkit = Toolkit([one, many], max_concurrency=2)
    calls = [use("one", f"{n}", seconds=10, as_=f"one{n}") for n in range(3)]
    events = batch(toolkit, *calls, use("many", "m1", as_="m1"), use("many", "m2", as_="m2"))
    assert bench.begun == [(0, "one0"), (0, "m1"), (1, "m2"), (10, "one1"), (20, "one2")]
    assert [each.id for each in results(events)] == ["0", "1", "2", "m1", "m2"]
    assert permits_of(one) == (1, 0, 0)


def test_calls_in_turn_stay_in_turn():
    bench = Bench()
    toolkit = Toolkit([bench.make("one", max_concurrency=1), bench.make("many")], parallel=False)
    batch(toolkit, use("one", "1", as_="a"), use("one", "2", as_="b"), use("many", "3", as_="c"))
    assert bench.begun == [(0, "a"), (1, "b"), (2, "c")]


@pytest.mark.spec("R16")
def test_an_exclusive_tool_is_a_barrier():
    """Calls before it end first, calls behind it begin after it."""
    bench = Bench()
    toolkit = Toolkit([bench.make("any"), bench.make("alone", exclusive=True)])
    calls = [("any", 3), ("any", 1), ("alone", 2), ("any", 1), ("alone", 1), ("alone", 1), ("any", 1)]
    events = batch(toolkit, *[use(name, f"{n}", seconds=s, as_=f"{n}") for n, (name, s) in enumerate(calls)])
    assert bench.begun == [(0, "0"), (0, "1"), (3, "2"), (5, "3"), (6, "4"), (7, "5"), (8, "6")]
    assert [each.id for each in results(events)] == [f"{n}" for n in range(7)]


def test_a_place_in_the_round_is_kept_with_limits_too():
    bench = Bench()
    toolkit = Toolkit([bench.make("free"), bench.make("limited", max_concurrency=5)], max_concurrency=2)
    batch(toolkit, *[use(("free", "limited")[n % 2], f"{n}", as_=f"{n}") for n in range(6)])
    assert bench.begun == [(0, "0"), (0, "1"), (1, "2"), (1, "3"), (2, "4"), (2, "5")]


def test_arguments_that_do_not_fit_wait_for_nothing():
    bench = Bench()
    one = bench.make("one", max_concurrency=1)
    toolkit = Toolkit([one])

    async def main() -> None:
        holder = toolkit.call(use("one", "1", seconds=100)).subscribe()
        wrong = await toolkit.call(use("one", "2", seconds="x"))
        assert isinstance(wrong, ToolResultBlock) and wrong.kind is ToolResultKind.INVALID_ARGUMENTS
        broken = await toolkit.call(ToolUseBlock("3", "one", {}, raw="{", input_error="cut off"))
        assert isinstance(broken, ToolResultBlock) and broken.kind is ToolResultKind.INVALID_ARGUMENTS
        assert asyncio.get_running_loop().time() == 0
        holder.dispose()
        await turns()
        assert permits_of(one) == (1, 0, 0)

    run_virtual(main())


# --- across rounds, toolkits and threads --------------------------------------------------------------------------


def test_a_tools_limit_holds_wherever_it_is_called():
    bench = Bench()
    one = bench.make("one", max_concurrency=2)
    first = Toolkit([one])
    kits = [first, Toolkit([one]), first.copy(), first.overlay(bench.make("other"))]

    async def main() -> None:
        await asyncio.gather(*[kit.call(use("one", f"{n}", as_=f"{n}")).as_task() for n, kit in enumerate(kits * 2)])
        await turns()
        assert permits_of(one) == (2, 0, 0)

    run_virtual(main())
    assert bench.begun == [(n // 2, f"{n}") for n in range(8)]


def test_a_toolkits_total_holds_for_copies_and_overlays():
    bench = Bench()
    kit = Toolkit([bench.make("a"), bench.make("b")], max_concurrency_total=2)

    async def main() -> None:
        calls = [use("a", "1"), use("b", "2")]
        batches = [each.call_all(calls) for each in (kit, kit.copy(), kit.overlay())]
        await asyncio.gather(*[all_of(each).as_task() for each in batches])

    run_virtual(main())
    assert [when for when, _ in bench.begun] == [0, 0, 1, 1, 2, 2]


def test_a_rate_is_kept_and_each_attempt_counts():
    bench = Bench()
    config = ExecutionConfig(max_attempts=2, retry_on=ToolError, initial_backoff=0)
    one = bench.make("one", rate=Rate(2, per=60.0), execution_config=config)
    kit = Toolkit([one])

    async def main() -> list[ToolEvent]:
        failing = all_of(kit.call(use("one", "1", fails=True, as_="f"))).as_task()
        others = [all_of(kit.call(use("one", f"{n}", as_=f"{n}"))).as_task() for n in (2, 3)]
        await asyncio.gather(*others)
        return await failing

    events = run_virtual(main())
    assert [when for when, _ in bench.begun] == [0, 0, 60, 60]
    assert sorted(name for _, name in bench.begun[2:]) == ["3", "f"]
    assert [type(each) for each in events] == [ToolBegun, ToolRetry, ToolResultBlock]


def test_a_retry_waiting_for_its_rate_frees_its_permit():
    """The one that holds the permit goes before those that a gate is kept for: else both would wait for ever."""
    bench = Bench()
    config = ExecutionConfig(max_attempts=5, retry_on=ToolError, initial_backoff=0)
    one = bench.make("one", rate=Rate(1, per=1.0), max_concurrency=1, execution_config=config)
    kit = Toolkit([one])
    run_virtual(all_of(kit.call_all([use("one", f"{n}", fails=True, seconds=0.5) for n in range(30)])))
    assert [when for when, _ in bench.begun] == [pytest.approx(n) for n in range(150)]


def test_tells_how_long_a_call_has_waited():
    bench = Bench()
    kit = Toolkit([bench.make("one", max_concurrency=1), bench.make("free")])
    events = batch(kit, use("one", "1"), use("one", "2"), use("free", "3"))
    assert [(each.call.id, each.queued) for each in events if isinstance(each, ToolBegun)] == [("1", 0.0), ("2", 1.0)]


def test_the_wait_does_not_count_for_the_tools_deadlines():
    bench = Bench()
    every = ExecutionConfig(timeout=2, first_chunk_timeout=2, idle_timeout=2, total_timeout=3)
    kit = Toolkit([bench.make("one", max_concurrency=1)], execution_config=every)
    events = batch(kit, *[use("one", f"{n}", seconds=1.5) for n in range(4)])
    assert [each.kind for each in results(events)] == [None] * 4


@pytest.mark.parametrize("at", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("limits", [{"max_concurrency": 1}, {"rate": Rate(1, per=1.0)}, {"exclusive": True}])
def test_disposing_of_a_batch_leaves_every_line(limits: dict[str, Any], at: float):
    bench = Bench()
    one = bench.make("one", **limits)
    kit = Toolkit([one], max_concurrency_total=2)

    async def main() -> None:
        subscription = kit.call_all([use("one", f"{n}", as_=f"{n}") for n in range(5)]).subscribe()
        await asyncio.sleep(at)
        subscription.dispose()
        await turns()
        seen = len(bench.log)
        await asyncio.sleep(10)
        assert len(bench.log) == seen
        if one.limits.permits is not None:
            assert permits_of(one) == (1, 0, 0)
        assert kit._total[0].statistics() == (2, 0, 0)

    run_virtual(main())
    assert Counter(what for _, what, _ in bench.log)["+"] == Counter(what for _, what, _ in bench.log)["-"]


def test_a_subscriber_that_raises_gives_all_back():
    from agentscope_rx.testing import collect_dropped

    bench = Bench()
    one = bench.make("one", max_concurrency=1)

    def on_next(event: object) -> None:
        raise ValueError("mine")

    async def main() -> None:
        for _ in range(3):
            Toolkit([one]).call(use("one", "1")).subscribe(on_next)
        await asyncio.sleep(10)
        assert permits_of(one) == (1, 0, 0)

    with collect_dropped() as dropped:
        run_virtual(main())
    assert [str(each) for each in dropped] == ["mine"] * 3


def test_two_loops_share_a_tool():
    running, most, lock = 0, 0, threading.Lock()

    @tool(max_concurrency=2)
    def count() -> str:
        """Blocks a little."""
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.002)
        with lock:
            running -= 1
        return "done"

    kinds: list[object] = []

    async def main() -> None:
        found = await all_of(Toolkit([count]).call_all([use("count", f"{n}") for n in range(20)]))
        kinds.extend(each.kind for each in results(found))

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds == [None] * 40 and most == 2
    until(lambda: permits_of(count) == (2, 0, 0))


# --- blocking tools -----------------------------------------------------------------------------------------------


@pytest.mark.spec("R13")
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_blocking_tool_past_its_timeout_keeps_its_permit(own: bool, fails: bool):
    """Its late result is dropped, its late exception too; who comes next waits until it has really ended."""
    go, entered = threading.Event(), threading.Event()

    @tool(max_concurrency=1, execution_config=ExecutionConfig(timeout=1))
    def stuck() -> str:
        """Blocks."""
        if not go.is_set():
            entered.set()
            go.wait()
            if fails:
                raise ValueError("late")
        return "answer"

    pool = ThreadPoolExecutor(2) if own else None
    kit = Toolkit([stuck], executor=pool)
    before = WORKERS.statistics().abandoned

    async def main() -> None:
        first = await kit.call(use("stuck", "1"))
        assert isinstance(first, ToolResultBlock) and first.kind is ToolResultKind.TIMEOUT
        assert WORKERS.statistics().abandoned == before + 1
        second = kit.call(use("stuck", "2")).as_task()
        await asyncio.sleep(60)
        assert permits_of(stuck) == (1, 1, 1) and not second.done()
        go.set()
        assert text_of(await second) == "answer"
        await turns()
        assert permits_of(stuck) == (1, 0, 0) and WORKERS.statistics().abandoned == before

    run_virtual(main())
    if pool is not None:
        pool.shutdown()


@pytest.mark.spec("R13")
def test_a_callers_executor_runs_in_the_callers_context():
    """Blocking tools run on `Toolkit(executor=)`, or their own, in a copy of the run's context variables."""
    who: ContextVar[str] = ContextVar("who", default="nobody")
    names: list[str] = []

    @tool
    def asks() -> str:
        """Asks who it is for."""
        names.append(threading.current_thread().name)
        seen = who.get()
        who.set("changed")
        return seen

    @tool
    def counts():
        """Counts, blocking."""
        names.append(threading.current_thread().name)
        yield who.get()

    special = ThreadPoolExecutor(1, "special")

    @tool(executor=special)
    def own() -> str:
        """Has an executor of its own."""
        names.append(threading.current_thread().name)
        return who.get()

    with ThreadPoolExecutor(2, "kit") as pool:
        kit = Toolkit([asks, counts, own], executor=pool)

        async def main() -> None:
            who.set("Ada")
            found = await all_of(
                kit.call_all([use("asks", "1"), use("counts", "2"), use("own", "3"), use("asks", "4")])
            )
            assert [each.text for each in results(found)] == ["Ada"] * 4
            assert who.get() == "Ada"

        run_virtual(main())
    special.shutdown()
    assert sorted({name.rpartition("_")[0] for name in names}) == ["kit", "special"]
    assert sum(name.startswith("special") for name in names) == 1


def test_a_full_executor_waits_and_a_shut_down_one_fails():
    @tool
    def quick() -> str:
        """Is quick."""
        return "done"

    pool = ThreadPoolExecutor(1)
    kit = Toolkit([quick], executor=pool)
    found = batch(kit, *[use("quick", f"{n}") for n in range(20)])
    assert [each.text for each in results(found)] == ["done"] * 20
    pool.shutdown()
    (refused,) = results(batch(kit, use("quick", "1")))
    assert refused.kind is ToolResultKind.FAILED


# --- the first failure --------------------------------------------------------------------------------------------


def failing_batch(**options: Any) -> tuple[Bench, list[ToolResultBlock]]:
    bench = Bench()
    kit = Toolkit([bench.make("t"), bench.make("one", max_concurrency=1)], **options)
    events = batch(
        kit,
        use("t", "fast", seconds=1, as_="fast"),
        use("t", "bad", seconds=2, fails=True, as_="bad"),
        use("t", "slow", seconds=3, as_="slow"),
        use("one", "o1", seconds=4, as_="o1"),
        use("one", "o2", seconds=5, as_="o2"),
    )
    return bench, results(events)


@pytest.mark.spec("case 81")
def test_by_default_a_failure_is_the_calls_own():
    """One failure does not affect siblings."""
    bench, found = failing_batch()
    assert [each.kind for each in found] == [None, ToolResultKind.FAILED, None, None, None]
    assert len(bench.begun) == 5


@pytest.mark.parametrize("max_concurrency", [16, 4])
def test_a_failure_may_end_the_others(max_concurrency: int):
    bench, found = failing_batch(on_failure="cancel_siblings", max_concurrency=max_concurrency)
    cut = ToolResultKind.INTERRUPTED
    assert [each.kind for each in found] == [None, ToolResultKind.FAILED, cut, cut, cut]
    assert found[2].text == "Error: It was cancelled: the call of 't' (bad) beside it failed."
    assert found[4].text == "Error: It had not begun, and had no effect: the call of 't' (bad) beside it failed."
    assert [name for _, name in bench.begun] == ["fast", "bad", "slow", "o1"]
    assert bench.log[-1][0] == 2


def test_a_failure_keeps_what_stands_in_turn_from_beginning():
    bench = Bench()
    kit = Toolkit([bench.make("t")], on_failure="cancel_siblings", parallel=False)
    found = results(batch(kit, use("t", "1"), use("nothing", "2"), use("t", "3")))
    assert [each.kind for each in found] == [None, ToolResultKind.NOT_FOUND, ToolResultKind.INTERRUPTED]
    assert len(bench.begun) == 1 and "had not begun" in found[2].text


# --- retries ------------------------------------------------------------------------------------------------------


class HttpError(Exception):
    """As httpx has them."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.response = type("Response", (), {"status_code": status, "headers": headers or {}})()


def trying(error: Exception, times: int, **config: Any) -> tuple[list[float], ToolResultBlock]:
    at: list[float] = []

    @tool(execution_config=ExecutionConfig(**{"initial_backoff": 1.0, "max_attempts": 10, **config}))
    async def fetch() -> str:
        """Fetches."""
        at.append(asyncio.get_running_loop().time())
        if len(at) <= times:
            raise error
        return "page"

    (found,) = results(batch(Toolkit([fetch]), use("fetch", "1")))
    return at, found


@pytest.mark.spec("R13")
def test_an_error_is_a_result_only_after_the_retries():
    """Retry and timeout first, the result last."""
    at, found = trying(HttpError(503), 2)
    assert len(at) == 3 and found.text == "page"
    at, found = trying(HttpError(503), 99, max_attempts=3)
    assert len(at) == 3 and found.kind is ToolResultKind.FAILED


@pytest.mark.parametrize("retry_on", [ValueError, (KeyError, ValueError), lambda error: isinstance(error, ValueError)])
def test_what_is_worth_another_attempt_by_type(retry_on: Any):
    assert len(trying(ValueError("x"), 1, retry_on=retry_on)[0]) == 2
    assert len(trying(TypeError("x"), 1, retry_on=retry_on)[0]) == 1


def test_retry_after_of_an_http_tool_is_kept():
    at, found = trying(HttpError(429, {"Retry-After": "30"}), 1)
    assert at == [0, 30] and found.text == "page"


def test_a_total_timeout_bounds_all_attempts_and_waits():
    at, found = trying(HttpError(429, {"Retry-After": "30"}), 99, total_timeout=70)
    # the third wait would end at 90: not begun, and the error is the last one
    assert at == [0, 30, 60] and found.kind is ToolResultKind.FAILED and "429" in found.text

    async def slow() -> str:
        await asyncio.sleep(4)
        raise HttpError(503)

    config = ExecutionConfig(timeout=5, total_timeout=10, max_attempts=9, initial_backoff=0)
    kit = Toolkit([tool(execution_config=config)(slow)])

    async def main() -> ToolResultBlock:
        last = await kit.call(use("slow", "1"))
        assert isinstance(last, ToolResultBlock) and asyncio.get_running_loop().time() == 10
        return last

    found = run_virtual(main())
    assert found.kind is ToolResultKind.TIMEOUT
    assert found.text == "Error: Tool 'slow' did not finish, all its attempts together, within 10 s"


# --- at random ----------------------------------------------------------------------------------------------------

CALLS = st.lists(
    st.tuples(
        st.sampled_from(["free", "one", "two", "rated", "alone", "both"]),
        st.integers(0, 4),
        st.sampled_from([False, False, True]),
    ),
    max_size=10,
)


@given(
    st.lists(CALLS, min_size=1, max_size=3),
    st.integers(1, 4),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
    st.sampled_from(["collect", "cancel_siblings"]),
    st.one_of(st.none(), st.floats(0, 12)),
)
def test_law_of_rounds(
    rounds: list[Any], at_once: int, total: int | None, parallel: bool, on_failure: Any, gone: float | None
):
    """Never more than n at once, exclusive alone, starts of a tool in call order, one result for each call in call
    order, everything given back; whatever takes how long, fails, or is disposed of when."""
    bench = Bench()
    kinds = {
        "free": bench.make("free"),
        "one": bench.make("one", max_concurrency=1),
        "two": bench.make("two", max_concurrency=2),
        "rated": bench.make("rated", rate=Rate(2, per=3.0)),
        "both": bench.make("both", rate=Rate(3, per=1.0), max_concurrency=2),
        "alone": bench.make("alone", exclusive=True),
    }
    kit = Toolkit(
        kinds.values(),
        max_concurrency=at_once,
        parallel=parallel,
        max_concurrency_total=total,
        on_failure=on_failure,
    )
    batches = [
        [
            use(name, f"{r}.{n}", seconds=seconds, fails=fails, as_=f"{r}.{n}.{name}")
            for n, (name, seconds, fails) in enumerate(each)
        ]
        for r, each in enumerate(rounds)
    ]

    async def main() -> None:
        views = [kit if n % 2 else kit.overlay() for n in range(len(batches))]
        tasks = [all_of(view.call_all(calls)).as_task() for view, calls in zip(views, batches, strict=True)]
        if gone is not None:
            await asyncio.sleep(gone)
            tasks[0].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await turns()
        for calls, events in zip(batches, found, strict=True):
            if not isinstance(events, asyncio.CancelledError):
                assert isinstance(events, list)
                assert [each.id for each in results(events)] == [call.id for call in calls]
                failed = any(call.input["fails"] for call in calls)
                assert on_failure != "collect" or failed == any(each.is_error for each in results(events))

    run_virtual(main())
    check(bench.log, at_once if parallel else 1, total)
    assert all(permits_of(each)[1:] == (0, 0) for each in kinds.values() if each.limits.permits is not None)
    assert all(each.statistics()[1:] == (0, 0) for each in kit._total)


def check(log: list[tuple[float, str, str]], at_once: int, total: int | None) -> None:
    running: list[list[str]] = []
    order: dict[tuple[str, str], list[int]] = {}
    rated: dict[str, list[float]] = {"rated": [], "both": []}
    for when, what, label in log:
        r, n, name = label.split(".")
        if what == "-":
            running.remove([r, n, name])
            continue
        running.append([r, n, name])
        order.setdefault((r, name), []).append(int(n))
        if name in rated:
            rated[name].append(when)
        mine = [each for each in running if each[0] == r]
        assert len(mine) <= at_once
        assert total is None or len(running) <= total
        assert len(mine) == 1 or all(each[2] != "alone" for each in mine)
        of_kind = Counter(each[2] for each in running)
        assert of_kind["one"] <= 1 and of_kind["two"] <= 2 and of_kind["both"] <= 2
    assert running == []
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert all(later - sooner > 3.0 - 1e-6 for sooner, later in zip(rated["rated"], rated["rated"][2:], strict=False))
    assert all(later - sooner > 1.0 - 1e-6 for sooner, later in zip(rated["both"], rated["both"][3:], strict=False))
    assert all(sooner[0] <= later[0] for sooner, later in pairwise(log))


def test_a_flow_of_a_tool_that_gives_nothing_is_no_wait():
    """A limited tool without a value has a result all the same."""

    @tool(max_concurrency=1)
    def nothing() -> Flow[object]:
        """Gives nothing."""
        return just()

    (found,) = results(batch(Toolkit([nothing]), use("nothing", "1")))
    assert not found.is_error
