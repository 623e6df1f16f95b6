"""`RecordedModel` plays runs whose conversations were compacted: their summaries, short forms and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, fold, tool
from agentscope_rx.context_policy import CompactionHook, DropOldResults, Summarize
from agentscope_rx.errors import ContextOverflowError, ModelConnectionError
from agentscope_rx.events import Event
from agentscope_rx.messages import ChatUsage, TextBlock
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.testing import RecordedModel, ScriptedModel, ScriptedRequest, call, run_virtual
from agentscope_rx.testing.recorded_model import RecordedMismatchError

SUMMARY = "## Goal\nLook.\n## State\nLooking.\n## Facts to keep\n- one"
EARLIER = [Msg.user("old " * 200), Msg.assistant("fine " * 200, "Friday"), Msg.user("and?"), Msg.assistant("so", "F")]


@tool
async def look(of: int) -> str:
    """Looks."""
    return "word " * 200


def looking(*, rounds: int = 8, refuse: int = 0, fail: int = 0, text: str = "") -> ScriptedModel:
    """Looks so often; round `refuse` is refused as too long, summary `fail` fails."""
    asked = {"rounds": 0, "summaries": 0}

    def answer(request: ScriptedRequest) -> object:
        if "</conversation>" in request.messages[-1].text:
            asked["summaries"] += 1
            if asked["summaries"] == fail:
                return ModelConnectionError("the line is down")
            return [SUMMARY, ChatResponse(usage=ChatUsage(input_tokens=300, output_tokens=20))]
        asked["rounds"] += 1
        if asked["rounds"] == refuse:
            error = ContextOverflowError("maximum context length is 900 tokens, resulted in 1100 tokens", status=400)
            return [*([text] if text else []), error]
        return call("look", of=1) if asked["rounds"] < rounds else [TextBlock("done")]

    return ScriptedModel(answer, repeat=True)


def play(model: ChatModel, strategies: Sequence[object], before: Sequence[Msg] = (), tokens: int = 1_500):
    hook = CompactionHook(strategies=strategies, max_tokens=tokens, keep_rounds=1)
    memory = InMemoryMemory([each.replace(id=f"m{n}") for n, each in enumerate(before)])
    friday = ReActAgent("Friday", model, tools=[look], hooks=[hook], memory=memory, max_iters=20)

    async def main() -> list[Event]:
        return [event async for event in friday.stream("hi")]

    return run_virtual(main()), memory


def compared(events: Sequence[Event]) -> object:
    """What a recorded run has in common with its repetition."""
    steps = [(e.step, e.cause, bool(e.error)) for e in events if e.type == "context"]
    return [event.type for event in events if not event.type.endswith("chunk")], steps, fold(events).usage.input_tokens


@pytest.mark.parametrize("before", [(), EARLIER])
@pytest.mark.parametrize("strategies", [[Summarize()], [DropOldResults(keep_rounds=1)]])
@pytest.mark.parametrize("refused", [{}, {"refuse": 3}, {"refuse": 3, "text": "I begin"}])
def test_a_compacted_run_is_played(before, strategies, refused):
    recorded, memory = play(looking(**refused), strategies, before, 100_000 if refused else 1_500)
    model = RecordedModel(recorded)
    played, again = play(model, strategies, before, 100_000 if refused else 1_500)
    model.assert_complete()
    assert any(event.type == "context" for event in played) and fold(played).message.text == "done"
    assert compared(played) == compared(recorded)
    assert [each.content for each in again.messages] == [each.content for each in memory.messages]
    assert [each.marks for each in again.messages] == [each.marks for each in memory.messages]
    summaries = [[m.metadata.get("memory_summary") for m in each.messages] for each in (memory, again)]
    assert summaries[0] == summaries[1]


def test_the_log_may_be_a_file(tmp_path: Path):
    recorded, memory = play(looking(), [Summarize()])
    log = tmp_path / "run.jsonl"
    log.write_text("".join(event.to_json() + "\n" for event in recorded))
    played, again = play(RecordedModel(log), [Summarize()])
    assert compared(played) == compared(recorded)
    assert [each.marks for each in again.messages] == [each.marks for each in memory.messages]


def test_a_failed_summary_fails_again():
    recorded, _ = play(looking(fail=1), [Summarize()])
    played, _ = play(RecordedModel(recorded), [Summarize()])
    assert compared(played)[1] == compared(recorded)[1] and compared(played)[1][0][2]


def test_a_round_that_differs_is_no_summary():
    recorded, _ = play(looking(), [Summarize()])
    with pytest.raises(RecordedMismatchError):
        play(RecordedModel(recorded), [Summarize()], tokens=1_000)
