"""Operators around a stage or a call: events that report memory come out once; memory is never written twice."""

from __future__ import annotations

import asyncio

import pytest
import reactivex as rx
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import Approve, InMemoryMemory, ReActAgent, StructuredOutput, TextBlock, hook, tool
from agentscope_rx.errors import AgentScopeError, HookError, ModelConnectionError
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    RetryEvent,
)
from agentscope_rx.hooks import around
from agentscope_rx.reactive import RetryPolicy, catch, concat, empty, just, retry, throw, timeout
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, types
from tests.hooks.around_parts import Watched, watch

DOWN = ModelConnectionError("down")
FOR_EVER = retry(RetryPolicy(stop=lambda state: False, discards=True))


def run(kind, operator, *turns, **options) -> Watched:
    options.setdefault("max_iters", 5)
    hooks = [around(kind, operator), *options.pop("hooks", ())]
    return watch(agent(ScriptedModel(*turns), hooks=hooks, **options))


SCRIPT = (call("weather", "c1", city="Rome"), ["Sun", "ny."])


# --- what passes ----------------------------------------------------------------------------------------------------


def is_preview(event: Event) -> bool:
    return isinstance(event, (ReasoningChunkEvent, ActingChunkEvent, PreReasoningEvent, PreActingEvent))


@pytest.mark.parametrize("kind", ["call", "stage", "reasoning", "acting"])
def test_what_is_dropped_of_the_previews_is_not_shown(kind):
    watched = run(kind, ops.filter(lambda event: not is_preview(event)), *SCRIPT)
    assert watched.error is None and watched.reply == "Sunny."
    dropped = {"reasoning_chunk", "acting_chunk", "pre_reasoning", "pre_acting"} - set(watched.types)
    names = {"call": 4, "stage": 4, "reasoning": 2, "acting": 2}
    assert len(dropped) == names[kind]


def test_chunks_may_be_changed_and_added():
    def louder(source, request):
        def loud(event):
            if isinstance(event, ReasoningChunkEvent) and event.text:
                return event.replace(delta=TextBlock(event.text.upper()))
            return event

        return concat(just(ReasoningChunkEvent(delta=TextBlock("> "))), source.pipe(ops.map(loud)))

    watched = run("reasoning", louder, ["Sun", "ny."])
    assert [event.text for event in watched.of(ReasoningChunkEvent) if event.text] == ["> ", "SUN", "NY."]
    assert watched.reply == "Sunny."
    assert {event.run_id for event in watched.events} == {watched.events[0].run_id}


@pytest.mark.parametrize("kind", ["call", "stage"])
def test_a_slow_operator_delays_what_follows(kind):
    watched = run(kind, ops.delay(1.0), *SCRIPT)
    assert watched.types == watch(agent(ScriptedModel(*SCRIPT))).types
    assert watched.times[-1] == (1 if kind == "call" else 3) and watched.reply == "Sunny."


def test_events_of_a_write_that_are_held_back_come_out_once():
    """A run that fails meanwhile emits those that have not come out."""

    @tool
    async def then_fail() -> str:
        """Sleeps."""
        await asyncio.sleep(1)
        return "slept"

    @hook(PostActingEvent)
    def second(event):
        if event.tool_use.id == "b":
            raise ValueError("the second one")

    calls = [call("weather", "a", city="Rome"), call("then_fail", "b")]
    model = ScriptedModel(calls, "never")
    friday = agent(model, tools=[weather_tool, then_fail], hooks=[around("acting", ops.delay(5.0)), second])
    watched = watch(friday)
    assert str(watched.error) == "the second one"
    assert [event.tool_use.id for event in watched.of(PostActingEvent)] == ["a", "b"]


@tool(name="weather")
async def weather_tool(city: str) -> str:
    """Sunny."""
    return f"Sunny in {city}"


# --- what is lost, doubled, changed ---------------------------------------------------------------------------------


def without(kind):
    return ops.filter(lambda event: not isinstance(event, kind))


