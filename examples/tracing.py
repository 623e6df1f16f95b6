"""OpenTelemetry: the spans of a run with a model that falls back, tools side by side, a sub-agent and a user's span.

Look at: `instrument()`, which traces every agent of the process, and the span "ask the station", which a tool made by
itself and which is a child of the tool's. Here the spans go to the console, one line each, as they end: parents after
their children. In a program they go where its provider sends them.

    python examples/tracing.py

The model is scripted, because the first of two has to fail. Times are those of the loop's clock, which is virtual here.
"""

from __future__ import annotations

import asyncio
import sys

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models import ChatResponse, ExecutionConfig, FallbackModel
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from agentscope_rx.tracing import instrument, uninstrument

provider = TracerProvider()
tracer = provider.get_tracer("examples")

SHOWN = ("gen_ai.usage.output_tokens", "gen_ai.response.time_to_first_chunk", "error.type")


def line(span: ReadableSpan) -> str:
    """The span with its time and some of its attributes."""
    begin, end = (0 if time is None else time / 1e9 for time in (span.start_time, span.end_time))
    # the user's span has the system's time
    scope = span.instrumentation_scope
    when = f"{begin:3.1f} to {end:3.1f} s" if scope is not None and scope.name == "agentscope_rx" else " " * 12
    given = span.attributes or {}
    notes = "".join(f", {name.rpartition('.')[2]} {given[name]}" for name in SHOWN if name in given)
    return f"{when}  {span.name}{notes}{''.join(f', {event.name}' for event in span.events)}\n"


@tool
async def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Its name.
    """
    with tracer.start_as_current_span("ask the station"):
        await asyncio.sleep(1.5)
    return f"sunny in {city}"


def team() -> ReActAgent:
    """An agent with a sub-agent, and two models: the first one does not answer."""
    expert = ReActAgent("Expert", ScriptedModel([Delay(0.5), "Take a hat.", ChatResponse(usage=ChatUsage(20, 4))]))
    first = ScriptedModel(
        [Delay(0.5), ModelConnectionError("no route")],
        [Delay(0.5), "Sunny: ", Delay(0.5), "take a hat.", ChatResponse(usage=ChatUsage(70, 6))],
        execution_config=ExecutionConfig(max_attempts=1),
    )
    second = ScriptedModel([Delay(1), call("weather", city="Oslo"), call("call_expert", message="What to wear?")])
    first.model_name, second.model_name = "first", "second"
    return ReActAgent("Friday", FallbackModel(first, second), tools=[weather, expert])


async def main() -> None:
    """One run under trace."""
    loop = asyncio.get_running_loop()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stdout, formatter=line)))
    instrument(tracer_provider=provider, clock=lambda: int(loop.time() * 1e9))
    reply = await team().call("How is Oslo?")
    uninstrument()
    print(reply.text)


if __name__ == "__main__":
    run_virtual(main())
