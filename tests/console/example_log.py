"""Makes examples/data/weekend.jsonl: `python -m tests.console.example_log`. It has the times of a virtual clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reactivex import operators as ops
from tenacity import wait_fixed

from agentscope_rx import Approve, ExecutionConfig, ReActAgent, Toolkit, tool
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.events import Event
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.console.logs import on_the_clock, used, with_fixed_ids

LOG = Path(__file__).parents[2] / "examples" / "data" / "weekend.jsonl"


def slow_tool(name: str, seconds: float, result: str):
    @tool(name=name, description=f"The tool {name}.", requires_approval=name == "book")
    async def run(place: str) -> str:
        await asyncio.sleep(seconds)
        if not result:
            raise ValueError("no such place in the table of hotels")
        return result

    return run


async def both_runs() -> list[Event]:
    """A run with tools at the same time, a sub-agent and another attempt, that waits for approval; and the next run."""
    researcher = ReActAgent(
        "Researcher",
        ScriptedModel(
            [Delay(0.6), call("search", place="Rome museums"), used(410, 18)],
            [Delay(0.5), "The Capitoline Museums open at 9:30.", Delay(0.4), used(655, 31)],
            model_name="gpt-5-nano",
        ),
        toolkit=Toolkit([slow_tool("search", 0.8, "Capitoline Museums, 9:30")]),
    )
    model = ScriptedModel(
        [Delay(0.9), "I look up ", Delay(0.3), "a few things.", call("weather", place="Rome"),
         call("flights", place="Rome"), call("hotels", place="Roma"), call("call_researcher", message="Museums?"),
         Delay(0.2), used(1214, 96, 1024)],
        ModelConnectionError("The connection was closed."),
        [Delay(0.7), "The 9:40 flight is free.", Delay(0.3), call("book", place="Rome"), used(1630, 58, 1280, 24)],
        [Delay(0.5), "It is booked: ", Delay(0.6), "have a good trip!", used(1742, 44, 1536)],
        model_name="gpt-5-mini",
        execution_config=ExecutionConfig(max_attempts=2, wait=wait_fixed(1.0)),
    )  # fmt: skip
    tools = [slow_tool("weather", 0.4, "sunny, 24 degrees"), slow_tool("flights", 2.2, "9:40, 12:15")]
    tools += [slow_tool("hotels", 0.3, ""), slow_tool("book", 1.1, "booked")]
    friday = ReActAgent(
        "Friday", model, "You plan trips.", toolkit=Toolkit([*tools, researcher.as_tool()], max_concurrency=3)
    )
    seen: list[Event] = []
    stream = on_the_clock(friday.stream("Plan a weekend in Rome, and book the flight."))
    last = await stream.pipe(ops.do_action(seen.append))
    await asyncio.sleep(1485)
    answers = [Approve(each.id) for each in last.message.pending_calls]
    await on_the_clock(friday.stream(answers)).pipe(ops.do_action(seen.append))
    return with_fixed_ids(seen)


if __name__ == "__main__":
    LOG.write_text("".join(f"{event.to_json()}\n" for event in run_virtual(both_runs())), encoding="utf-8")
