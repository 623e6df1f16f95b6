"""Operators around a model call: what comes out is the answer, and an attempt that has failed is no part of it."""

from __future__ import annotations

import asyncio

import pytest
import reactivex as rx
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops
from tenacity import stop_after_attempt

from agentscope_rx import Hook, TextBlock, UsageLimits
from agentscope_rx.errors import DeadlineError, HookError, ModelConnectionError
from agentscope_rx.events import ReasoningChunkEvent, RetryEvent
from agentscope_rx.hooks import around
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.reactive import (
    RetryPolicy,
    catch,
    concat,
    concat_map,
    empty,
    from_awaitable,
    just,
    retry,
    throw,
    timeout,
)
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, remembered
from tests.hooks.around_parts import Watched, chunk, watch

DOWN = ModelConnectionError("down")


def shown(watched: Watched) -> list[str]:
    """The chunks of text, and where they are discarded."""
    found: list[str] = []
    for event in watched.events:
        if isinstance(event, ReasoningChunkEvent) and event.text:
            found.append(event.text)
        elif isinstance(event, RetryEvent):
            found.append("discarded" if event.discarded else "retry")
    return found


def run(operator, *turns, **options) -> tuple[Watched, ScriptedModel]:
    model = ScriptedModel(*turns, execution_config=options.pop("config", None))
    return watch(agent(model, hooks=[around("model", operator)], **options)), model


# --- the answer -----------------------------------------------------------------------------------------------------


def test_what_is_dropped_is_gone_from_the_message():
    kept = ops.filter(lambda response: not any("secret" in block.text for block in response.content))
    watched, _ = run(kept, ["A ", "secret", "word"])
    assert watched.reply == "A word" and shown(watched) == ["A ", "word"]


def test_what_is_changed_or_added_is_in_the_message():
    def louder(source):
        def loud(response):
            return chunk(response.content[0].text.upper()) if response.content else response

        return concat(just(chunk("> ")), source.pipe(ops.map(loud)), just(chunk("!")))

    assert run(louder, ["a", "b"])[0].reply == "> AB!"


def test_an_answer_needs_no_model_call():
    answers: dict[str, list[ChatResponse]] = {}

    def cached(source, request):
        key = request.messages[-1].text
        if key in answers:
            return rx.from_iterable(answers[key])
        kept = answers[key] = []
        return source.pipe(ops.do_action(kept.append))

    model = ScriptedModel(["Four", "teen"])
    friday = agent(model, hooks=[around("model", cached)])
    assert watch(friday, "7 + 7?").reply == "Fourteen"
    again = watch(friday, "7 + 7?")
    assert again.reply == "Fourteen" and shown(again) == ["Four", "teen"]
    assert len(model.requests) == 1


def test_a_tool_call_of_the_operator_is_made():
    def calls(source, request):
        return just(ChatResponse((call("weather", "c1", city="Rome"),))) if request.iteration == 0 else source

    watched, model = run(calls, "Sunny.")
    assert watched.reply == "Sunny." and "post_acting" in watched.types and len(model.requests) == 1


def test_an_operator_that_gives_nothing_gives_an_empty_answer():
    watched, _ = run(lambda source: empty(), "never")
    assert type(watched.error).__name__ == "EmptyResponseError"


def test_the_usage_of_what_passes_is_counted():
    usage = ChatUsage(10, 5)
    watched, _ = run(lambda source: just(ChatResponse((TextBlock("Hi."),), usage=usage)), "never")
    assert watched.events[-1].usage == usage


# --- further attempts -----------------------------------------------------------------------------------------------


def test_a_stock_retry_does_not_double_the_answer():
    watched, model = run(ops.retry(3), ["It is ", DOWN], ["It is ", "sunny", DOWN], ["It is ", "warm."])
    assert watched.reply == "It is warm." and len(model.requests) == 3
    assert shown(watched) == ["It is ", "discarded", "It is ", "sunny", "discarded", "It is ", "warm."]
    assert [(event.attempt, event.error_type) for event in watched.of(RetryEvent)] == [
        (1, "ModelConnectionError"),
        (2, "ModelConnectionError"),
    ]


def test_an_attempt_that_showed_nothing_discards_nothing():
    watched, _ = run(ops.retry(2), [DOWN], ["Sunny."])
    assert shown(watched) == ["retry", "Sunny."] and watched.reply == "Sunny."


def test_a_retry_that_is_exhausted_is_the_models_error():
    watched, _ = run(ops.retry(2), ["a", DOWN], ["b", DOWN])
    assert watched.error is DOWN and shown(watched) == ["a", "discarded", "b"]
    # it is the model's own error, and no hook has raised it
    assert not any("Raised by hook" in note for note in getattr(DOWN, "__notes__", ()))


