"""`Hook.notices`: events of a hook's own before a model request and at the end; every kind of end, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent, UsageLimits, tool
from agentscope_rx.errors import ConfigurationError, HookError, UsageLimitError
from agentscope_rx.events import CitationEvent, Event, PlanEvent, RetrievalEvent, fold
from agentscope_rx.hooks import Hook, NoticeRequest, hook
from agentscope_rx.messages import ChatUsage, GenerateReason
from agentscope_rx.reactive import Flow, just, throw, timer
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import ToolContext, ToolNotice
from tests.agent.parts import assert_whole


class Reports(Hook):
    """Reports what `answer` gives."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[NoticeRequest] = []

    def notices(self, request: NoticeRequest) -> Any:
        self.asked.append(request)
        return self.answer(request)


def before(which: str, what: Any) -> Reports:
    return Reports(lambda request: what if request.before == which else None)


def events_of(agent: ReActAgent, text: str = "hi") -> list[Event]:
    return run_virtual(agent.stream(text).pipe(ops.to_list()))


def names(events: list[Event]) -> list[str]:
    return [each.type for each in events if not each.type.endswith("_chunk")]


@tool
def nothing() -> str:
    """Does nothing."""
    return "done"


def test_a_notice_comes_before_its_moment_and_is_numbered():
    reports = Reports(lambda request: CitationEvent() if request.before == "end" else RetrievalEvent())
    agent = ReActAgent("Friday", ScriptedModel(call("nothing"), "Hello."), tools=[nothing], hooks=[reports])
    events = events_of(agent)
    assert names(events) == [
        "pre_call",
        *("retrieval", "pre_reasoning", "post_reasoning", "pre_acting", "post_acting"),
        *("retrieval", "pre_reasoning", "post_reasoning", "citation", "post_call"),
    ]
    assert [each.seq for each in events] == list(range(len(events)))
    assert {each.run_id for each in events} == {events[0].run_id} and events[1].agent == "Friday"
    last = reports.asked[-1]
    assert last.reply is not None and last.reply.text == "Hello." and last.model is None
    assert reports.asked[0].model is agent.model and [each.iteration for each in reports.asked] == [0, 1, 0]


def test_a_summary_is_a_moment_too():
    reports = before("summary", RetrievalEvent(question="?"))
    model = ScriptedModel(call("nothing"), "So far.")
    agent = ReActAgent("Friday", model, tools=[nothing], hooks=[reports], max_iters=1)
    assert names(events_of(agent))[-4:] == ["retrieval", "pre_summary", "post_summary", "post_call"]


@pytest.mark.parametrize("answer", ["flow", "awaitable", "none", "many"])
def test_a_hook_may_take_its_time(answer: str):
    async def later(found: Event | None) -> Event | None:
        await asyncio.sleep(1)
        return found

    answers: dict[str, Any] = {
        "flow": timer(1).pipe(ops.map(lambda _: RetrievalEvent())),
        "awaitable": later(RetrievalEvent()) if answer == "awaitable" else None,
        "none": later(None) if answer == "none" else None,
        "many": just(RetrievalEvent(), PlanEvent()),
    }
    agent = ReActAgent("Friday", ScriptedModel("Hello."), hooks=[before("round", answers[answer])])
    expected = {"flow": 1, "awaitable": 1, "none": 0, "many": 2}[answer]
    assert len(names(events_of(agent))) == 4 + expected


def test_hooks_observe_notices():
    seen: list[str] = []

    @hook(RetrievalEvent)
    async def note(event: RetrievalEvent) -> None:
        await asyncio.sleep(1)
        seen.append(event.question)

    agent = ReActAgent("Friday", ScriptedModel("Hi."), hooks=[before("round", RetrievalEvent(question="q")), note])
    events_of(agent)
    assert seen == ["q"]


def test_tokens_of_a_notice_count_for_the_run_and_its_limits():
    spent = before("round", RetrievalEvent(usage=ChatUsage(90, 10), model_name="small"))
    agent = ReActAgent("Friday", ScriptedModel("Hello."), hooks=[spent])
    events = events_of(agent)
    assert fold(events).usage == ChatUsage(90, 10) and events[-1].usage == ChatUsage(90, 10)
    limited = ReActAgent("Friday", ScriptedModel("Hello."), hooks=[spent], limits=UsageLimits(model_calls=1))
    with pytest.raises(UsageLimitError):
        run_virtual(limited.call("hi"))
    assert_whole(limited)


def test_tokens_of_a_tool_that_retrieves_count_too():
    @tool
    def search(context: ToolContext) -> Flow[object]:
        """Searches."""
        event = RetrievalEvent(call_id=context.call.id, usage=ChatUsage(5, 1), model_name="small")
        return just(ToolNotice(context.call, event), "found")

    seen: list[str] = []

    @hook(RetrievalEvent)
    def note(event: RetrievalEvent) -> None:
        seen.append(event.call_id)

    agent = ReActAgent("Friday", ScriptedModel(call("search"), "Hello."), tools=[search], hooks=[note])
    events = events_of(agent)
    assert fold(events).usage == events[-1].usage == ChatUsage(5, 1) and len(seen) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda request: 3, HookError),
        (lambda request: just("x"), HookError),
        (lambda request: throw(ValueError("no")), ValueError),
    ],
)
@pytest.mark.parametrize("which", ["round", "end"])
def test_a_wrong_answer_fails_the_run(answer: Any, error: type[Exception], which: str):
    reports = Reports(lambda request: answer(request) if request.before == which else None)
    agent = ReActAgent("Friday", ScriptedModel("Hello."), hooks=[reports])
    with pytest.raises(error) as caught:
        run_virtual(agent.call("hi"))
    assert "Reports" in str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert_whole(agent)


def test_an_interruption_ends_the_work_of_a_hook():
    closed: list[str] = []
    slow = before(
        "round", timer(60).pipe(ops.map(lambda _: RetrievalEvent()), ops.finally_action(lambda: closed.append("x")))
    )

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel("Hello."), hooks=[slow])
        handle = agent.start("hi")
        await asyncio.sleep(1)
        handle.interrupt()
        reply = await handle.result()
        assert reply.generate_reason is GenerateReason.INTERRUPTED and asyncio.get_running_loop().time() < 5
        assert closed == ["x"]
        assert_whole(agent)

    run_virtual(main())


@pytest.mark.parametrize("which", ["round", "end"])
def test_disposal_ends_the_work_of_a_hook(which: str):
    closed: list[str] = []
    slow = before(
        which, timer(60).pipe(ops.map(lambda _: RetrievalEvent()), ops.finally_action(lambda: closed.append("x")))
    )

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel("Hello."), hooks=[slow])
        running = agent.stream("hi").subscribe(lambda event: None)
        await asyncio.sleep(1)
        running.dispose()
        await asyncio.sleep(1)
        assert closed == ["x"]
        assert_whole(agent)

    run_virtual(main())


def test_an_observer_has_no_notices():
    class Watching(Reports):
        observe_only = True

    with pytest.raises(ConfigurationError, match="observe_only"):
        ReActAgent("Friday", ScriptedModel("Hello."), hooks=[Watching(None)])


def test_a_hook_with_notices_alone_gets_no_events():
    assert Reports.kinds == ()
