"""How a run ends before its time: interrupted, disposed of, at a limit, replaced by a newer question, at a shutdown.

Look at: what the caller gets. An interruption and a replacement end with a reply, a limit and a shutdown with an error;
who leaves the stream gets nothing more. Each time the memory is whole, and the agent can be called again.

    python examples/ending_runs.py           in virtual time
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/ending_runs.py
"""

from __future__ import annotations

import asyncio
import os

from agentscope_rx import GracefulShutdown, ReActAgent, UsageLimits
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")
STORY = ["Once ", Delay(1), "upon ", Delay(1), "a time ", Delay(100), "there was a fjord."]


def teller(shutdown: GracefulShutdown | None = None) -> ReActAgent:
    script = ScriptedModel(STORY, "Where were we?")
    return ReActAgent("Teller", MODEL or script, when_busy="replace", shutdown=shutdown)


async def interrupted() -> str:
    agent = teller()
    run = agent.start("A long story, please.")
    await asyncio.sleep(5)
    run.interrupt("Thank you, that is enough.")
    return f"{(await run.result()).generate_reason}; then {(await agent.call('Go on.')).text[:40]!r}"


async def disposed() -> str:
    agent = teller()
    async with agent.stream("A long story, please.").text() as parts:
        async for part in parts:
            print(f"  {part!r} is all that is read")
            break
    return f"the run is stopped: {not agent.running}; then {(await agent.call('Go on.')).text[:40]!r}"


async def limited() -> str:
    try:
        reply = await teller().call("A long story, please.", limits=UsageLimits(deadline=5))
    except AgentScopeError as error:
        return f"{type(error).__name__}: {error}"
    return f"the model was faster: {reply.text[:40]!r}"


async def replaced() -> str:
    agent = teller()
    first = agent.call("A long story, please.").as_task()
    await asyncio.sleep(1.5)
    second = await agent.call("No, a short one.")
    return f"the first: {(await first).generate_reason}; the second: {second.text[:40]!r}"


async def shut_down() -> str:
    shutdown = GracefulShutdown(timeout=10)
    running = teller(shutdown).call("A long story, please.").as_task()
    await asyncio.sleep(1)
    await shutdown.begin()
    try:
        return f"it was ready in time: {(await running).text[:40]!r}"
    except AgentScopeError as error:
        return f"after ten seconds of patience: {type(error).__name__}"


async def main() -> None:
    for ending in (interrupted, disposed, limited, replaced, shut_down):
        print(f"{ending.__name__}:")
        print(f"  {await ending()}")


if __name__ == "__main__":
    # a real model needs real time
    asyncio.run(main()) if MODEL else run_virtual(main())
