"""`RateLimitedModel` fed by the rate headers of answers: what is waited for, and no more; in virtual time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentscope_rx import GenerateOptions, Msg, ReActAgent
from agentscope_rx.errors import ConfigurationError, ModelConnectionError, RateLimitError
from agentscope_rx.messages import TextBlock
from agentscope_rx.models import AnthropicChatModel, ChatModel, ChatResponse, ExecutionConfig, OpenAIChatModel
from agentscope_rx.models.rates import read_rates
from agentscope_rx.models.wrappers import FallbackModel, HedgedModel, RateLimitedModel, RemainingLimit
from agentscope_rx.models.wrappers.provider_limits import RequestCost
from agentscope_rx.reactive import Flow, concat, defer, just, throw
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual

HI = (Msg.user("hi"),)
ONCE = ExecutionConfig(max_attempts=1)
Headers = Mapping[str, str]


def requests(remaining: float, reset: str | None = None, limit: int | None = None) -> dict[str, str]:
    return _headers("requests", remaining, reset, limit)


def tokens(remaining: float, reset: str | None = None, limit: int | None = None) -> dict[str, str]:
    return _headers("tokens", remaining, reset, limit)


def _headers(kind: str, remaining: float, reset: str | None, limit: int | None) -> dict[str, str]:
    headers = {f"x-ratelimit-remaining-{kind}": f"{remaining}"}
    if reset is not None:
        headers[f"x-ratelimit-reset-{kind}"] = reset
    if limit is not None:
        headers[f"x-ratelimit-limit-{kind}"] = f"{limit}"
    return headers


@dataclass(frozen=True)
class Answer:
    """Headers after `first` seconds, the end `then` seconds later; an error if there is one."""

    headers: Headers
    first: float = 0.0
    then: float = 0.0
    error: Exception | None = None


class Telling(ScriptedModel):
    """Answers with such headers, in turn; the last for ever. Notes when each attempt begins."""

    def __init__(self, *answers: Answer | Headers, execution_config: ExecutionConfig = ONCE) -> None:
        super().__init__("x", execution_config=execution_config)
        self.answers = [answer if isinstance(answer, Answer) else Answer(answer) for answer in answers]
        self.begun: list[float] = []

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        def begin() -> Flow[ChatResponse]:
            loop = asyncio.get_running_loop()
            answer = self.answers[min(len(self.begun), len(self.answers) - 1)]
            self.begun.append(loop.time())
            told = defer(lambda: just(ChatResponse(rates=read_rates(answer.headers, loop.time()))))
            text = just(ChatResponse((TextBlock("ok"),)))
            failed: Flow[ChatResponse] = throw(answer.error or Exception())
            return concat(waits(answer.first), told, waits(answer.then), text if answer.error is None else failed)

        return defer(begin)


def waits(seconds: float) -> Flow[ChatResponse]:
    return ScriptedModel([Delay(seconds)]).do_stream(HI, (), GenerateOptions())


class Hundred:
    """A counter: a hundred tokens for each question."""

    def count(self, messages: Sequence[Msg], tools: object = ()) -> int:
        return 100


async def ask(model: ChatModel, **options: Any) -> float:
    """When it is answered."""
    async for _ in model.stream(HI, options=GenerateOptions(**options)):
        pass
    return asyncio.get_running_loop().time()


def ask_after(model: ChatModel, *at: float) -> None:
    """Asks at these times, in virtual time."""

    async def one(time: float) -> None:
        await asyncio.sleep(time)
        await ask(model)

    async def main() -> None:
        await asyncio.gather(*map(one, at))

    run_virtual(main())


# --- waiting -----------------------------------------------------------------------------------------------------


def test_nothing_left_is_waited_for_until_the_reset() -> None:
    inner = Telling(requests(0, "41s"), requests(5, "41s"))
    ask_after(RateLimitedModel(inner), 0, 1, 2)
    assert inner.begun == [0, 41, 41]


def test_the_reset_counts_from_the_answer() -> None:
    inner = Telling(Answer(requests(0, "30s"), first=5, then=10), requests(5, "30s"))
    ask_after(RateLimitedModel(inner), 0, 6)
    assert inner.begun == [0, 35]


def test_what_began_since_is_taken_off() -> None:
    inner = Telling(requests(2, "30s"), Answer(requests(8, "30s"), first=100))
    ask_after(RateLimitedModel(inner), 0, 1, 1, 1, 1)
    # two of the burst begin, and the others when the window is over
    assert inner.begun == [0, 1, 1, 30, 30]


def test_what_began_before_the_answer_came_is_taken_off() -> None:
    first = Answer(requests(2, "30s"), first=1)
    inner = Telling(first, Answer({}, first=60))
    ask_after(RateLimitedModel(inner), 0, 0, 2, 2)
    assert inner.begun == [0, 0, 2, 31]


def test_an_answer_puts_right_what_was_taken_off() -> None:
    inner = Telling(requests(1, "50s"), Answer(requests(3, "45s"), first=2))
    ask_after(RateLimitedModel(inner), 0, 1, 1.5, 1.5)
    assert inner.begun == [0, 1, 3, 3]


def test_late_news_counts_where_it_says_less() -> None:
    late_more = [Answer(requests(9, "50s"), first=5), Answer(requests(1, "50s"), first=1), requests(0, "50s")]
    inner = Telling(*late_more)
    ask_after(RateLimitedModel(inner), 0, 0, 6, 6)
    assert inner.begun == [0, 0, 6, 56]
    late_less = [Answer(requests(0, "50s"), first=5), Answer(requests(9, "50s"), first=1), requests(0, "50s")]
    inner = Telling(*late_less)
    ask_after(RateLimitedModel(inner), 0, 0, 6)
    assert inner.begun == [0, 0, 55]


def test_after_the_reset_no_more_than_the_limit_begins() -> None:
    inner = Telling(requests(0, "30s", limit=2), Answer(requests(0, "20s", limit=2), first=1))
    ask_after(RateLimitedModel(inner), 0, *[1] * 5)
    assert inner.begun == [0, 30, 30, 51, 51, 72]


def test_requests_after_the_reset_wait_at_most_a_minute() -> None:
    inner = Telling(requests(0, "30s", limit=2), Answer({}, first=200))
    ask_after(RateLimitedModel(inner), 0, *[1] * 4)
    assert inner.begun == [0, 30, 30, 90, 90]


def test_tokens_must_suffice_for_the_estimate() -> None:
    inner = Telling(tokens(150, "20s"))
    ask_after(RateLimitedModel(inner, counter=Hundred()), 0, 1)
    assert inner.begun == [0, 1]
    inner = Telling(tokens(99, "20s"))
    ask_after(RateLimitedModel(inner, counter=Hundred()), 0, 1)
    assert inner.begun == [0, 20]


def test_max_tokens_counts_where_the_provider_counts_output() -> None:
    for kind, begins in [("x-ratelimit-remaining-tokens", 20), ("anthropic-ratelimit-input-tokens-remaining", 1)]:
        reset = "x-ratelimit-reset-tokens" if begins == 20 else "anthropic-ratelimit-input-tokens-reset"
        inner = Telling({kind: "150", reset: "20s" if begins == 20 else "2999-01-01T00:00:00Z"})
        limited = RateLimitedModel(inner, counter=Hundred())

        async def main(limited: RateLimitedModel = limited) -> None:
            await ask(limited)
            await asyncio.sleep(1)
            await ask(limited, max_tokens=100)

        run_virtual(main())
        assert inner.begun == [0, begins]


def test_one_that_needs_more_than_all_goes_when_it_is_whole() -> None:
    inner = Telling(tokens(10, "20s", limit=50))
    ask_after(RateLimitedModel(inner, counter=Hundred()), 0, 1)
    assert inner.begun == [0, 20]


def test_an_even_refill_is_waited_for_as_long_as_it_takes() -> None:
    # 600 a minute, none left: a hundred in ten seconds, and not in sixty
    inner = Telling(tokens(0, "60s", limit=600))
    ask_after(RateLimitedModel(inner, counter=Hundred()), 0, 0.5)
    assert inner.begun == [0, pytest.approx(10)]


def test_an_even_refill_pays_for_a_burst_one_by_one() -> None:
    inner = Telling(tokens(100, "50s", limit=600), Answer({}, first=200))
    ask_after(RateLimitedModel(inner, counter=Hundred()), 0, 1, 1, 1)
    assert inner.begun == pytest.approx([0, 1, 10, 20])


def test_the_tightest_of_several_limits_counts() -> None:
    inner = Telling({**requests(5, "50s"), **tokens(0, "20s"), "x-ratelimit-remaining-requests-day": "0"})
    ask_after(RateLimitedModel(inner), 0, 1)
    assert inner.begun == [0, 20]


def test_without_a_reset_and_a_limit_nothing_is_waited_for() -> None:
    inner = Telling(requests(0))
    ask_after(RateLimitedModel(inner), 0, 1, 2)
    assert inner.begun == [0, 1, 2]


def test_news_may_bring_the_time_nearer() -> None:
    inner = Telling(requests(1, "50s"), Answer(requests(0, "3s"), first=5), requests(9, "50s"))
    ask_after(RateLimitedModel(inner), 0, 1, 2)
    assert inner.begun == [0, 1, 9]


@pytest.mark.parametrize("reset", ["0", "0s", "1999-01-01T00:00:00Z"])
def test_a_reset_that_is_past_is_not_waited_for(reset: str) -> None:
    inner = Telling(requests(0, reset))
    ask_after(RateLimitedModel(inner), 0, 1)
    assert inner.begun == [0, 1]


@pytest.mark.parametrize(
    ("config", "longest"), [({}, 60), ({"max_retry_after": 7}, 7), ({"max_retry_after": None}, 3600)]
)
def test_a_distant_reset_is_waited_for_up_to_max_retry_after(config: dict[str, Any], longest: float) -> None:
    inner = Telling(
        requests(0, "2999-01-01T00:00:00Z"),
        execution_config=ExecutionConfig(max_attempts=1, total_timeout=None, **config),
    )
    ask_after(RateLimitedModel(inner), 0, 1)
    assert inner.begun == [0, longest]


def test_a_header_that_cannot_be_read_fails_no_call() -> None:
    inner = Telling({"x-ratelimit-remaining-requests": "\x00", "x-ratelimit-reset-requests": "soon"})
    ask_after(RateLimitedModel(inner), 0, 1)
    assert inner.begun == [0, 1]


# --- refusals ----------------------------------------------------------------------------------------------------


def test_a_refusal_tells_of_limits_too() -> None:
    refused = RateLimitError("slow down", status=429)
    inner = Telling(Answer(requests(0, "25s"), error=refused), requests(9, "25s"))
    limited = RateLimitedModel(inner)

    async def main() -> None:
        with pytest.raises(RateLimitError):
            await ask(limited)
        await ask(limited)

    run_virtual(main())
    assert inner.begun == [0, 25]


def test_the_longer_of_the_reset_and_the_retry_after_counts() -> None:
    for asked, begins in [(10.0, 25), (40.0, 40)]:
        refused = RateLimitError("slow down", status=429, retry_after=asked)
        inner = Telling(Answer(requests(0, "25s"), error=refused), requests(9, "25s"))
        limited = RateLimitedModel(inner)

        async def main(limited: RateLimitedModel = limited) -> None:
            with pytest.raises(RateLimitError):
                await ask(limited)
            await ask(limited)

        run_virtual(main())
        assert inner.begun == [0, begins]


def test_a_failure_without_headers_holds_no_request_for_ever() -> None:
    inner = Telling(requests(1, "30s"), Answer({}, first=1, error=ModelConnectionError("broken pipe")))
    limited = RateLimitedModel(inner)

    async def main() -> None:
        await ask(limited)
        for _ in range(2):
            with pytest.raises(ModelConnectionError):
                await ask(limited)

    run_virtual(main())
    assert inner.begun == [0, 0, 30]


# --- disposal ----------------------------------------------------------------------------------------------------


def test_one_that_is_disposed_while_it_waits_takes_nothing() -> None:
    inner = Telling(requests(0, "30s", limit=1), requests(5, "30s", limit=10))
    limited = RateLimitedModel(inner)

    async def main() -> None:
        await ask(limited)
        waiting = limited.stream(HI).subscribe()
        await asyncio.sleep(10)
        assert limited.statistics()[:2] == (0, 1)
        waiting.dispose()
        assert limited.statistics()[:2] == (0, 0)
        assert limited.rates() == {"requests": RemainingLimit(0, 1, 20)}
        assert await ask(limited) == 30

    run_virtual(main())
    assert inner.begun == [0, 30]


def test_a_disposed_request_counts_until_the_next_rate_headers() -> None:
    inner = Telling(requests(2, "30s"), Answer({}, first=100), requests(0, "29s"))
    limited = RateLimitedModel(inner)

    async def main() -> None:
        await ask(limited)
        asking = limited.stream(HI).subscribe()
        await asyncio.sleep(1)
        assert limited.rates()["requests"].left == 1
        asking.dispose()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert limited.statistics()[:2] == (0, 0)
        assert await ask(limited) == 1
        assert await ask(limited) == 30

    run_virtual(main())


def test_an_interruption_ends_the_wait_at_once() -> None:
    limited = RateLimitedModel(Telling(requests(0, "50s")))
    friday, monday = ReActAgent("Friday", limited), ReActAgent("Monday", limited)

    async def main() -> None:
        await friday.call("go")
        second = monday.call("go").as_task()
        await asyncio.sleep(1)
        assert [run.stats().model_waiting for run in monday.runs] == [True]
        monday.interrupt("enough")
        assert (await second).text == "enough"
        assert asyncio.get_running_loop().time() == 1

    run_virtual(main())


def test_attempts_that_are_over_are_let_go() -> None:
    limited = RateLimitedModel(Telling({}))

    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, RequestCost) for each in gc.get_objects())

    async def main() -> None:
        await ask(limited)
        before = alive()
        for _ in range(20):
            await ask(limited)
        assert alive() <= before

    run_virtual(main())


# --- what it goes around -----------------------------------------------------------------------------------------


def test_headers_can_be_left_alone() -> None:
    inner = Telling(requests(0, "50s"))
    limited = RateLimitedModel(inner, max_concurrency=1, headers=False)
    ask_after(limited, 0, 1)
    assert inner.begun == [0, 1]
    with pytest.raises(ConfigurationError, match="needs a limit"):
        RateLimitedModel(inner, headers=False)


def test_rate_headers_of_one_model_do_not_hold_the_others() -> None:
    first = Telling(Answer(requests(0, "50s"), error=ModelConnectionError("down")))
    second = Telling(requests(0, "50s"))
    ask_after(RateLimitedModel(FallbackModel(first, second), max_concurrency=9), 0, 1)
    assert (first.begun, second.begun) == ([0, 1], [0, 1])
    first, second = Telling(requests(0, "50s")), Telling(requests(9, "50s"))
    ask_after(FallbackModel(RateLimitedModel(first), RateLimitedModel(second)), 0, 1)
    assert (first.begun, second.begun) == ([0, 50], [])


def test_limits_within_limits_and_hedges_pass_the_headers_on() -> None:
    inner = Telling(requests(0, "50s"))
    limited = RateLimitedModel(RateLimitedModel(HedgedModel(inner, after=5), max_concurrency=2, headers=False))
    ask_after(limited, 0, 1)
    assert inner.begun == [0, 50]


def test_rates_are_there_to_be_seen() -> None:
    limited = RateLimitedModel(Telling({**requests(3, "50s", limit=5), **tokens(0)}))

    async def main() -> None:
        assert limited.rates() == {}
        await ask(limited)
        await asyncio.sleep(10)
        assert limited.rates() == {"requests": RemainingLimit(3, 5, 40), "tokens": RemainingLimit(0, None, None)}

    run_virtual(main())


def test_one_limit_for_loops_on_several_threads() -> None:
    inner, lock = Telling(requests(0, "300ms", limit=2), Answer({}, first=0.01)), threading.Lock()
    limited = RateLimitedModel(inner)
    asyncio.run(ask(limited))
    done: list[float] = []

    async def several() -> None:
        heard = await asyncio.gather(*(ask(limited) for _ in range(1)))
        with lock:
            done.extend(heard)

    threads = [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begun = sorted(inner.begun)
    assert len(done) == 2 and begun[1] - begun[0] >= 0.299


# --- the law -----------------------------------------------------------------------------------------------------


class Window(Telling):
    """A provider with a window of so many requests, which refuses more, and tells so."""

    def __init__(self, limit: int, length: float, took: Callable[[int], float]) -> None:
        super().__init__({})
        self.limit, self.length, self.took = limit, length, took
        self.opened, self.used, self.refused = -1e9, 0, 0

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        def begin() -> Flow[ChatResponse]:
            loop = asyncio.get_running_loop()
            now = loop.time()
            if now >= self.opened + self.length:
                self.opened, self.used = now, 0
            self.begun.append(now)
            if self.used >= self.limit:
                self.refused += 1
                return throw(RateLimitError("slow down", status=429))
            self.used += 1
            told = read_rates(
                requests(self.limit - self.used, f"{self.opened + self.length - now:.6f}s", self.limit), now
            )
            return concat(just(ChatResponse((TextBlock("ok"),), rates=told)), waits(self.took(len(self.begun))))

        return defer(begin)


class Bucket(Telling):
    """A provider that refills so many tokens evenly in a minute, refuses what is more, and tells so as OpenAI does."""

    def __init__(self, limit: int) -> None:
        super().__init__({})
        self.limit, self.left, self.at, self.refused = limit, float(limit), 0.0, 0

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        def begin() -> Flow[ChatResponse]:
            now = asyncio.get_running_loop().time()
            self.left = min(self.limit, self.left + (now - self.at) * self.limit / 60)
            self.at = now
            self.begun.append(now)
            if self.left < 100 - 1e-6:
                self.refused += 1
                return throw(RateLimitError("slow down", status=429))
            self.left -= 100
            wait = (self.limit - self.left) / self.limit * 60
            told = read_rates(tokens(int(self.left), f"{wait:.9f}s", self.limit), now)
            return just(ChatResponse((TextBlock("ok"),), rates=told))

        return defer(begin)


@given(st.integers(100, 1000), st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_an_even_refill_refuses_nothing_and_is_not_overslept(limit: int, after: list[int]) -> None:
    inner = Bucket(limit)
    at = [sum(after[:number]) for number in range(len(after))]
    ask_after(RateLimitedModel(inner, counter=Hundred()), *at)
    assert inner.refused == 0 and len(inner.begun) == len(at)
    # nothing is told of parts of a token: that much may be waited for on top
    left, now = float(limit), 0.0
    for time, begun in zip(at, inner.begun, strict=True):
        earliest = max(time, now)
        left = min(limit, left + (earliest - now) * limit / 60)
        earliest += max(0.0, 100 - left) / limit * 60
        assert begun <= earliest + 1.05 / limit * 60 + 0.01 * 60
        left = min(limit, left + (begun - max(time, now)) * limit / 60) - 100
        now = begun


@given(
    st.integers(1, 4),
    st.sampled_from([7.0, 11.0, 13.0]),
    # the first is answered before the others: nothing is known until then
    st.lists(st.integers(1, 40), max_size=12).map(lambda at: [0, *at]),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
)
# at t=39 one that waited and one that came just then are admitted together, and the second is answered first
@example(limit=2, length=13.0, at=[0, 1, 1, 1, 1, 1, 1, 39, 39], takes=[1])
def test_no_request_is_refused_and_none_waits_for_nothing(
    limit: int, length: float, at: list[int], takes: list[int]
) -> None:
    inner = Window(limit, length, lambda number: float(takes[number % len(takes)]))
    ask_after(RateLimitedModel(inner), *at)
    assert inner.refused == 0 and len(inner.begun) == len(at)
    # as many at a time as the windows have room for: the same as one who knows them would do
    expected: list[float] = []
    opened, used = -1e9, 0
    for time in sorted(at):
        begins = max(float(time), expected[-1] if expected else 0.0)
        if begins >= opened + length:
            opened, used = begins, 0
        if used == limit:
            begins = opened = opened + length
            used = 0
        used += 1
        expected.append(begins)
    assert inner.begun == pytest.approx(expected, abs=1e-4)


# --- a server ----------------------------------------------------------------------------------------------------


def test_headers_are_read_from_streams_answers_and_refusals(serve: Any) -> None:
    async def script(reply: Any) -> None:
        told = {**requests(40, "30s", limit=50), "anthropic-ratelimit-tokens-remaining": "nonsense"}
        number = len(server.asked)
        if number == 1:
            reply.start(**told)
            reply.send({"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}, "[DONE]")
            reply.end()
        elif number == 2:
            answer = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
            reply.json(200, answer, **requests(39, "29s", limit=50))
        else:
            reply.json(429, {"error": {"message": "slow down"}}, **requests(0, "900ms", limit=50))

    server = serve(script)
    model = OpenAIChatModel("m", api_key="k", base_url=server.url, execution_config=ONCE)
    limited = RateLimitedModel(model)

    async def main() -> None:
        await ask(limited)
        assert limited.rates()["requests"][:2] == (40, 50)
        await ask(limited, stream=False)
        assert limited.rates()["requests"][:2] == (39, 50)
        refused = asyncio.get_running_loop().time()
        with pytest.raises(RateLimitError, match="slow down"):
            await ask(limited)
        assert limited.rates()["requests"][:2] == (0, 50)
        with pytest.raises(RateLimitError, match="slow down"):
            await ask(limited)
        assert asyncio.get_running_loop().time() - refused >= 0.9

    asyncio.run(main())
    assert len(server.asked) == 4


def test_an_answer_that_breaks_off_has_told_all_the_same(serve: Any) -> None:
    async def script(reply: Any) -> None:
        reply.start(**{"anthropic-ratelimit-requests-remaining": "7", "anthropic-ratelimit-requests-limit": "9"})
        reply.send({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
        reply.end()

    server = serve(script)
    limited = RateLimitedModel(AnthropicChatModel("m", api_key="k", base_url=server.url, execution_config=ONCE))

    async def main() -> None:
        with pytest.raises(Exception, match="busy"):
            await ask(limited)
        assert limited.rates()["requests"][:2] == (pytest.approx(7, abs=1), 9)

    asyncio.run(main())
