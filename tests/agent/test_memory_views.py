"""Marks and windows in runs: what requests send, what the end of a run leaves, and what a session holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agentscope_rx import GenerateReason, InMemoryMemory, Msg, ReActAgent, ToolSuspend, hook, tool
from agentscope_rx.agent import StatePersistence
from agentscope_rx.errors import ConfigurationError, PromptTooLongError, SavedStateError
from agentscope_rx.events import MemoryEvent, PreCallEvent, PreReasoningEvent
from agentscope_rx.memory import TokenWindow
from agentscope_rx.messages import COMPRESSED, HIDDEN, TRANSIENT, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.tokens import TextCounter
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel
from tests.agent.parts import agent, assert_whole, events_of, remembered, slow, weather


def texts(messages: Sequence[Msg]) -> list[str]:
    return [message.text for message in messages]


def requests(model: ScriptedModel) -> list[list[str]]:
    return [texts(call.messages)[1:] for call in model.requests]


@tool
def ask_boss(question: str) -> str:
    """Asks a person who is not there."""
    raise ToolSuspend("ask later")


def test_hidden_messages_are_kept_and_never_sent():
    model = ScriptedModel("hello", "again")
    friday = agent(model)
    run_virtual(friday.call([Msg.user("note").marked(HIDDEN), Msg.user("hi")]))
    run_virtual(friday.call("more"))
    assert requests(model) == [["hi"], ["hi", "hello", "more"]]
    assert texts(remembered(friday)) == ["note", "hi", "hello", "more", "again"]


def test_hooks_see_the_history_and_what_is_sent():
    seen: list[tuple[list[str], list[str]]] = []

    @hook(PreReasoningEvent)
    def look(event: PreReasoningEvent) -> None:
        seen.append((texts(event.history), texts(event.messages)))

    friday = agent(ScriptedModel("hello"), hooks=[look])
    run_virtual(friday.call([Msg.user("note").marked(HIDDEN), Msg.user("hi")]))
    assert seen == [(["note", "hi"], ["hi"])]


def test_a_summary_replaces_compressed_messages_in_requests():
    model = ScriptedModel("one", "two")
    friday = agent(model)
    run_virtual(friday.call("first"))
    run_virtual(friday.memory.compress([each.id for each in remembered(friday)], "They said hello."))
    run_virtual(friday.call("second"))
    assert requests(model)[1] == ["They said hello.", "second"]
    assert texts(remembered(friday)) == ["first", "one", "second", "two"]


# --- transient ----------------------------------------------------------------------------------------------------


@hook(PreCallEvent)
def give_time(event: PreCallEvent) -> PreCallEvent:
    return event.replace(input=(*event.input, Msg.user("it is noon").marked(TRANSIENT)))


def test_a_transient_message_lasts_until_the_end_of_the_run():
    call = ToolUseBlock("c1", "weather", {"city": "Paris"})
    model = ScriptedModel([call], "sunny", "bye")
    friday = agent(model, hooks=[give_time])
    events = run_virtual(events_of(friday, "hi"))
    sent = requests(model)
    assert "it is noon" in sent[0] and "it is noon" in sent[1]
    assert "it is noon" not in texts(remembered(friday))
    removed = [id for event in events if isinstance(event, MemoryEvent) for id in event.removed]
    assert len(removed) == 1
    run_virtual(friday.call("more"))
    assert requests(model)[2].count("it is noon") == 1, "that of this run only"


@pytest.mark.parametrize("end", ["failure", "interruption", "disposal", "suspension"])
def test_every_end_of_a_run_removes_transients(end: str):
    pause = ToolUseBlock("c1", "slow", {"seconds": 5.0})
    script = {
        "failure": [ValueError("no")],
        "interruption": [[pause], "x"],
        "disposal": [[pause], "x"],
        "suspension": [[ToolUseBlock("c1", "ask_boss", {"question": "?"})]],
    }[end]
    friday = agent(ScriptedModel(*script), tools=[slow, weather, ask_boss], hooks=[give_time])

    async def run() -> None:
        running = asyncio.ensure_future(friday.call("hi"))
        await asyncio.sleep(1)
        if end == "interruption":
            friday.interrupt()
        elif end == "disposal":
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await friday.idle()

    run_virtual(run())
    kept = texts(remembered(friday))
    assert "hi" in kept and "it is noon" not in kept
    if end != "suspension":
        assert_whole(friday)


def test_the_last_of_overlapping_runs_removes_transients():
    model = ScriptedModel([Delay(3), "slow answer"], [Delay(1), "fast answer"])
    friday = agent(model, hooks=[give_time], check_running=False)

    async def run() -> None:
        first = asyncio.ensure_future(friday.call("one"))
        await asyncio.sleep(0.5)
        await friday.call("two")
        assert "it is noon" in texts(remembered(friday)), "the first run still needs its own"
        await first

    run_virtual(run())
    assert "it is noon" not in texts(remembered(friday))


def test_transient_messages_are_never_saved():
    session = InMemorySession()
    friday = agent(ScriptedModel("hello"))
    run_virtual(friday.memory.add([Msg.user("keep"), Msg.user("secret").marked(TRANSIENT)]))
    run_virtual(friday.save(session, "ann"))
    saved = run_virtual(session.load_all("ann", ["memory"]))
    assert "secret" not in repr(saved) and "keep" in repr(saved)


def test_marks_and_the_summary_are_saved_and_loaded():
    session = InMemorySession()
    friday = agent(ScriptedModel("hello"))
    run_virtual(friday.call(Msg.user("hi").marked("own", HIDDEN)))
    run_virtual(friday.memory.compress([remembered(friday)[1].id], "S"))
    run_virtual(friday.save(session, "ann"))
    other = agent(ScriptedModel("x"))
    run_virtual(other.load(session, "ann"))
    assert remembered(other) == remembered(friday)
    assert remembered(other)[0].marks == {"own", HIDDEN} and remembered(other)[1].marks == {COMPRESSED}
    assert run_virtual(other.memory.compressed_summary()) == "S"


# --- windows ------------------------------------------------------------------------------------------------------


def test_an_agent_sends_the_window_of_its_memory():
    model = ScriptedModel(*(f"answer {n}" for n in range(40)))
    window = TokenWindow(80, TextCounter(lambda text: len(text.split())))
    friday = agent(model, memory_window=window)
    for number in range(40):
        run_virtual(friday.call(f"question {number}"))
    assert len(remembered(friday)) == 80
    sent = requests(model)
    assert max(map(len, sent)) <= 20 and all(each[-1] == f"question {n}" for n, each in enumerate(sent))
    assert all(each[0].startswith("question") for each in sent)


def test_a_number_is_a_window_with_the_counter_of_the_model():
    friday = agent(ScriptedModel("x"), memory_window=10)
    with pytest.raises(PromptTooLongError):
        run_virtual(friday.call("word " * 100))
    with pytest.raises(ConfigurationError, match="memory_window"):
        ReActAgent("Friday", ScriptedModel("x"), memory_window="10k")  # type: ignore[arg-type]


def test_the_summary_of_a_run_is_made_of_the_window_too():
    call = ToolUseBlock("c1", "weather", {"city": "Paris"})
    model = ScriptedModel([call], "the end")
    friday = agent(model, max_iters=1)
    reply = run_virtual(friday.call([Msg.user("note").marked(HIDDEN), Msg.user("hi")]))
    assert reply.generate_reason is GenerateReason.MAX_ITERATIONS
    assert "note" not in requests(model)[1]


# --- durable memories ---------------------------------------------------------------------------------------------


class Durable(InMemoryMemory):
    durable = True


def test_messages_of_a_durable_memory_are_not_saved_twice():
    session, memory = InMemorySession(), Durable()
    friday = agent(ScriptedModel([ToolUseBlock("c1", "ask_boss", {"question": "?"})]), tools=[ask_boss], memory=memory)
    run_virtual(friday.bind(session, "ann"))
    run_virtual(friday.call("hi"))
    assert run_virtual(session.load_all("ann", ["memory"])).lists == {}
    again = agent(ScriptedModel("x"), tools=[ask_boss], memory=memory)
    assert run_virtual(again.bind(session, "ann")) is True
    assert texts(memory.messages)[0] == "hi", "load does not clear it"
    reply = run_virtual(again.call(Msg.tool(ToolResultBlock("c1", "ask_boss", (TextBlock("yes"),)))))
    assert reply.text == "x", "the call was still pending"


def test_a_durable_memory_passes_over_no_saved_messages():
    session = InMemorySession()
    friday = agent(ScriptedModel("x"))
    run_virtual(friday.call("hi"))
    run_virtual(friday.save(session, "ann"))
    other = agent(ScriptedModel("x"), memory=Durable())
    with pytest.raises(SavedStateError, match="keeps its own"):
        run_virtual(other.load(session, "ann"))
    run_virtual(other.load(session, "ann", persistence=StatePersistence(memory=False)))
