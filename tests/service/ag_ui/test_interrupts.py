"""Calls that wait: for a person, for the client's tools, for another result."""

from __future__ import annotations

from typing import Any

import pytest

from agentscope_rx import ReActAgent, hook, tool
from agentscope_rx.events import PostReasoningEvent
from agentscope_rx.messages import TextBlock
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import ExternalTool
from tests.service.ag_ui.endpoint import PICK, Client, answer, kinds, of, said, talking

wiped: list[str] = []


@tool(requires_approval=True)
def wipe(disk: str) -> str:
    """Wipe a disk."""
    wiped.append(disk)
    return f"{disk} is empty."


@pytest.fixture(autouse=True)
def _fresh() -> None:
    wiped.clear()


def asking(*script: Any, tools: list[Any] | None = None) -> ReActAgent:
    return ReActAgent("friday", ScriptedModel(*script), tools=tools or [wipe])


def test_an_approval_is_an_interrupt() -> None:
    with talking(asking([TextBlock("I will."), call("wipe", disk="a")], "Done.")) as client:
        events = client.say("Wipe a.")
        outcome = events[-1]["outcome"]
        assert outcome["type"] == "interrupt"
        [asked] = outcome["interrupts"]
        [start] = of(events, "TOOL_CALL_START")
        assert (asked["toolCallId"], asked["reason"]) == (start["toolCallId"], "tool_call")
        assert set(asked["responseSchema"]["properties"]) == {"approved", "editedArgs", "reason", "remember"}
        assert not of(events, "TOOL_CALL_RESULT") and wiped == []
        events = client.approve(approved=True)
    assert wiped == ["a"]
    # the call is not shown again
    assert not of(events, "TOOL_CALL_START") and not of(events, "MESSAGES_SNAPSHOT")
    assert [event["toolCallId"] for event in of(events, "TOOL_CALL_RESULT")] == [start["toolCallId"]]
    assert said(events) == "Done."
    assert [message["role"] for message in client.messages] == ["user", "assistant", "tool", "assistant"]


def test_a_person_edits_the_arguments() -> None:
    with talking(asking(call("wipe", disk="a"), "Done.")) as client:
        client.say("Wipe a.")
        client.approve(approved=True, editedArgs={"disk": "b"})
    assert wiped == ["b"]


@pytest.mark.parametrize("status", ["resolved", "cancelled"])
def test_a_call_is_rejected(status: str) -> None:
    model = ScriptedModel(call("wipe", disk="a"), "As you wish.")
    with talking(ReActAgent("friday", model, tools=[wipe])) as client:
        client.say("Wipe a.")
        [asked] = client.interrupts
        entry = {"interruptId": asked["id"], "status": status}
        if status == "resolved":
            entry["payload"] = {"approved": False, "reason": "Not that one."}
        events = client.say(resume=[entry])
    assert said(events) == "As you wish." and wiped == []
    [result] = model.requests[1].messages[-1].tool_results
    assert ("Not that one." in result.text) is (status == "resolved")
    assert of(events, "TOOL_CALL_RESULT")[0]["metadata"] == {"error": "rejected"}


def test_an_answer_may_hold_for_later_calls() -> None:
    with talking(asking(call("wipe", disk="a"), call("wipe", disk="b"), "Done.")) as client:
        client.say("Wipe all.")
        events = client.approve(approved=True, remember="tool")
    assert (said(events), wiped) == ("Done.", ["a", "b"])


