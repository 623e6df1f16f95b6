"""Whatever a hook compacts: nothing is lost from memory, each request is legal, and the events tell all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import GenerateReason, Hook, InMemoryMemory, Memory, Msg
from agentscope_rx.errors import ContextOverflowError
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.memory.changes import compressed
from agentscope_rx.memory.short_forms import shortened
from agentscope_rx.messages import HIDDEN, TextBlock
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import ScriptedModel
from tests.agent.compacting import look, step
from tests.agent.parts import agent, events_of
from tests.memory.test_replace_all import OneByOne
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole

KINDS = ["compress", "short", "hide", "unhide", "nothing"]


@dataclass
class Random(Hook):
    """Compacts as the plan says: what to do, and to which of the messages (by fractions of their number)."""

    plan: list[tuple[str, list[float]]]
    asked: list[CompactionRequest] = field(default_factory=list)

    def compact(self, request: CompactionRequest) -> Compaction | None:
        self.asked.append(request)
        if not self.plan or not request.history:
            return None
        kind, fractions = self.plan.pop(0)
        history = request.history
        chosen = sorted({int(each * len(history)) for each in fractions})
        if kind == "compress" and chosen:
            replaced = [new for _, new in compressed(history, chosen, f"summary {len(self.asked)}")]
        elif kind == "short":
            replaced = [self.short(history[at]) for at in chosen]
        elif kind == "hide":
            replaced = [history[at].marked(HIDDEN) for at in chosen if history[at].id not in request.question]
        elif kind == "unhide":
            replaced = [history[at].unmarked(HIDDEN) for at in chosen]
        else:
            return None
        return Compaction(replaced=replaced, events=[step(request, request.messages, kind)])

    @staticmethod
    def short(message: Msg) -> Msg:
        if message.tool_results:
            return shortened(message, {0: message.tool_results[0].replace(output=(TextBlock("short"),))})
        return shortened(message, {0: TextBlock("short")}) if message.text else message


plans = st.lists(
    st.tuples(st.sampled_from(KINDS), st.lists(st.floats(0, 0.999), min_size=1, max_size=4)), min_size=1, max_size=8
)


@settings(max_examples=60)
@given(
    plan=plans,
    before=st.integers(0, 3),
    calls=st.lists(st.integers(1, 3), max_size=4),
    refused=st.sets(st.integers(0, 4)),
    one_by_one=st.booleans(),
    summary=st.booleans(),
)
def test_whatever_is_compacted(
    plan: list[tuple[str, list[float]]],
    before: int,
    calls: list[int],
    refused: set[int],
    one_by_one: bool,
    summary: bool,
):
    turns: list[object] = []
    for number, size in enumerate(calls):
        if number in refused:
            turns.append(ContextOverflowError("too long", status=400))
        turns.append([look(10 * number + each) for each in range(size)])
    model = ScriptedModel(*turns, "done")
    hook = Random(list(plan))
    earlier = [Msg.user(f"old {number}") for number in range(before)]
    memory: Memory = OneByOne(earlier) if one_by_one else InMemoryMemory(earlier)
    rounds = max(1, len(calls)) if summary else 20
    friday = agent(model, hooks=[hook], memory=memory, max_iters=rounds)

    async def main() -> None:
        try:
            events = await events_of(friday, "hi")
        except ContextOverflowError:
            # the hook has made nothing smaller
            events = []
        await friday.idle()
        kept = list(await memory.get())
        assert [each.text for each in kept[:before]] == [each.text for each in earlier], "no original is lost"
        assert len({each.id for each in kept}) == len(kept)
        results = [result for each in kept for result in each.tool_results]
        assert [each.id for each in results] == [call.id for each in kept for call in each.tool_calls]
        assert not any(each.text == "short" for each in results)
        if events:
            assert_one_truth(events, earlier, kept)
            assert kept[-1].generate_reason in (GenerateReason.MODEL_STOP, GenerateReason.MAX_ITERATIONS)

    run_virtual(main())
    assert_prompts_are_whole(model)


@pytest.mark.parametrize("size", [1, 3])
def test_a_mark_on_one_result_leaves_out_the_whole_batch(size: int):
    def one(request: CompactionRequest) -> Compaction:
        chosen = [number for number, each in enumerate(request.history) if each.tool_results][:1]
        return Compaction(replaced=[new for _, new in compressed(request.history, chosen, "s")] if chosen else ())

    class Once(Hook):
        def compact(self, request: CompactionRequest) -> Compaction:
            return one(request)

    model = ScriptedModel([look(number) for number in range(size)], "done")
    run_virtual(agent(model, hooks=[Once()]).call("hi"))
    assert [each.text for each in model.requests[1].messages] == ["You are Friday.", "s", "hi"]
    assert_prompts_are_whole(model)