def doubled(kind):
    return ops.flat_map(lambda event: just(event, event) if isinstance(event, kind) else just(event))


def changed(kind):
    return ops.map(lambda event: event.replace(seq=-1) if isinstance(event, kind) else event)


@pytest.mark.parametrize("spoilt", [without, doubled, changed])
@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("reasoning", PostReasoningEvent),
        ("stage", PostReasoningEvent),
        ("acting", PostActingEvent),
        ("call", PreCallEvent),
        ("call", PostReasoningEvent),
        ("call", PostActingEvent),
        ("call", PostCallEvent),
    ],
)
def test_an_event_that_reports_memory_passes_once(kind, event, spoilt):
    watched = run(kind, spoilt(event), *SCRIPT)
    assert isinstance(watched.error, HookError)
    assert watched.error.event == event.type and watched.error.hook == f"around({kind!r})"
    assert event.__name__ in str(watched.error) and "reports what memory has" in str(watched.error)
    assert watched.types.count("error") == 1


def test_a_summary_passes_once():
    model = (call("weather", city="Rome"), "Summed up.")
    watched = run("summarizing", ops.filter(lambda event: event.type != "post_summary"), *model, max_iters=1)
    assert isinstance(watched.error, HookError) and watched.error.event == "post_summary"


def test_events_that_report_memory_keep_their_order():
    calls = [call("weather", "a", city="Rome"), call("weather", "b", city="Oslo")]

    def swapped(source):
        return source.pipe(ops.to_list(), ops.flat_map(lambda events: rx.from_iterable(reversed(events))))

    watched = run("acting", swapped, calls, "never")
    assert isinstance(watched.error, HookError) and "order" in str(watched.error)


def test_a_made_event_that_reports_memory_is_refused():
    def forged(source):
        return concat(source, just(PostReasoningEvent()))

    watched = run("reasoning", forged, "Hi.")
    assert isinstance(watched.error, HookError) and "made one" in str(watched.error)


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        (lambda source: empty(), "not begun"),
        (ops.take(1), "not completed"),
        (lambda source: just(PreReasoningEvent()), "not begun"),
        (ops.take_while(lambda event: event.type != "post_reasoning"), "PostReasoningEvent"),
        (ops.map(lambda event: "text"), "must emit events, not str"),
        (lambda source: [], "must return an Observable, not list"),
    ],
)
def test_a_stage_must_come_to_its_end(operator, says):
    watched = run("reasoning", operator, ["Sun", Delay(1), "ny."])
    assert isinstance(watched.error, HookError) and says in str(watched.error)


@pytest.mark.parametrize("kind", ["reasoning", "call"])
def test_a_failed_stage_cannot_be_completed(kind):
    watched = run(kind, catch(lambda error: empty()), [DOWN])
    assert isinstance(watched.error, HookError) and watched.error.__cause__ is DOWN
    assert "has failed" in str(watched.error)


def test_an_error_may_be_replaced_by_another():
    watched = run("call", catch(lambda error: throw(AgentScopeError("Try later."))), [DOWN])
    assert type(watched.error) is AgentScopeError and str(watched.error) == "Try later."
    assert watched.of(ErrorEvent)[0].error is watched.error


def test_a_timeout_around_a_stage_fails_the_run():
    watched = run("acting", timeout(total=2), call("slow", "c1", seconds=9))
    assert watched.times[-1] == 2 and "Raised by hook around('acting') on around_acting" in watched.error.__notes__[0]
    (event,) = watched.of(PostActingEvent)
    assert event.result.is_error