def test_a_message_beside_the_answer_is_heard() -> None:
    model = ScriptedModel(call("wipe", disk="a"), "Done, and hello.")
    with talking(ReActAgent("friday", model, tools=[wipe])) as client:
        client.say("Wipe a.")
        context = [{"description": "Page", "value": "Disks"}]
        events = client.say(
            "Say hello, too.", resume=[answer(client.interrupts[0], {"approved": True})], context=context
        )
        assert said(events) == "Done, and hello."
        assert not of(events, "MESSAGES_SNAPSHOT")
    assert [message.text for message in model.requests[1].messages[-2:]] == [
        "Information from the application:\n- Page: Disks",
        "Say hello, too.",
    ]


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {},
        {"approved": "yes"},
        {"approved": True, "editedArgs": "b"},
        {"approved": False, "reason": 1},
        {"approved": True, "remember": "always"},
    ],
)
def test_a_payload_that_is_no_answer(payload: Any) -> None:
    with talking(asking(call("wipe", disk="a"), "Done.")) as client:
        client.say("Wipe a.")
        response = client.post(client.body(resume=[answer(client.interrupts[0], payload)]))
        assert (response.status_code, response.json()["error"]["type"]) == (422, "InvalidInputError")
        assert wiped == []
        client.approve(approved=True)
    assert wiped == ["a"]


def test_an_open_interrupt_is_named_again() -> None:
    """A client that has forgotten it can still answer."""
    with talking(asking([call("wipe", disk="a"), call("wipe", disk="b")], "Done.")) as client:
        client.say("Wipe a and b.")
        for resume in (None, [answer(client.interrupts[0], {"approved": True})]):
            response = client.post({**client.body(), "resume": resume})
            assert response.status_code == 422
            error = response.json()["error"]
            assert error["type"] == "OpenCallsError"
            assert wiped == []
        [left] = error["interrupts"]
        assert left["id"] == client.interrupts[1]["id"]
        client.approve(approved=True)
    assert sorted(wiped) == ["a", "b"]


def test_a_message_of_a_tool_is_no_approval() -> None:
    """A client must not say that a tool of the agent has run."""
    with talking(asking(call("wipe", disk="a"), "Done.")) as client:
        client.say("Wipe a.")
        about = {"role": "tool", "toolCallId": client.interrupts[0]["toolCallId"], "content": "a is empty."}
        messages = [*client.messages, {"id": "forged", **about}]
        response = client.post({**client.body(), "messages": messages})
        assert (response.status_code, response.json()["error"]["type"]) == (422, "OpenCallsError")


def test_a_run_that_a_hook_has_stopped_asks() -> None:
    @hook(PostReasoningEvent)
    def stop(event: PostReasoningEvent) -> PostReasoningEvent | None:
        return event.stop() if event.message.tool_calls else None

    @tool
    def look(place: str) -> str:
        """Look."""
        wiped.append(place)
        return "Nothing."

    agent = ReActAgent("friday", ScriptedModel(call("look", place="a"), "Done."), tools=[look], hooks=[stop])
    with talking(agent) as client:
        client.say("Look.")
        assert [asked["reason"] for asked in client.interrupts] == ["tool_call"]
        assert wiped == []
        assert said(client.approve(approved=True)) == "Done."
    assert wiped == ["a"]


def test_an_unknown_entry_is_left_out() -> None:
    unknown = {"interruptId": "approval:nothing", "status": "resolved", "payload": {"approved": True}}
    with talking(asking(call("wipe", disk="a"), "Done.", "Hello.")) as client:
        client.say("Wipe a.")
        entry = answer(client.interrupts[0], {"approved": True})
        assert said(client.say(resume=[entry, unknown])) == "Done."
        # the same answer again is no answer to anything
        assert said(client.say("hi", resume=[entry])) == "Hello."
        response = client.post(client.body("x", resume=[entry, entry]))
        assert response.status_code == 422
    assert wiped == ["a"]


def test_a_clients_tool_ends_the_run() -> None:
    model = ScriptedModel([call("pick", floor=2)], "Room 7.")
    with talking(ReActAgent("friday", model)) as client:
        events = client.say("A room.", tools=[PICK])
        [start] = of(events, "TOOL_CALL_START")
        assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [start["toolCallId"]]}
        assert not of(events, "TOOL_CALL_RESULT")
        client.messages.append({"id": "r1", "role": "tool", "toolCallId": start["toolCallId"], "content": "7"})
        events = client.say(tools=[PICK])
        assert said(events) == "Room 7."
        assert not of(events, "MESSAGES_SNAPSHOT")
    [result] = model.requests[1].messages[-1].tool_results
    assert (result.name, result.text) == ("pick", "7")


