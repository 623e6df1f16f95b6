"""A task of 200 rounds within 4,000 tokens: what is old is shortened and summarised, and nothing is lost.

Look at: `CompactionHook(strategies=[...])`, and the tokens before and after each step. The model knows only what its
request contains: at the end it needs the code of room 3, which is in the summary by then. Memory has all results whole.

    python examples/long_task.py

The model is scripted, because 200 rounds of a real one take long, and cost; it reads its requests as a real one does.
"""

from __future__ import annotations

import asyncio
import re

from agentscope_rx import ReActAgent, ToolUseBlock, tool
from agentscope_rx.context_policy import CompactionHook, DropOldResults, Summarize
from agentscope_rx.events import ContextEvent
from agentscope_rx.models.tokens import EstimatedTokens
from agentscope_rx.testing import ScriptedModel, ScriptedRequest, call

ROOMS = 200
CODE = re.compile(r"the code of room 3 is (\w+)")
tokens: list[int] = []


@tool(read_only=True)
def look(room: int) -> str:
    """Look at a room."""
    return f"Room {room}: the code of room {room} is x{room * 7}. " + "Dust, and an old chair. " * 5


def answer(request: ScriptedRequest) -> str | ToolUseBlock:
    """The model: it looks at every room, writes summaries, and answers from its request."""
    prompt = "\n".join(str(block) for message in request.messages for block in message.content)
    code = CODE.search(prompt)
    if "</conversation>" in request.messages[-1].text:
        fact = f"- the code of room 3 is {code[1]}" if code else ""
        return f"## Goal\nFind the code of room 3.\n## State\nLooking at the rooms.\n## Facts to keep\n{fact}"
    tokens.append(EstimatedTokens().count(request.messages, request.tools))
    if len(tokens) <= ROOMS:
        return call("look", f"look_{len(tokens)}", room=len(tokens) - 1)
    return f"The code of room 3 is {code[1]}." if code else "I do not know."


async def main() -> None:
    policy = CompactionHook(strategies=[DropOldResults(keep_rounds=5), Summarize(max_tokens=300)], max_tokens=4_000)
    agent = ReActAgent("Friday", ScriptedModel(answer, repeat=True), tools=[look], hooks=[policy], max_iters=ROOMS + 10)
    steps: list[ContextEvent] = []
    async for event in agent.stream("Look at every room. What is the code of room 3?"):
        if isinstance(event, ContextEvent):
            steps.append(event)
    for step in steps[:3]:
        print(f"{step.step}: {step.tokens_before} -> {step.tokens_after} tokens")
    messages = await agent.memory.get()
    print(f"{len(tokens)} requests, the largest within 4,000 tokens: {max(tokens) <= 4_000}")
    print(f"memory has {sum(len(message.tool_results) for message in messages)} results, whole:")
    print(f"  {messages[8].tool_results[0].text[:31]}")
    print(f"Friday: {messages[-1].text}")


if __name__ == "__main__":
    asyncio.run(main())
