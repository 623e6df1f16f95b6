"""RetryEvent, MemoryEvent and ErrorEvent: hooks observe them on their way, and can neither change nor stop anything."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import reactivex as rx
from reactivex import operators as ops

from agentscope_rx import Approve, Hook, Msg, ReActAgent, StructuredOutput, ToolError, fold, hook, tool
from agentscope_rx.errors import ModelConnectionError, StructuredOutputError
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    MemoryEvent,
    PostCallEvent,
    PreCallEvent,
    ReasoningChunkEvent,
    RetryEvent,
)
from agentscope_rx.hooks import DROP, Hooks, hook_operator
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, just, never, throw
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, events_of, remembered, types

TWICE = ExecutionConfig(max_attempts=2, initial_backoff=1.0)
SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@tool
async def unlucky() -> str:
    """Fails, and may be tried again."""
    raise ToolError("no luck", retryable=True)


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Deletes."""
    return f"{path} is gone"


def failing_model() -> tuple[ReActAgent, dict[str, object]]:
    model = ScriptedModel(ModelConnectionError("broken"), "Hello", execution_config=TWICE)
    return agent(model), {}


def failing_tool() -> tuple[ReActAgent, dict[str, object]]:
    return agent(ScriptedModel(call("unlucky"), "Done."), tools=[unlucky], tool_execution_config=TWICE), {}


def with_output(*answers: str) -> tuple[ReActAgent, dict[str, object]]:
    model = ScriptedModel(*(answers or ("{}", '{"city": "Rome"}')), output_modes=["native"])
    return agent(model), {"output": StructuredOutput(SHAPE, mode="native", max_retries=1)}


OBSERVED = [(RetryEvent, failing_model), (RetryEvent, failing_tool), (MemoryEvent, with_output)]


def hooked(make, *hooks: Hook) -> tuple[ReActAgent, dict[str, object]]:
    """The same agent with these hooks."""
    bare, options = make()
    bare.hooks = Hooks(hooks, agent=bare.name)
    return bare, options


@pytest.mark.parametrize(("kind", "make"), OBSERVED)
def test_a_hook_of_the_kind_is_called_before_the_subscriber(kind, make):
    """Such a hook was never called, and nothing said so."""
    log: list[tuple[str, Event]] = []

    @hook(kind)
    async def observe(event: Event) -> None:
        await asyncio.sleep(1)
        assert event.agent == "Friday" and event.run_id and event.seq == -1
        log.append(("hook", event))

    someone, options = hooked(make, observe)

    async def main() -> None:
        async for event in someone.stream("hi", **options):
            log.append(("stream", event))

    run_virtual(main())
    places = [(where, event) for where, event in log if type(event) is kind]
    assert [where for where, _ in places] == ["hook", "stream"]
    assert places[0][1] is places[1][1]


@pytest.mark.parametrize(("kind", "make"), OBSERVED)
def test_observers_of_one_kind_and_of_all_events_go_by_priority(kind, make):
    order: list[str] = []

    class All(Hook):
        priority = 5

        def on_event(self, event: Event) -> None:
            if type(event) is kind:
                order.append("all")

    def noting(label: str, priority: int) -> Hook:
        return hook(kind, priority=priority)(lambda event: order.append(label))

    someone, options = hooked(make, noting("last", 900), noting("first", 1), All(), noting("base", 7))
    run_virtual(events_of(someone, "hi", **options))
    assert order == ["first", "all", "base", "last"]


ANSWERS = {
    "another": lambda event: event.replace(seq=77),
    "drop": lambda event: DROP,
    "of another class": lambda event: PreCallEvent(),
    "nonsense": lambda event: 3,
    "none": lambda event: rx.empty(),
    "two": lambda event: just(event, event),
    "flow": lambda event: rx.of(event).pipe(ops.delay(3)),
}


@pytest.mark.parametrize(("kind", "make"), OBSERVED)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_an_observer_answers_changes_nothing(kind, make, answer):
    plain, options = make()
    expected = types(run_virtual(events_of(plain, "hi", **options)))
    someone, options = hooked(make, hook(kind)(answer))
    events = run_virtual(events_of(someone, "hi", **options))
    assert types(events) == expected
    assert [event.seq for event in events] == list(range(len(events)))
    assert list(fold(events).history) == list(remembered(someone))


