"""A build takes long: it goes on in the background while the agent reads its output, and wakes the agent at its end.

    python examples/background_work.py

The model is scripted, so that it runs offline; put `OpenAIChatModel(...)` in its place and it is a real one.
"""

from __future__ import annotations

import asyncio

from agentscope_rx import BackgroundHook, ReActAgent, tool
from agentscope_rx.events import ActingChunkEvent, BackgroundEvent, PostCallEvent, PostReasoningEvent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.testing import ScriptedModel, ScriptedRequest, call


@tool
async def build(steps: int):
    """Build the project."""
    for step in range(1, steps + 1):
        await asyncio.sleep(0.05)
        yield f"step {step} of {steps}"
    yield "built"


def read(request: ScriptedRequest) -> ToolUseBlock:
    """The model reads the output of the job that its handle names."""
    results = [result for message in request.messages for result in message.tool_results]
    job = next(result.metadata["background"]["job"] for result in results if "background" in result.metadata)
    return call("background_read", job=job, wait=1)


async def main() -> None:
    model = ScriptedModel(call("build", steps=4), read, "The build is going on.", "It is built.")
    agent = ReActAgent("Friday", model, tools=[build], hooks=[BackgroundHook(after=0.12)])
    async for event in agent.stream("Build the project."):
        match event:
            case BackgroundEvent():
                print(f"[{event.tool_use.name} {event.state}]")
            case ActingChunkEvent() if event.depth and event.chunk.text:
                print(f"  {event.chunk.text}")
            case PostReasoningEvent() if event.message.text:
                print(f"Friday: {event.message.text}")
            case PostCallEvent():
                print(f"reply: {event.message.text}")
            case _:
                pass


if __name__ == "__main__":
    asyncio.run(main())
