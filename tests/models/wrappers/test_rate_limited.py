"""`RateLimitedModel`: concurrency, rate, tokens a minute and Retry-After; in virtual time."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity.wait import wait_fixed

from agentscope_rx import GenerateOptions, Msg, ReActAgent
from agentscope_rx.errors import ConfigurationError, ModelConnectionError, ModelTimeoutError, RateLimitError
from agentscope_rx.events import PostReasoningEvent
from agentscope_rx.messages import ChatUsage, TextBlock
from agentscope_rx.models import ChatResponse, ExecutionConfig
from agentscope_rx.models.wrappers import FallbackModel, RateLimitedModel
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual
from agentscope_rx.tools import Rate

BROKEN = ModelConnectionError("broken pipe")
HI = (Msg.user("hi"),)
ONCE = ExecutionConfig(max_attempts=1)


class Clocked(ScriptedModel):
    """Notes when each attempt begins and ends."""

    def __init__(self, *turns, **more) -> None:
        super().__init__(*turns, **{"execution_config": ONCE, **more})
        self.begun: list[float] = []
        self.running = self.most = 0

    def do_stream(self, messages, tools, options):
        from agentscope_rx.reactive import just, using

        def begin(now: float):
            self.begun.append(now)
            self.running += 1
            self.most = max(self.most, self.running)
            return self.play(messages, tools, options)

        def end(now: float, ending) -> None:
            self.running -= 1

        return using(lambda: just(asyncio.get_running_loop().time()), begin, end)

    def play(self, messages, tools, options):
        return ScriptedModel.do_stream(self, messages, tools, options)


def slow(seconds: float = 1.0, **more) -> Clocked:
    return Clocked([Delay(seconds), "ok"], repeat=True, **more)


def spending(*tokens: int, **more) -> Clocked:
    """Answers that have cost so much, told at their end."""
    return Clocked(*([Delay(1), "ok", ChatResponse(usage=ChatUsage(each))] for each in tokens), repeat=True, **more)


async def ask(model, options=None) -> list[str]:
    """What is heard of one question."""
    heard: list[str] = []
    async for chunk in model.stream(HI, options=options):
        if chunk.wait is not None:
            heard.append("waits" if chunk.wait.seconds is None else f"waited {chunk.wait.seconds:g}")
        elif chunk.retry is not None:
            heard.append(f"retry in {chunk.retry.delay:g}")
        elif chunk.content:
            heard.append("".join(block.text for block in chunk.content if isinstance(block, TextBlock)))
    return heard


def ask_all(model, count: int) -> list[list[str]]:
    async def main():
        heard = await asyncio.gather(*(ask(model) for _ in range(count)))
        assert model.statistics()[:2] == (0, 0)
        return heard

    return run_virtual(main())


# --- how many ----------------------------------------------------------------------------------------------------


def test_at_most_n_at_once_first_come_first_served():
    inner = slow()
    heard = ask_all(RateLimitedModel(inner, max_concurrency=2), 5)
    assert heard == [["ok"], ["ok"], *[["waits", "waited 1", "ok"]] * 2, ["waits", "waited 2", "ok"]]
    assert (inner.begun, inner.most) == ([0, 0, 1, 1, 2], 2)


def test_a_rate_lets_so_many_begin():
    inner = slow()
    ask_all(RateLimitedModel(inner, rate=Rate(2, per=60)), 5)
    assert inner.begun == [0, 0, 60, 60, 120]


def test_each_attempt_counts_and_waits():
    config = ExecutionConfig(max_attempts=2, wait=wait_fixed(1))
    inner = Clocked(BROKEN, "ok", execution_config=config)
    assert ask_all(RateLimitedModel(inner, rate=Rate(1, per=60)), 1) == [["retry in 1", "waits", "waited 59", "ok"]]
    assert inner.begun == [0, 60]


def test_the_wait_counts_for_no_attempts_deadline():
    inner = slow(10, execution_config=ExecutionConfig(max_attempts=1, timeout=15, first_chunk_timeout=12))
    assert len(ask_all(RateLimitedModel(inner, max_concurrency=1), 3)) == 3
    assert inner.begun == [0, 10, 20]


def test_the_total_over_all_attempts_bounds_the_wait_too():
    options = GenerateOptions(execution_config=ExecutionConfig(total_timeout=5))
    limited = RateLimitedModel(slow(10), max_concurrency=1)

    async def main() -> None:
        first = asyncio.create_task(ask(limited))
        await asyncio.sleep(1)
        with pytest.raises(ModelTimeoutError, match="all its attempts"):
            await ask(limited, options)
        assert asyncio.get_running_loop().time() == 6
        assert limited.statistics() == (1, 0, None)
        await first

    run_virtual(main())


# --- tokens ------------------------------------------------------------------------------------------------------


class Counting:
    """Says that a question has so many tokens."""

    def __init__(self, count) -> None:
        self._count = count

    def count(self, messages, tools=()) -> int:
        return self._count(messages)


HUNDRED = Counting(lambda messages: 100)


def test_what_is_estimated_must_fit():
    inner = slow()
    ask_all(RateLimitedModel(inner, tokens_per_minute=250, counter=HUNDRED), 5)
    assert inner.begun == [0, 0, 60, 60, 120]


def test_the_usage_puts_the_estimate_right():
    inner = spending(10)
    ask_all(RateLimitedModel(inner, tokens_per_minute=150, counter=HUNDRED), 4)
    assert inner.begun == [0, 1, 2, 3]
    inner = spending(200, 10)
    ask_all(RateLimitedModel(inner, tokens_per_minute=200, counter=HUNDRED), 4)
    # two fit by their estimates; one of them has cost all there is, so the next waits for its minute to pass
    assert inner.begun == [0, 0, 60, 60]


def test_a_correction_brings_the_time_of_those_who_wait_nearer():
    # 30 at 0 s, 70 at 10 s: who wants 60 waits for both; the 70 are found to be 40 at 20 s, so the 30 are enough
    inner = Clocked("ok", [Delay(10), "ok", ChatResponse(usage=ChatUsage(40))], "ok")
    limited = RateLimitedModel(inner, tokens_per_minute=100, counter=Counting(lambda messages: int(messages[0].text)))

    async def one(at: float, tokens: int) -> None:
        await asyncio.sleep(at)
        await limited.stream((Msg.user(str(tokens)),))

    async def main() -> None:
        await asyncio.gather(one(0, 30), one(10, 70), one(11, 60))

    run_virtual(main())
    assert inner.begun == [0, 10, 60]


def test_one_that_is_estimated_at_more_than_all_goes_alone():
    inner = slow()
    ask_all(RateLimitedModel(inner, tokens_per_minute=50, counter=HUNDRED), 3)
    assert inner.begun == [0, 60, 120]


def test_what_the_answer_may_take_is_reserved():
    inner = slow()
    limited = RateLimitedModel(inner, tokens_per_minute=1000, counter=HUNDRED)

    async def main() -> None:
        options = GenerateOptions(max_tokens=500)
        await asyncio.gather(ask(limited, options), ask(limited, options))
        assert limited.statistics().tokens == 600

    run_virtual(main())
    assert inner.begun == [0, 60]


def test_an_attempt_that_tells_no_usage_has_cost_its_estimate():
    inner = Clocked(BROKEN, "ok", execution_config=ExecutionConfig(max_attempts=2, wait=wait_fixed(0)))
    assert ask_all(RateLimitedModel(inner, tokens_per_minute=100, counter=HUNDRED), 1) == [
        ["retry in 0", "waits", "waited 60", "ok"]
    ]


def test_the_counter_is_an_estimate_by_the_costs_of_the_vendor():
    limited = RateLimitedModel(slow(), tokens_per_minute=1000)
    assert limited.counter.count((Msg.user("word " * 50),)) == pytest.approx(55, abs=10)


# --- Retry-After -------------------------------------------------------------------------------------------------


def test_a_provider_that_asks_to_wait_is_left_alone_by_all():
    refused = RateLimitError("slow down", status=429, retry_after=30)
    config = ExecutionConfig(max_attempts=2, wait=wait_fixed(1))
    inner = Clocked([Delay(1), refused], [Delay(5), "ok"], "ok", "ok", execution_config=config)
    limited = RateLimitedModel(inner, max_concurrency=2)

    async def main() -> list[list[str]]:
        return await asyncio.gather(*(ask(limited) for _ in range(3)))

    heard = run_virtual(main())
    assert heard == [["retry in 30", "ok"], ["ok"], ["waits", "waited 31", "ok"]]
    assert inner.begun == [0, 0, 31, 31]


# --- interruption, disposal, failure -------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"max_concurrency": 1}, {"rate": Rate(1, per=60)}, {"tokens_per_minute": 1}])
@pytest.mark.parametrize("at", [0.5, 1.5])
def test_a_disposed_request_leaves_the_queue_and_its_place(limits, at):
    limited = RateLimitedModel(slow(2), **limits)

    async def main() -> None:
        first = limited.stream(HI).subscribe()
        second = limited.stream(HI).subscribe()
        await asyncio.sleep(at)
        assert limited.statistics()[:2] == (1, 1)
        second.dispose()
        assert limited.statistics()[:2] == (1, 0)
        first.dispose()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert limited.statistics()[:2] == (0, 0)

    run_virtual(main())


def test_a_place_is_given_back_after_a_failure_and_a_deadline():
    inner = Clocked(BROKEN, [HANG], "ok", execution_config=ExecutionConfig(max_attempts=1, timeout=5))
    limited = RateLimitedModel(inner, max_concurrency=1)

    async def main() -> None:
        results = await asyncio.gather(*(ask(limited) for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in results] == [ModelConnectionError, ModelTimeoutError, list]
        assert limited.statistics() == (0, 0, None)

    run_virtual(main())
    assert inner.begun == [0, 0, 5]


def test_an_interruption_ends_the_wait_at_once():
    limited = RateLimitedModel(slow(10), max_concurrency=1)
    friday, monday = ReActAgent("Friday", limited), ReActAgent("Monday", limited)

    async def main() -> None:
        first = friday.call("go").as_task()
        await asyncio.sleep(1)
        second = monday.call("go").as_task()
        await asyncio.sleep(1)
        assert [run.stats().model_waiting for run in (*friday.runs, *monday.runs)] == [False, True]
        monday.interrupt("enough")
        assert (await second).text == "enough"
        assert asyncio.get_running_loop().time() == 2
        await first

    run_virtual(main())


def test_events_and_stats_tell_of_the_wait():
    limited = RateLimitedModel(slow(3), max_concurrency=1)
    friday, monday = ReActAgent("Friday", limited), ReActAgent("Monday", limited)

    async def queued(agent) -> list[float]:
        return [event.queued async for event in agent.stream("go") if isinstance(event, PostReasoningEvent)]

    async def main() -> None:
        both = asyncio.gather(queued(friday), queued(monday))
        seen = []
        for _ in range(3):
            await asyncio.sleep(1.4)
            seen.append([run.stats().model_waiting for run in (*friday.runs, *monday.runs)])
        assert seen == [[False, True], [False, True], [False]]
        assert await both == [[0.0], [3.0]]

    run_virtual(main())


# --- composed ------------------------------------------------------------------------------------------------------


def test_around_a_fallback_it_counts_the_attempts_of_all_models():
    first, second = Clocked([Delay(1), BROKEN], repeat=True), slow(2)
    ask_all(RateLimitedModel(FallbackModel(first, second), max_concurrency=1), 2)
    assert (first.most, second.most) == (1, 1)
    assert (first.begun, second.begun) == ([0, 1], [2, 4])


def test_within_a_fallback_each_has_its_own():
    first, second = Clocked([Delay(1), BROKEN], repeat=True), slow(2)
    limited = RateLimitedModel(first, max_concurrency=1)

    async def main() -> None:
        model = FallbackModel(limited, RateLimitedModel(second, max_concurrency=2))
        await asyncio.gather(ask(model), ask(model))

    run_virtual(main())
    assert (first.begun, second.begun) == ([0, 1], [1, 2])


def test_limits_within_limits():
    inner = slow()
    ask_all(RateLimitedModel(RateLimitedModel(inner, max_concurrency=2), rate=Rate(3, per=10)), 5)
    assert inner.begun == [0, 0, 1, 10, 10]


def test_it_is_the_model_in_everything_else():
    inner = slow(model_name="m", output_modes=("native",))
    limited = RateLimitedModel(inner, max_concurrency=1)
    assert (limited.model_name, limited.provider, limited.output_modes) == ("m", "scripted", frozenset(("native",)))
    assert limited.model_names == ("m",) and repr(limited) == "RateLimitedModel(Clocked('m'))"
    assert len(run_virtual(limited.do_stream(HI, (), GenerateOptions())).content) == 1


@pytest.mark.parametrize(
    ("model", "limits", "says"),
    [
        (5, {"max_concurrency": 1}, "wraps a model"),
        (slow(), {"headers": False}, "needs a limit"),
        (FallbackModel(slow(), slow()), {}, "needs a limit"),
        (slow(), {"headers": 1}, "headers must be"),
        (slow(), {"max_concurrency": 0}, ">= 1"),
        (slow(), {"rate": 5}, "rate must be"),
        (slow(), {"tokens_per_minute": 0}, "more than 0"),
        (slow(), {"tokens_per_minute": True}, "more than 0"),
        (slow(), {"tokens_per_minute": 1, "counter": 5}, "counter must be"),
    ],
)
def test_what_it_cannot_be_made_of(model, limits, says):
    with pytest.raises(ConfigurationError, match=says):
        RateLimitedModel(model, **limits)


# --- for all loops -----------------------------------------------------------------------------------------------


def test_one_limit_for_loops_on_several_threads():
    inner, lock = slow(0.01), threading.Lock()
    limited = RateLimitedModel(inner, max_concurrency=2)
    done: list[list[str]] = []

    async def several() -> None:
        heard = await asyncio.gather(*(ask(limited) for _ in range(5)))
        with lock:
            done.extend(heard)

    threads = [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 15 and inner.running == 0
    assert inner.most <= 2

    async def left() -> None:
        assert limited.statistics()[:2] == (0, 0)

    asyncio.run(left())


# --- the law -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    at: int
    takes: int
    tokens: int
    end: str
    disposed: int | None


questions = st.builds(
    Question,
    st.integers(0, 30),
    st.integers(0, 20),
    st.integers(1, 60),
    st.sampled_from(["ok", "error", "refused"]),
    st.none() | st.integers(0, 60),
)


@given(
    st.lists(questions, max_size=8),
    st.none() | st.integers(1, 3),
    st.none() | st.builds(Rate, st.integers(1, 3), st.sampled_from([1.0, 10.0])),
    st.none() | st.integers(30, 100),
)
def test_never_more_than_the_limits_and_all_is_given_back(asked, limit, rate, tokens):
    if limit is None and rate is None and tokens is None:
        limit = 1
    ends = {"error": [BROKEN], "refused": [RateLimitError("x", status=429, retry_after=7)], "ok": ["ok"]}

    class Noting(Clocked):
        def play(self, messages, tools, options):
            question = asked[int(messages[0].text)]
            costs.append((asyncio.get_running_loop().time(), question.tokens))
            turn = [Delay(question.takes), *ends[question.end]]
            return ScriptedModel(turn).do_stream(messages, tools, options)

    costs: list[tuple[float, int]] = []
    inner = Noting()
    limited = RateLimitedModel(
        inner,
        max_concurrency=limit,
        rate=rate,
        tokens_per_minute=tokens,
        counter=Counting(lambda messages: asked[int(messages[0].text)].tokens),
    )

    async def one(number: int, question: Question) -> None:
        await asyncio.sleep(question.at)
        heard: list[str] = []
        over = asyncio.Event()

        def ended(how: str) -> None:
            heard.append(how)
            over.set()

        subscription = limited.stream((Msg.user(str(number)),)).subscribe(
            on_error=lambda error: ended("error"), on_completed=lambda: ended("ok")
        )
        if question.disposed is not None:
            # (never at the moment of a failure, as it would have no subscriber: who goes on when another is disposed of
            # begins, and fails, at a fraction of that other one)
            await asyncio.sleep(question.disposed + 0.5 + number / 64)
            subscription.dispose()
        else:
            await over.wait()
            assert heard == ["ok" if question.end == "ok" else "error"]

    async def main() -> None:
        await asyncio.gather(*(one(number, question) for number, question in enumerate(asked)))
        await asyncio.sleep(1)
        assert limited.statistics()[:2] == (0, 0)

    run_virtual(main())
    assert inner.running == 0
    assert limit is None or inner.most <= limit
    if rate is not None:
        for n in range(len(inner.begun) - rate.limit):
            assert inner.begun[n + rate.limit] - inner.begun[n] >= rate.per - 1e-6
    if tokens is not None:
        for index, (when, cost) in enumerate(costs):
            before = sum(each for at, each in costs[:index] if at + 60 > when + 1e-6)
            assert before + cost <= tokens or before == 0
