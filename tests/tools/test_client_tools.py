"""`ClientTools`: tools that the caller brings for one call."""

from __future__ import annotations

import pytest

from agentscope_rx import InvalidInputError, Msg, ReActAgent, RuntimeContext, tool
from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.messages import GenerateReason, ToolResultBlock
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import ClientTools

PICK = {
    "type": "function",
    "function": {
        "name": "pick",
        "description": "Let the user pick a room.",
        "parameters": {"type": "object", "properties": {"floor": {"type": "integer"}}, "required": ["floor"]},
    },
}


def picking() -> RuntimeContext:
    return RuntimeContext(ClientTools(PICK))


def test_a_call_suspends_and_the_next_input_answers() -> None:
    model = ScriptedModel(call("pick", floor=2), "Room 7 is yours.")
    agent = ReActAgent("clerk", model)

    async def main() -> None:
        parked = await agent.call("A room, please.", context=picking())
        assert parked.generate_reason is GenerateReason.TOOL_SUSPENDED
        [pending] = await agent.pending_calls()
        assert (pending.name, dict(pending.input)) == ("pick", {"floor": 2})
        result = Msg.tool(ToolResultBlock(pending.id, pending.name, "room 7"))
        reply = await agent.call(result, context=picking())
        assert reply.text == "Room 7 is yours."

    run_virtual(main())
    assert [[each.name for each in request.tools] for request in model.requests] == [["pick"], ["pick"]]


def test_they_are_there_for_that_call_only() -> None:
    model = ScriptedModel("one", "two")
    agent = ReActAgent("clerk", model)

    async def main() -> None:
        await agent.call("with", context=picking())
        await agent.call("without")

    run_virtual(main())
    assert [len(request.tools) for request in model.requests] == [1, 0]
    assert "pick" not in agent.toolkit


def test_a_sub_agent_does_not_have_them() -> None:
    inner = ScriptedModel("done")
    helper = ReActAgent("helper", inner)
    agent = ReActAgent("clerk", ScriptedModel(call("call_helper", message="go"), "ok"), tools=[helper])

    async def main() -> None:
        await agent.call("hi", context=picking())

    run_virtual(main())
    assert [len(request.tools) for request in inner.requests] == [0]


def test_the_name_of_an_own_tool_is_refused() -> None:
    @tool
    def pick(floor: int) -> str:
        """Pick."""
        return str(floor)

    agent = ReActAgent("clerk", ScriptedModel("never"), tools=[pick])

    async def main() -> None:
        with pytest.raises(InvalidInputError, match="'pick' has the name of a tool of the agent"):
            await agent.call("hi", context=picking())
        assert not agent.running

    run_virtual(main())


def test_two_of_one_name_and_what_is_no_schema_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="Two tools of the caller have the name 'pick'"):
        ClientTools(PICK, PICK)
    with pytest.raises(ToolDefinitionError):
        ClientTools({"name": 3})
