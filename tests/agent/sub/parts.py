"""What the tests of sub-agents share: a boss with a researcher, tools that wait, and the laws of all their memories."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentscope_rx import Msg, ReActAgent, Toolkit, ToolResultBlock, tool
from agentscope_rx.agent import Conversation
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.messages import TextBlock, ToolUseBlock
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.testing import ScriptedModel
from tests.support.assertions import results_in

SCHEMA = {"type": "object", "properties": {"question": {"type": "string"}}}
ASK_BOSS = ToolSchema("ask_person", "Ask a person.", SCHEMA)


class Done:
    """What tools have done."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    @tool(requires_approval=True)
    async def delete(self, path: str) -> str:
        """Delete a file."""
        self.deleted.append(path)
        return f"{path} is gone"


def use(name: str, call_id: str, /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(call_id, name, arguments)


def ask(call_id: str, message: str = "go", /, **arguments: object) -> ToolUseBlock:
    """A call of the researcher."""
    return use("call_researcher", call_id, message=message, **arguments)


def given(call_id: str, text: str = "from outside", name: str = "ask_person") -> Msg:
    return Msg.tool(ToolResultBlock(call_id, name, (TextBlock(text),)))


def agent(name: str, *turns: Any, tools: Iterable[object] = (), external: bool = False, **options: Any) -> ReActAgent:
    toolkit = Toolkit(tools, parallel=options.pop("parallel", True))
    if external:
        toolkit.register_schema(ASK_BOSS)
    return ReActAgent(name, ScriptedModel(*turns), toolkit=toolkit, **options)


def researcher(*turns: Any, **options: Any) -> ReActAgent:
    return agent("Researcher", *turns, **options)


def child_of(parent: ReActAgent | Conversation, index: int = 0) -> SubConversation:
    conversation = parent if isinstance(parent, Conversation) else parent.conversation()
    assert conversation.children is not None
    return conversation.children.all[index]


async def history(child: SubConversation) -> list[Msg]:
    assert child.memory is not None
    return list(await child.memory.get())


async def assert_all_whole(conversation: Conversation, memory_messages: Iterable[Msg]) -> None:
    """Every call of every level has exactly one result."""
    messages = list(memory_messages)
    calls = [call.id for message in messages for call in message.tool_calls]
    assert sorted(results_in(messages)) == sorted(calls)
    for child in conversation.children.all if conversation.children is not None else ():
        assert child.conversation is not None
        await assert_all_whole(child.conversation, await history(child))
