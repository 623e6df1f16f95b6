"""A request that is too long: the hooks that compact are asked, and it is made once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from reactivex import operators as ops

from agentscope_rx import GenerateReason, Msg, ReActAgent, StructuredOutput, TextBlock, UsageLimits, hook, tool
from agentscope_rx.errors import ContextOverflowError, EmptyResponseError, ModelError, PromptTooLongError, ServerError
from agentscope_rx.events import (
    Event,
    PreReasoningEvent,
    ReasoningChunkEvent,
    RetryEvent,
    fold,
)
from agentscope_rx.hooks import around
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models import ExecutionConfig, FallbackModel, TruncatingModel
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.response import ChatResponse, FinishReason
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel, Turn
from tests.agent.compacting import SUMMARY, Compacts, look, requests, summarized, texts, with_short_results
from tests.agent.parts import agent, assert_whole, events_of, remembered, types, weather


def too_long() -> ContextOverflowError:
    return ContextOverflowError("the prompt has too many tokens", status=400)


def only_overflow(make: Callable[[CompactionRequest], Compaction | None] = lambda request: summarized(request, 2)):
    return Compacts(make, why=["overflow"])


def retries(events: Sequence[Event]) -> list[RetryEvent]:
    return [event for event in events if isinstance(event, RetryEvent)]


def test_a_refused_request_is_made_again_after_a_compaction():
    compacts = only_overflow()
    model = ScriptedModel(look(1), look(2), too_long(), "done")
    friday = agent(model, hooks=[compacts])
    events = run_virtual(events_of(friday, "hi"))
    assert requests(model)[2:] == [["hi", "c1", "c1", "c2", "c2"], [SUMMARY, "hi", "c2", "c2"]]
    at = types(events).index("context")
    assert types(events)[at - 1 : at + 4] == ["pre_reasoning", "context", "memory", "retry", "pre_reasoning"]
    (notice,) = retries(events)
    assert (notice.stage, notice.attempt, notice.discarded) == ("model", 1, False)
    assert notice.error_type == "ContextOverflowError"
    asked = compacts.asked[-1]
    assert asked.why == "overflow" and isinstance(asked.error, ContextOverflowError) and asked.iteration == 2
    assert asked.system_message is not None and asked.tools[0].name == "weather"
    assert [each.why for each in compacts.asked] == ["round", "round", "round", "overflow"], "not again as a round"
    assert list(fold(events).history) == list(remembered(friday))
    assert_whole(friday)


def test_what_was_shown_of_the_refused_answer_is_void():
    model = ScriptedModel(look(1), ["I th", too_long()], "done")
    friday = agent(model, hooks=[only_overflow(with_short_results)])
    events = run_virtual(events_of(friday, "hi"))
    (notice,) = retries(events)
    assert notice.discarded
    shown = [event.text for event in events if isinstance(event, ReasoningChunkEvent) and event.text]
    assert shown == ["I th", "done"] and texts(remembered(friday))[-1] == "done"
    half = events[: events.index(notice) + 1]
    assert fold(half).partial is None


def test_hints_are_neither_lost_nor_doubled():
    @hook(PreReasoningEvent)
    def remind(event: PreReasoningEvent) -> PreReasoningEvent:
        return event.with_hint(f"round {event.iteration}")

    model = ScriptedModel(look(1), too_long(), "done")
    friday = agent(model, hooks=[remind, only_overflow(with_short_results)])
    run_virtual(friday.call("hi"))
    assert [asked[-1] for asked in requests(model)] == ["round 0", "round 1", "round 1"]
    assert requests(model)[2].count("round 1") == 1


def test_input_that_came_meanwhile_is_in_the_new_request():
    compacts = only_overflow(with_short_results)
    model = ScriptedModel(look(1), [lambda _: friday.enqueue("and this") or (), too_long()], "done")
    friday = agent(model, hooks=[compacts])
    run_virtual(friday.call("hi"))
    assert requests(model)[-1] == ["hi", "c1", "c1", "and this"]


# --- the error stands ---------------------------------------------------------------------------------------------


def test_a_second_refusal_of_the_same_round_stands():
    compacts = only_overflow()
    model = ScriptedModel(look(1), look(2), too_long(), too_long())
    friday = agent(model, hooks=[compacts])
    with pytest.raises(ContextOverflowError) as caught:
        run_virtual(friday.call("hi"))
    assert caught.value.__notes__ == ["The request was made again after a compaction, and was too long again."]
    assert len(compacts.asked) == 4
    assert_whole(friday)


def test_each_round_may_be_refused_once():
    model = ScriptedModel(look(1), look(2), too_long(), look(3), too_long(), "done")
    friday = agent(model, hooks=[only_overflow()])
    events = run_virtual(events_of(friday, "hi"))
    assert len(retries(events)) == 2 and remembered(friday)[-1].text == "done"


def test_the_error_stands_if_nothing_was_made_smaller():
    model = ScriptedModel(too_long())
    friday = agent(model, hooks=[only_overflow(lambda request: None)])
    with pytest.raises(ContextOverflowError) as caught:
        run_virtual(friday.call("hi"))
    assert caught.value.__notes__ == ["The hooks that compact were asked, and have not made the conversation smaller."]


def test_without_a_hook_that_compacts_the_error_stands():
    with pytest.raises(ContextOverflowError) as caught:
        run_virtual(agent(ScriptedModel(too_long())).call("hi"))
    assert not hasattr(caught.value, "__notes__")


def test_another_error_asks_no_hook():
    compacts = Compacts(lambda request: None)
    friday = agent(ScriptedModel(ValueError("no")), hooks=[compacts])
    with pytest.raises(ValueError, match="no"):
        run_virtual(friday.call("hi"))
    assert [each.why for each in compacts.asked] == ["round"]


def test_the_error_of_a_hook_tells_of_the_refusal():
    def fails(request: CompactionRequest) -> Compaction:
        raise RuntimeError("summary failed")

    friday = agent(ScriptedModel(too_long()), hooks=[only_overflow(fails)])
    with pytest.raises(RuntimeError, match="summary failed") as caught:
        run_virtual(friday.call("hi"))
    assert any("because of ContextOverflowError" in note for note in caught.value.__notes__)


# --- the summary at the end ---------------------------------------------------------------------------------------


def test_a_refused_summary_is_made_again():
    model = ScriptedModel(look(1), too_long(), "what I have found")
    friday = agent(model, hooks=[only_overflow(with_short_results)], max_iters=1)
    events = run_virtual(events_of(friday, "hi"))
    assert [kind for kind in types(events) if kind in ("pre_summary", "retry", "post_summary")] == [
        "pre_summary",
        "retry",
        "pre_summary",
        "post_summary",
    ]
    assert remembered(friday)[-1].generate_reason is GenerateReason.MAX_ITERATIONS
    assert_whole(friday)


def test_a_refused_last_chance_is_granted_again():
    model = ScriptedModel(look(1), too_long(), '{"value": 4}')
    friday = agent(model, hooks=[only_overflow(with_short_results)], max_iters=1)
    schema = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
    reply = run_virtual(friday.call("hi", output=StructuredOutput(schema, mode="prompted")))
    assert reply.generate_reason is GenerateReason.STRUCTURED_OUTPUT


# --- usage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("charged", [False, True])
def test_a_refused_request_counts_if_it_was_charged(charged: bool):
    usage = [ChatResponse(usage=ChatUsage(500, 1))] if charged else []
    model = ScriptedModel(look(1), [*usage, too_long()], "done")
    friday = agent(model, hooks=[only_overflow(with_short_results)])
    counts: list[int] = []

    @hook(PreReasoningEvent, observe=True)
    def note(event: PreReasoningEvent) -> None:
        (run,) = friday.runs
        counts.append(run.stats().model_calls)

    friday.hooks.add(note)
    events = run_virtual(events_of(friday, "hi"))
    assert counts == [0, 1, 2 if charged else 1]
    assert fold(events).usage.input_tokens == (500 if charged else 0)


def test_a_limit_that_a_refused_request_reaches_ends_the_run():
    model = ScriptedModel(look(1), [ChatResponse(usage=ChatUsage(500, 1)), too_long()], "what I have found")
    limits = UsageLimits(input_tokens=400, on_limit="summary")
    friday = agent(model, hooks=[only_overflow(with_short_results)], limits=limits)
    reply = run_virtual(friday.call("hi"))
    assert reply.generate_reason is GenerateReason.LIMIT_REACHED


def test_the_round_is_not_counted_twice():
    model = ScriptedModel(look(1), too_long(), "done")
    friday = agent(model, hooks=[only_overflow(with_short_results)], max_iters=2)
    reply = run_virtual(friday.call("hi"))
    assert reply.text == "done" and reply.generate_reason is GenerateReason.MODEL_STOP


# --- through wrappers ---------------------------------------------------------------------------------------------


def scripted(*turns: Turn) -> ScriptedModel:
    return ScriptedModel(*turns)


def through_fallback(*turns: Turn) -> ChatModel:
    away = [ServerError("away", status=500)] * len(turns)
    return FallbackModel(ScriptedModel(*away), ScriptedModel(*turns))


def first_of_fallback(*turns: Turn) -> ChatModel:
    away = [ServerError("away", status=500) for turn in turns if isinstance(turn, Exception)]
    return FallbackModel(ScriptedModel(*turns), ScriptedModel(*away))


def through_retries(*turns: Turn) -> ChatModel:
    config = ExecutionConfig(max_attempts=3, initial_backoff=1.0)
    return ScriptedModel(ServerError("away", status=500), *turns, execution_config=config)


@pytest.mark.parametrize("make", [scripted, through_fallback, first_of_fallback, through_retries])
def test_it_is_found_through_wrappers(make: Callable[..., ChatModel]):
    compacts = only_overflow(with_short_results)
    friday = agent(make(look(1), too_long(), "done"), hooks=[compacts])
    reply = run_virtual(friday.call("hi"))
    assert reply.text == "done" and compacts.asked[-1].why == "overflow"


class WrappedError(ModelError):
    pass


def cause() -> Exception:
    error = WrappedError("gave up")
    error.__cause__ = too_long()
    return error


def context() -> Exception:
    error = WrappedError("gave up")
    error.__context__ = too_long()
    return error


def group() -> Exception:
    return ExceptionGroup("both failed", [ValueError("a"), cause()])


@pytest.mark.parametrize("make", [cause, context, group])
def test_it_is_found_behind_another_error(make: Callable[[], Exception]):
    friday = agent(ScriptedModel(look(1), make(), "done"), hooks=[only_overflow(with_short_results)])
    assert run_virtual(friday.call("hi")).text == "done"


def test_an_error_in_a_circle_of_causes_ends():
    one, other = WrappedError("one"), WrappedError("other")
    one.__cause__, other.__cause__ = other, one
    with pytest.raises(WrappedError, match="one"):
        run_virtual(agent(ScriptedModel(one), hooks=[only_overflow()]).call("hi"))


def test_a_truncating_model_whose_least_request_does_not_fit():
    """Truncation changes one request; when it cannot, the memory is compacted."""

    @tool(name="weather")
    async def long_report(city: str) -> str:
        """The weather at length."""
        return "word " * 300

    inner = ScriptedModel(look(1), "done")
    compacts = only_overflow(with_short_results)
    friday = agent(TruncatingModel(inner, max_tokens=300), tools=[long_report], hooks=[compacts])
    reply = run_virtual(friday.call("hi"))
    assert reply.text == "done" and isinstance(compacts.asked[-1].error, PromptTooLongError)
    assert len(inner.requests) == 2, "nothing was sent before"


# --- the place of it ----------------------------------------------------------------------------------------------


def test_an_operator_around_the_model_sees_the_refusal_first():
    seen: list[str] = []

    def watch(source, request):
        return source.pipe(ops.do_action(on_error=lambda error: seen.append(type(error).__name__)))

    friday = agent(
        ScriptedModel(look(1), too_long(), "done"), hooks=[around("model", watch), only_overflow(with_short_results)]
    )
    run_virtual(friday.call("hi"))
    assert seen == ["ContextOverflowError"]


@pytest.mark.parametrize("changed", [True, False])
def test_around_the_round_the_error_is_seen_if_it_stands(changed: bool):
    seen: list[str] = []

    def watch(source, request):
        return source.pipe(ops.do_action(on_error=lambda error: seen.append(type(error).__name__)))

    compacts = only_overflow(with_short_results if changed else lambda request: None)
    friday = agent(ScriptedModel(look(1), too_long(), "done"), hooks=[around("reasoning", watch), compacts])
    if changed:
        run_virtual(friday.call("hi"))
        assert seen == []
    else:
        with pytest.raises(ContextOverflowError):
            run_virtual(friday.call("hi"))
        assert seen == ["ContextOverflowError"]


def test_a_round_that_an_operator_tries_again_compacts_once():
    compacts = Compacts(above=2, make=lambda request: summarized(request, 0))

    def again(source, request):
        return source.pipe(ops.retry(2))

    model = ScriptedModel(look(1), ValueError("no"), "done")
    friday = agent(model, hooks=[around("reasoning", again), compacts])
    assert run_virtual(friday.call("hi")).text == "done"
    assert len(compacts.asked) == 2


def test_an_overridden_stage_sees_the_round_that_begins_again():
    seen: list[int] = []

    class Counting(ReActAgent):
        def reasoning(self, run, *, sent_back: bool = False):
            seen.append(run.iteration)
            return super().reasoning(run, sent_back=sent_back)

    model = ScriptedModel(look(1), [Delay(1), too_long()], "done")
    friday = Counting("Friday", model, tools=[weather], hooks=[only_overflow(with_short_results)])
    assert run_virtual(friday.call(Msg.user([TextBlock("hi")]))).text == "done"
    assert seen == [0, 1, 1]


@pytest.mark.parametrize("rounds", [5, 1], ids=["round", "summary"])
def test_a_window_in_which_the_least_request_does_not_fit(rounds: int):
    """A window changes one request; when it cannot, the memory is compacted."""

    @tool(name="weather")
    async def long_report(city: str) -> str:
        """The weather at length."""
        return "word " * 300

    model = ScriptedModel(look(1), "done")
    compacts = only_overflow(with_short_results)
    friday = agent(model, tools=[long_report], hooks=[compacts], memory_window=100, max_iters=rounds)
    events = run_virtual(events_of(friday, "hi"))
    assert remembered(friday)[-1].text == "done" and isinstance(compacts.asked[-1].error, PromptTooLongError)
    assert len(retries(events)) == 1 and len(model.requests) == 2
    with pytest.raises(PromptTooLongError):
        run_virtual(agent(ScriptedModel("x"), memory_window=100).call("word " * 300))


# --- answers that the window has cut off ------------------------------------------------------------------------------

FULL = "model_context_window_exceeded"


def cut_off(text: str = "The weather is", reason: str | None = FULL, output: int = 8) -> list[ChatResponse]:
    content = (TextBlock(text),) if text else ()
    return [ChatResponse(content, ChatUsage(900, output), FinishReason.LENGTH, reason)]


@pytest.mark.parametrize("answer", [cut_off(), cut_off(""), cut_off("", "length", 0), cut_off("", "length", 1)])
def test_an_answer_that_the_window_cuts_off_is_made_again(answer: list[ChatResponse]):
    compacts = only_overflow()
    model = ScriptedModel(look(1), look(2), answer, "done")
    friday = agent(model, hooks=[compacts])
    events = run_virtual(events_of(friday, "hi"))
    assert requests(model)[3] == [SUMMARY, "hi", "c2", "c2"]
    (notice,) = retries(events)
    assert notice.error_type == "ContextOverflowError" and notice.discarded is bool(answer[0].content)
    assert isinstance(compacts.asked[-1].error, ContextOverflowError)
    assert remembered(friday)[-1].text == "done"
    assert list(fold(events).history) == list(remembered(friday))
    assert_whole(friday)


def test_without_a_compaction_such_an_answer_stands():
    friday = agent(ScriptedModel(look(1), cut_off()), hooks=[Compacts(lambda request: None)])
    assert run_virtual(friday.call("hi")).text == "The weather is"
    friday = agent(ScriptedModel(look(1), cut_off()))
    assert run_virtual(friday.call("hi")).text == "The weather is"
    with pytest.raises(EmptyResponseError):
        run_virtual(agent(ScriptedModel(look(1), cut_off("")), hooks=[Compacts(lambda request: None)]).call("hi"))


def test_an_answer_is_made_again_once():
    friday = agent(ScriptedModel(look(1), look(2), cut_off("one"), cut_off("two")), hooks=[only_overflow()])
    events = run_virtual(events_of(friday, "hi"))
    assert len(retries(events)) == 1 and remembered(friday)[-1].text == "two"


def test_an_answer_at_its_own_limit_is_no_reason():
    compacts = only_overflow()
    friday = agent(ScriptedModel(look(1), look(2), cut_off("so far", "max_tokens")), hooks=[compacts])
    assert run_virtual(friday.call("hi")).text == "so far"
    with pytest.raises(EmptyResponseError):
        # (it has thought, and has shown nothing of that)
        run_virtual(agent(ScriptedModel(look(1), cut_off("", "length", 500)), hooks=[compacts]).call("hi"))
    assert "overflow" not in [each.why for each in compacts.asked]


def test_its_tokens_are_counted_once():
    friday = agent(ScriptedModel(look(1), look(2), cut_off(), "done"), hooks=[only_overflow()])
    events = run_virtual(events_of(friday, "hi"))
    usage = fold(events).usage
    assert usage is not None and usage.input_tokens == 900 and usage.output_tokens == 8
