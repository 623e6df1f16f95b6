"""`FallbackModel`: the next model where one does not answer well; in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity.wait import wait_fixed

from agentscope_rx import GenerateOptions, Msg, Price, ReActAgent, UsageLimits
from agentscope_rx.errors import (
    BadAnswerError,
    BadRequestError,
    ConfigurationError,
    EmptyResponseError,
    ModelConnectionError,
    ModelTimeoutError,
    RateLimitError,
)
from agentscope_rx.events import PostReasoningEvent, RetryEvent, fold
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock
from agentscope_rx.models import ChatResponse, ExecutionConfig
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.wrappers import FallbackModel
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual

BROKEN = ModelConnectionError("broken pipe")
HI = (Msg.user("hi"),)
ONCE = ExecutionConfig(max_attempts=1)


def scripted(name, *turns, config=ONCE, **more) -> ScriptedModel:
    return ScriptedModel(*turns, model_name=name, execution_config=config, **more)


async def timeline(model, options=None) -> list[tuple[float, str]]:
    """What the model streams and when; its error last."""
    loop = asyncio.get_running_loop()
    seen: list[tuple[float, str]] = []
    try:
        async for chunk in model.stream(HI, options=options):
            if chunk.retry is not None:
                assert chunk.content == ()
                void = " void" if chunk.retry.discarded else ""
                to = f" to {chunk.retry.model}" if chunk.retry.model else ""
                seen.append((loop.time(), f"retry {chunk.retry.attempt}{to}{void}"))
            elif chunk.content:
                seen.append((loop.time(), "".join(b.text for b in chunk.content if isinstance(b, TextBlock))))
    except Exception as error:
        seen.append((loop.time(), type(error).__name__))
    return seen


def answer(model, options=None) -> ResponseAccumulator:
    async def main() -> ResponseAccumulator:
        gather = ResponseAccumulator()
        async for chunk in model.stream(HI, options=options):
            gather.feed(chunk)
        return gather

    return run_virtual(main())


def empty_word(message: Msg) -> str | None:
    return "it says nothing" if "bad" in message.text else None


# --- on an error -------------------------------------------------------------------------------------------------


def test_the_first_that_answers_answers_alone():
    first, second = scripted("a", "hello"), scripted("b", "never")
    assert run_virtual(timeline(FallbackModel(first, second))) == [(0.0, "hello")]
    assert second.requests == []


def test_a_failure_leads_to_the_next_and_says_who_that_is():
    model = FallbackModel(scripted("a", [Delay(1), BROKEN]), scripted("b", BROKEN), scripted("c", [Delay(2), "c"]))
    assert run_virtual(timeline(model)) == [(1.0, "retry 1 to b"), (1.0, "retry 2 to c"), (3.0, "c")]


def test_each_model_keeps_its_own_retries_and_deadlines():
    patient = ExecutionConfig(max_attempts=2, wait=wait_fixed(2.0), first_chunk_timeout=10)
    model = FallbackModel(scripted("a", [HANG], BROKEN, config=patient), scripted("b", "b"))
    assert run_virtual(timeline(model)) == [(10.0, "retry 1"), (12.0, "retry 1 to b"), (12.0, "b")]


def test_the_last_models_error_tells_of_those_before():
    model = FallbackModel(scripted("a", BROKEN, BROKEN), scripted("b", RateLimitError("slow", status=429)))
    for _ in range(2):
        with pytest.raises(RateLimitError, match="slow") as caught:
            run_virtual(model.stream(HI))
        assert caught.value.__notes__ == ["Asked before, without success: a: ModelConnectionError: broken pipe"]
        model.models[1].requests.clear()


@pytest.mark.parametrize(
    ("when", "error", "falls"),
    [
        (None, BadRequestError("x", status=400), True),
        (None, TimeoutError("x"), True),
        (None, ConfigurationError("x"), False),
        (None, ValueError("x"), False),
        (RateLimitError, BROKEN, False),
        ((RateLimitError, ModelConnectionError), BROKEN, True),
        (lambda error: "pipe" in str(error), BROKEN, True),
    ],
)
def test_which_errors_lead_on(when, error, falls):
    model = FallbackModel(scripted("a", error), scripted("b", "b"), **({} if when is None else {"when": when}))
    expected = ["retry 1 to b", "b"] if falls else [type(error).__name__]
    assert [what for _, what in run_virtual(timeline(model))] == expected


def test_what_was_shown_is_not_taken_back_unless_that_is_wanted():
    def model(**options):
        return FallbackModel(scripted("a", ["half ", Delay(1), BROKEN]), scripted("b", "whole"), **options)

    assert run_virtual(timeline(model())) == [(0.0, "half "), (1.0, "ModelConnectionError")]
    restarts = model(after_content="restart")
    assert run_virtual(timeline(restarts)) == [(0.0, "half "), (1.0, "retry 1 to b void"), (1.0, "whole")]
    assert answer(model(after_content="restart")).blocks() == (TextBlock("whole"),)


def test_facts_without_content_are_nothing_that_was_shown():
    model = FallbackModel(scripted("a", [ChatResponse(id="x"), BROKEN]), scripted("b", ["b", ChatResponse(id="y")]))
    gather = answer(model)
    assert (gather.blocks(), gather.response_id, gather.model) == ((TextBlock("b"),), "y", "b")


def test_an_empty_answer_is_none():
    thinking = ThinkingBlock("hm")
    model = FallbackModel(scripted("a", [ChatResponse(usage=ChatUsage(3))]), scripted("b", [thinking, "b"]))
    gather = answer(model)
    assert gather.blocks() == (thinking, TextBlock("b")) and gather.usage == ChatUsage(3)
    model = FallbackModel(scripted("a", [thinking]), scripted("b", "never"))
    assert [what for _, what in run_virtual(timeline(model))] == ["", "EmptyResponseError"]
    with pytest.raises(EmptyResponseError):
        answer(FallbackModel(scripted("a", BROKEN), scripted("b", [])))


# --- on a bad answer ---------------------------------------------------------------------------------------------


def test_a_bad_answer_was_never_shown():
    bad = ["bad ", Delay(3), "word", ChatResponse(usage=ChatUsage(5, 2))]
    model = FallbackModel(scripted("a", bad), scripted("b", ["good ", Delay(2), "word"]), check=empty_word)
    assert run_virtual(timeline(model)) == [(3.0, "retry 1 to b"), (5.0, "good "), (5.0, "word")]


def test_a_bad_answer_is_shown_and_void():
    model = FallbackModel(
        scripted("a", ["bad ", Delay(3), "word"]), scripted("b", "good"), check=empty_word, after_content="restart"
    )
    assert run_virtual(timeline(model)) == [(0.0, "bad "), (3.0, "word"), (3.0, "retry 1 to b void"), (3.0, "good")]


@pytest.mark.parametrize("after_content", ["error", "restart"])
def test_what_a_bad_answer_cost_is_counted(after_content):
    bad = ["bad", ChatResponse(usage=ChatUsage(5, 2))]
    good = ["good", ChatResponse(usage=ChatUsage(7, 1))]
    model = FallbackModel(scripted("a", bad), scripted("b", good), check=empty_word, after_content=after_content)
    gather = answer(model)
    assert gather.blocks() == (TextBlock("good"),)
    assert gather.usage == ChatUsage(12, 3)
    assert list(gather.costs) == [(None, ChatUsage(5, 2)), ("b", ChatUsage(7, 1))]


def test_when_all_answers_are_bad_the_last_reason_is_the_error():
    model = FallbackModel(scripted("a", "bad"), scripted("b", "bad, too"), check=empty_word)
    with pytest.raises(BadAnswerError, match="model b did not pass the check: it says nothing") as caught:
        run_virtual(model.stream(HI))
    assert (caught.value.model, caught.value.reason) == ("b", "it says nothing")
    assert "a: BadAnswerError" in caught.value.__notes__[0]


def test_the_check_sees_the_whole_answer():
    seen: list[Msg] = []
    model = FallbackModel(
        scripted("a", ["so ", call("tool", x=1), "on"]), scripted("b", "b"), check=lambda m: seen.append(m)
    )
    answer(model)
    (message,) = seen
    assert (message.name, [type(block).__name__ for block in message.content]) == (
        "a",
        ["TextBlock", "ToolUseBlock"],
    )
    assert message.text == "so on" and message.tool_calls[0].input == {"x": 1}


def test_an_attempt_that_a_model_discards_itself_is_not_checked():
    restarts = ExecutionConfig(max_attempts=2, wait=wait_fixed(0), after_content="restart")
    first = scripted("a", ["bad", BROKEN], "good", config=restarts)
    model = FallbackModel(first, scripted("b", "never"), check=empty_word)
    assert run_virtual(timeline(model)) == [(0.0, "retry 1"), (0.0, "good")]


def test_a_check_that_fails_is_the_error():
    def check(message: Msg) -> str | None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_virtual(FallbackModel(scripted("a", "x"), scripted("b", "y"), check=check).stream(HI))


# --- deadlines, disposal -----------------------------------------------------------------------------------------


def test_a_calls_total_timeout_bounds_all_models_together():
    options = GenerateOptions(execution_config=ExecutionConfig(total_timeout=5))
    model = FallbackModel(scripted("a", [Delay(3), BROKEN]), scripted("b", [HANG]), scripted("c", "never"))
    assert run_virtual(timeline(model, options)) == [(3.0, "retry 1 to b"), (5.0, "ModelTimeoutError")]
    late = FallbackModel(scripted("a", [HANG]), scripted("b", "never"))
    with pytest.raises(ModelTimeoutError) as caught:
        run_virtual(late.stream(HI, options=options))
    assert caught.value.which == "overall" and late.models[1].requests == []


def test_a_models_own_total_timeout_leads_to_the_next():
    short = ExecutionConfig(max_attempts=1, total_timeout=5)
    model = FallbackModel(scripted("a", [HANG], config=short), scripted("b", "b"))
    assert run_virtual(timeline(model)) == [(5.0, "retry 1 to b"), (5.0, "b")]


@pytest.mark.parametrize("at", [0.5, 1.5, 2.5, 3.5])
def test_disposal_ends_it_wherever_it_is(at):
    first = scripted(
        "a", [Delay(1), BROKEN], [Delay(1), BROKEN], config=ExecutionConfig(wait=wait_fixed(1.0), max_attempts=2)
    )
    second = scripted("b", [Delay(1), "b", HANG])
    model = FallbackModel(first, second)

    async def main() -> None:
        seen: list[ChatResponse] = []
        subscription = model.stream(HI).subscribe(seen.append)
        await asyncio.sleep(at)
        subscription.dispose()
        count = len(seen)
        await asyncio.sleep(100)
        assert len(seen) == count

    run_virtual(main())
    assert len(first.requests) + len(second.requests) == {0.5: 1, 1.5: 1, 2.5: 2, 3.5: 3}[at]


# --- in an agent -------------------------------------------------------------------------------------------------


def test_an_agent_remembers_only_the_answer_that_was_used():
    first = scripted("a", [Delay(1), "half a ", ChatResponse(usage=ChatUsage(10, 1)), BROKEN])
    second = scripted("b", ["whole", ChatResponse(usage=ChatUsage(10, 2))])
    friday = ReActAgent(
        "Friday",
        FallbackModel(first, second, after_content="restart"),
        limits=UsageLimits(cost=100.0, prices={"a": Price(1e6, 1e6), "b": Price(0, 1e6)}),
    )

    async def main() -> list:
        events, runs = [], ()
        async for event in friday.stream("go"):
            runs = friday.runs or runs
            events.append(event)
        stats = runs[0].stats()
        assert (stats.model_retries, stats.cost, stats.usage) == (1, 13.0, ChatUsage(20, 3))
        return events

    events = run_virtual(main())
    (retry,) = [event for event in events if isinstance(event, RetryEvent)]
    assert (retry.discarded, retry.model_name, retry.error_type) == (True, "b", "ModelConnectionError")
    (post,) = [event for event in events if isinstance(event, PostReasoningEvent)]
    assert (post.model_name, post.message.text, post.usage) == ("b", "whole", ChatUsage(20, 3))
    assert [message.text for message in fold(events).history] == ["go", "whole"]


def test_an_interruption_keeps_what_the_model_in_turn_has_said():
    friday = ReActAgent("Friday", FallbackModel(scripted("a", BROKEN), scripted("b", ["so far ", HANG])))

    async def main() -> list[str]:
        task = friday.call("go").as_task()
        await asyncio.sleep(1)
        assert friday.interrupt("stop")
        assert (await task).text == "stop"
        return [message.text for message in await friday.memory.get()]

    assert "so far " in run_virtual(main())


def test_prices_of_all_models_are_checked_before_any_request():
    model = FallbackModel(scripted("a", "x"), scripted("b", "y"))
    friday = ReActAgent("Friday", model, limits=UsageLimits(cost=1.0, prices={"a": Price(1, 1)}))
    with pytest.raises(ConfigurationError, match="no price for the model 'b'"):
        run_virtual(friday.call("go"))
    assert model.models[0].requests == []


# --- what it is --------------------------------------------------------------------------------------------------


def test_it_is_the_first_model_in_name_and_supports_what_all_do():
    first = scripted("a", output_modes=("native", "tool"))
    model = FallbackModel(first, scripted("b", output_modes=("tool", "prompted")))
    assert (model.model_name, model.provider, model.output_modes) == ("a", "scripted", frozenset(("tool",)))
    assert model.model_names == ("a", "b")
    assert FallbackModel(model, scripted("c")).model_names == ("a", "b", "c")
    assert repr(model) == "FallbackModel(ScriptedModel('a'), ScriptedModel('b'))"


@pytest.mark.parametrize(
    ("models", "options", "says"),
    [
        ((), {}, "at least two"),
        ((scripted("a"),), {}, "at least two"),
        ((scripted("a"), 5), {}, "wraps a model"),
        ((scripted("a"), "b"), {}, "such as openai:b, not 'b'"),
        ((scripted("a"), scripted("b")), {"when": 5}, "when must be"),
        ((scripted("a"), scripted("b")), {"check": 5}, "check must be"),
        ((scripted("a"), scripted("b")), {"after_content": "x"}, "after_content must be"),
    ],
)
def test_what_it_cannot_be_made_of(models, options, says):
    with pytest.raises(ConfigurationError, match=says):
        FallbackModel(*models, **options)


# --- the law -----------------------------------------------------------------------------------------------------

ends = st.sampled_from(["ok", "error", "bad", "empty", "broken off"])


@given(st.lists(ends, min_size=2, max_size=5), st.booleans(), st.booleans())
def test_the_first_model_that_answers_wins_and_none_overlap(ends, restarts, checks):
    running: list[str] = []

    class Watched(ScriptedModel):
        def do_stream(self, messages, tools, options):
            from agentscope_rx.reactive import Outcome, just, using

            def begin(name: str):
                assert running == []
                running.append(name)
                return ScriptedModel.do_stream(self, messages, tools, options)

            def end(name: str, ending: Outcome) -> None:
                running.remove(name)

            return using(lambda: just(self.model_name), begin, end)

    turns = {
        "ok": ["good ", Delay(1), "word"],
        "error": [Delay(1), BROKEN],
        "bad": ["bad", Delay(1)],
        "empty": [],
        "broken off": ["half", Delay(1), BROKEN],
    }
    models = [Watched(turns[end], model_name=str(i), execution_config=ONCE) for i, end in enumerate(ends)]
    model = FallbackModel(
        *models, check=empty_word if checks else None, after_content="restart" if restarts else "error"
    )
    # what the law says
    held = checks and not restarts
    winner, failed = None, False
    for index, end in enumerate(ends):
        if end == "ok" or (end == "bad" and not checks):
            winner = index
            break
        if end == "broken off" and not restarts and not held:
            failed = True
            break
    try:
        gather = answer(model)
    except (ModelConnectionError, BadAnswerError, EmptyResponseError):
        assert winner is None
    else:
        assert winner is not None and not failed
        assert gather.blocks() == (TextBlock("good word" if ends[winner] == "ok" else "bad"),)
        assert (gather.model or "0") == str(winner)
    assert running == []
    asked = [bool(each.requests) for each in models]
    assert asked == sorted(asked, reverse=True)
    if winner is not None:
        assert sum(asked) == winner + 1