@pytest.mark.spec("W18")
@pytest.mark.parametrize(("kind", "make"), OBSERVED)
@pytest.mark.parametrize("failure", [lambda event: 1 / 0, lambda event: throw(ZeroDivisionError())])
def test_a_failing_observer_is_reported_and_passed_over(kind, make, failure):
    """W18 for the other observed events: what fails in an observer hides nothing from those behind it."""
    seen: list[Event] = []
    someone, options = hooked(make, hook(kind, priority=1)(failure), hook(kind, priority=2)(seen.append))
    with collect_dropped() as dropped:
        events = run_virtual(events_of(someone, "hi", **options))
    assert isinstance(events[-1], PostCallEvent) and [type(event) for event in seen] == [kind]
    assert [type(error) for error in dropped] == [ZeroDivisionError]
    assert dropped.where == [f"hook <lambda> on {kind.__name__} of agent Friday"]


@pytest.mark.parametrize(("kind", "make"), OBSERVED)
def test_a_run_disposed_while_an_observer_waits_ends_at_once(kind, make):
    """Disposal: the observer in progress is cancelled; the ones behind it are not called."""
    log: list[str] = []

    @hook(kind)
    async def waits(event: Event) -> None:
        log.append("begun")
        try:
            await asyncio.sleep(1000)
        finally:
            log.append("cancelled")

    someone, options = hooked(make, waits, hook(kind, priority=900)(lambda event: log.append("called")))

    async def main() -> None:
        running = someone.stream("hi", **options).subscribe()
        await asyncio.sleep(500)
        running.dispose()
        await someone.idle()
        assert asyncio.get_running_loop().time() < 501
        assert_whole(someone)

    run_virtual(main())
    assert log == ["begun", "cancelled"]


def test_nothing_overtakes_a_retry_that_is_observed():
    """The chunks of the next attempt wait behind it, however long the observer takes."""
    slow = hook(RetryEvent)(lambda event: just(None).pipe(ops.delay(60)))
    someone, _ = hooked(failing_model, slow)
    events = run_virtual(events_of(someone, "hi"))
    kinds = types(events)
    assert kinds.index("retry") < kinds.index("reasoning_chunk")


def test_retries_of_concurrent_tools_are_observed_per_lane():
    seen: list[str | None] = []

    @hook(RetryEvent)
    async def note(event: RetryEvent) -> None:
        seen.append(event.tool_use_id)

    model = ScriptedModel([ToolUseBlock("a", "unlucky"), ToolUseBlock("b", "unlucky")], "Done.")
    someone = agent(model, tools=[unlucky], tool_execution_config=TWICE, hooks=[note])
    events = run_virtual(events_of(someone, "hi"))
    assert sorted(filter(None, seen)) == ["a", "b"]
    assert sorted(event.tool_use_id for event in events if isinstance(event, RetryEvent)) == ["a", "b"]


@pytest.mark.parametrize("form", ["coroutine", "operator"])
def test_chunks_of_a_failed_attempt_are_dropped_at_its_retry(form):
    """What a slow hook still holds of them goes: a subscriber has been told that it is void."""
    tries: list[int] = []

    @tool
    async def streams():
        """Fails once, in the middle."""
        tries.append(1)
        for number in range(3):
            yield f"{len(tries)}.{number}"
        if len(tries) == 1:
            raise ToolError("no luck", retryable=True)

    async def later(event: ActingChunkEvent) -> None:
        await asyncio.sleep(2)

    slow = hook(ActingChunkEvent)(later) if form == "coroutine" else hook_operator(ActingChunkEvent, ops.delay(2))
    model = ScriptedModel(call("streams"), "Done.")
    someone = agent(model, tools=[streams], tool_execution_config=TWICE, hooks=[slow])
    shown = run_virtual(events_of(someone, "hi"))
    retry = next(index for index, event in enumerate(shown) if isinstance(event, RetryEvent))
    texts = [event.text for event in shown[retry:] if isinstance(event, ActingChunkEvent)]
    assert texts[:3] == ["2.0", "2.1", "2.2"]
    assert isinstance(shown[-1], PostCallEvent)


