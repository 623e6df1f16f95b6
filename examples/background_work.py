"""A build takes long: it goes on in the background while the agent reads its output, and wakes the agent at its end.

Look at: `BackgroundHook(after=0.12)`, the only thing that makes `build` a background job, and the two answers: one
while it goes on, and one after "[build completed]", which comes without a second call.

    python examples/background_work.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/background_work.py
"""

from __future__ import annotations

import asyncio
import os

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
    script = ScriptedModel(call("build", steps=4), read, "The build is going on.", "It is built.")
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
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