def test_a_retry_that_announces_itself_is_announced_once():
    def notice(attempt):
        return ChatResponse(retry=RetryNotice(attempt.number, attempt.delay, attempt.error, attempt.discarded))

    policy = RetryPolicy(stop=lambda state: False, wait=lambda state: 2.0, discards=True)
    watched, _ = run(retry(policy, notice=notice), ["It is ", DOWN], ["warm."])
    assert shown(watched) == ["It is ", "discarded", "warm."] and watched.reply == "warm."
    assert [event.delay for event in watched.of(RetryEvent)] == [2.0]


def test_a_repeated_answer_replaces_the_first():
    watched, _ = run(ops.repeat(2), ["one"], ["two"])
    assert watched.reply == "two" and shown(watched) == ["one", "discarded", "two"]


def test_an_attempt_that_the_operator_ended_is_announced():
    watched, _ = run(
        lambda source: source.pipe(ops.timeout(1.0), ops.retry(2)), ["It is ", Delay(5), "late"], ["In time."]
    )
    assert watched.reply == "In time." and shown(watched) == ["It is ", "discarded", "In time."]
    (event,) = watched.of(RetryEvent)
    assert event.error_type == "HookError" and "has ended the attempt" in event.error_text


def test_what_stands_in_for_a_failed_attempt_replaces_it():
    fallback = ScriptedModel(["It is ", "warm."])

    def to_other(source, request):
        return source.pipe(catch(lambda error: fallback.stream(request.messages, request.tools)))

    watched, _ = run(to_other, ["It was ", "co", DOWN])
    assert watched.reply == "It is warm."
    assert shown(watched) == ["It was ", "co", "discarded", "It is ", "warm."]


def test_what_stands_in_for_nothing_discards_nothing():
    watched, _ = run(catch(lambda error: just(chunk("Sor"), chunk("ry."))), [DOWN])
    assert watched.reply == "Sorry." and shown(watched) == ["Sor", "ry."]


def test_two_attempts_at_once_are_the_operators_choice():
    watched, model = run(lambda source: rx.amb(source, source), [Delay(3), "slow"], [Delay(1), "fa", Delay(1), "st"])
    assert watched.reply == "fast" and shown(watched) == ["fa", "st"] and len(model.requests) == 2


def test_a_failing_attempt_beside_another_discards_nothing():
    def merged(source):
        return rx.merge(source.pipe(catch(lambda error: empty())), source)

    watched, _ = run(merged, [Delay(2), DOWN], [Delay(1), "a", Delay(2), "b"])
    assert watched.reply == "ab" and shown(watched) == ["a", "b"]


RETRIED = ExecutionConfig(max_attempts=3, after_content="restart")


@pytest.mark.parametrize(
    "operator",
    [
        ops.filter(lambda response: bool(response.content)),
        ops.delay(0.5),
        lambda source: source.pipe(ops.buffer_with_count(2), ops.flat_map(rx.from_iterable)),
    ],
    ids=["drops it", "holds it back", "collects"],
)
def test_a_notice_of_the_model_comes_out(operator):
    """An answer without it would hold the content of both attempts."""
    watched, _ = run(operator, ["a", "b", DOWN], ["c", "d"], config=RETRIED)
    assert watched.reply.endswith("cd") and "abcd" not in watched.reply
    last = len(shown(watched)) - 1 - shown(watched)[::-1].index("discarded")
    assert "".join(shown(watched)[last + 1 :]) == watched.reply


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from("xyz"), max_size=3), min_size=1, max_size=4), st.integers(1, 5), st.booleans())
def test_the_answer_is_that_of_the_last_attempt(attempts: list[list[str]], times: int, inner: bool):
    """Failing attempts, then one that succeeds: the answer, what is shown and memory agree."""
    turns = [[*pieces, DOWN] for pieces in attempts] + [["done"]]
    hooks = [around("model", ops.retry(times))]
    if inner:
        hooks.append(around("model", ops.retry(1), priority=200))
    watched = watch(agent(ScriptedModel(*turns), hooks=hooks))
    parts = " ".join(shown(watched)).replace("retry", "discarded").split("discarded")
    if times <= len(attempts):
        assert isinstance(watched.error, ModelConnectionError)
        expected = attempts[times - 1]
    else:
        assert watched.reply == "done"
        expected = ["done"]
    assert parts[-1].split() == expected


# --- errors ---------------------------------------------------------------------------------------------------------


def broken_at_subscription(source):
    def subscribe(observer, scheduler=None):
        raise ValueError("no subscription")

    return rx.create(subscribe)