def test_edited_arguments_are_told_to_observers_of_memory():
    seen: list[MemoryEvent] = []
    model = ScriptedModel([ToolUseBlock("d", "delete", {"path": "/"})], "ok")
    someone = agent(model, tools=[delete], hooks=[hook(MemoryEvent)(seen.append)])
    run_virtual(events_of(someone, "go"))
    run_virtual(events_of(someone, Approve("d", {"path": "/tmp/x"})))
    assert [event.replaced[0].tool_calls[0].input for event in seen] == [{"path": "/tmp/x"}]


def test_a_failed_runs_traces_are_told_before_its_error():
    log: list[str] = []
    someone, options = hooked(
        lambda: with_output("{}", "{}"),
        hook(MemoryEvent)(lambda event: log.append("memory")),
        hook(ErrorEvent)(lambda event: log.append("error")),
    )
    with pytest.raises(StructuredOutputError):
        run_virtual(events_of(someone, "hi", **options))
    assert log == ["memory", "error"]


def test_a_disposed_run_calls_no_observer():
    """Its events have no subscriber; an observer could keep the memory from being repaired."""
    seen: list[Event] = []

    async def main() -> None:
        someone, options = hooked(
            lambda: (agent(ScriptedModel("{}", [Delay(1000), "never"], output_modes=["native"])), with_output()[1]),
            hook(MemoryEvent)(lambda event: (seen.append(event), never())[1]),
        )
        running = someone.stream("hi", **options).subscribe()
        await asyncio.sleep(10)
        running.dispose()
        await someone.idle()
        assert [message.text for message in remembered(someone)] == ["hi"]

    run_virtual(main())
    assert not seen


def test_methods_of_a_subclass_observe():
    log: list[str] = []

    class Watching(ReActAgent):
        def on_retry(self, event: RetryEvent) -> None:
            log.append(f"{self.name} {event.stage} {event.error_text}")

        async def on_memory(self, event: MemoryEvent) -> None:
            log.append(f"{len(event.removed)} removed")

    model = ScriptedModel(
        ModelConnectionError("broken"), "{}", '{"city": "Rome"}', output_modes=["native"], execution_config=TWICE
    )
    reply = run_virtual(Watching("Friday", model).call("hi", output=with_output()[1]["output"]))
    assert reply.structured() == {"city": "Rome"}
    assert log == ["Friday model broken", "1 removed"]


def test_without_an_observer_the_flow_is_the_very_same():
    events: Flow[Event] = just(RetryEvent())
    assert Hooks([hook(ReasoningChunkEvent)(lambda e: None)]).watched(RetryEvent, events) is events
    assert RetryEvent not in Hooks([hook(ActingChunkEvent)(lambda e: None)]).seen
    assert Hooks().seen == frozenset() and RetryEvent in Hooks([Hook()]).seen


def test_a_sub_agents_retry_is_observed_by_its_own_hooks():
    inner_seen: list[str] = []
    outer_seen: list[str] = []
    model = ScriptedModel(ModelConnectionError("broken"), "Inner.", execution_config=TWICE)
    inner = agent(model, tools=None, hooks=[hook(RetryEvent)(lambda event: inner_seen.append(event.agent))])

    @tool
    async def ask() -> str:
        """Asks the other one."""
        return (await inner.call("hi")).text

    outer = agent(
        ScriptedModel(call("ask"), "Outer."),
        tools=[ask],
        hooks=[hook(RetryEvent)(lambda event: outer_seen.append(event.agent))],
    )
    assert run_virtual(outer.call(Msg.user("hi"))).text == "Outer."
    assert (inner_seen, outer_seen) == (["Friday"], [])


def test_an_interrupted_run_starts_no_further_observers():
    """Interruption before the retry: there is no retry to observe."""
    seen: list[Event] = []
    model = ScriptedModel([Delay(5), ModelConnectionError("broken")], "Hello", execution_config=TWICE)
    someone = agent(model, hooks=[hook(RetryEvent)(seen.append)])

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, someone.interrupt)
        with contextlib.suppress(ModelConnectionError):
            await someone.call("hi")

    run_virtual(main())
    assert not seen
