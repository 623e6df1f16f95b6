"""Every event as hooks meet it in a run: order, what a change does, and what a hook that raises does (§22.3)."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import GenerateOptions, Hook, Msg, MsgRole, ReActAgent, ToolResultBlock, hook, tool
from agentscope_rx.errors import HookError
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    ReasoningChunkEvent,
    SummaryChunkEvent,
)
from agentscope_rx.reactive import just
from agentscope_rx.testing import ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import assert_whole, events_of, remembered, types, weather

PHASES = [PreCallEvent, PreReasoningEvent, PostReasoningEvent, PreActingEvent, PostActingEvent, PostCallEvent]
SUMMARY = [PreSummaryEvent, PostSummaryEvent]
CHUNKS = [ReasoningChunkEvent, ActingChunkEvent, SummaryChunkEvent]


def made(*hooks: Hook, turns=(call("weather", city="Rome"), "Sunny."), **options) -> ReActAgent:
    return ReActAgent(
        "Friday", ScriptedModel(*turns), "You are Friday.", tools=[weather], hooks=hooks, max_iters=1, **options
    )


# --- order -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("case 53", "§22.10", "W05")
@pytest.mark.parametrize("kind", [*PHASES, *SUMMARY, *CHUNKS])
def test_hooks_of_every_kind_come_by_priority_then_registration(kind):
    """§22.3 case 53, HookE2ETest#testHookPriorityOrder; equal priorities and async hooks of §22.10."""
    order: list[str] = []

    def noting(label: str, priority: int, *, late: bool = False) -> Hook:
        async def slow(event: Event) -> None:
            await asyncio.sleep(1)
            order.append(label)

        return hook(kind, priority=priority)(slow if late else lambda event: order.append(label))

    agent = made(
        noting("third", 100, late=True), noting("fifth", 500), noting("second", 1), noting("fourth", 100),
        noting("first", -1, late=True),
    )  # fmt: skip
    run_virtual(agent.call("hi"))
    assert order[:5] == ["first", "second", "third", "fourth", "fifth"]


@pytest.mark.spec("case 38")
def test_all_hooks_run_though_one_requests_a_stop():
    """§22.3 case 38, testMultipleHooksWithStop."""
    seen: list[str] = []
    stop = hook(PostReasoningEvent, priority=1)(lambda event: event.stop())
    agent = made(stop, hook(PostReasoningEvent)(lambda event: seen.append(event.message.tool_calls[0].name)))
    reply = run_virtual(agent.call("hi"))
    assert seen == ["weather"] and reply.tool_calls


@pytest.mark.spec("case 39", "case 40")
@pytest.mark.parametrize(("watched", "stops"), [("weather", True), ("other", False)])
def test_a_hook_may_stop_by_what_it_sees_in_the_message(watched, stops):
    """testHookCanInspectReasoningMessage, testStopOnFirstIteration: one model call."""

    @hook(PostReasoningEvent)
    def guard(event: PostReasoningEvent):
        return event.stop() if any(each.name == watched for each in event.message.tool_calls) else None

    agent = made(guard)
    run_virtual(agent.call("hi"))
    assert len(agent.model.requests) == (1 if stops else 2)


# --- the system message ------------------------------------------------------------------------------------------


@pytest.mark.spec("case 41")
@pytest.mark.parametrize(("prompt", "text"), [("You are Friday.", "You are Friday."), ("", None), (None, None)])
def test_the_prompt_comes_first_and_is_omitted_if_empty(prompt, text):
    """sysPrompt_isSeededIntoSystemMsg, emptySysPrompt_seedsNullSystemMsg."""
    seen: list[Msg | None] = []
    agent = ReActAgent(
        "Friday",
        ScriptedModel("x"),
        prompt,
        hooks=[hook(PreCallEvent)(lambda event: seen.append(event.system_message))],
    )
    run_virtual(agent.call("hi"))
    assert [message and message.text for message in seen] == [text]


@pytest.mark.spec("case 42", "case 46")
def test_pre_calls_system_message_holds_for_the_call_only():
    """Prepended to the model's input, appended text included; created if there was none."""

    @hook(PreReasoningEvent)
    def append(event: PreReasoningEvent):
        return event.append_system_content("Never guess.")

    agent = made(hook(PreCallEvent)(lambda event: event.replace(system_message=Msg.system("You are Monday."))), append)
    run_virtual(agent.call("hi"))
    for request in agent.model.requests[:1]:
        first = request.messages[0]
        assert (first.role, first.text) == (MsgRole.SYSTEM, "You are Monday.\nNever guess.")
    assert not [message for message in remembered(agent) if message.role is MsgRole.SYSTEM]
    bare = ReActAgent("Friday", ScriptedModel("x"), hooks=[append])
    run_virtual(bare.call("hi"))
    assert bare.model.requests[0].messages[0].text == "Never guess."


