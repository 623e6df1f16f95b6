"""Recorded runs with the times of the virtual clock, and events made by hand."""

from __future__ import annotations

import asyncio
from typing import Any

from reactivex import Observable
from reactivex import operators as ops
from tenacity import wait_fixed

from agentscope_rx import ExecutionConfig, ReActAgent, Toolkit
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.events import Event, EventSource
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, flow
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import broken, slow, weather
from tests.events.runs import Scenario, friday_of, run_of, stream_of

BEGAN = 1_790_000_000.0


def on_the_clock(stream: Observable[Event]) -> Flow[Event]:
    """The same events with the times of the loop's clock, which is virtual."""
    return flow(stream.pipe(ops.map(lambda e: e.replace(timestamp=BEGAN + asyncio.get_running_loop().time()))))


def used(*numbers: int) -> ChatResponse:
    return ChatResponse(usage=ChatUsage(*numbers))


async def scenario_log(scenario: Scenario) -> list[Event]:
    """The events of a generated run."""
    friday, seen = friday_of(scenario), list[Event]()
    await run_of(friday, scenario, on_the_clock(stream_of(friday, scenario)), seen.append)
    return seen


async def _busy_run() -> list[Event]:
    inner = ScriptedModel(
        [Delay(0.5), call("slow", seconds=0.6), used(300, 12)], [Delay(0.3), "It is in the north.", used(350, 8)]
    )
    researcher = ReActAgent("Researcher", inner, toolkit=Toolkit([slow]))
    model = ScriptedModel(
        [Delay(0.7), "I look.", Delay(0.4), call("weather", city="Rome"), call("slow", seconds=1.0),
         call("slow", seconds=0.5), call("broken"), call("call_researcher", message="Where is Rome?"),
         used(812, 40, 512)],
        [ModelConnectionError("broken pipe\x1b[31m")],
        [Delay(0.4), "It is ", Delay(0.3), "sunny.", used(900, 80, 600, 20)],
        execution_config=ExecutionConfig(max_attempts=2, wait=wait_fixed(0.5)),
    )  # fmt: skip
    toolkit = Toolkit([weather, slow, broken, researcher.as_tool()], max_concurrency=2)
    seen: list[Event] = []
    await on_the_clock(ReActAgent("Friday", model, toolkit=toolkit).stream("What is the weather in Rome?")).pipe(
        ops.do_action(seen.append)
    )
    return seen


def busy_log() -> list[Event]:
    """Tools at the same time, of which one waits and one fails, a sub-agent, another attempt. Its ids are fixed."""
    return with_fixed_ids(run_virtual(_busy_run()))


def with_fixed_ids(events: list[Event]) -> list[Event]:
    """The same events with the ids run1, run2, ... of runs."""
    known: dict[str, str] = {}

    def fixed(event: Event) -> Event:
        path = event.path
        for each in path[::2]:
            known.setdefault(each, f"run{len(known) + 1}")
        source = EventSource(known[event.run_id], event.agent, tuple(known.get(each, each) for each in path))
        return event.replace(source=source)

    return [fixed(event) for event in events]


def at(seconds: float, kind: Any, *path: str, agent: str = "Friday", **fields: Any) -> Event:
    """An event by hand, so many seconds after the beginning."""
    way = path or ("run1",)
    return kind(source=EventSource(way[-1], agent, way), timestamp=BEGAN + seconds, **fields)