def broken_at_once(source, request):
    raise ValueError("no operator")


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        (broken_at_once, "no operator"),
        (broken_at_subscription, "no subscription"),
        (ops.map(lambda response: 1 // 0), "division"),
        (lambda source: throw(ValueError("instead")), "instead"),
    ],
)
def test_an_error_of_the_operator_fails_the_run_with_a_note(operator, says):
    hook = around("model", operator)
    watched = watch(agent(ScriptedModel("Hi."), hooks=[hook]))
    assert says in str(watched.error)
    assert watched.error.__notes__ == [f"Raised by hook {hook.name} on around_model of agent Friday."]


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        (lambda source: 3, "must return an Observable, not int: 3"),
        (lambda source, request: None, "must return an Observable, not NoneType"),
        (ops.map(lambda response: "text"), "must emit ChatResponses, not str: 'text'"),
    ],
)
def test_an_operator_that_gives_no_responses_is_a_hook_error(operator, says):
    watched = watch(agent(ScriptedModel("Hi."), hooks=[around("model", operator)]))
    assert isinstance(watched.error, HookError) and watched.error.event == "around_model"
    assert says in str(watched.error)


def test_an_error_is_noted_by_the_hook_that_raised_it():
    class Inner(Hook):
        def around_model(self, source):
            return source.pipe(ops.map(lambda response: 1 // 0))

    outer = around("model", ops.do_action(lambda response: None), priority=1)
    watched = watch(agent(ScriptedModel("Hi."), hooks=[Inner(), outer]))
    assert isinstance(watched.error, ZeroDivisionError)
    assert watched.error.__notes__ == ["Raised by hook Inner on around_model of agent Friday."]


def test_a_deadline_of_the_operator_disposes_of_the_model():
    watched, model = run(timeout(total=2), ["a", Delay(5), "b"])
    assert isinstance(watched.error, DeadlineError) and watched.times[-1] == 2
    assert len(model.closed) == 1


# --- interruption, deadline, back-pressure ---------------------------------------------------------------------------


def test_an_interruption_ends_a_slow_operator_at_once():

    model = ScriptedModel(["a", Delay(1), "b", Delay(10), "c"])
    friday = agent(model, hooks=[around("model", ops.delay(0.5))])

    async def main():
        running = friday.call("hi").as_task()
        await asyncio.sleep(2)
        friday.interrupt()
        reply = await running
        return reply, asyncio.get_running_loop().time()

    reply, at = run_virtual(main())
    assert at == 2 and len(model.closed) == 1
    assert reply.generate_reason == "interrupted"
    assert [message.text for message in remembered(friday)][1] == "ab"


def test_the_deadline_of_a_run_bounds_an_operator():
    watched, _ = run(ops.delay(100), "late", limits=UsageLimits(deadline=3))
    assert type(watched.error).__name__ == "RunDeadlineError" and watched.times[-1] == 3


def test_a_slow_reader_slows_the_model_through_operators():

    made: list[int] = []

    def piece(number):
        def step(request):
            made.append(number)
            return "x"

        return step

    model = ScriptedModel([piece(number) for number in range(500)])
    passing = [
        around("model", ops.do_action(lambda response: None)),
        around("model", catch(lambda error: throw(error))),
    ]
    friday = agent(model, hooks=passing)

    async def main():
        async with friday.stream("hi") as events:
            async for event in events:
                if isinstance(event, ReasoningChunkEvent):
                    await asyncio.sleep(1)
                    break
        await friday.idle()

    run_virtual(main())
    assert len(made) < 200


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_an_answer_that_a_check_refuses_is_asked_for_again(later):
    """A stock operator tries again before it has disposed of the attempt before."""

    async def checked(response):
        await asyncio.sleep(1)
        return refuse(response)

    def refuse(response):
        if any("bad" in block.text for block in response.content):
            raise ValueError("a bad word")
        return response

    look = concat_map(lambda response: from_awaitable(checked(response))) if later else ops.map(refuse)
    watched, model = run(lambda source: source.pipe(look, ops.retry(3)), ["a ", "bad ", "word"], ["a good ", "word"])
    assert watched.reply == "a good word" and shown(watched) == ["a ", "discarded", "a good ", "word"]
    assert len(model.requests) == 2


def test_an_announcement_is_no_value_of_the_attempt():
    """For a retry of ours an attempt that has emitted is final; a first deadline counts from its beginning."""
    policy = RetryPolicy(stop=stop_after_attempt(4))
    watched, _ = run(lambda source: retry(policy)(timeout(first=2)(source)), [DOWN], [DOWN], [Delay(9), "late"], "Hi.")
    assert watched.reply == "Hi." and shown(watched) == ["retry", "retry", "retry", "Hi."]
    assert watched.times[-1] == 2