def test_appending_does_not_grow_from_round_to_round():
    @hook(PreReasoningEvent)
    def append(event: PreReasoningEvent):
        return event.append_system_content("Once.")

    agent = ReActAgent(
        "Friday", ScriptedModel(call("weather", city="Rome"), "x"), "Hi.", tools=[weather], hooks=[append]
    )
    run_virtual(agent.call("hi"))
    assert [request.messages[0].text for request in agent.model.requests] == ["Hi.\nOnce."] * 2


@pytest.mark.spec("W33", "case 43")
def test_history_and_input_are_apart():
    """§22.3 case 43 pins Java's one list of both; W33: here two fields, and only the input can be changed."""
    agent = made(turns=("One.", "Two."))
    run_virtual(agent.call("first"))
    seen: list[PreCallEvent] = []
    agent = ReActAgent(
        "Friday",
        ScriptedModel("Two."),
        memory=agent.memory,
        hooks=[hook(PreCallEvent)(lambda event: seen.append(event))],
    )
    run_virtual(agent.call("second"))
    assert [message.text for message in seen[0].history] == ["first", "One."]
    assert [message.text for message in seen[0].input] == ["second"]


@pytest.mark.spec("case 44")
def test_a_system_message_in_the_input_is_refused():
    """§22.3 case 44, hook_injectingSystemIntoTail_throws."""
    agent = made(hook(PreCallEvent)(lambda event: event.replace(input=(*event.input, Msg.system("Obey.")))))
    with pytest.raises(HookError, match="SYSTEM message"):
        run_virtual(agent.call("hi"))
    assert not remembered(agent)


# --- what may be changed -----------------------------------------------------------------------------------------

MARK = Msg.assistant("changed", "Friday")


@pytest.mark.spec("case 45", "case 53")
@pytest.mark.parametrize(
    ("kind", "change", "where"),
    [
        (PreCallEvent, lambda e: e.replace(input=(Msg.user("changed"),)), lambda a, r: remembered(a)[0].text),
        (PreReasoningEvent, lambda e: e.replace(messages=(Msg.user("changed"),)), lambda a, r: sent(a, 0)[1]),
        (PreReasoningEvent, lambda e: e.with_hint("changed"), lambda a, r: sent(a, 0)[-1]),
        (PreActingEvent, lambda e: e.replace(tool_use=e.tool_use.with_input({"city": "changed"})),
         lambda a, r: remembered(a)[2].tool_results[0].text.removeprefix("Sunny in ")),
        (PostActingEvent, lambda e: e.with_result(ToolResultBlock.of(e.tool_use, "changed")),
         lambda a, r: remembered(a)[2].tool_results[0].text),
        (PostReasoningEvent, lambda e: e.replace(message=MARK), lambda a, r: remembered(a)[1].text),
        (PreSummaryEvent, lambda e: e.replace(hints=(Msg.user("changed"),)), lambda a, r: sent(a, 1)[-1]),
        (PostSummaryEvent, lambda e: e.replace(message=MARK), lambda a, r: r.text),
        (PostCallEvent, lambda e: e.replace(message=e.message.replace(content="changed")), lambda a, r: r.text),
        (PostCallEvent, lambda e: e.replace(message=e.message.replace(content="changed")),
         lambda a, r: remembered(a)[-1].text),
    ],
    ids=lambda value: getattr(value, "type", ""),
)  # fmt: skip
@pytest.mark.parametrize("form", [lambda value: value, just], ids=["sync", "flow"])
def test_what_a_hook_changes_is_changed(kind, change, where, form):
    """§22.3 cases 45 and 53 (testModification, testPreActingEventModification)."""
    agent = made(hook(kind)(lambda event: form(change(event))))
    reply = run_virtual(agent.call("hi"))
    assert where(agent, reply) == "changed"
    assert_whole(agent)


def sent(agent: ReActAgent, index: int) -> list[str]:
    return [message.text for message in agent.model.requests[index].messages]


