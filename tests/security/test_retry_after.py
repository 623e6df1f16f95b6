"""No server's word parks a run: what `Retry-After` may ask for, and what a model call may take by default."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, ModelTimeoutError, RateLimitError
from agentscope_rx.messages import Msg, ToolResultBlock, ToolUseBlock
from agentscope_rx.models import MODEL_DEFAULTS, TOOL_DEFAULTS, ExecutionConfig, RateLimitedModel
from agentscope_rx.models.retryable import asked_wait, retry_after
from agentscope_rx.models.transport.status import http_error
from agentscope_rx.testing import HANG, ScriptedModel, run_virtual
from agentscope_rx.tools import Toolkit, tool

HI = [Msg.user("hi")]
FOR_EVER = [
    {"retry-after": "86400"},
    {"retry-after": "inf"},
    {"retry-after": "1e400"},
    {"retry-after": "9" * 400},
    {"retry-after": "infinity"},
    {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"},
    {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "Wed, 21 Oct 1015 07:28:00 GMT"},
    {"retry-after-ms": "86400000"},
    {"retry-after-ms": "inf"},
    {"retry-after": "60.5"},
]
NOTHING = [
    {"retry-after": "nan"},
    {"retry-after": "-inf"},
    {"retry-after": "-5"},
    {"retry-after": ""},
    {"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"},
    {"retry-after": "Wed, 21 Oct 2015 07:28:00 +99999999999999999999"},
    {"retry-after": "Wed, 99 Oct 2015 77:28:00 GMT"},
    {"retry-after": "Wed, 21 Oct 2035 07:28:00 GMT", "date": "nonsense"},
    {"retry-after-ms": "nan", "retry-after": "nan"},
]


def refused(headers: dict[str, str]) -> RateLimitError:
    error = http_error(429, "{}", headers)
    assert isinstance(error, RateLimitError)
    return error


FAILED = -1.0


def tried_again(*turns: Any, **config: Any) -> ScriptedModel:
    """A model with the attempts that models have by default."""
    return ScriptedModel(*turns, execution_config=ExecutionConfig(max_attempts=3, **config))


def ask(model: Any) -> float:
    """When the answer had come, on the loop's clock; FAILED if the model refused at once."""

    async def main() -> float:
        try:
            await model.stream(HI)
        except RateLimitError:
            assert asyncio.get_running_loop().time() == 0
            return FAILED
        return asyncio.get_running_loop().time()

    return run_virtual(main())


@pytest.mark.parametrize("headers", FOR_EVER)
def test_a_wait_that_is_too_long_makes_the_error_final_at_once(headers: dict[str, str]) -> None:
    error = refused(headers)
    model = tried_again(error, "an answer")
    assert ask(model) == FAILED, "neither waited for nor tried again"
    assert error.retry_after is not None and error.retry_after > 60, "the caller is told"


@pytest.mark.parametrize("headers", NOTHING)
def test_a_wait_that_is_none_leaves_the_policys_own(headers: dict[str, str]) -> None:
    error = refused(headers)
    assert error.retry_after in (None, 0.0)
    assert 0 < ask(tried_again(error, "an answer")) < 4


def test_a_minute_is_waited_for_and_the_limit_is_the_callers() -> None:
    assert ask(tried_again(refused({"retry-after": "60"}), "an answer")) == 60
    assert ask(tried_again(refused({"retry-after": "300"}), "an answer", max_retry_after=300)) == 300
    assert ask(tried_again(refused({"retry-after": "6"}), "an answer", max_retry_after=5)) == FAILED
    unbounded: dict[str, Any] = {"max_retry_after": None, "total_timeout": None}
    assert ask(tried_again(refused({"retry-after": "86400"}), "x", **unbounded)) == 86400
    assert ask(tried_again(refused({"retry-after": "inf"}), "x", **unbounded)) == FAILED


def test_the_total_timeout_bounds_what_no_limit_lets_through() -> None:
    assert ask(tried_again(refused({"retry-after": "1200"}), "x", max_retry_after=None)) == FAILED


class Headed(Exception):
    """As the errors of urllib and aiohttp are."""

    def __init__(self, asked: str) -> None:
        self.status = 429
        self.headers = {"Retry-After": asked}


@pytest.mark.parametrize("asked", ["86400", "inf", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_tools_server_parks_no_run_either(asked: str) -> None:
    times: list[float] = []

    @tool(execution_config=ExecutionConfig(max_attempts=5))
    async def fetch() -> str:
        """Fetch it."""
        times.append(asyncio.get_running_loop().time())
        raise Headed(asked)

    async def main() -> ToolResultBlock:
        result = await Toolkit([fetch]).call(ToolUseBlock("c1", "fetch", {}))
        assert isinstance(result, ToolResultBlock)
        return result

    assert run_virtual(main()).is_error
    assert times == [0]


@pytest.mark.parametrize(("config", "pause"), [({}, 60), ({"max_retry_after": 7}, 7)])
@pytest.mark.parametrize("asked", [86400.0, float("inf")])
def test_one_refusal_does_not_hold_all_others(config: Any, pause: int, asked: float) -> None:
    error = RateLimitError("slow down", status=429, retry_after=asked)
    inner = tried_again(error, "an answer", **config)
    limited = RateLimitedModel(inner, max_concurrency=4)

    async def main() -> float:
        with pytest.raises(RateLimitError):
            await limited.stream(HI)
        await limited.stream(HI)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pause


def test_a_retry_after_of_nan_does_not_block_the_retry() -> None:
    error = RateLimitError("slow down", status=429, retry_after=float("nan"))
    limited = RateLimitedModel(tried_again(error, "an answer"), max_concurrency=4)
    assert 0 < ask(limited) < 4


def test_a_model_call_takes_twenty_minutes_at_most() -> None:
    assert MODEL_DEFAULTS.total_timeout == 1200 and TOOL_DEFAULTS.limit("total_timeout") is None
    endless = ExecutionConfig(timeout=None, max_attempts=1)

    async def main() -> float:
        with pytest.raises(ModelTimeoutError) as caught:
            await ScriptedModel([HANG], execution_config=endless).stream(HI)
        assert caught.value.which == "overall"
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 1200


@pytest.mark.parametrize("given", [-1, "60", True, float("nan")])
def test_what_cannot_be_the_longest(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_retry_after"):
        ExecutionConfig(max_retry_after=given)


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date"]), st.text(max_size=40)))
def test_no_header_is_an_error(headers: dict[str, str]) -> None:
    asked = retry_after(headers)
    assert asked is None or asked >= 0


@given(st.one_of(st.floats(), st.integers(), st.text()))
def test_no_error_of_another_library_asks_for_nonsense(given: Any) -> None:
    error = Exception()
    error.retry_after = given  # type: ignore[attr-defined]
    asked = asked_wait(error)
    assert asked is None or asked >= 0
