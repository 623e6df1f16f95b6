"""A shared run: it begins by itself, two readers follow it, it is paused, and takes further input.

    python examples/shared_run.py

One reader follows from the start; another one comes later and first gets what it has missed. While the run is paused,
the model is read no further, except for the piece that was under way. Enqueued input is answered in a further round.
Offline, in virtual time: the model plays a script.
"""

from __future__ import annotations

import asyncio

from agentscope_rx import ReActAgent, RunHandle
from agentscope_rx.events import InputEvent, ReasoningChunkEvent
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual


def say(text: str) -> None:
    """Print a line with the time of the loop."""
    print(f"{asyncio.get_running_loop().time():4.1f} s  {text}")


async def follow(name: str, run: RunHandle) -> None:
    """Print what the agent writes and is told, from the first event on."""
    async for event in run.events():
        if isinstance(event, ReasoningChunkEvent) and event.text:
            say(f"{name}: {event.text!r}")
        elif isinstance(event, InputEvent):
            say(f"{name}: (input) {event.input[0].text}")


async def main() -> None:
    """One run, as a user interface with two windows would have it."""
    model = ScriptedModel(
        ["Oslo ", Delay(1), "by ", Delay(1), "plane."],
        [Delay(1), "Or by train."],
    )
    run = ReActAgent("Friday", model).start("How do I get to Oslo?")  # begins without a subscriber
    async with asyncio.TaskGroup() as readers:
        readers.create_task(follow("early", run))
        await asyncio.sleep(0.5)
        run.pause()
        say(f"{run.state}")
        await asyncio.sleep(10)
        run.resume()
        run.enqueue("And without flying?")  # before the next request to the model
        await asyncio.sleep(0.1)
        readers.create_task(follow("late ", run))
    say(f"reply: {(await run.result()).text}")
    await run.idle()
    say(f"{run.state}, {run.stats().log.received} events, unread: {run.unread}")


if __name__ == "__main__":
    run_virtual(main())