@pytest.mark.spec("case 48", "W35")
@pytest.mark.parametrize("kind", [PreReasoningEvent, PreSummaryEvent])
@pytest.mark.parametrize("override", [True, False])
def test_a_hooks_options_replace_the_agents_for_this_round(kind, override):
    """shouldAllowOverridingGenerateOptions, shouldReturnOriginalOptionsWhenNotOverridden; W35."""
    seen: list[GenerateOptions | None] = []

    @hook(kind)
    def options(event: PreReasoningEvent):
        if type(event) is not kind:
            return None
        seen.append(event.options)
        return event.replace(options=GenerateOptions(temperature=0.9)) if override else None

    agent = made(options, generate_options=GenerateOptions(temperature=0.1))
    run_virtual(agent.call("hi"))
    index = 0 if kind is PreReasoningEvent else 1
    temperatures = [request.options.temperature for request in agent.model.requests]
    assert seen[0] is not None and seen[0].temperature == 0.1
    assert temperatures[index] == (0.9 if override else 0.1)
    assert temperatures[1 - index] == 0.1


@pytest.mark.spec("case 45")
@pytest.mark.parametrize("kind", [PreCallEvent, PostCallEvent, PostReasoningEvent, PostSummaryEvent, PostActingEvent])
def test_what_must_not_be_none_is_refused(kind):
    """§22.3 case 45, testNullValidation."""
    field = "input" if kind is PreCallEvent else "message"
    agent = made(hook(kind)(lambda event: event.replace(**{field: None})))
    with pytest.raises(HookError, match=f"`{field}` must be"):
        run_virtual(agent.call("hi"))
    assert_whole(agent)


@pytest.mark.spec("W35")
def test_post_reasoning_says_what_was_asked_and_what_it_cost():
    """In Java reasoning events carry no options, and PostReasoning neither usage nor input."""
    seen: list[PostReasoningEvent] = []
    agent = made(hook(PostReasoningEvent)(lambda event: seen.append(event)))
    run_virtual(agent.call("hi"))
    assert seen[0].model_name == agent.model.model_name
    assert seen[0].options is not None
    assert [message.text for message in seen[0].messages] == ["You are Friday.", "hi"]


# --- hooks that raise --------------------------------------------------------------------------------------------


async def raise_later(event: Event) -> None:
    await asyncio.sleep(1)
    raise ZeroDivisionError(event.type)


def raise_now(event: Event) -> None:
    raise ZeroDivisionError(event.type)


@pytest.mark.spec("§22.10")
@pytest.mark.parametrize("kind", [*PHASES, *SUMMARY, *CHUNKS])
@pytest.mark.parametrize("failing", [raise_now, raise_later])
def test_a_failing_hook_fails_the_run_in_every_phase(kind, failing):
    """A hook raising in each phase. The error is its own; the events end with ErrorEvent."""
    agent = made(hook(kind)(failing))
    events: list[Event] = []
    with pytest.raises(ZeroDivisionError, match=kind.type):
        run_virtual(agent.stream("hi").pipe(ops.do_action(events.append)))
    last = events[-1]
    assert isinstance(last, ErrorEvent) and last.error_type == "ZeroDivisionError"
    assert not agent.running
    assert_whole(agent)


@pytest.mark.parametrize("kind", [*PHASES, *SUMMARY])
def test_hooks_after_a_failing_one_are_not_called(kind):
    seen: list[str] = []
    agent = made(
        hook(kind, priority=1)(raise_now),
        hook(kind, priority=2)(lambda event: seen.append("called")),
        hook(ErrorEvent)(lambda event: seen.append(event.error_text)),
    )
    with pytest.raises(ZeroDivisionError):
        run_virtual(agent.call("hi"))
    assert seen == [kind.type]


@pytest.mark.spec("W18", "§22.10")
def test_a_failing_error_observer_does_not_replace_the_error():
    """Error hook failing."""
    seen: list[str] = []
    agent = made(
        hook(PreCallEvent)(raise_now),
        hook(ErrorEvent, priority=1)(raise_later),
        hook(ErrorEvent, priority=2)(lambda event: seen.append(event.error_type)),
    )
    with collect_dropped() as dropped, pytest.raises(ZeroDivisionError, match="pre_call"):
        run_virtual(agent.call("hi"))
    assert seen == ["ZeroDivisionError"] and [str(error) for error in dropped] == ["error"]


# --- tools of hooks ----------------------------------------------------------------------------------------------


@pytest.mark.spec("case 47")
def test_a_hook_brings_tools_and_none_is_fine():
    """registersAgentToolsFromHook, registersMethodToolsFromHook, nullToolsListIgnored."""

    class Clock(Hook):
        """Brings a tool of its own state."""

        def __init__(self) -> None:
            self.told = 0

        def tools(self):
            @tool
            def clock() -> str:
                """Tells the time."""
                self.told += 1
                return "noon"

            return (clock,)

    hook_ = Clock()
    agent = made(hook_, Hook(), turns=(call("clock"), "Noon."))
    events = run_virtual(events_of(agent, "hi"))
    assert hook_.told == 1 and "post_acting" in types(events)
    assert agent.toolkit.names == ("weather", "clock")
