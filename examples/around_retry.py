"""Retry and timeout as hooks: stock operators around a model call and a tool call.

Look at: the times, and the list `hooks`. `around` takes any operator as it is, and the priority says which one is
inside. What a failed attempt has shown is announced as discarded before the next one begins, and is no part of the
message. A tool that fails gives a result, not an error: to try it again, an operator turns the result into an error.

    python examples/around_retry.py

The model is scripted, because its connection has to break in the middle of an answer. Time is virtual.
"""

from __future__ import annotations

import asyncio

from reactivex import Observable
from reactivex import operators as ops
from tenacity import stop_after_attempt, wait_fixed

from agentscope_rx import ReActAgent, ToolResultBlock, tool
from agentscope_rx.errors import ModelConnectionError, ToolError
from agentscope_rx.events import PostCallEvent, ReasoningChunkEvent, RetryEvent
from agentscope_rx.hooks import ToolRequest, around
from agentscope_rx.reactive import RetryPolicy, flow, retry, timeout
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from agentscope_rx.tools import ToolEvent


@around("tool", priority=10)
def persistent(source: Observable[ToolEvent], request: ToolRequest) -> Observable[ToolEvent]:
    """Three attempts at the lookup, a second apart; its last error is the result."""
    if request.call.name != "lookup":
        return source

    def failed(item: ToolEvent) -> ToolEvent:
        if isinstance(item, ToolResultBlock) and item.is_error:
            raise ToolError(item.text)
        return item

    policy = RetryPolicy(stop=stop_after_attempt(3), wait=wait_fixed(1))
    return flow(source).pipe(ops.map(failed), retry(policy))


attempts = 0


@tool
async def lookup(city: str) -> str:
    """Looks up the weather.

    Args:
        city: Its name.
    """
    global attempts
    attempts += 1
    await asyncio.sleep(60 if attempts == 1 else 0)
    if attempts == 2:
        raise ConnectionError("the station is down")
    return f"Sunny in {city}."


async def main() -> None:
    """A tool that gets stuck, then fails; a model whose connection breaks in the middle of its answer."""
    model = ScriptedModel(
        call("lookup", city="Oslo"),
        ["It is ", Delay(0.5), "sun", ModelConnectionError("connection lost")],
        ["It is ", Delay(0.5), "sunny in Oslo."],
    )
    # the timeout is inside the retry: each attempt has five seconds
    hooks = [around("model", ops.retry(3)), persistent, around("tool", timeout(total=5), priority=20)]
    agent = ReActAgent("Friday", model, tools=[lookup], hooks=hooks)
    loop = asyncio.get_running_loop()
    async for event in agent.stream("How is the weather in Oslo?"):
        at = f"{loop.time():4.1f} s"
        if isinstance(event, ReasoningChunkEvent) and event.text:
            print(f"{at}  {event.text!r}")
        elif isinstance(event, RetryEvent):
            print(f"{at}  {event.stage} again{', discarding what was shown' if event.discarded else ''}")
        elif isinstance(event, PostCallEvent):
            print(f"{at}  reply: {event.message.text}")


if __name__ == "__main__":
    run_virtual(main())
