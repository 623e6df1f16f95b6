"""Models around models: a fallback for one that fails, a race against one that is slow, a limit for one that is busy.

Look at: the times. A wrapper is a model itself, so each can be put around any other, and the agents know nothing of it.
The second attempt of the race begins after two seconds of silence; the limit lets two requests through at a time.

    python examples/model_wrappers.py

The model is scripted, because it has to fail, to hang and to be slow. Time is virtual.
"""

from __future__ import annotations

import asyncio

from agentscope_rx import ExecutionConfig, ReActAgent
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.events import ReasoningChunkEvent, RetryEvent
from agentscope_rx.models import ChatModel, FallbackModel, HedgedModel, RateLimitedModel
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual

ONCE = ExecutionConfig(max_attempts=1)


async def ask(what: str, model: ChatModel, times: int = 1) -> None:
    """So many agents with one model, at once."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    print(f"{what}:")

    async def one(number: int) -> None:
        async for event in ReActAgent(f"Friday {number}", model).stream("What is the news?"):
            if isinstance(event, RetryEvent):
                print(f"  {loop.time() - begun:4.1f} s  again, after: {event.error_text}")
            elif isinstance(event, ReasoningChunkEvent) and event.text:
                print(f"  {loop.time() - begun:4.1f} s  {event.agent}: {event.text}")

    async with asyncio.TaskGroup() as group:
        for number in range(1, times + 1):
            group.create_task(one(number))


async def main() -> None:
    down = ScriptedModel([Delay(1), ModelConnectionError("no route to host")], execution_config=ONCE)
    await ask("a fallback", FallbackModel(down, ScriptedModel([Delay(1), "From the second model."])))

    stuck = ScriptedModel([HANG], [Delay(1), "From the second attempt."])
    await ask("a race", HedgedModel(stuck, after=2))

    busy = ScriptedModel([Delay(3), "Here it is."], repeat=True)
    await ask("two at a time", RateLimitedModel(busy, max_concurrency=2), times=4)


if __name__ == "__main__":
    run_virtual(main())
