"""Checks of the input: before the model and beside it; what memory has afterwards."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Msg, ToolSuspend, hook, tool
from agentscope_rx.errors import GuardrailError
from agentscope_rx.events import MemoryEvent, PostReasoningEvent, PreReasoningEvent
from agentscope_rx.guardrails import Verdict, guardrail
from agentscope_rx.guardrails.core import Refused
from agentscope_rx.memory.changes import with_summary
from agentscope_rx.memory.short_forms import shortened
from agentscope_rx.messages import COMPRESSED, HIDDEN, GenerateReason, MsgRole, TextBlock, ToolResultBlock
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, remembered
from tests.guardrails.guard_parts import chunks, guarded, run, shown_text


def no_poems(**options):
    @guardrail("input", name="no_poems", **options)
    async def check(request):
        await asyncio.sleep(0.5)
        return Verdict.stop("poems are off topic") if "poem" in request.text else None

    return check


REPLY = "I cannot go on with this: poems are off topic"


def texts(someone) -> list[str]:
    return [message.text for message in remembered(someone)]


def test_a_stopped_input_never_reaches_the_model():
    watched, model, someone = run(guarded(no_poems()), "never", given=("a poem, please",))
    assert watched.reply == REPLY == shown_text(watched)
    assert model.requests == []
    assert texts(someone) == ["[This message was removed by a guardrail.]", REPLY]
    reply = remembered(someone)[-1]
    assert reply.generate_reason is GenerateReason.REASONING_STOP_REQUESTED
    assert [found["guardrail"] for found in reply.metadata["guardrails"]] == ["no_poems"]


def test_other_input_passes():
    watched, model, someone = run(guarded(no_poems()), "Hello.", given=("prose",))
    assert watched.reply == "Hello." and len(model.requests) == 1 and texts(someone) == ["prose", "Hello."]


@pytest.mark.parametrize("parallel", [False, True])
def test_a_refused_input_can_be_hidden_or_kept(parallel):
    for refused, seen in (("hide", []), ("keep", ["a poem", REPLY]), ("notice", None)):
        model = ScriptedModel("first", "second") if parallel else ScriptedModel("second")
        someone = agent(model, hooks=[guarded(no_poems(parallel=parallel), refused=refused)])
        run_virtual(someone.call("a poem"))
        assert_whole(someone)
        assert (remembered(someone)[0].text == "a poem") is (refused != "notice")
        assert all(HIDDEN in message.marks for message in remembered(someone)) is (refused == "hide")
        run_virtual(someone.call("prose"))
        sent = [message.text for message in model.requests[-1].messages[1:]]
        assert sent == [*(["[This message was removed by a guardrail.]", REPLY] if seen is None else seen), "prose"]


def compacted(message: Msg) -> Msg:
    """The message, with text that a compaction would have sent in its place."""
    return with_summary(shortened(message, {0: TextBlock("a poem")}).marked(COMPRESSED), "a poem")


@pytest.mark.parametrize("way", ["call", "enqueue", "observe"])
def test_no_message_of_a_caller_stands_for_other_text(way):
    @hook(PostReasoningEvent)
    def more(event):
        if len(model.requests) == 1:
            someone.enqueue(Msg.from_json(given.to_json()), "idle")

    given = compacted(Msg.user("prose"))
    model = ScriptedModel("first", "second")
    someone = agent(model, hooks=[guarded(no_poems()), *([more] if way == "enqueue" else [])])
    if way == "observe":
        run_virtual(someone.observe(given))
    run_virtual(someone.call(given if way == "call" else "hi"))
    assert "prose" in [message.text for message in model.requests[-1].messages]
    assert "poem" not in str(model.requests) and "poem" not in str(remembered(someone))
    assert not any(message.marks for message in remembered(someone))


@pytest.mark.parametrize("parallel", [False, True])
def test_enqueued_input_cannot_take_the_id_of_another(parallel: bool):
    @hook(PostReasoningEvent)
    def more(event):
        if len(model.requests) == 1:
            first = remembered(someone)[0]
            someone.enqueue([Msg.user("a poem").replace(id=first.id), Msg.user("prose").replace(id=first.id)], "idle")

    model = ScriptedModel("first", [Delay(1), "second"], "third")
    someone = agent(model, hooks=[guarded(no_poems(parallel=parallel)), more])
    run_virtual(someone.call("hi"))
    texts = [message.text for message in remembered(someone)]
    assert texts[0] == "hi" and "prose" in texts and "a poem" not in texts
    assert len({message.id for message in remembered(someone)}) == len(texts)


def test_a_left_over_summary_is_no_summary_later():
    given = with_summary(Msg.user("prose"), "a poem")
    someone = agent(ScriptedModel("first"), hooks=[guarded(no_poems())])
    run_virtual(someone.call(given))
    assert "poem" not in str(remembered(someone)[0].marked(COMPRESSED).metadata)


def test_the_model_begins_beside_a_parallel_check():
    @guardrail("input", parallel=True)
    async def slow(request):
        await asyncio.sleep(2)

    watched, model, _ = run(guarded(slow), ["One. ", Delay(1), "Two. ", Delay(2), "Three."])
    assert chunks(watched) == [(2.0, "One. "), (2.0, "Two. "), (3.0, "Three.")] and len(model.requests) == 1


def test_a_stop_beside_the_model_disposes_of_its_call():
    model = ScriptedModel(["Roses are red. ", Delay(10), "more"])
    watched, _, someone = run(guarded(no_poems(parallel=True)), model, given=("a poem",))
    assert watched.times[-1] == 0.5
    assert watched.reply == shown_text(watched) == REPLY
    assert not any(event.type == "retry" for event in watched.events)
    assert texts(someone) == ["[This message was removed by a guardrail.]", REPLY]
    assert [event.replaced[0].id for event in watched.of(MemoryEvent)] == [remembered(someone)[0].id]


@pytest.mark.parametrize("parallel", [False, True])
def test_a_stop_as_an_error_fails_the_run(parallel):
    watched, _, someone = run(guarded(no_poems(parallel=parallel), on_stop="error"), "a", given=("a poem",))
    assert isinstance(watched.error, GuardrailError)
    assert (watched.error.guardrail, watched.error.kind) == ("no_poems", "input")
    # memory has no refused input
    assert texts(someone) == (["[This message was removed by a guardrail.]"] if parallel else [])


def test_input_is_replaced_before_it_is_remembered():
    @guardrail("input")
    def polite(request):
        return Verdict.replace(request.text.replace("damn", "****"))

    _, model, someone = run(guarded(polite), "ok", given=("damn it",))
    assert texts(someone)[0] == "**** it" == model.requests[0].messages[-1].text


def test_a_parallel_check_cannot_replace(reported):
    @guardrail("input", parallel=True)
    def polite(request):
        return Verdict.replace("x")

    watched, _, _ = run(guarded(polite), "ok")
    assert watched.reply == "I cannot go on with this: the check has failed (CheckFailure)"
    assert "cannot replace" in str(reported[0])


def test_an_input_that_was_not_judged_is_judged_next_time():
    async def main():
        model = ScriptedModel(["a", Delay(10)], "b")
        someone = agent(model, hooks=[guarded(no_poems(parallel=True))])
        asyncio.get_running_loop().call_later(0.2, someone.interrupt)
        await someone.call("a poem")
        assert texts(someone)[0] == "a poem"
        reply = await someone.call("prose")
        assert reply.text == REPLY
        assert texts(someone)[0] == "[This message was removed by a guardrail.]" and texts(someone)[2] == "prose"
        assert_whole(someone)

    run_virtual(main())


def test_input_to_a_live_run_is_judged():
    async def main():
        model = ScriptedModel(["a", Delay(1)], "never")
        someone = agent(model, hooks=[guarded(no_poems())])
        asyncio.get_running_loop().call_later(0.2, lambda: someone.enqueue("a poem", when="idle"))
        reply = await someone.call("prose")
        assert reply.text == REPLY and len(model.requests) == 1
        assert "[This message was removed by a guardrail.]" in texts(someone)
        assert_whole(someone)

    run_virtual(main())


def test_observed_messages_are_judged():
    async def main():
        someone = agent(ScriptedModel("x"), hooks=[guarded(no_poems())])
        await someone.observe([Msg.user("a poem"), Msg.user("prose")])
        assert texts(someone) == ["[This message was removed by a guardrail.]", "prose"]

    run_virtual(main())


def test_a_structured_output_is_not_asked_for_after_a_stop():
    async def main():
        someone = agent(ScriptedModel("x"), hooks=[guarded(no_poems())])
        reply = await someone.call("a poem", output=dict[str, int])
        assert reply.text == REPLY and not reply.has_structured
        assert_whole(someone)

    run_virtual(main())


def test_the_second_run_is_not_stopped_by_the_first():
    someone = agent(ScriptedModel("fine"), hooks=[guarded(no_poems())])
    run_virtual(someone.call("a poem"))
    assert run_virtual(someone.call("prose")).text == "fine"


def test_no_check_and_no_model_before_the_summary():
    # the reply takes the place of the summary, too
    watched, model, _ = run(guarded(no_poems()), "never", given=("a poem",), max_iters=1)
    assert watched.reply == REPLY and model.requests == [] and watched.of(PreReasoningEvent)


@pytest.mark.parametrize("first", [0, 1])
def test_two_hooks_have_their_own_checks_beside_the_model(first):
    @guardrail("input", parallel=True)
    async def no_songs(request):
        await asyncio.sleep(1)
        return Verdict.stop("a song") if "song" in request.text else None

    hooks = [guarded(no_poems(parallel=True)), guarded(no_songs)]
    for text, reason in (("a poem", "poems are off topic"), ("a song", "a song"), ("prose", None)):
        watched, _, someone = run(hooks[first], "Fine.", given=(text,), hooks=[hooks[1 - first]])
        assert watched.reply == ("Fine." if reason is None else f"I cannot go on with this: {reason}")
        assert texts(someone)[0] == ("prose" if reason is None else "[This message was removed by a guardrail.]")
        assert hooks[0]._core.live == {} == hooks[1]._core.live


@tool
def fetch(url: str) -> str:
    """Read a page."""
    raise ToolSuspend("later")


@pytest.mark.parametrize("role", [MsgRole.USER, MsgRole.TOOL])
@pytest.mark.parametrize("refused", ["notice", "hide", "keep"])
@pytest.mark.parametrize("parallel", [False, True])
def test_words_beside_a_result_are_judged(role: MsgRole, refused: Refused, parallel: bool):
    model = ScriptedModel(call("fetch", url="x"), "never shown", "third")
    someone = agent(model, tools=[fetch], hooks=[guarded(no_poems(parallel=parallel), refused=refused)])
    (pending,) = run_virtual(someone.call("hi")).pending_calls
    words = TextBlock("a poem")
    given = Msg("user", [ToolResultBlock(pending.id, "fetch", "the page"), words], role)
    assert run_virtual(someone.call(given)).text == REPLY
    assert not someone.conversation().pending
    kept = remembered(someone)[2]
    left = words if refused == "keep" else TextBlock("[This message was removed by a guardrail.]")
    assert kept.tool_results[0].text == "the page" and kept.content[1:] == (left,)


def test_a_result_beside_words_is_judged():
    @guardrail("tool_result")
    def clean(request):
        return Verdict.replace("clean")

    someone = agent(ScriptedModel(call("fetch", url="x"), "done"), tools=[fetch], hooks=[guarded(no_poems(), clean)])
    (pending,) = run_virtual(someone.call("hi")).pending_calls
    given = Msg.user([ToolResultBlock(pending.id, "fetch", "the page"), TextBlock("prose")])
    assert run_virtual(someone.call(given)).text == "done"
    assert (remembered(someone)[2].tool_results[0].text, remembered(someone)[2].text) == ("clean", "prose")


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("taken", [0, 1], ids=["of the user", "of the agent"])
def test_an_input_with_the_id_of_another_message_is_refused(parallel: bool, taken: int):
    model = ScriptedModel("one", "two", "three")
    someone = agent(model, hooks=[guarded(no_poems(parallel=parallel))])
    run_virtual(someone.call("hi"))
    assert run_virtual(someone.call(Msg.user("a poem").replace(id=remembered(someone)[taken].id))).text == REPLY
    assert texts(someone) == ["hi", "one", "[This message was removed by a guardrail.]", REPLY]
    run_virtual(someone.call("prose"))
    assert "a poem" not in [message.text for message in model.requests[-1].messages]
