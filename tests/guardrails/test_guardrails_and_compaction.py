"""Guardrails beside a compaction: no summary has what is not judged yet, or was refused."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Hook, Msg, ReActAgent
from agentscope_rx.context_policy import CompactionHook, Summarize
from agentscope_rx.guardrails import GuardrailsHook, Verdict, guardrail
from agentscope_rx.memory import sent
from agentscope_rx.testing import Delay, ScriptedModel, ScriptedRequest, run_virtual
from tests.agent.compacting import Compacts
from tests.agent.parts import agent, remembered

LONG = "word " * 300
SUMMARY = "## Goal\nTalk.\n## State\nTalking."


@guardrail("input", parallel=True)
async def no_poems(request):
    await asyncio.sleep(1)
    return Verdict.stop("verse") if "poem" in request.text else None


def talker(seen: list[str]):
    def answer(request: ScriptedRequest) -> object:
        asked = request.messages[-1].text
        if "</conversation>" not in asked:
            return [Delay(0.1), "Fine."]
        seen.append(asked)
        return SUMMARY

    return ScriptedModel(answer, repeat=True)


def friday(seen: list[str], **options: object) -> ReActAgent:
    compaction = CompactionHook(strategies=[Summarize()], max_tokens=100_000, keep_rounds=0)
    return ReActAgent("Friday", talker(seen), hooks=[GuardrailsHook(no_poems, **options), compaction])


@pytest.mark.parametrize("refused", ["notice", "hide"])
def test_no_summary_has_input_that_is_not_judged(refused):
    """An interruption comes before the verdict, and a compaction before the next request, which asks for it."""
    seen: list[str] = []
    someone = friday(seen, refused=refused)

    async def main() -> None:
        first = someone.call([Msg.user(f"A poem, or: {LONG}"), Msg.user("please")]).as_task()
        await asyncio.sleep(0.5)
        someone.interrupt(LONG)
        await first
        await someone.compact()
        reply = await someone.call("Hello?")
        assert "verse" in reply.text
        await someone.compact()

    run_virtual(main())
    assert not any("poem" in text for text in seen)
    assert not any("poem" in message.text for message in sent(remembered(someone)) if message.role == "user")


def test_what_passes_is_summarised_later():
    seen: list[str] = []
    someone = friday(seen)

    async def main() -> None:
        first = someone.call([Msg.user(f"A story: {LONG}"), Msg.user("please")]).as_task()
        await asyncio.sleep(0.5)
        someone.interrupt(LONG)
        await first
        await someone.compact()
        assert not any("A story" in text for text in seen)
        await someone.call("Hello?")
        await someone.compact()
        assert "A story" in seen[-1]

    run_virtual(main())


def test_a_hook_is_told_what_others_hold():
    class Holds(Hook):
        def held(self, source):
            return ["m1"]

    compacts = Compacts(lambda request: None)
    someone = agent(ScriptedModel("ok"), hooks=[compacts, Holds()])
    run_virtual(someone.call("hi"))
    assert [request.held for request in compacts.asked] == [{"m1"}]


def test_an_error_of_a_hook_that_holds_names_it():
    class Holds(Hook):
        def held(self, source):
            raise LookupError("no idea")

    someone = agent(ScriptedModel("ok"), hooks=[Compacts(lambda request: None), Holds()])
    with pytest.raises(LookupError, match="no idea") as caught:
        run_virtual(someone.call("hi"))
    assert any("Holds on held" in note for note in caught.value.__notes__)
    assert not someone.running
