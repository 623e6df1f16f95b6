"""What the tests of the agent share: tools, a way to record runs, and the invariant of a memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentscope_rx import InMemoryMemory, Msg, MsgRole, ReActAgent, tool
from agentscope_rx.events import Event


@tool
async def weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: Its name in English.
    """
    return f"Sunny in {city}"


@tool
async def slow(seconds: float = 10.0) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "finally"


@tool
async def broken(reason: str = "because") -> str:
    """Fails."""
    raise ValueError(reason)


@tool
async def count(upto: int):
    """Counts, slowly."""
    for number in range(upto):
        await asyncio.sleep(0.1)
        yield f"{number}"


def agent(model, *, tools=(weather, slow, broken, count), **options) -> ReActAgent:
    """An agent named Friday with these tools."""
    return ReActAgent("Friday", model, "You are Friday.", tools=None if tools is None else list(tools), **options)


async def events_of(agent: ReActAgent, *args, **options) -> list[Event]:
    """All events of one run."""
    return [event async for event in agent.stream(*args, **options)]


def types(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]


def remembered(agent: ReActAgent) -> Sequence[Msg]:
    assert isinstance(agent.memory, InMemoryMemory)
    return agent.memory.messages


def assert_whole(agent: ReActAgent, *, pending: Sequence[str] = ()) -> None:
    """Every call in memory has exactly one result, in call order, behind its message; but for the pending ones."""
    messages = list(remembered(agent))
    index = 0
    while index < len(messages):
        calls = [call.id for call in messages[index].tool_calls]
        index += 1
        results: list[str] = []
        while index < len(messages) and messages[index].role is MsgRole.TOOL:
            results += [result.id for result in messages[index].tool_results]
            index += 1
        expected = [id for id in calls if id not in pending]
        assert results == expected, f"calls {calls}, results {results}, pending {list(pending)}"
    for message in messages:
        for call in message.tool_calls:
            assert call.input_error is not None or call.raw is None
