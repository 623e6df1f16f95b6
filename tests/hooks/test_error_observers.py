"""ErrorEvent is observed, not changed: observers are isolated from the run and from each other. And: tools of hooks."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import Hook, hook, tool
from agentscope_rx.errors import DuplicateToolError, ModelConnectionError
from agentscope_rx.events import ErrorEvent, Event, PostCallEvent, PreCallEvent, ReasoningChunkEvent
from agentscope_rx.hooks import Hooks, hook_operator
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import throw
from agentscope_rx.testing import ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, events_of, remembered, types

EVENT = ErrorEvent.of(ValueError("the run's own"))


def observed(*hooks: Hook) -> Event:
    async def main() -> Event:
        return await Hooks(hooks).observe(EVENT)

    return run_virtual(main())


def test_without_observers_the_event_is_unchanged():
    assert observed() is EVENT
    assert observed(hook_operator(ReasoningChunkEvent, ops.take(1))) is EVENT


def test_observers_come_in_order_one_after_the_other():
    seen: list[str] = []

    async def slow(event: ErrorEvent):
        await asyncio.sleep(5)
        seen.append("slow")

    observed(
        hook(ErrorEvent, priority=3)(lambda e: seen.append("last")),
        hook(ErrorEvent, priority=2)(slow),
        hook(ErrorEvent, priority=1)(lambda e: seen.append(e.error_text)),
    )
    assert seen == ["the run's own", "slow", "last"]


@pytest.mark.parametrize(
    "answer",
    [lambda e: ErrorEvent(error_text="other"), lambda e: "text", lambda e: fail_later(), lambda e: 1 / 0,
     lambda e: throw(ZeroDivisionError("flow")), lambda e: PostCallEvent()],
)  # fmt: skip
def test_no_observer_can_change_or_withhold_the_event(answer):
    seen: list[Event] = []
    with collect_dropped() as dropped:
        assert observed(hook(ErrorEvent)(answer), hook(ErrorEvent)(seen.append)) is EVENT
    assert seen == [EVENT]
    assert all(isinstance(error, ZeroDivisionError) for error in dropped)
    assert all("on ErrorEvent" in where for where in dropped.where)


async def fail_later():
    await asyncio.sleep(1)
    raise ZeroDivisionError("later")


def test_a_failing_observer_does_not_replace_the_runs_error():
    seen: list[str] = []

    class Auditor(Hook):
        def on_event(self, event: Event):
            seen.append(event.type)
            if isinstance(event, ErrorEvent):
                raise ZeroDivisionError("in the observer")

    once = ExecutionConfig(max_attempts=1)
    friday = agent(ScriptedModel(ModelConnectionError("broken")), hooks=[Auditor()], model_execution_config=once)

    shown: list[Event] = []

    async def main() -> None:
        async for event in friday.stream("hi"):
            shown.append(event)

    with collect_dropped() as dropped, pytest.raises(ModelConnectionError, match="broken"):
        run_virtual(main())
    assert types(shown) == ["pre_call", "pre_reasoning", "error"] == seen
    assert [type(error) for error in dropped] == [ZeroDivisionError]
    assert "Auditor" in dropped.where[0]
    assert not friday.running


def test_a_hook_on_all_events_sees_the_whole_run_in_order():
    seen: list[str] = []

    class All(Hook):
        priority = 900

        async def on_event(self, event: Event):
            seen.append(event.type)

    friday = agent(ScriptedModel(call("weather", city="Rome"), "sunny"), hooks=[All()])
    assert types(run_virtual(events_of(friday, "hi"))) == seen


# --- what hooks bring --------------------------------------------------------------------------------------------


@tool
async def lookup(word: str) -> str:
    """Looks a word up.

    Args:
        word: What to look up.
    """
    return f"{word}: a word"


class Dictionary(Hook):
    """Brings a tool and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def tools(self):
        return (lookup,)

    def on_event(self, event: Event):
        self.calls += isinstance(event, PreCallEvent)


def test_a_hook_brings_tools():
    model = ScriptedModel(call("lookup", word="rx"), "done")
    bringing = Dictionary()
    friday = agent(model, hooks=[bringing])
    run_virtual(events_of(friday, "hi"))
    assert "lookup" in [schema.name for schema in model.requests[0].tools]
    assert remembered(friday)[2].tool_results[0].text == "rx: a word"
    assert bringing.calls == 1


def test_a_hooks_tool_with_a_taken_name_is_refused():
    with pytest.raises(DuplicateToolError, match="lookup"):
        agent(ScriptedModel(), tools=[lookup], hooks=[Dictionary()])
