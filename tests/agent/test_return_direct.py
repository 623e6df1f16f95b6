"""`return_direct`: a tool's result is the reply; memory, events and reply stay one truth, whatever stands beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from agentscope_rx import (
    Approve,
    GenerateReason,
    Hook,
    InMemoryMemory,
    Msg,
    ReActAgent,
    Reject,
    ToolError,
    Toolkit,
    UsageLimits,
    tool,
)
from agentscope_rx.errors import ConfigurationError, ToolDefinitionError, ToolSuspend
from agentscope_rx.events import Event, PostActingEvent
from agentscope_rx.messages import Base64Source, ImageBlock, TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from agentscope_rx.tools.wrappers import limited
from tests.agent.parts import assert_whole, remembered, weather
from tests.support.assertions import assert_one_truth

PIXEL = ImageBlock(Base64Source.of(b"\x89PNG\r\n\x1a\n", "image/png"))


@tool(return_direct=True)
async def report(city: str) -> str:
    """The report."""
    return f"Report of {city}"


@tool(return_direct=True)
async def fails() -> str:
    """Fails."""
    raise ToolError("no paper")


@tool(return_direct=True)
async def late() -> str:
    """Takes long."""
    await asyncio.sleep(10)
    return "late"


def friday(*turns: Any, tools: Any = (report, fails, late, weather), **options: Any) -> ReActAgent:
    return ReActAgent("Friday", ScriptedModel(*turns), tools=list(tools), **options)


def reply_of(agent: ReActAgent, *given: Any, **options: Any) -> Msg:
    """The reply of one run, which has told one truth."""

    async def run() -> list[Event]:
        return [event async for event in agent.stream(*given, **options)]

    before = remembered(agent)
    events = run_virtual(run())
    assert_one_truth(events, before, remembered(agent))
    return events[-1].message  # pyright: ignore


def test_the_result_is_the_reply():
    agent = friday(call("report", city="Rome"))
    reply = reply_of(agent, "x")
    assert (reply.text, reply.generate_reason) == ("Report of Rome", GenerateReason.RETURN_DIRECT)
    assert reply.role == "assistant" and reply.name == "Friday"
    assert [message.role for message in remembered(agent)] == ["user", "assistant", "tool", "assistant"]
    assert remembered(agent)[-1] == reply
    assert_whole(agent)


def test_the_next_call_asks_the_model():
    agent = friday(call("report", city="Rome"), "fine")
    reply_of(agent, "x")
    assert reply_of(agent, "and now?").text == "fine"
    assert [message.role for message in agent.model.requests[1].messages][-2:] == ["assistant", "user"]  # pyright: ignore


@pytest.mark.parametrize("parallel", [True, False])
def test_all_calls_of_the_batch_run(parallel: bool):
    toolkit = Toolkit([report, weather], parallel=parallel)
    asked = [call("report", city="Rome"), call("weather", city="Rome"), call("report", city="Oslo")]
    agent = ReActAgent("Friday", ScriptedModel(asked), toolkit=toolkit)
    reply = reply_of(agent, "x")
    assert reply.text == "Report of Rome\nReport of Oslo"
    assert_whole(agent)
    assert "Sunny in Rome" in {message.tool_results[0].text for message in remembered(agent)[2:5]}


def test_media_and_nothing_are_replies_too():
    @tool(return_direct=True)
    async def draw() -> Any:
        """Draws."""
        return ["here", PIXEL]

    @tool(return_direct=True)
    async def nothing() -> None:
        """Does."""

    assert reply_of(friday(call("draw"), tools=[draw]), "x").content == (TextBlock("here"), PIXEL)
    assert reply_of(friday(call("nothing"), tools=[nothing]), "x").text == "Done."


def test_an_error_goes_back_to_the_model():
    agent = friday([call("fails"), call("report", city="Rome")], "No paper, alas.")
    assert reply_of(agent, "x").text == "No paper, alas."
    agent = friday(call("report"), "Which city?")
    reply = reply_of(agent, "x")
    assert (reply.text, reply.generate_reason) == ("Which city?", GenerateReason.MODEL_STOP)


def test_an_error_of_another_tool_does_not_matter():
    agent = friday([call("nowhere"), call("report", city="Rome")])
    assert reply_of(agent, "x").text == "Report of Rome"


def test_a_tool_that_says_so_only_where_it_is_registered():
    toolkit = Toolkit()
    toolkit.register(weather, return_direct=True)
    toolkit.register(report, return_direct=False)
    agent = ReActAgent(
        "Friday", ScriptedModel(call("report", city="Rome"), call("weather", city="Rome")), toolkit=toolkit
    )
    assert reply_of(agent, "x").text == "Sunny in Rome"


def test_a_sub_agent_may_have_the_last_word():
    expert = ReActAgent("expert", ScriptedModel("42, I say."))
    toolkit = Toolkit()
    toolkit.register(expert, return_direct=True)
    (name,) = toolkit.names
    agent = ReActAgent("Friday", ScriptedModel(call(name, message="?")), toolkit=toolkit)
    assert reply_of(agent, "x").text == "42, I say."
    (told,) = [each for message in agent.memory.messages for each in message.tool_results]  # pyright: ignore
    assert told.text.startswith("conversation_id: ") and told.text.endswith("\n\n42, I say.")


def test_a_text_of_a_tools_own_keeps_what_it_begins_with():
    @tool(return_direct=True)
    async def own() -> ToolResultBlock:
        return ToolResultBlock("", "", "conversation_id: 7\n\nhello", None, {"conversation_id": "8"})

    assert reply_of(friday(call("own"), tools=[own]), "x").text == "conversation_id: 7\n\nhello"


class Stops(Hook):
    def on_event(self, event: Event) -> Event | None:
        if isinstance(event, PostActingEvent) and event.tool_use.name == "report":
            return event.stop()
        return None


def test_a_hook_may_stop_at_a_direct_result_and_call_resumes():
    agent = friday(call("report", city="Rome"), hooks=[Stops()])
    assert reply_of(agent, "x").generate_reason is GenerateReason.ACTING_STOP_REQUESTED
    reply = reply_of(agent)
    assert (reply.text, reply.generate_reason) == ("Report of Rome", GenerateReason.RETURN_DIRECT)


class Shouts(Hook):
    def on_event(self, event: Event) -> Event | None:
        if isinstance(event, PostActingEvent):
            (result,) = event.message.tool_results
            return event.replace(
                message=Msg.tool(ToolResultBlock(result.id, result.name, result.text.upper()), "Friday")
            )  # pyright: ignore
        return None


def test_the_reply_is_what_a_hook_has_made_of_the_result():
    agent = friday(call("report", city="Rome"), hooks=[Shouts()])
    assert reply_of(agent, "x").text == "REPORT OF ROME"


@pytest.mark.parametrize("end", ["result", "words"])
def test_a_suspended_sibling_is_waited_for(end: str):
    @tool
    async def ask() -> str:
        """Asks."""
        raise ToolSuspend("Which?")

    agent = friday([call("report", city="Rome"), ToolUseBlock("a", "ask")], "As you like.", tools=[report, ask])
    waiting = reply_of(agent, "x")
    assert waiting.generate_reason is GenerateReason.TOOL_SUSPENDED
    if end == "words":
        assert reply_of(agent, "never mind").text == "As you like."
    else:
        reply = reply_of(agent, Msg.tool(ToolResultBlock("a", "ask", "this"), "Friday"))  # pyright: ignore
        assert (reply.text, reply.generate_reason) == ("Report of Rome", GenerateReason.RETURN_DIRECT)
    assert_whole(agent)


def test_what_the_caller_answers_may_be_the_reply():
    toolkit = Toolkit()
    made = toolkit.register_schema(ToolSchema("pick", "Picks.", {"type": "object", "properties": {}}))
    toolkit.register(made, return_direct=True, on_conflict="override")
    agent = ReActAgent("Friday", ScriptedModel(ToolUseBlock("a", "pick")), toolkit=toolkit)
    reply_of(agent, "x")
    reply = reply_of(agent, Msg.tool(ToolResultBlock("a", "pick", "this one"), "Friday"))  # pyright: ignore
    assert reply.text == "this one"


@pytest.mark.parametrize("approved", [True, False])
def test_a_person_decides(approved: bool):
    toolkit = Toolkit()
    toolkit.register(report, requires_approval=True)
    agent = ReActAgent("Friday", ScriptedModel(ToolUseBlock("a", "report", {"city": "Rome"}), "Well."), toolkit=toolkit)
    assert reply_of(agent, "x").generate_reason is GenerateReason.APPROVAL_REQUIRED
    answer = Approve("a") if approved else Reject("a", "no")
    assert reply_of(agent, answer).text == ("Report of Rome" if approved else "Well.")


def test_an_output_that_is_asked_for_has_to_come_from_the_model():
    class City(BaseModel):
        name: str

    agent = friday(call("report", city="Rome"), call("generate_response", name="Rome"))
    reply = reply_of(agent, "x", output=City)
    assert reply.structured(City) == City(name="Rome")


def test_the_finish_tool_gives_way():
    agent = friday(call("report", city="Rome"), finish="tool")
    assert reply_of(agent, "x").text == "Report of Rome"


def test_an_interruption_wins():
    agent = friday(call("late"))

    async def run() -> Msg:
        asyncio.get_running_loop().call_later(1, agent.interrupt)
        return await agent.call("x")

    assert run_virtual(run()).generate_reason is GenerateReason.INTERRUPTED
    assert_whole(agent)


def test_a_round_that_is_not_needed_reaches_no_limit():
    agent = friday(call("report", city="Rome"), max_iters=1, limits=UsageLimits(model_calls=1))
    assert reply_of(agent, "x").generate_reason is GenerateReason.RETURN_DIRECT


def test_words_that_are_observed_meanwhile_do_not_matter():
    agent = friday([Delay(1), call("late")])

    async def run() -> Msg:
        asyncio.get_running_loop().call_later(5, lambda: agent.observe(Msg.user("by the way")).subscribe())
        return await agent.call("x")

    assert run_virtual(run()).text == "late"


def test_a_run_that_failed_behind_the_result_goes_on_with_it():
    kept = InMemoryMemory()
    made = ToolUseBlock("a", "report", {"city": "Rome"})
    messages = [Msg.user("x"), Msg.assistant([made]), Msg.tool(ToolResultBlock.of(made, "Report of Rome"), "Friday")]
    kept.add(messages).run()
    agent = friday(memory=kept)
    assert reply_of(agent).text == "Report of Rome"


def test_cancelled_siblings_are_no_reply():
    @tool
    async def breaks() -> str:
        """Breaks."""
        raise ToolError("broken")

    toolkit = Toolkit([late, breaks], on_failure="cancel_siblings")
    agent = ReActAgent("Friday", ScriptedModel([call("late"), call("breaks")], "Broken."), toolkit=toolkit)
    assert reply_of(agent, "x").text == "Broken."
    kinds = [message.tool_results[0].kind for message in remembered(agent)[2:4]]
    assert kinds == [ToolResultKind.INTERRUPTED, ToolResultKind.FAILED]


def test_it_is_true_or_false():
    with pytest.raises(ToolDefinitionError, match="return_direct of tool"):
        tool(return_direct="yes")(weather)  # pyright: ignore
    with pytest.raises(ConfigurationError, match="return_direct must be True or False"):
        Toolkit().register(weather, return_direct=1)  # pyright: ignore
    with pytest.raises(ConfigurationError, match="no limit 'return_direct'"):
        limited(weather, return_direct=True)
