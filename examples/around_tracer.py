"""A tracer: spans of a run with requests, options, usage and results, from the inside of the flows.

Look at: `_span`, a few lines around any part of a run. A `Tracer` is a hook that stands outside of all others: it sees
when a part begins, every item that passes, and how it ends: completed, failed or disposed of. (`tracing.py` has the
ready one for OpenTelemetry.)

    python examples/around_tracer.py         in virtual time: times are those of the loop's clock
    AGENTSCOPE_RX_MODEL=ollama:qwen3 python examples/around_tracer.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import ReActAgent, ToolResultBlock, tool
from agentscope_rx.agent import Tracer
from agentscope_rx.events import Event, PostCallEvent
from agentscope_rx.hooks import CallRequest, ModelRequest, StageRequest, ToolRequest
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models import ChatResponse, GenerateOptions
from agentscope_rx.reactive import defer
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from agentscope_rx.tools import ToolEvent

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")

T = TypeVar("T")


class Spans(Tracer):
    """Prints a line at the end of each part. A real one would begin and end spans."""

    def __init__(self, zero: float) -> None:
        self.zero = zero

    def _span(self, source: Observable[T], what: str, result: Callable[[T], object | None]) -> Observable[T]:
        def begin() -> Observable[T]:
            clock = asyncio.get_running_loop().time
            began = clock() - self.zero
            found: list[object] = []
            ended: list[str] = []

            def note(item: T) -> None:
                if (value := result(item)) is not None:
                    found.append(value)

            def end(how: str) -> None:
                if not ended:
                    ended.append(how)
                    times = f"{began:3.1f} to {clock() - self.zero:3.1f} s"
                    print(f"{times}  {what}: {how}{f', {found[-1]}' if found else ''}")

            noted = ops.do_action(note, lambda error: end(f"failed: {error}"), lambda: end("ok"))
            return source.pipe(noted, ops.finally_action(lambda: end("disposed of")))

        return defer(begin)

    def around_call(self, source: Observable[Event], request: CallRequest) -> Observable[Event]:
        """The whole run, with its tokens."""

        def tokens(event: Event) -> str | None:
            return f"{event.usage.total_tokens} tokens" if isinstance(event, PostCallEvent) and event.usage else None

        return self._span(source, f"call of {request.agent}({request.input[0].text!r})", tokens)

    def around_stage(self, source: Observable[Event], request: StageRequest) -> Observable[Event]:
        """One stage of a round."""
        return self._span(source, f"  {request.stage} {request.iteration}", lambda event: None)

    def around_model(self, source: Observable[ChatResponse], request: ModelRequest) -> Observable[ChatResponse]:
        """A model call, with options and usage."""
        heat = request.options.temperature if request.options else None
        what = f"    {request.model_name}({len(request.messages)} messages, temperature {heat})"
        return self._span(source, what, lambda item: item.usage and f"{item.usage.output_tokens} tokens")

    def around_tool(self, source: Observable[ToolEvent], request: ToolRequest) -> Observable[ToolEvent]:
        """A tool call, with its result."""
        what = f"    {request.call.name}({dict(request.call.input)})"
        return self._span(source, what, lambda item: item.text if isinstance(item, ToolResultBlock) else None)


@tool
async def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Its name.
    """
    await asyncio.sleep(2)
    return f"sunny in {city}"


async def main() -> None:
    """One run under trace."""
    script = ScriptedModel(
        [Delay(1), call("weather", city="Oslo"), ChatResponse(usage=ChatUsage(50, 8))],
        [Delay(0.5), "It is ", "sunny.", ChatResponse(usage=ChatUsage(70, 4))],
    )
    options = GenerateOptions(temperature=0.2)
    spans = Spans(asyncio.get_running_loop().time())
    agent = ReActAgent("Friday", MODEL or script, tools=[weather], tracer=spans, generate_options=options)
    print((await agent.call("How is Oslo?")).text)


if __name__ == "__main__":
    # a real model needs real time
    asyncio.run(main()) if MODEL else run_virtual(main())
