"""`RecordedModel` compares requests with the log: what differs is shown, also too many calls and too few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import hook, tool
from agentscope_rx.errors import AgentScopeError, ConfigurationError, EventLogError
from agentscope_rx.events import Event, PreReasoningEvent
from agentscope_rx.messages import Msg
from agentscope_rx.testing import (
    RecordedMismatchError,
    RecordedModel,
    ScriptedModel,
    ScriptExhaustedError,
    call,
    run_virtual,
)
from tests.agent.parts import agent, events_of


def recorded(*script: Any, **options: Any) -> list[Event]:
    return run_virtual(events_of(agent(ScriptedModel(*script), **options), "hi"))


def test_a_tool_that_answers_something_else_is_found():
    @tool
    async def weather(city: str) -> str:
        """Current weather of a city."""
        return f"Sunny and dry in {city}, all day"

    @tool(name="weather")
    async def other(city: str) -> str:
        """Current weather of a city."""
        return f"Sunny and wet in {city}, all day"

    log = recorded([call("weather", city="Rome")], "take a hat", tools=[weather])
    run_virtual(agent(RecordedModel(log), tools=[weather]).call("hi"))
    model = RecordedModel(log)
    with pytest.raises(RecordedMismatchError) as caught:
        run_virtual(agent(model, tools=[other]).call("hi"))
    text = str(caught.value)
    assert "Request 2 of 2" in text and "message 3 of 3" in text
    before, now = text.split("recorded:")[1].split("requested:")
    assert "dry in Rome" in before and "wet in Rome" in now
    with pytest.raises(RecordedMismatchError):
        model.assert_complete()
    # the answers alone
    lax = RecordedModel(log, strict=False)
    assert run_virtual(agent(lax, tools=[other]).call("hi")).text == "take a hat"
    lax.assert_complete()


def test_another_question_or_prompt_is_found():
    log = recorded("hello")
    with pytest.raises(RecordedMismatchError, match=r"message 1 of 1 of the run\n  recorded: .*'hi'"):
        run_virtual(agent(RecordedModel(log)).call("hello?"))
    friday = agent(RecordedModel(log))
    friday.sys_prompt = "You are Saturday."
    with pytest.raises(RecordedMismatchError, match=r"the system message(?s:.*)Friday(?s:.*)Saturday"):
        run_virtual(friday.call("hi"))


def test_a_hint_that_was_not_recorded_is_found():
    @hook(PreReasoningEvent)
    def hint(event: PreReasoningEvent) -> PreReasoningEvent:
        return event.with_hint("Be brief.")

    log = recorded("hello", hooks=[hint])
    run_virtual(agent(RecordedModel(log), hooks=[hint]).call("hi"))
    # one more message than the log: it may be of an earlier conversation, but stands at the wrong place
    with pytest.raises(RecordedMismatchError):
        run_virtual(agent(RecordedModel(log)).call("hi"))


def test_an_earlier_conversation_is_no_difference():
    log = recorded([call("weather", city="Rome")], "sunny")
    friday = agent(ScriptedModel("before"))
    run_virtual(friday.call("hello"))
    friday.model = model = RecordedModel(log)
    assert run_virtual(friday.call("hi")).text == "sunny"
    model.assert_complete()


def test_lost_and_added_messages_are_found():
    log = recorded([call("weather", city="Rome")], "sunny")
    drop = hook(PreReasoningEvent)(lambda e: e.replace(messages=e.messages[1:]) if e.iteration else e)
    added = hook(PreReasoningEvent)(lambda e: e.replace(messages=[Msg.user("x"), *e.messages]) if e.iteration else e)
    for change, count in ((drop, 2), (added, 4)):
        with pytest.raises(RecordedMismatchError, match=f"it has {count} messages where the log has 3"):
            run_virtual(agent(RecordedModel(log), hooks=[change]).call("hi"))


def test_more_calls_than_recorded_and_answers_left():
    log = recorded([call("weather", city="Rome")], "sunny")
    short = RecordedModel(log[: [event.type for event in log].index("post_acting")])
    with pytest.raises(ScriptExhaustedError, match="the log has 1 model calls, and this is request 2"):
        run_virtual(agent(short).call("hi"))
    with pytest.raises(ScriptExhaustedError):
        short.assert_complete()
    model = RecordedModel(log)
    assert model.unplayed == 2
    with pytest.raises(AssertionError, match="2 of 2 answers of the log were not played; next: assistant 'Friday'"):
        model.assert_complete()
    before = RecordedModel(log[: [event.type for event in log].index("pre_reasoning")])
    assert before.model_name == "recorded"
    with pytest.raises(ScriptExhaustedError, match="0 model calls"):
        run_virtual(agent(before).call("hi"))


@pytest.mark.parametrize(
    ("log", "agent", "says"),
    [
        ([], None, "the log holds no events"),
        (["text"], None, "the log holds 'text', which is no event"),
        (3, None, "A log is the path of a file, or a list of events, not 3"),
        (None, "Typo", "has no events of an agent 'Typo'. It has those of \\['Friday'\\]"),
    ],
)
def test_a_log_without_answers_is_refused(log: Any, agent: str | None, says: str):
    with pytest.raises(ConfigurationError, match=says):
        RecordedModel(recorded("a") if log is None else log, agent=agent)


def test_the_model_has_the_recorded_name_unless_given():
    log = recorded("a")
    assert RecordedModel(log).model_name == "scripted" and RecordedModel(log, model_name="mine").model_name == "mine"
    assert RecordedModel(log, output_modes=["native"]).output_modes == {"native"}


def test_a_log_that_cannot_be_read_is_an_error_at_once(tmp_path: Path):
    with pytest.raises(EventLogError, match="cannot be read"):
        RecordedModel(tmp_path / "absent.jsonl")
    assert issubclass(RecordedMismatchError, AgentScopeError) and issubclass(RecordedMismatchError, AssertionError)
