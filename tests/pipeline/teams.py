"""What the tests of teams share: members with scripts, and the laws that hold after any end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentscope_rx import Agent, InMemoryMemory, Msg, ReActAgent, tool
from agentscope_rx.events import Event
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.support.assertions import results_in


class Done:
    """What tools have done."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    @tool(requires_approval=True)
    async def delete(self, path: str) -> str:
        """Delete a file."""
        self.deleted.append(path)
        return f"{path} is gone"


def use(id: str, name: str, /, **arguments: object) -> ToolUseBlock:
    """A call with an id of our own."""
    return ToolUseBlock(id, name, arguments)


def member(name: str, *turns: Any, **options: Any) -> ReActAgent:
    """An agent with a script."""
    return ReActAgent(name, ScriptedModel(*turns), options.pop("sys_prompt", f"You are {name}."), **options)


def messages_of(agent: Agent) -> list[Msg]:
    """What the agent's own memory holds."""
    assert isinstance(agent.memory, InMemoryMemory)
    return list(agent.memory.messages)


def said(agent: Agent) -> list[str]:
    """Who said what in the agent's own memory."""
    return [f"{each.name}: {each.text}" for each in messages_of(agent) if each.text]


def asked_of(agent: ReActAgent, number: int = -1) -> list[str]:
    """The texts of one request to the agent's model, without the system prompt."""
    assert isinstance(agent.model, ScriptedModel)
    return [each.text for each in agent.model.requests[number].messages if each.text and each.role != "system"]


async def all_events(agent: Agent, *given: Any, **options: Any) -> list[Event]:
    """The events of one run."""
    return [event async for event in agent.stream(*given, **options)]


def assert_free(agent: Agent, pending: Sequence[str] = ()) -> None:
    """Each call in memory has one result, but for the pending ones; no run is in progress."""
    assert not agent.running
    messages = messages_of(agent)
    calls = [call.id for message in messages for call in message.tool_calls]
    assert sorted(results_in(messages)) == sorted(id for id in calls if id not in pending)


def cut_at_each_event(make: Callable[[], Agent], cut: Callable[[Agent, Event], bool], *given: Any) -> int:
    """Run a new agent for each event of a run, and `cut` the run there; gives the number of events.

    `cut` returns True to leave the stream. After each the agent is free, and another call of it ends.
    """

    async def cut_run(at: int) -> bool:
        agent, number = make(), 0
        async with agent.stream(*given) as events:
            async for event in events:
                number += 1
                if number > at and cut(agent, event):
                    break
        await agent.idle()
        assert_free(agent)
        await agent.call("and now?")
        await agent.idle()
        assert_free(agent)
        return number > at

    at = 0
    while run_virtual(cut_run(at)):
        at += 1
    return at
