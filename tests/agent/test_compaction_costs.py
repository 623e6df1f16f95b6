"""Costs of compaction: nothing for a run without it, and the 2,000th round of a run costs as much as the 200th."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, ToolUseBlock, tool
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.memory.short_forms import shortened
from agentscope_rx.messages import HIDDEN, TextBlock
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import ScriptedModel, ScriptedRequest
from tests.agent.compacting import Compacts, summarized

ROUNDS = 2_000
MEASURED = {range(180, 200): "early", range(1_980, 2_000): "late"}


@tool(name="weather")
async def sunny(city: str) -> str:
    """The weather."""
    return "sunny"


class Counting:
    """Counts the Python calls of rounds, at their beginnings, in the ranges of `MEASURED`."""

    def __init__(self) -> None:
        self.calls = 0
        self.round = 0
        self.at: dict[int, int] = {}
        self.sent: list[int] = []

    def note(self, frame: FrameType, event: str, arg: object) -> None:
        # (the heap of the loop's timers compares a few more)
        self.calls += event == "call" and "/agentscope_rx/" in frame.f_code.co_filename

    def turn(self, request: ScriptedRequest) -> ToolUseBlock | str:
        self.round += 1
        self.sent.append(len(request.messages))
        measured = any(self.round in each or self.round == each.stop for each in MEASURED)
        if measured:
            self.at[self.round] = self.calls
        sys.setprofile(self.note if measured and self.round not in (each.stop for each in MEASURED) else None)
        return ToolUseBlock(f"c{self.round}", "weather", {"city": "Oslo"}) if self.round < ROUNDS else "done"

    def least(self, rounds: range) -> int:
        return min(self.at[number + 1] - self.at[number] for number in rounds)


def early_summary(request: CompactionRequest) -> Compaction | None:
    return summarized(request, 4) if request.iteration == 100 else None


def early_short_form(request: CompactionRequest) -> Compaction | None:
    if request.iteration != 100:
        return None
    result = next(each for each in request.history if each.tool_results)
    form = result.tool_results[0].replace(output=(TextBlock("short"),))
    return Compaction(replaced=[shortened(result, {0: form})])


@pytest.mark.parametrize("what", ["plain", "hidden", "summary", "short form"])
def test_the_2000th_round_costs_as_much_as_the_200th(what: str):
    counting = Counting()
    memory = InMemoryMemory([Msg.user("note").marked(HIDDEN)] if what == "hidden" else [])
    make = {"summary": early_summary, "short form": early_short_form}.get(what)
    friday = ReActAgent(
        "Friday",
        ScriptedModel(counting.turn, repeat=True),
        tools=[sunny],
        memory=memory,
        max_iters=ROUNDS + 1,
        hooks=[] if make is None else [Compacts(make)],
    )
    try:
        run_virtual(friday.call("hi"))
    finally:
        sys.setprofile(None)
    early, late = (counting.least(rounds) for rounds in MEASURED)
    assert late == early, f"{early} calls in round 200, {late} in round 2,000"
    if what == "summary":
        assert counting.sent[101] - counting.sent[99] < -150, "the summary has taken the place of messages"


def test_a_run_that_compacts_stays_small():
    """2,000 rounds, and no request has more than 60 messages."""
    counting = Counting()
    compacts = Compacts(lambda request: summarized(request, 10), above=50)
    friday = ReActAgent(
        "Friday",
        ScriptedModel(counting.turn, repeat=True),
        tools=[sunny],
        max_iters=ROUNDS + 1,
        hooks=[compacts],
    )
    try:
        run_virtual(friday.call("hi"))
    finally:
        sys.setprofile(None)
    assert max(counting.sent) <= 60
    assert len(friday.memory.messages) == 2 * ROUNDS, "memory has them all"
