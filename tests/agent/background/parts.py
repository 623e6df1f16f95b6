"""What the tests of background work share: tools that take time, and what memory holds of their results."""

from __future__ import annotations

import asyncio
from typing import Any

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.events import BackgroundEvent, Event
from agentscope_rx.messages import Msg, ToolUseBlock
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.tools.background import BACKGROUND

RUNS: list[str] = []
"""The calls that have begun and ended, in order; a test clears it."""


@tool
async def work(name: str = "w", seconds: float = 5.0) -> str:
    """Takes its time, and says how it has ended."""
    RUNS.append(f"{name} begun")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        RUNS.append(f"{name} cancelled")
        raise
    RUNS.append(f"{name} done")
    return f"{name} is done"


@tool
async def fail(seconds: float = 5.0) -> str:
    """Fails."""
    await asyncio.sleep(seconds)
    raise ValueError("broken pipe")


@tool
async def parts(count: int, seconds: float = 1.0):
    """Gives parts."""
    for number in range(count):
        await asyncio.sleep(seconds)
        yield f"part {number}"


def use(name: str, id: str = "c", /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def agent(*turns: Any, background: Any = None, tools: Any = (work, fail, parts), **options: Any) -> ReActAgent:
    """An agent of which all tools have this option."""
    toolkit = Toolkit()
    for each in tools:
        toolkit.register(each, background=background)
    return ReActAgent("Friday", ScriptedModel(*turns), toolkit=toolkit, **options)


async def events_of(friday: ReActAgent, *given: Any, **options: Any) -> list[Event]:
    return [event async for event in friday.stream(*given, **options)]


def states(events: list[Event]) -> list[str]:
    return [event.state for event in events if isinstance(event, BackgroundEvent)]


async def ends_in(friday: ReActAgent, memory: Any = None) -> list[tuple[str, str]]:
    """State and text of the results that came as messages."""
    messages = await (memory or friday.memory).get()
    return [(each.metadata[BACKGROUND]["state"], body_of(each)) for each in messages if BACKGROUND in each.metadata]


def body_of(message: Msg) -> str:
    return message.text.partition(">\n")[2].rpartition("\n<")[0]
