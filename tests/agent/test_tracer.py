"""A tracer stands outside of all hooks around a call, its stages, its models and its tools; stages are overridden."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.agent import Run, Tracer
from agentscope_rx.reactive import Flow, catch, concat, defer, empty, just, then, throw
from agentscope_rx.testing import HANG, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, remembered, weather

T = TypeVar("T")


class Noting(Tracer):
    """Notes when each part begins and how it ends."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.runs: set[str] = set()

    def _around(self, name: str, flow: Flow[T]) -> Flow[T]:
        def note(text: str, then: Callable[[], Flow[T]]) -> Flow[T]:
            return defer(lambda: (self.noted.append(text), then())[1])

        failed = catch(lambda error: note(f"!{name}", lambda: throw(error)))
        ended = just(None).pipe(then(lambda: note(f"/{name}", empty)))
        return note(name, lambda: concat(flow, ended).pipe(failed))

    def around_call(self, source, request):
        self.runs.add(request.run_id)
        return self._around(f"call of {request.agent}", source)

    def around_stage(self, source, request):
        self.runs.add(request.run_id)
        return self._around(f"{request.stage} {request.iteration}", source)

    def around_model(self, source, request):
        self.runs.add(request.run_id)
        return self._around(f"model {request.model_name}", source)

    def around_tool(self, source, request):
        self.runs.add(request.run_id)
        return self._around(f"tool {request.call.name}", source)


def test_a_tracer_stands_around_every_part():
    tracer = Noting()
    friday = agent(ScriptedModel(call("weather", city="Paris"), "Sunny."), tracer=tracer)
    assert run_virtual(friday.call("Weather?")).text == "Sunny."
    assert len(tracer.runs) == 1
    assert tracer.noted == [
        "call of Friday",
        *("reasoning 0", "model scripted", "/model scripted", "/reasoning 0"),
        *("acting 0", "tool weather", "/tool weather", "/acting 0"),
        *("reasoning 1", "model scripted", "/model scripted", "/reasoning 1"),
        "/call of Friday",
    ]


def test_a_tracer_sees_failures_on_their_way_and_the_summary():
    tracer = Noting()
    friday = agent(ScriptedModel(call("weather", city="Paris"), ValueError("broken")), tracer=tracer, max_iters=1)
    with pytest.raises(ValueError, match="broken"):
        run_virtual(friday.call("Weather?"))
    assert tracer.noted[-5:] == [
        "summarizing 1",
        "model scripted",
        "!model scripted",
        "!summarizing 1",
        "!call of Friday",
    ]


def test_stages_and_the_interruption_reply_can_be_overridden():
    class Own(ReActAgent):
        def acting(self, run, calls):
            self.asked = [each.name for each in calls]
            return super().acting(run, calls)

        def reasoning(self, run, *, sent_back=False):
            run.system_message = Msg.system(f"Round {run.iteration}.")
            return super().reasoning(run, sent_back=sent_back)

        def handle_interrupt(self, run: Run) -> Flow[Msg]:
            return just(Msg.assistant(f"Stopped in round {run.iteration}.", self.name))

    model = ScriptedModel(call("weather", city="Paris"), HANG)
    friday = Own("Friday", model, tools=[weather])

    async def main() -> Msg:
        reply = friday.call("Weather?").as_task()
        await asyncio.sleep(1)
        friday.interrupt()
        return await reply

    assert run_virtual(main()).text == "Stopped in round 1."
    assert friday.asked == ["weather"]
    assert [request.messages[0].text for request in model.requests] == ["Round 0.", "Round 1."]
    assert remembered(friday)[-1].text == "Stopped in round 1."
