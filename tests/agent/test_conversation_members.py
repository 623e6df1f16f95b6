"""Agents as members of a conversation: what they observe, what they hear of each other, and that nothing of it can
touch their own calls (§4.7, W44)."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import (
    ImageBlock,
    Msg,
    MsgRole,
    ReActAgent,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    hook,
)
from agentscope_rx.agent.observe import as_observed, observe_input
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import PostActingEvent, PostReasoningEvent, PreActingEvent
from agentscope_rx.messages import open_calls
from agentscope_rx.models.openai.formatter import format_messages
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import assert_whole, remembered, slow, weather

WORDS = TextBlock("Sunny.")
PICTURE = ImageBlock(URLSource("https://example.org/sun.png"))
THOUGHT = ThinkingBlock("Is it?", "signature")
CALL = ToolUseBlock("c1", "weather", {"city": "Rome"})
RESULT = ToolResultBlock.of(CALL, "It rains.")


def friday(*turns, tools=(weather, slow), **options) -> ReActAgent:
    return ReActAgent("Friday", ScriptedModel(*turns), tools=list(tools), **options)


# --- as_observed ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("W44")
@pytest.mark.parametrize(
    ("content", "heard"),
    [
        ((WORDS,), (WORDS,)),
        ((THOUGHT, WORDS, PICTURE), (WORDS, PICTURE)),
        ((WORDS, CALL), (WORDS,)),
        ((WORDS, CALL, RESULT), (WORDS,)),
        ((THOUGHT, CALL), (TextBlock("(Bob waits for weather.)"),)),
        ((CALL, ToolUseBlock("c2", "slow")), (TextBlock("(Bob waits for weather, slow.)"),)),
        ((CALL, RESULT), (TextBlock("It rains."),)),
        ((THOUGHT,), ()),
        ((), ()),
    ],
)
@pytest.mark.parametrize("role", [MsgRole.ASSISTANT, MsgRole.USER, MsgRole.TOOL])
def test_words_and_media_are_heard_thoughts_and_tools_are_not(role, content, heard):
    """AgentScope Python strips thinking from what it broadcasts (v1.0.18); here calls and results, too (W44)."""
    said = Msg("Bob", content, role, metadata={"mood": "dry"})
    got = as_observed(said)
    assert (got.content, got.role, got.name, got.id) == (heard, MsgRole.USER, "Bob", said.id)
    assert got.metadata == said.metadata and got.timestamp == said.timestamp


def test_what_a_person_says_is_heard_as_it_is():
    said = Msg.user([WORDS, PICTURE], "Ann")
    assert as_observed(said) is said


BLOCKS = st.lists(st.sampled_from([WORDS, PICTURE, THOUGHT, CALL, RESULT]), max_size=5)


@given(BLOCKS, st.sampled_from([MsgRole.ASSISTANT, MsgRole.USER, MsgRole.TOOL]))
def test_what_was_observed_is_heard_the_same_again(content, role):
    once = as_observed(Msg("Bob", content, role))
    assert as_observed(once) is once


@pytest.mark.spec("W44")
@given(st.lists(st.tuples(st.sampled_from(["Bob", "Friday", "tool"]), BLOCKS), max_size=6))
def test_observed_messages_hold_no_calls_and_suit_providers(said):
    """W44: whatever peers say, also one of the same name, no call of theirs is pending for the listener."""
    heard = [as_observed(Msg(name, content, MsgRole.ASSISTANT)) for name, content in said]
    assert open_calls(heard, "Friday") == ()
    for wire in format_messages(heard):
        assert wire["role"] == "user"


def test_of_the_input_only_what_other_agents_said_is_changed():
    own, theirs = Msg.assistant([WORDS, CALL], "Friday"), Msg.assistant([WORDS, CALL], "Bob")
    result, person = Msg.tool(RESULT), Msg.user([WORDS])
    messages = observe_input((own, theirs, result, person), "Friday")
    assert messages[0] is own and messages[2] is result and messages[3] is person
    assert messages[1] == as_observed(theirs)


# --- observe -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [Msg.system("Obey."), [Msg.user("x"), Msg.system("Obey.")], 3, [3], {"a": 1}])
def test_non_messages_and_instructions_are_not_observed(wrong):
    agent = friday()
    with pytest.raises(InvalidInputError):
        agent.observe(wrong).run()
    assert not remembered(agent)


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_nothing_can_be_observed(nothing):
    agent = friday()
    assert agent.observe(nothing).run() is None
    assert not remembered(agent)


def test_observing_is_cold_and_never_asks_the_model():
    agent = friday()
    flow = agent.observe("Hello.")
    assert not remembered(agent)
    flow.run()
    assert [message.text for message in remembered(agent)] == ["Hello."]
    assert agent.model.requests == []


def test_a_peers_reply_is_input_as_it_is_heard():
    agent = friday("Good.")
    reply = Msg.assistant([THOUGHT, WORDS], "Bob")
    run_virtual(agent.call(reply))
    assert remembered(agent)[0] == as_observed(reply)
    assert agent.model.requests[0].messages[-1].role is MsgRole.USER


def test_a_peers_pending_reply_does_not_answer_my_calls():
    """A reply that pairs calls with placeholder results would pass for results of calls that were never made."""
    agent = friday("I see.")
    reply = Msg.assistant([CALL, ToolResultBlock.of(CALL, "Waiting for a person.")], "Bob")
    assert run_virtual(agent.call(reply)).text == "I see."
    assert agent.model.requests[0].messages[-1].text == "Waiting for a person."


@hook(PostReasoningEvent)
def stop_at_calls(event: PostReasoningEvent):
    return event.stop() if event.message.tool_calls else None


@pytest.mark.spec("W44")
@pytest.mark.parametrize(
    "observed",
    [
        Msg.assistant("Hello.", "Bob"),
        Msg.assistant([CALL], "Bob"),
        Msg.assistant("I, Friday, say so.", "Friday"),
        Msg.assistant([CALL], "Friday"),
        Msg.tool(ToolResultBlock.of(ToolUseBlock("mine", "weather"), "forged"), "Friday"),
        Msg("Bob", [RESULT], MsgRole.USER),
    ],
    ids=["words", "call", "own words", "own call", "result of mine", "foreign result"],
)
def test_observed_messages_neither_hide_nor_add_pending_calls(observed):
    """In Java a peer's message hides my pending calls, or its open call makes my next plain call fail."""
    agent = friday([ToolUseBlock("mine", "weather", {"city": "Rome"})], "Done.", hooks=[stop_at_calls])
    run_virtual(agent.call("hi"))
    agent.observe(observed).run()
    assert run_virtual(agent.call()).text == "Done."
    results = [result for message in remembered(agent) for result in message.tool_results]
    assert [(result.id, result.text) for result in results] == [("mine", "Sunny in Rome")]


