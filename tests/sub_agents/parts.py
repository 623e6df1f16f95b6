"""What the tests of declared sub-agents share: agents with a hook, calls of its tools, folders with declarations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentscope_rx import ReActAgent, ToolUseBlock, tool
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.hooks import Hook
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.sub_agents import SubAgent, SubagentsHook
from agentscope_rx.testing import ScriptedModel
from tests.agent.parts import remembered
from tests.support.assertions import results_in

INTERRUPTED, REJECTED, FAILED = ToolResultKind.INTERRUPTED, ToolResultKind.REJECTED, ToolResultKind.FAILED


def spawn(id: str, agent: str = "helper", task: str = "go", **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, "agent_spawn", {"agent": agent, "task": task, **arguments})


def send(id: str, agent: str, message: str = "more", /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, "agent_send", {"agent": agent, "message": message, **arguments})


def listing(id: str) -> ToolUseBlock:
    return ToolUseBlock(id, "agent_list", {})


def helper(*turns: Any, name: str = "helper", **options: Any) -> SubAgent:
    """A sub-agent with a script."""
    return SubAgent(name, f"The {name}.", f"You are {name}.", model=ScriptedModel(*turns), **options)


def boss(hook: SubagentsHook | SubAgent, *turns: Any, hooks: Iterable[Hook] = (), **options: Any) -> ReActAgent:
    if isinstance(hook, SubAgent):
        hook = SubagentsHook(hook)
    return ReActAgent("Boss", ScriptedModel(*turns), "You are Boss.", hooks=[hook, *hooks], **options)


def said(agent: ReActAgent) -> dict[str, tuple[str | None, str]]:
    """The results in the memory of the agent, by the ids of calls."""
    return results_in(remembered(agent))


def model_of(declared: SubAgent) -> ScriptedModel:
    assert isinstance(declared.model, ScriptedModel)
    return declared.model


def declare(folder: Path, name: str, body: str = "Do it.", /, **values: object) -> Path:
    """Write a declaration; a value is YAML as it stands."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{key}: {value}\n" for key, value in {"description": f"The {name}.", **values}.items())
    path = folder / f"{name}.md"
    path.write_text(f"---\n{lines}---\n{body}\n")
    return path


def tree_of(conversation: Conversation) -> list[Conversation]:
    """The conversation and all beneath it."""
    found = [conversation]
    for child in () if conversation.children is None else conversation.children.all:
        if child.conversation is not None:
            found += tree_of(child.conversation)
    return found


def assert_free(agent: ReActAgent) -> None:
    """No run is in progress, at any level."""
    for each in tree_of(agent.conversation()):
        assert not each.entered and each.flag.run is None
    assert not agent.running


class Log:
    """Tools that note their calls."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @tool
    async def slow(self, seconds: float = 10) -> str:
        """Take its time."""
        self.done.append("began")
        try:
            await asyncio.sleep(seconds)
        finally:
            self.done.append("ended")
        return "slept"

    @tool
    async def write(self, path: str) -> str:
        """Write a file."""
        self.done.append(f"write {path}")
        return "written"

    @tool(read_only=True)
    async def look(self, path: str) -> str:
        """Read a file."""
        self.done.append(f"look {path}")
        return "content"

    @tool(requires_approval=True)
    async def delete(self, path: str) -> str:
        """Delete a file."""
        self.done.append(f"delete {path}")
        return "gone"
