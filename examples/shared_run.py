"""A shared run: it begins by itself, two readers follow it, it is paused, and takes further input.

Look at: the times. The late reader first gets what it has missed, at 10.6 s. While the run is paused, the model is read
no further, except for the piece that was under way. Enqueued input is answered in a further round.

    python examples/shared_run.py            in virtual time: the seconds that are printed take none
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/shared_run.py
"""

from __future__ import annotations

import asyncio
import os

from agentscope_rx import ReActAgent, RunHandle
from agentscope_rx.errors import RunEndedError
from agentscope_rx.events import InputEvent, ReasoningChunkEvent
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")
begun = 0.0


def say(text: str) -> None:
    """Print a line with the seconds since the beginning."""
    print(f"{asyncio.get_running_loop().time() - begun:4.1f} s  {text}")


async def follow(name: str, run: RunHandle) -> None:
    """Print what the agent writes and is told, from the first event on."""
    async for event in run.events():
        if isinstance(event, ReasoningChunkEvent) and event.text:
            say(f"{name}: {event.text!r}")
        elif isinstance(event, InputEvent):
            say(f"{name}: (input) {event.input[0].text}")


async def main() -> None:
    """One run, as a user interface with two windows would have it."""
    global begun
    begun = asyncio.get_running_loop().time()
    script = ScriptedModel(
        ["Oslo ", Delay(1), "by ", Delay(1), "plane."],
        [Delay(1), "Or by train."],
    )
    run = ReActAgent("Friday", MODEL or script).start("How do I get to Oslo?")  # begins without a subscriber
    async with asyncio.TaskGroup() as readers:
        readers.create_task(follow("early", run))
        await asyncio.sleep(0.5)
        run.pause()
        say(f"{run.state}")
        await asyncio.sleep(2 if MODEL else 10)
        run.resume()
        try:
            run.enqueue("And without flying?")  # before the next request to the model
        except RunEndedError:
            say("the model was faster")
        await asyncio.sleep(0.1)
        readers.create_task(follow("late ", run))
    say(f"reply: {(await run.result()).text}")
    await run.idle()
    say(f"{run.state}, {run.stats().log.received} events, unread: {run.unread}")


if __name__ == "__main__":
    # a real model needs real time
    asyncio.run(main()) if MODEL else run_virtual(main())
