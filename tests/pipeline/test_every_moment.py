"""A pipeline whose process is killed at every moment, with checkpoints: another process goes on at the step."""

from __future__ import annotations

from typing import Any

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.pipeline import FanOutPipeline, LoopPipeline, MapPipeline, Pipeline, SequentialPipeline
from agentscope_rx.testing import run_virtual
from tests.agent.durable.crashes import NotingMemory, World, at_every_moment
from tests.agent.durable.test_every_moment import acting, model, use


def member(world: World, name: str, *, asks: bool = False) -> ReActAgent:
    def script(text: str, results: int) -> object:
        if results == 0:
            calls = [use(f"{name}1-{text}", f"{name} one {text}")]
            return [*calls, use(f"{name}2-{text}", f"{name} two {text}", "ask")] if asks else calls
        return f"{name} of {text}"

    return ReActAgent(name, model(world, script), tools=acting(world), memory=NotingMemory(world))


def test_steps_in_turn_and_at_once():
    def make(world: World) -> Pipeline:
        several = FanOutPipeline([member(world, "B", asks=True), member(world, "C")], memory=NotingMemory(world))
        return SequentialPipeline(
            [member(world, "A"), several, member(world, "D", asks=True)], memory=NotingMemory(world)
        )

    doubted = run_virtual(at_every_moment(make, ["go"], every=7))
    assert {"A one go", "B one A of go", "C one A of go", "B two A of go"} <= set(doubted)


def test_two_turns_of_a_loop():
    def make(world: World) -> Pipeline:
        def until(reply: Msg) -> bool:
            return reply.text == "B of A of B of A of go"

        body = [member(world, "A"), member(world, "B", asks=True)]
        return LoopPipeline(body, until=until, memory=NotingMemory(world), max_rounds=2)

    assert run_virtual(at_every_moment(make, ["go", "then"], every=29))


def test_a_map():
    def make(world: World) -> Any:
        return SequentialPipeline([MapPipeline(member(world, "M", asks=True)), member(world, "D")])

    assert run_virtual(at_every_moment(make, ["go"], every=5))
