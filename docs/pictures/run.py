"""Records run.jsonl: two agents at once, with the embedded model and a tool that reports its progress."""

import asyncio
from collections.abc import AsyncIterator

from agentscope_rx import FanOutPipeline, ReActAgent, tool
from agentscope_rx.events import record


@tool
async def weather(city: str) -> AsyncIterator[str]:
    """Current weather of a city."""
    for station in ("airport", "harbour", "tower"):
        await asyncio.sleep(0.4)
        yield f"The {station} has answered."
    yield f"Sunny in {city}, 21 degrees."


async def main() -> None:
    anna, ben = (ReActAgent(name, "local:smollm2", tools=[weather]) for name in ("Anna", "Ben"))
    desk = FanOutPipeline([anna, ben], "Desk")
    await record(desk.stream("What is the weather in Paris?"), "run.jsonl")


asyncio.run(main())
