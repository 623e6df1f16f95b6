"""`ChatModel.stream`: deadlines and retries around one attempt, in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from tenacity.stop import stop_after_attempt
from tenacity.wait import wait_fixed

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.errors import BadRequestError, ConfigurationError, ModelConnectionError, ModelTimeoutError
from agentscope_rx.events import RetryEvent, fold
from agentscope_rx.messages import ChatUsage, TextBlock
from agentscope_rx.models import ChatModel, ChatResponse, ExecutionConfig, GenerateOptions, RetryNotice, ToolSchema
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.reactive import from_async_iterable, just
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual

TWO_SECONDS = {"wait": wait_fixed(2.0)}
BROKEN = ModelConnectionError("broken pipe")
HI = (Msg.user("hi"),)


async def timeline(model: ChatModel, options: GenerateOptions | None = None) -> list[tuple[float, str]]:
    """What the model streams and when; its error last."""
    loop = asyncio.get_running_loop()
    seen: list[tuple[float, str]] = []
    try:
        async for chunk in model.stream(HI, options=options):
            if chunk.retry is not None:
                notice = chunk.retry
                assert chunk.content == () and not notice.discarded
                seen.append((loop.time(), f"retry {notice.attempt} in {notice.delay:g}: {notice.error}"))
            else:
                seen.append((loop.time(), "".join(b.text for b in chunk.content if isinstance(b, TextBlock))))
    except Exception as error:
        seen.append((loop.time(), type(error).__name__))
    return seen


def model(*turns, **config) -> ScriptedModel:
    return ScriptedModel(*turns, execution_config=ExecutionConfig(**config))


# --- retries -----------------------------------------------------------------------------------------------------


def test_a_failed_attempt_is_announced_and_made_anew():
    retried = model(BROKEN, [Delay(1), BROKEN], [Delay(1), "ok"], max_attempts=3, **TWO_SECONDS)
    assert run_virtual(timeline(retried)) == [
        (0.0, "retry 1 in 2: broken pipe"),
        (3.0, "retry 2 in 2: broken pipe"),
        (6.0, "ok"),
    ]
    assert len(retried.requests) == 3
    retried.assert_complete()


def test_the_last_attempts_own_error_is_the_end():
    retried = model(BROKEN, ModelConnectionError("again"), "never", max_attempts=2, **TWO_SECONDS)
    with pytest.raises(ModelConnectionError, match="again") as caught:
        run_virtual(retried.stream(HI))
    assert "broken pipe" in "".join(caught.value.__notes__)
    assert retried.unplayed == 1


def test_nothing_is_retried_once_a_chunk_has_come():
    retried = model(["half", BROKEN], "never", max_attempts=3, **TWO_SECONDS)
    assert run_virtual(timeline(retried)) == [(0.0, "half"), (0.0, "ModelConnectionError")]
    assert retried.unplayed == 1


@pytest.mark.spec("case 127")
@pytest.mark.parametrize("error", [BadRequestError("x", status=400), ValueError("x")])
def test_an_error_that_will_not_pass_is_not_retried(error):
    retried = model(error, "never", max_attempts=3, **TWO_SECONDS)
    assert run_virtual(timeline(retried)) == [(0.0, type(error).__name__)]


@pytest.mark.spec("case 127")
def test_by_default_there_are_three_attempts():
    async def main() -> list[str]:
        model = ScriptedModel(BROKEN, BROKEN, BROKEN, "never")
        model.execution_config = None
        return [what.split(" in ")[0] for _, what in await timeline(model)]

    assert run_virtual(main()) == ["retry 1", "retry 2", "ModelConnectionError"]


def test_one_attempt_is_one_attempt():
    assert run_virtual(timeline(model(BROKEN, "x", max_attempts=1))) == [(0.0, "ModelConnectionError")]
    stopping = model(BROKEN, "x", max_attempts=1, stop=stop_after_attempt(2), **TWO_SECONDS)
    assert [what for _, what in run_virtual(timeline(stopping))] == ["retry 1 in 2: broken pipe", "x"]


def test_the_calls_options_win_over_the_models():
    retried = model(BROKEN, "ok", max_attempts=1, **TWO_SECONDS)
    options = GenerateOptions(temperature=0.1, execution_config=ExecutionConfig(max_attempts=2))
    retried.options = GenerateOptions(temperature=0.9, seed=7)
    assert [what for _, what in run_virtual(timeline(retried, options))][-1] == "ok"
    asked = retried.requests[0].options
    assert (asked.temperature, asked.seed) == (0.1, 7)


def test_disposal_in_the_wait_makes_no_further_attempt():
    retried = model(BROKEN, "never", max_attempts=2, **TWO_SECONDS)

    async def main() -> None:
        seen: list[ChatResponse] = []
        subscription = retried.stream(HI).subscribe(seen.append)
        await asyncio.sleep(1)
        assert len(seen) == 1 and seen[0].retry is not None
        subscription.dispose()
        await asyncio.sleep(10)
        assert len(seen) == 1

    run_virtual(main())
    assert len(retried.requests) == 1


# --- deadlines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "turn", "expected", "which"),
    [
        ({"first_chunk_timeout": 5}, [HANG], [(5.0, "ModelTimeoutError")], "first"),
        ({"first_chunk_timeout": 5}, [Delay(4), "a", Delay(60), "b"], [(4.0, "a"), (64.0, "b")], None),
        ({"idle_timeout": 5}, [Delay(60), "a", Delay(4), "b", HANG],
         [(60.0, "a"), (64.0, "b"), (69.0, "ModelTimeoutError")], "idle"),
        ({"timeout": 10}, ["a", Delay(6), "b", Delay(6), "c"],
         [(0.0, "a"), (6.0, "b"), (10.0, "ModelTimeoutError")], "total"),
        ({"timeout": None, "total_timeout": None}, [Delay(5000), "a"], [(5000.0, "a")], None),
        ({"timeout": None}, [Delay(5000), "a"], [(1200.0, "ModelTimeoutError")], "overall"),
        ({}, [HANG], [(300.0, "ModelTimeoutError")], "total"),
    ],
)  # fmt: skip
def test_each_deadline_has_its_clock(config, turn, expected, which):
    late = model(turn, max_attempts=1, **config)
    assert run_virtual(timeline(late)) == expected
    if which is not None:
        late = model(turn, max_attempts=1, **config)
        with pytest.raises(ModelTimeoutError, match="Model scripted") as caught:
            run_virtual(late.stream(HI))
        error = caught.value
        limit = {"first": "first_chunk_timeout", "idle": "idle_timeout", "total": "timeout", "overall": None}[which]
        assert (error.which, error.limit) == (which, config.get(limit, 1200.0 if which == "overall" else 300.0))
        assert (error.model, error.provider, error.retryable) == ("scripted", "scripted", True)
        assert isinstance(error, TimeoutError)


def test_each_attempt_has_its_own_deadline():
    late = model([HANG], [Delay(8), "ok"], max_attempts=2, timeout=10, **TWO_SECONDS)
    assert run_virtual(timeline(late)) == [
        (10.0, "retry 1 in 2: Model scripted did not finish within 10 s"),
        (20.0, "ok"),
    ]


def test_a_deadline_after_a_chunk_is_final():
    late = model(["a", HANG], "never", max_attempts=3, idle_timeout=5, **TWO_SECONDS)
    assert run_virtual(timeline(late)) == [(0.0, "a"), (5.0, "ModelTimeoutError")]


def test_a_deadline_closes_the_attempt():
    closed: list[float] = []

    class Endless(ChatModel):
        def do_stream(self, messages, tools, options):
            async def play():
                try:
                    while True:
                        await asyncio.sleep(3)
                        yield ChatResponse((TextBlock("."),))
                finally:
                    closed.append(asyncio.get_running_loop().time())

            return from_async_iterable(play)

    endless = Endless("endless", execution_config=ExecutionConfig(timeout=10, max_attempts=1))
    assert len(run_virtual(timeline(endless))) == 4
    assert closed == [10.0]


# --- the port ----------------------------------------------------------------------------------------------------


class Asked(ChatModel):
    """Notes what `do_stream` gets."""

    def __init__(self, **options) -> None:
        super().__init__("asked", **options)
        self.asked: list[tuple] = []

    def do_stream(self, messages, tools, options):
        self.asked.append((messages, tools, options))
        if not tools:
            raise ValueError("no tools")
        return just(ChatResponse((TextBlock("ok"),)))


def test_it_is_cold_and_each_subscription_is_one_request():
    schema = ToolSchema("t", "d", {"type": "object"})
    asked = Asked(options=GenerateOptions(seed=3))
    flow = asked.stream(HI, [schema])
    assert asked.asked == []
    for count in (1, 2):
        assert flow.run().content == (TextBlock("ok"),)
        assert len(asked.asked) == count
    assert asked.asked[0] == (HI, [schema], GenerateOptions(seed=3))


def test_what_do_stream_raises_is_the_flows_error():
    asked = Asked()
    flow = asked.stream(HI)
    with pytest.raises(ValueError, match="no tools"):
        flow.run()


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_model_needs_a_name(name):
    with pytest.raises(ConfigurationError, match="ScriptedModel needs a model name"):
        ScriptedModel(model_name=name)
    assert repr(ScriptedModel()) == "ScriptedModel('scripted')"


# --- the total over all attempts ----------------------------------------------------------------------------------


def test_a_total_timeout_bounds_attempts_and_waits():
    slow = [Delay(4), BROKEN]
    bounded = model(slow, slow, slow, "never", max_attempts=4, total_timeout=15, **TWO_SECONDS)
    assert run_virtual(timeline(bounded))[-1] == (15.0, "ModelTimeoutError")
    with pytest.raises(ModelTimeoutError, match="all its attempts together, within 15 s") as caught:
        run_virtual(model(slow, slow, slow, max_attempts=4, total_timeout=15, **TWO_SECONDS).stream(HI))
    assert caught.value.which == "overall"


def test_a_total_timeout_ends_a_wait_with_the_last_error():
    told = run_virtual(timeline(model(BROKEN, BROKEN, "never", max_attempts=4, total_timeout=3, **TWO_SECONDS)))
    assert told == [(0.0, "retry 1 in 2: broken pipe"), (2.0, "ModelConnectionError")]


def test_a_total_timeout_ends_a_stream_that_has_begun():
    told = run_virtual(timeline(model(["so ", Delay(9), "on"], total_timeout=3)))
    assert told == [(0.0, "so "), (3.0, "ModelTimeoutError")]


# --- after the first content --------------------------------------------------------------------------------------


def test_a_broken_answer_may_be_remade_and_is_announced_void():
    """field.md P6: a retry that knows what has been shown."""
    restarting = model(["half ", BROKEN], "whole", max_attempts=2, after_content="restart", **TWO_SECONDS)
    gather = ResponseAccumulator()

    async def main() -> list[RetryNotice]:
        notices = []
        async for chunk in restarting.stream(HI):
            gather.feed(chunk)
            if chunk.retry is not None:
                notices.append(chunk.retry)
        return notices

    (notice,) = run_virtual(main())
    assert (notice.discarded, notice.attempt, notice.delay, notice.error) == (True, 1, 2.0, BROKEN)
    assert gather.blocks() == (TextBlock("whole"),)


def test_silence_after_content_is_retried_if_allowed():
    restarting = model(
        ["half ", HANG], ["whole"], max_attempts=2, idle_timeout=5, after_content="restart", **TWO_SECONDS
    )

    async def main() -> list[tuple[float, bool | None]]:
        loop = asyncio.get_running_loop()
        return [(loop.time(), c.retry and c.retry.discarded) async for c in restarting.stream(HI)]

    assert run_virtual(main()) == [(0.0, None), (5.0, True), (7.0, None)]


def test_what_has_no_content_was_not_shown():
    facts = ChatResponse(id="x", usage=ChatUsage(5))
    retried = model([facts, BROKEN], ["ok"], max_attempts=2, **TWO_SECONDS)
    assert run_virtual(timeline(retried)) == [(0.0, ""), (0.0, "retry 1 in 2: broken pipe"), (2.0, "ok")]
    with pytest.raises(ConfigurationError, match="after_content"):
        ExecutionConfig(after_content="maybe")


def test_an_agent_remembers_the_whole_answer_alone():
    restarting = model(["half ", BROKEN], "whole", max_attempts=2, after_content="restart", **TWO_SECONDS)
    friday = ReActAgent("Friday", restarting)

    async def main() -> list:
        return [event async for event in friday.stream("go")]

    events = run_virtual(main())
    assert [event.discarded for event in events if isinstance(event, RetryEvent)] == [True]
    assert [message.text for message in fold(events).history] == ["go", "whole"]
