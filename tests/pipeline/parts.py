"""What the tests of pipelines share: members that say what they were told, and the laws of all their memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentscope_rx import Agent, InMemoryMemory, Msg, ReActAgent
from agentscope_rx.agent import Conversation
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.testing import Delay, ScriptedModel
from tests.support.assertions import results_in


def echo(name: str, *, wait: float = 0.0, times: int = 50) -> ReActAgent:
    """An agent that answers `name(what it was told)`, after a while."""

    def turn(request: Any) -> Sequence[object]:
        told = request.messages[-1].text
        text = f"{name}({told})"
        return [Delay(wait), text[:3], text[3:]] if wait else [text[:3], text[3:]]

    return ReActAgent(name, ScriptedModel(*[turn] * times))


def says(name: str, *turns: Any, **options: Any) -> ReActAgent:
    return ReActAgent(name, ScriptedModel(*turns), **options)


def use(name: str, call_id: str, /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(call_id, name, arguments)


def remembered(agent: Agent) -> list[Msg]:
    """The messages in the agent's own memory."""
    assert isinstance(agent.memory, InMemoryMemory)
    return list(agent.memory.messages)


def calls_in(messages: Sequence[Msg]) -> list[str]:
    return [call.id for message in messages for call in message.tool_calls]


async def assert_whole(conversation: Conversation, messages: Sequence[Msg]) -> None:
    """At every level each call has one result, or waits."""
    calls, results = calls_in(messages), results_in(messages)
    assert len(calls) == len(set(calls)) and set(results) <= set(calls)
    assert set(calls) - set(results) == set(conversation.pending or ())
    for child in children_of(conversation):
        if child.conversation is not None and child.memory is not None:
            await assert_whole(child.conversation, await child.memory.get())


def children_of(conversation: Conversation) -> tuple[SubConversation, ...]:
    return () if conversation.children is None else conversation.children.all