# --- further attempts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", [ops.retry(3), FOR_EVER], ids=["stock", "ours"])
@pytest.mark.parametrize("kind", ["reasoning", "stage"])
def test_a_round_may_be_tried_again_before_memory_is_written(kind, operator):
    watched = run(kind, operator, [DOWN], ["Sun", DOWN], ["Sunny."])
    assert watched.reply == "Sunny."
    kinds = [each for each in watched.types if each in ("pre_reasoning", "reasoning_chunk", "retry", "post_reasoning")]
    assert kinds == [
        "pre_reasoning",
        # nothing was shown of the first
        *("pre_reasoning", "reasoning_chunk"),
        *("retry", "pre_reasoning", "reasoning_chunk"),
        "post_reasoning",
    ]
    (event,) = watched.of(RetryEvent)
    assert event.discarded and event.stage == "model" and (event.attempt, event.error_text) == (2, "down")


def test_a_round_is_tried_again_after_an_error_of_its_hooks():
    tries: list[int] = []

    @hook(PostReasoningEvent)
    def refuse(event):
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not this one")

    watched = run("reasoning", ops.retry(2), ["One."], ["Two."], hooks=[refuse])
    assert watched.reply == "Two." and len(watched.of(RetryEvent)) == 1
    assert [message.text for message in (watched.events[-1].message,)] == ["Two."]


def test_hooks_on_retries_see_those_of_an_operator():
    seen: list[bool] = []

    @hook(RetryEvent)
    def note(event):
        seen.append(event.discarded)

    watched = run("reasoning", ops.retry(2), ["a", DOWN], ["b"], hooks=[note])
    assert seen == [True] and watched.reply == "b"


@pytest.mark.parametrize("operator", [ops.retry(), ops.retry(5), FOR_EVER], ids=["for ever", "five times", "ours"])
@pytest.mark.parametrize("kind", ["acting", "call"])
def test_no_attempt_after_memory_was_written(kind, operator):
    """Not even the operator that would try for ever."""

    @hook(PostActingEvent)
    def broken(event):
        if event.tool_use.id == "b":
            raise ValueError("the second one")

    calls = [call("weather", "a", city="Rome"), call("weather", "b", city="Oslo")]
    watched = run(kind, operator, calls, calls, hooks=[broken])
    assert isinstance(watched.error, HookError) and "had written to memory" in str(watched.error)
    assert str(watched.error.__cause__) == "the second one"
    assert [event.tool_use.id for event in watched.of(PostActingEvent)] == ["a", "b"]


def test_tools_run_again_if_nothing_was_written():
    tries: list[int] = []

    @hook(PostActingEvent)
    def refuse(event):
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not this one")

    calls = [call("weather", "a", city="Rome"), call("weather", "b", city="Oslo")]
    watched = run("acting", ops.retry(2), calls, "Sunny.", hooks=[refuse])
    assert watched.reply == "Sunny."
    assert {event.tool_use_id for event in watched.of(RetryEvent)} == {"a"}
    assert {event.stage for event in watched.of(RetryEvent)} == {"tool"}
    assert types(watched.events).count("post_acting") == 2


def test_a_call_may_be_tried_again_before_its_input_is_taken():
    tries: list[int] = []

    @hook(PreCallEvent)
    def refuse(event):
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")

    watched = run("call", ops.retry(3), "Hi.", hooks=[refuse])
    assert watched.reply == "Hi." and watched.types.count("pre_call") == 1 and len(tries) == 3


@pytest.mark.parametrize("kind", ["reasoning", "call"])
def test_no_attempt_after_completion(kind):
    watched = run(kind, ops.repeat(2), "One.", "Two.")
    assert isinstance(watched.error, HookError) and "again after it had completed" in str(watched.error)


@pytest.mark.parametrize("kind", ["reasoning", "call"])
def test_no_two_attempts_at_once(kind):
    watched = run(kind, lambda source: rx.merge(source, source), [Delay(1), "One."], "Two.")
    assert isinstance(watched.error, HookError) and "a second time while it was running" in str(watched.error)


def test_an_attempt_that_a_timeout_ended_may_be_tried_again():
    watched = run(
        "reasoning", lambda source: source.pipe(ops.timeout(2.0), ops.retry(2)), ["a", HANG], ["In ", "time."]
    )
    assert watched.reply == "In time." and len(watched.of(RetryEvent)) == 1


