"""Several agents at once in asyncio, and one of them cancelled: only its run stops.

Look at: `await agent.call(...)` in tasks, so that `TaskGroup`, `timeout` and `cancel` work as usual. A
cancelled run closes its model's response at once, and its agent can be called again: its memory is whole.

    python examples/asyncio_agents.py                    in virtual time: the seconds that are printed take none
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/asyncio_agents.py
"""

from __future__ import annotations

import asyncio
import os

from agentscope_rx import ReActAgent
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from agentscope_rx.testing.scripted_model import Turn

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")


def cook(name: str, *script: Turn) -> ReActAgent:
    return ReActAgent(name, MODEL or ScriptedModel(*script), f"You are {name}, a cook. Answer in five words.")


async def answer(agent: ReActAgent, question: str) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        reply = await agent.call(question)
    except asyncio.CancelledError:
        print(f"{loop.time() - begun:4.1f} s  {agent.name} is cancelled")
        raise
    print(f"{loop.time() - begun:4.1f} s  {agent.name}: {reply.text}")


async def main() -> None:
    ann = cook("Ann", [Delay(1), "Soup."], [Delay(2), "Pears."])
    bob = cook("Bob", ["Let me ", Delay(60), "think."], [Delay(60), "Toast?"])
    eve = cook("Eve", [Delay(3), "A cake."], [Delay(1), "More cake."])

    question = "What do we cook?"
    tasks = {agent.name: asyncio.create_task(answer(agent, question)) for agent in (ann, bob, eve)}
    await asyncio.sleep(2)
    tasks["Bob"].cancel()  # the others go on
    await asyncio.gather(*tasks.values(), return_exceptions=True)

    print("Bob remembers:", [message.text for message in await bob.memory.get()])
    try:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for agent in (ann, bob, eve):
                group.create_task(answer(agent, "And for dessert?"))
    except TimeoutError:
        print("the time is up, and everything has stopped:", [agent.running for agent in (ann, bob, eve)])


if __name__ == "__main__":
    # a real model needs real time
    asyncio.run(main()) if MODEL else run_virtual(main())
