"""Wrappers around wrappers, in any order: the answer comes once and whole, and nothing is left."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st
from tenacity.wait import wait_fixed

from agentscope_rx import Msg
from agentscope_rx.errors import CircuitOpenError, ModelConnectionError, ModelTimeoutError, RateLimitError
from agentscope_rx.messages import TextBlock
from agentscope_rx.models import ChatModel, ExecutionConfig
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.wrappers import CircuitBreaker, FallbackModel, HedgedModel, RateLimitedModel
from agentscope_rx.testing import Delay, collect_dropped, run_virtual
from tests.models.wrappers.test_rate_limited import Clocked

HI = (Msg.user("hi"),)
TWICE = ExecutionConfig(max_attempts=2, wait=wait_fixed(0.5), first_chunk_timeout=30, after_content="restart")

turns = st.one_of(
    st.builds(lambda wait, between: ("ok", wait, between), st.integers(0, 6), st.integers(0, 3)),
    st.builds(lambda wait: ("broken", wait), st.integers(0, 6)),
    st.builds(lambda wait: ("half", wait), st.integers(0, 3)),
    st.just(("refused",)),
    st.just(("silent",)),
)
layers = st.lists(st.sampled_from(["limited", "breaker", "hedged", "fallback", "restart"]), max_size=4)


def steps(number: int, turn: tuple[Any, ...]) -> list[Any]:
    match turn:
        case ("ok", wait, between):
            return [Delay(wait), f"<{number}", Delay(between), f"{number}>"]
        case ("broken", wait):
            return [Delay(wait), ModelConnectionError("down")]
        case ("half", wait):
            return [Delay(wait), f"<{number}", ModelConnectionError("broken pipe")]
        case ("refused",):
            return [RateLimitError("x", status=429, retry_after=2)]
        case _:
            return [Delay(100), ModelConnectionError("late")]


def composed(inner: Clocked, other: Clocked, names: list[str]) -> tuple[ChatModel, list[RateLimitedModel]]:
    model: ChatModel = inner
    limited: list[RateLimitedModel] = []
    for name in names:
        match name:
            case "limited":
                model = RateLimitedModel(model, max_concurrency=1)
                limited.append(model)
            case "breaker":
                model = CircuitBreaker(model, failures=3, reset=5)
            case "hedged":
                model = HedgedModel(model, after=2.5)
            case _:
                model = FallbackModel(model, other, after_content="error" if name == "fallback" else "restart")
    return model, limited


@given(st.lists(turns, max_size=5), layers, st.lists(st.none() | st.integers(0, 12), min_size=1, max_size=3))
def test_any_composition_is_a_model(script: list[Any], names: list[str], disposed: list[int | None]) -> None:
    note(f"{script} {names} {disposed}")
    fine = [Delay(1), "<fine", "fine>"]
    inner = Clocked(*(steps(*each) for each in enumerate(script)), *[fine] * 40, execution_config=TWICE)
    other = Clocked(fine, repeat=True)
    model, limited = composed(inner, other, names)

    async def one(number: int, gone: int | None) -> None:
        gather, heard = ResponseAccumulator(), list[str]()
        over = asyncio.Event()

        def ended(how: str) -> None:
            heard.append(how)
            over.set()

        def failed(error: Exception) -> None:
            kinds = (ModelConnectionError, RateLimitError, CircuitOpenError, ModelTimeoutError)
            ended("error" if isinstance(error, kinds) else repr(error))

        subscription = model.stream(HI).subscribe(gather.feed, failed, lambda: ended("ok"))
        if gone is not None:
            await asyncio.sleep(gone + 0.25 + number / 64)
            subscription.dispose()
        else:
            await over.wait()
        assert heard in ([], ["ok"], ["error"]) and (heard or gone is not None)
        if heard == ["ok"]:
            said = "".join(block.text for block in gather.blocks() if isinstance(block, TextBlock))
            assert re.fullmatch(r"<(fine|\d)\1>", said), said

    async def main() -> None:
        await asyncio.gather(*(one(number, gone) for number, gone in enumerate(disposed)))
        await asyncio.sleep(1)
        assert inner.running == other.running == 0
        assert all(each.statistics()[:2] == (0, 0) for each in limited)
        # a Retry-After and an open circuit pass; then the next one is answered
        await asyncio.sleep(20)
        for _ in range(len(script) + 1):
            try:
                await asyncio.wait_for(_drained(model), 1000)
                return
            except (ModelConnectionError, RateLimitError, CircuitOpenError, ModelTimeoutError):
                await asyncio.sleep(20)
        raise AssertionError("it never answers again")

    # (an attempt that fails when it is left is told there)
    with collect_dropped():
        run_virtual(main())
    assert inner.running == other.running == 0


async def _drained(model: ChatModel) -> None:
    async for _ in model.stream(HI):
        pass