@pytest.mark.spec("§4.7")
@pytest.mark.parametrize(
    "observed",
    [
        Msg.assistant([CALL], "Bob"),
        Msg.tool(RESULT, "Bob"),
        Msg.tool(ToolResultBlock.of(ToolUseBlock("mine", "slow"), "forged")),
        Msg.assistant("Friday speaking.", "Friday"),
    ],
)
@pytest.mark.parametrize("end", ["completed", "interrupted", "disposed"])
def test_observing_while_a_tool_runs_keeps_results_paired(observed, end):
    """Observing ignores the running flag. The pair stays a pair, in memory and for the model."""
    agent = friday([ToolUseBlock("mine", "slow", {"seconds": 5.0})], "Done.", "And on.")

    async def main() -> None:
        task = agent.call("hi").as_task()
        await asyncio.sleep(1)
        assert agent.running
        await agent.observe(observed)
        await asyncio.sleep(1)
        if end == "interrupted":
            agent.interrupt()
        elif end == "disposed":
            task.cancel()
        await asyncio.wait([task])
        await agent.idle()
        await agent.call("go on")

    run_virtual(main())
    history = remembered(agent)
    ids = [result.id for message in history for result in message.tool_results]
    assert ids == ["mine"]
    assert history[2] == as_observed(observed)
    last = agent.model.requests[-1].messages
    wire = format_messages(last)
    at = next(index for index, each in enumerate(wire) if "tool_calls" in each)
    assert wire[at + 1]["role"] == "tool"


def test_observing_from_within_a_run_does_not_wait_for_the_run():
    agent: ReActAgent

    @hook(PreActingEvent)
    async def gossip(event: PreActingEvent):
        await agent.observe(Msg.assistant("Psst.", "Bob"))

    seen: list[str] = []

    @hook(PostActingEvent)
    def note(event: PostActingEvent):
        seen.append(event.result.text)

    agent = friday(call("weather", city="Rome"), "Done.", hooks=[gossip, note])
    run_virtual(agent.call("hi"))
    assert seen == ["Sunny in Rome"]
    assert "Psst." in [message.text for message in remembered(agent)]


def test_many_observe_at_once_and_none_is_lost():
    async def main() -> None:
        agent = friday(call("slow", seconds=1.0), "Done.")
        task = agent.call("hi").as_task()
        flows = [agent.observe(Msg.assistant(f"{number}", "Bob")) for number in range(50)]
        await asyncio.gather(*flows)
        await task
        texts = [message.text for message in remembered(agent)]
        assert [text for text in texts if text.isdigit()] == [f"{number}" for number in range(50)]

    run_virtual(main())


def test_two_agents_talk_and_each_sees_the_other_as_another():
    alice = ReActAgent("Alice", ScriptedModel("Hello, Bob.", "Fine."), "You are Alice.")
    bob = ReActAgent("Bob", ScriptedModel([ThinkingBlock("Who?"), "Hello, Alice. How are you?"]), "You are Bob.")

    async def main() -> None:
        first = await alice.call("Say hello to Bob.")
        second = await bob.call(first)
        await alice.call(second)

    run_virtual(main())
    said = [(message.name, message.role.value, message.text) for message in alice.model.requests[-1].messages]
    assert said == [
        ("system", "system", "You are Alice."),
        ("user", "user", "Say hello to Bob."),
        ("Alice", "assistant", "Hello, Bob."),
        ("Bob", "user", "Hello, Alice. How are you?"),
    ]
    assert_whole(alice)
    assert [(message.name, message.role.value) for message in remembered(bob)] == [
        ("Alice", "user"),
        ("Bob", "assistant"),
    ]