def test_a_failing_write_is_not_tried_again():
    """The write may have arrived."""

    class Broken(InMemoryMemory):
        def add(self, messages):
            if messages[0].role.value == "assistant":
                return throw(OSError("disk full"))
            return super().add(messages)

    watched = run("reasoning", ops.retry(2), "One.", "Two.", memory=Broken())
    assert isinstance(watched.error, HookError) and isinstance(watched.error.__cause__, OSError)


def test_a_granted_round_is_granted_to_its_further_attempts():
    """The last chance for a structured output, past the limit of rounds."""
    shape = StructuredOutput({"type": "object", "properties": {"city": {"type": "string"}}})
    model = ScriptedModel(call("weather", city="Rome"), [DOWN], call("generate_response", city="Rome"))
    friday = agent(model, hooks=[around("reasoning", ops.retry(2))], max_iters=1)
    watched = run_virtual(_output(friday, shape))
    assert watched.error is None and watched.events[-1].message.structured() == {"city": "Rome"}


async def _output(friday, shape):
    watched = Watched()
    async for event in friday.stream("hi", output=shape):
        watched.events.append(event)
    assert_whole(friday)
    return watched


def test_pending_calls_are_approved_through_operators():
    @tool(requires_approval=True)
    def send(amount: int) -> str:
        """Sends."""
        return f"sent {amount}"

    passing = ops.do_action(lambda event: None)
    model = ScriptedModel(call("send", "c1", amount=3), "Done.")
    friday = agent(model, tools=[send], hooks=[around("stage", passing), around("call", passing)])
    assert run_virtual(friday.call("hi")).generate_reason == "approval_required"
    watched = watch(friday, Approve("c1"))
    assert watched.reply == "Done." and watched.of(PostActingEvent)[0].result.text == "sent 3"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["ok", "down", "half", "tool"]), min_size=1, max_size=5),
    st.lists(
        st.tuples(st.sampled_from(["call", "stage", "reasoning", "acting", "model", "tool"]), st.integers(0, 4)),
        max_size=4,
    ),
)
def test_memory_is_what_the_events_say(turns: list[str], hooks: list[tuple[str, int]]):
    """Whatever the script and the operators are; `watch` compares them."""
    operators = [
        ops.retry(3),
        ops.delay(0.25),
        ops.do_action(lambda item: None),
        ops.filter(lambda item: not (isinstance(item, Event) and is_preview(item))),
        lambda source: source.pipe(ops.take(2)),
    ]
    played = {
        "ok": ["fi", "ne"],
        "down": [DOWN],
        "half": ["ha", DOWN],
        "tool": [call("weather", city="Rome"), call("slow", seconds=1)],
    }
    model = ScriptedModel(*[played[turn] for turn in turns], "end", repeat=True)
    watch(agent(model, hooks=[around(kind, operators[which]) for kind, which in hooks], max_iters=3))


# --- sub-agents -----------------------------------------------------------------------------------------------------


def test_no_attempt_after_a_sub_agent_has_written_to_its_memory():
    @hook(PostActingEvent)
    def refuse(event):
        raise ValueError("not this one")

    inner = ReActAgent("Inner", ScriptedModel("One.", "Two."))
    outer = ReActAgent(
        "Outer",
        ScriptedModel(call("call_inner", "c1", message="?"), "Done."),
        tools=[inner],
        hooks=[around("acting", ops.retry(2)), refuse],
    )
    watched = watch(outer)
    assert isinstance(watched.error, HookError) and "had written to memory" in str(watched.error)


def test_nothing_comes_after_the_end_of_a_call():
    late = around("call", ops.concat(rx.defer(lambda _: rx.just(ReasoningChunkEvent()))))
    watched = watch(agent(ScriptedModel("Hi."), hooks=[late]))
    assert isinstance(watched.error, HookError)
    assert "ReasoningChunkEvent after the PostCallEvent" in str(watched.error)
