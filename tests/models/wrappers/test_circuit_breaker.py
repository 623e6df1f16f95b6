"""`CircuitBreaker`: closed, open, half-open; in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.errors import (
    BadRequestError,
    CircuitOpenError,
    ConfigurationError,
    ModelConnectionError,
    ServerError,
)
from agentscope_rx.models import ExecutionConfig
from agentscope_rx.models.wrappers import CircuitBreaker, FallbackModel
from agentscope_rx.reactive import never
from agentscope_rx.reactive.operators._retry import RetryPolicy
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual

BROKEN = ModelConnectionError("broken pipe")
WRONG = BadRequestError("x", status=400)
HI = (Msg.user("hi"),)
ONCE = ExecutionConfig(max_attempts=1)


def scripted(*turns, config=ONCE, name="m") -> ScriptedModel:
    return ScriptedModel(*turns, model_name=name, execution_config=config)


async def ask(model) -> str:
    try:
        await model.stream(HI)
    except Exception as error:
        return type(error).__name__
    return "ok"


def test_it_opens_after_consecutive_failures_and_retries_later():
    inner = scripted(BROKEN, "ok", BROKEN, BROKEN, BROKEN, "ok", "ok")
    model = CircuitBreaker(inner, failures=2, reset=30)

    async def main() -> list[str]:
        heard = [await ask(model) for _ in range(4)]
        assert model.is_open
        heard += [await ask(model) for _ in range(3)]
        await asyncio.sleep(30)
        assert not model.is_open
        heard.append(await ask(model))
        assert model.is_open
        heard.append(await ask(model))
        await asyncio.sleep(30)
        return [*heard, await ask(model), await ask(model)]

    no, shut = "ModelConnectionError", "CircuitOpenError"
    assert run_virtual(main()) == [no, "ok", no, no, shut, shut, shut, no, shut, "ok", "ok"]
    assert len(inner.requests) == 7


def test_one_alone_tries_whether_it_may_be_closed():
    inner = scripted(BROKEN, [Delay(5), "ok"], "ok")
    model = CircuitBreaker(inner, failures=1, reset=10)

    async def main() -> list[str]:
        assert await ask(model) == "ModelConnectionError"
        await asyncio.sleep(10)
        return await asyncio.gather(ask(model), ask(model), ask(model))

    assert sorted(run_virtual(main())) == ["CircuitOpenError", "CircuitOpenError", "ok"]


def test_one_that_tried_and_was_disposed_leaves_it_to_the_next():
    inner = scripted(BROKEN, [HANG], "ok")
    model = CircuitBreaker(inner, failures=1, reset=10)

    async def main() -> None:
        await ask(model)
        await asyncio.sleep(10)
        trial = model.stream(HI).subscribe()
        await asyncio.sleep(1)
        assert await ask(model) == "CircuitOpenError"
        trial.dispose()
        # (until its clean-up has run)
        await asyncio.sleep(1)
        assert await ask(model) == "ok" and not model.is_open

    run_virtual(main())


class Silent(ScriptedModel):
    """Its second answer never comes, and has no task."""

    def do_stream(self, messages, tools, options):
        return never() if len(self.requests) == 1 else super().do_stream(messages, tools, options)


def test_a_trial_lost_with_its_loop_passes_to_the_next_request():
    inner = Silent(BROKEN, "ok", execution_config=ONCE)
    model = CircuitBreaker(inner, failures=1, reset=0.001)

    async def begin() -> object:
        await ask(model)
        await asyncio.sleep(0.01)
        trial = model.stream(HI).subscribe()
        assert model.is_open
        return trial

    loop = asyncio.new_event_loop()
    trial = loop.run_until_complete(begin())
    loop.close()
    inner.do_stream = super(Silent, inner).do_stream
    assert asyncio.run(ask(model)) == "ok"
    del trial


def test_one_that_is_late_with_its_answer_does_not_close_it():
    inner = scripted([Delay(5), "ok"], BROKEN)
    model = CircuitBreaker(inner, failures=1, reset=30)

    async def main() -> None:
        late = asyncio.create_task(ask(model))
        await asyncio.sleep(1)
        await ask(model)
        assert await late == "ok" and model.is_open

    run_virtual(main())


@pytest.mark.parametrize(
    ("when", "error", "counts"), [(None, WRONG, False), (None, BROKEN, True), (BadRequestError, WRONG, True)]
)
def test_which_errors_count(when, error, counts):
    model = CircuitBreaker(scripted(error, "ok"), failures=1, **({} if when is None else {"when": when}))

    async def main() -> str:
        await ask(model)
        return await ask(model)

    assert run_virtual(main()) == ("CircuitOpenError" if counts else "ok")


def test_each_attempt_counts_and_an_open_circuit_is_not_retried():
    config = ExecutionConfig(max_attempts=5, initial_backoff=1)
    inner = scripted(BROKEN, BROKEN, "never", config=config)

    async def main() -> float:
        with pytest.raises(CircuitOpenError, match="Model m has failed 2 times in a row; next call in") as caught:
            await CircuitBreaker(inner, failures=2, reset=60).stream(HI)
        assert 0 < caught.value.retry_after < 60 and not caught.value.retryable
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) < 10
    assert len(inner.requests) == 2
    assert RetryPolicy().retry_after(CircuitOpenError(1, 3.0)) == 3.0


def test_a_deadline_counts_and_another_model_is_asked_at_once():
    slow = scripted([HANG], config=ExecutionConfig(max_attempts=1, timeout=20))
    model = FallbackModel(CircuitBreaker(slow, failures=1, reset=100), ScriptedModel("b", "b", model_name="b"))

    async def main() -> list[float]:
        loop, seen = asyncio.get_running_loop(), []
        for _ in range(2):
            began = loop.time()
            await model.stream(HI)
            seen.append(loop.time() - began)
        return seen

    assert run_virtual(main()) == [20.0, 0.0]


def test_an_interruption_says_nothing_of_the_model():
    model = CircuitBreaker(scripted(["so far ", HANG], "ok"), failures=1)
    friday = ReActAgent("Friday", model)

    async def main() -> str:
        task = friday.call("go").as_task()
        await asyncio.sleep(1)
        friday.interrupt()
        await task
        assert not model.is_open
        return (await friday.call("again")).text

    assert run_virtual(main()) == "ok"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"failures": 0}, ">= 1"),
        ({"reset": 0}, "more than 0"),
        ({"reset": True}, "more than 0"),
        ({"when": 5}, "when must be"),
    ],
)
def test_what_it_cannot_be_made_of(options, says):
    with pytest.raises(ConfigurationError, match=says):
        CircuitBreaker(scripted("x"), **options)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=20), st.integers(1, 3))
def test_no_request_is_made_while_it_is_open(attempts, failures):
    asked: list[tuple[float, bool]] = []
    turns = iter(attempts)

    class Noting(ScriptedModel):
        def do_stream(self, messages, tools, options):
            ok = next(flags)
            asked.append((asyncio.get_running_loop().time(), ok))
            return ScriptedModel("ok" if ok else ServerError("x", status=500)).do_stream(messages, tools, options)

    flags = (ok for ok, _ in attempts)
    model = CircuitBreaker(Noting(execution_config=ONCE), failures=failures, reset=5)

    async def main() -> None:
        for _, pause in turns:
            await asyncio.sleep(pause)
            await ask(model)

    run_virtual(main())
    on_end = 0
    until = -1.0
    for when, ok in asked:
        assert when >= until
        on_end = 0 if ok else on_end + 1
        until = when + 5 if on_end >= failures else -1.0
