"""`HedgedModel`: a second request beside a silent one; in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity.wait import wait_fixed

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.errors import ConfigurationError, ModelConnectionError
from agentscope_rx.events import RetryEvent
from agentscope_rx.messages import ChatUsage, TextBlock
from agentscope_rx.models import ChatResponse, ExecutionConfig
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.wrappers import HedgedModel, RateLimitedModel
from agentscope_rx.reactive import from_async_iterable, hedge
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual

BROKEN = ModelConnectionError("broken pipe")
HI = (Msg.user("hi"),)
ONCE = ExecutionConfig(max_attempts=1)


def scripted(*turns, config=ONCE) -> ScriptedModel:
    return ScriptedModel(*turns, model_name="m", execution_config=config)


async def timeline(model) -> list[tuple[float, str]]:
    loop = asyncio.get_running_loop()
    seen: list[tuple[float, str]] = []
    try:
        async for chunk in model.stream(HI):
            if chunk.retry is not None:
                assert not chunk.retry.discarded and chunk.content == ()
                seen.append((loop.time(), "retry"))
            elif chunk.content:
                seen.append((loop.time(), "".join(b.text for b in chunk.content if isinstance(b, TextBlock))))
    except Exception as error:
        seen.append((loop.time(), type(error).__name__))
    return seen


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        # one that speaks in time is alone
        ([[Delay(4), "a", Delay(60), "b"]], [(4.0, "a"), (64.0, "b")]),
        # the second is faster
        ([[Delay(60), "a"], [Delay(2), "b"]], [(5.0, "retry"), (7.0, "b")]),
        # the first is, all the same
        ([[Delay(6), "a"], [Delay(2), "b"]], [(5.0, "retry"), (6.0, "a")]),
        # one fails: the other goes on
        ([[Delay(6), BROKEN], [Delay(9), "b"]], [(5.0, "retry"), (14.0, "b")]),
        ([[Delay(9), "a"], [Delay(1), BROKEN]], [(5.0, "retry"), (9.0, "a")]),
        ([[Delay(6), BROKEN], [Delay(9), BROKEN]], [(5.0, "retry"), (14.0, "ModelConnectionError")]),
        # a failure before there was a second is the attempt's, for its retries
        ([[Delay(1), BROKEN]], [(1.0, "ModelConnectionError")]),
        # who has spoken and fails is the end
        ([[Delay(6), "a", BROKEN], [Delay(2), HANG]], [(5.0, "retry"), (6.0, "a"), (6.0, "ModelConnectionError")]),
        # nothing at all is an answer, too
        ([[Delay(60), "a"], [Delay(2)]], [(5.0, "retry")]),
    ],
)  # fmt: skip
def test_who_speaks_first_is_heard(turns, expected):
    inner = scripted(*turns)
    assert run_virtual(timeline(HedgedModel(inner, after=5))) == expected
    inner.assert_complete()


def test_the_loser_is_cancelled_and_its_facts_are_not_mixed_in():
    closed: list[float] = []

    class Noting(ScriptedModel):
        def do_stream(self, messages, tools, options):
            number = len(self.requests)
            self.requests.append(None)

            async def play():
                try:
                    yield ChatResponse(id=str(number), usage=ChatUsage(number + 1))
                    await asyncio.sleep(60 if number == 0 else 2)
                    yield ChatResponse((TextBlock(str(number)),))
                finally:
                    if number == 0:
                        closed.append(asyncio.get_running_loop().time())

            return from_async_iterable(play)

    async def main() -> ResponseAccumulator:
        gather = ResponseAccumulator()
        async for chunk in HedgedModel(Noting(execution_config=ONCE), after=5).stream(HI):
            gather.feed(chunk)
        return gather

    gather = run_virtual(main())
    assert (gather.response_id, gather.usage, gather.blocks()) == ("1", ChatUsage(2), (TextBlock("1"),))
    assert closed == [7.0]


def test_each_attempt_is_hedged():
    config = ExecutionConfig(max_attempts=2, wait=wait_fixed(1), first_chunk_timeout=8)
    inner = scripted([HANG], [HANG], [HANG], [Delay(1), "d"], config=config)
    assert run_virtual(timeline(HedgedModel(inner, after=5))) == [
        (5.0, "retry"), (13.0, "retry"), (19.0, "retry"), (20.0, "d")
    ]  # fmt: skip


@pytest.mark.parametrize("at", [2, 6, 8])
def test_disposal_ends_both(at):
    inner = scripted([Delay(7), "a", HANG], [HANG])
    model = RateLimitedModel(HedgedModel(inner, after=5), max_concurrency=1)

    async def main() -> None:
        seen: list[ChatResponse] = []
        subscription = model.stream(HI).subscribe(seen.append)
        await asyncio.sleep(at)
        subscription.dispose()
        count = len(seen)
        await asyncio.sleep(100)
        assert len(seen) == count and model.statistics()[:2] == (0, 0)

    run_virtual(main())
    assert len(inner.requests) == (1 if at < 5 else 2)


def test_within_limits_each_request_takes_its_place():
    inner = scripted([HANG], [Delay(1), "b"])
    limited = RateLimitedModel(inner, max_concurrency=2)

    async def main() -> None:
        task = asyncio.create_task(timeline(HedgedModel(limited, after=5)))
        await asyncio.sleep(5.5)
        assert limited.statistics().in_flight == 2
        await task
        await asyncio.sleep(0)
        assert limited.statistics().in_flight == 0

    run_virtual(main())


def test_an_agent_tells_of_it():
    friday = ReActAgent("Friday", HedgedModel(scripted([HANG], "b"), after=5))

    async def main() -> list[RetryEvent]:
        return [event async for event in friday.stream("go") if isinstance(event, RetryEvent)]

    (event,) = run_virtual(main())
    assert (event.error_type, event.discarded, event.delay) == ("ModelTimeoutError", False, 0.0)


@pytest.mark.parametrize("after", [0, -1, True, float("inf"), "5"])
def test_what_it_cannot_be_made_of(after):
    with pytest.raises(ConfigurationError, match="after must be more than 0"):
        HedgedModel(scripted("x"), after=after)
    if after in (0, -1):
        with pytest.raises(ConfigurationError, match="after must be more than 0"):
            hedge(after, shows=bool)


times = st.integers(0, 12)


@given(times, times, st.booleans(), st.booleans())
def test_the_law(first, second, first_fails, second_fails):
    """The result is the one of the first of the two that speaks; the second is asked only after the silence."""
    one = [Delay(first), BROKEN if first_fails else "one"]
    two = [Delay(second), BROKEN if second_fails else "two"]
    inner = scripted(one, two)
    told = [what for _, what in run_virtual(timeline(HedgedModel(inner, after=4.5)))]
    begun = first > 4.5
    assert len(inner.requests) == 1 + begun
    ends = {} if first_fails else {"one": float(first)}
    if begun and not second_fails:
        ends["two"] = 4.5 + second
    expected = min(ends, key=lambda each: ends[each]) if ends else "ModelConnectionError"
    assert told == ["retry"] * begun + [expected]
