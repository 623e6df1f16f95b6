"""A run of many rounds that compacts its conversation in a database: requests as in memory, and a short tail."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from agentscope_rx import Hook, InMemoryMemory, Memory, Msg, ReActAgent, StructuredOutput, ToolUseBlock, tool
from agentscope_rx.events import Event, PostActingEvent, PostCallEvent
from agentscope_rx.memory import TokenWindow
from agentscope_rx.memory.sql import SqlMemory
from agentscope_rx.messages import TRANSIENT
from agentscope_rx.testing.scripted_model import ScriptedModel, ScriptedRequest
from tests.agent.compacting import Compacts, summarized, texts

ROUNDS = 150


@tool(name="weather")
async def sunny(city: str) -> str:
    """The weather."""
    return "sunny"


async def sent_in(memory: Memory) -> list[list[str]]:
    """What the requests of one run of many rounds have sent."""
    sent: list[list[str]] = []

    def turn(request: ScriptedRequest) -> ToolUseBlock | str:
        sent.append(texts(request.messages))
        return ToolUseBlock(f"c{len(sent)}", "weather", {"city": "Oslo"}) if len(sent) < ROUNDS else "done"

    compacts = Compacts(lambda request: summarized(request, 4, f"summary {request.iteration}"), above=15)
    model = ScriptedModel(turn, repeat=True)
    await ReActAgent("F", model, tools=[sunny], memory=memory, max_iters=ROUNDS + 1, hooks=[compacts]).call("hi")
    return sent


@pytest.mark.parametrize("window", [20, TokenWindow(300)], ids=["messages", "tokens"])
def test_a_long_run_keeps_a_short_tail(window: int | TokenWindow, tmp_path: Path):
    url = f"sqlite:///{tmp_path}/memory.db"

    async def main() -> None:
        memory = SqlMemory(url, "k", window=window)
        assert await sent_in(memory) == await sent_in(InMemoryMemory())
        assert len(await memory.get()) < 60 and await memory.count() == 2 * ROUNDS
        # all of it is there, and another process goes on with the same view
        assert [each.id async for each in memory.read()].index((await memory.get())[0].id) == 0
        other = SqlMemory(url, "k", window=window)
        assert await other.compressed_summary() == await memory.compressed_summary() != ""
        assert await other.count() == len([each async for each in other.read()]) == 2 * ROUNDS
        await memory.close()
        await other.close()

    asyncio.run(main())


class City(BaseModel):
    name: str


async def left_by_attempts(memory: Memory, mode: Literal["tool", "prompted"]) -> list[str]:
    """What a run leaves that fails at its output twice, is compacted often, and then gives it."""
    asked = 0

    def answer(id: str, name: object) -> ToolUseBlock | str:
        return ToolUseBlock(id, "generate_response", {"name": name}) if mode == "tool" else f'{{"name": {name}}}'

    def turn(request: ScriptedRequest) -> ToolUseBlock | str:
        nonlocal asked
        asked += 1
        if asked in (3, 4):
            return answer(f"bad{asked}", {})
        if asked < 60:
            return ToolUseBlock(f"c{asked}", "weather", {"city": "Oslo"})
        return answer("good", "Oslo" if mode == "tool" else '"Oslo"')

    compacts = Compacts(lambda request: summarized(request, 4, f"summary {request.iteration}"), above=15)
    model = ScriptedModel(turn, repeat=True)
    agent = ReActAgent("F", model, tools=[sunny], memory=memory, max_iters=70, hooks=[compacts])
    await agent.call("hi", output=StructuredOutput(City, mode=mode))
    return texts([message async for message in memory.read()])


@pytest.mark.parametrize("mode", ["tool", "prompted"])
def test_compressed_attempts_at_an_output_are_removed(mode: Literal["tool", "prompted"], tmp_path: Path):
    url = f"sqlite:///{tmp_path}/memory.db"

    async def main() -> None:
        memory = SqlMemory(url, "k", window=10)
        left = await left_by_attempts(memory, mode)
        assert left == await left_by_attempts(InMemoryMemory(), mode)
        assert not [text for text in left if "bad" in text or "{}" in text] and len(left) == await memory.count()
        await memory.close()

    asyncio.run(main())


@pytest.mark.parametrize("enqueued", [False, True], ids=["one input", "further inputs"])
def test_transient_messages_are_removed_far_back(enqueued: bool, tmp_path: Path):
    url = f"sqlite:///{tmp_path}/memory.db"

    async def main() -> None:
        memory = SqlMemory(url, "k", window=10)
        compacts = Compacts(lambda request: summarized(request, 4, f"summary {request.iteration}"), above=15)
        turns = [ToolUseBlock(f"c{number}", "weather", {"city": "Oslo"}) for number in range(60)]
        agent = ReActAgent(
            "F", ScriptedModel(*turns, "done"), tools=[sunny], memory=memory, max_iters=70, hooks=[compacts]
        )
        acted = 0
        async for event in agent.stream("hi"):
            acted += isinstance(event, PostActingEvent)
            if isinstance(event, PostActingEvent) and acted == 2:
                await memory.add([Msg.assistant("note", "F")], marks=[TRANSIENT])
            if isinstance(event, PostActingEvent) and acted == 50 and enqueued:
                agent.enqueue("more")
        left = texts([message async for message in memory.read()])
        assert "note" not in left and await memory.count() == len(left)
        await memory.close()

    asyncio.run(main())


def test_transient_messages_of_a_killed_process_far_back(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/memory.db"

    async def main() -> None:
        memory = SqlMemory(url, "k", window=10)
        await memory.add([Msg.user("note")], marks=[TRANSIENT])
        await memory.add([Msg.user(f"more {number}") for number in range(50)])
        other = SqlMemory(url, "k", window=10)
        left = texts([message async for message in other.read()])
        assert "note" not in left and await other.count() == len(left) == 50
        await memory.close()
        await other.close()

    asyncio.run(main())


class Histories(Hook):
    """Keeps what the memory has at the end of each call."""

    kinds = (PostCallEvent,)

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    async def on_event(self, event: Event) -> Event:
        assert isinstance(event, PostCallEvent)
        self.seen.append(texts(event.history))
        return event


class Adds(Hook):
    """Gives a further input at the 20th result of each call."""

    kinds = (PostActingEvent,)

    def __init__(self) -> None:
        self.acted = 0
        self.agent: ReActAgent | None = None

    async def on_event(self, event: Event) -> Event:
        self.acted += 1
        if self.acted in (20, 60) and self.agent is not None:
            self.agent.enqueue("more")
        return event


async def histories_of(memory: Memory, *, compacts: bool) -> list[list[str]]:
    """The histories at the end of two long calls; without compaction each is given a further input."""
    hooks = [Compacts(lambda request: summarized(request, 4, "summary"), above=15)] if compacts else []
    turns = [ToolUseBlock(f"c{number}", "weather", {"city": "Oslo"}) for number in range(80)]
    seen, adds = Histories(), Adds()
    model = ScriptedModel(*turns[:40], "one", *turns[40:], "two")
    agent = ReActAgent("F", model, tools=[sunny], memory=memory, max_iters=50, hooks=[seen, adds, *hooks])
    if not compacts:
        adds.agent = agent
    for text in ("hi", "again"):
        await agent.call(text)
    return seen.seen


@pytest.mark.parametrize("compacts", [True, False], ids=["compacted", "further inputs"])
def test_the_end_of_a_call_has_all_messages_of_it(compacts: bool, tmp_path: Path):
    async def main() -> None:
        memory = SqlMemory(f"sqlite:///{tmp_path}/memory.db", "k", window=10)
        found = await histories_of(memory, compacts=compacts)
        for seen, expected in zip(found, await histories_of(InMemoryMemory(), compacts=compacts), strict=True):
            start = len(expected) - expected[::-1].index("again" if "again" in expected else "hi") - 1
            assert seen[-len(expected[start:]) :] == expected[start:] and len(expected) - start > 80
        assert len(await memory.get()) < 60
        await memory.close()

    asyncio.run(main())