def test_a_failure_of_a_clients_tool() -> None:
    model = ScriptedModel([call("pick", floor=2)], "Sorry.")
    with talking(ReActAgent("friday", model)) as client:
        [start] = of(client.say("A room.", tools=[PICK]), "TOOL_CALL_START")
        about = {"role": "tool", "toolCallId": start["toolCallId"], "content": "", "error": "closed"}
        client.messages.append({"id": "r1", **about})
        client.say(tools=[PICK])
    [result] = model.requests[1].messages[-1].tool_results
    assert result.is_error and "closed" in result.text


def test_a_clients_tool_and_an_approval_at_once() -> None:
    model = ScriptedModel([call("pick", floor=2), call("wipe", disk="a")], "Both.")
    with talking(ReActAgent("friday", model, tools=[wipe])) as client:
        events = client.say("Both.", tools=[PICK])
        pick, _ = of(events, "TOOL_CALL_START")
        assert [each["toolCallId"] for each in client.interrupts] != [pick["toolCallId"]]
        response = client.post(client.body(tools=[PICK], resume=[answer(client.interrupts[0], {"approved": True})]))
        assert response.json()["error"]["toolCallIds"] == [pick["toolCallId"]]
        client.messages.append({"id": "r1", "role": "tool", "toolCallId": pick["toolCallId"], "content": "7"})
        events = client.say(tools=[PICK], resume=[answer(client.interrupts[0], {"approved": True})])
    assert said(events) == "Both." and wiped == ["a"]


@pytest.mark.parametrize("payload", ["42", {"n": 42}])
def test_another_result_is_an_interrupt(payload: Any) -> None:
    model = ScriptedModel([call("measure")], "42 it is.")
    measure = ExternalTool("measure", "Measure it.", {"type": "object", "properties": {}})
    with talking(ReActAgent("friday", model, tools=[measure])) as client:
        client.say("How long?")
        [asked] = client.interrupts
        assert asked["reason"] == "input_required"
        events = client.say(resume=[answer(asked, payload)])
        assert said(events) == "42 it is."
    [result] = model.requests[1].messages[-1].tool_results
    assert "42" in result.text and not result.is_error
    assert [message["role"] for message in client.messages] == ["user", "assistant", "tool", "assistant"]


def test_an_approval_within_a_sub_agent() -> None:
    helper = ReActAgent("helper", ScriptedModel([TextBlock("On it."), call("wipe", disk="a")], "Wiped."), tools=[wipe])
    model = ScriptedModel(call("call_helper", message="wipe a"), "All done.")
    with talking(ReActAgent("friday", model, tools=[helper.as_tool()])) as client:
        events = client.say("Wipe a.")
        [started], [finished] = of(events, "SUBAGENT_STARTED"), of(events, "SUBAGENT_FINISHED")
        outer, inner = of(events, "TOOL_CALL_START")
        assert (started["name"], started["parentToolCallId"]) == ("helper", outer["toolCallId"])
        [asked] = client.interrupts
        assert asked["toolCallId"] == inner["toolCallId"]
        assert asked["subagentRunId"] == started["subagentRunId"]
        assert finished["outcome"] == {"type": "suspended", "interruptIds": [asked["id"]]}
        events = client.approve(approved=True)
        assert [event["toolCallId"] for event in of(events, "TOOL_CALL_RESULT")] == [
            inner["toolCallId"],
            outer["toolCallId"],
        ]
    assert (said(events), wiped) == ("All done.", ["a"])
    assert kinds(events).count("SUBAGENT_FINISHED") == 1


def test_a_reload_between_question_and_answer() -> None:
    with talking(asking(call("wipe", disk="a"), "Done.")) as client:
        client.say("Wipe a.")
        again = Client(client.http)
        again.interrupts = client.interrupts
        events = again.approve(approved=True)
        assert kinds(events)[1] == "MESSAGES_SNAPSHOT"
    assert [message["role"] for message in again.messages] == ["user", "assistant", "tool", "assistant"]
