"""The hook in runs: refusals, the tool, limits, interruptions, disposal, and stores that keep the originals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, TextBlock, UsageLimits
from agentscope_rx.context_policy import CompactionHook, Summarize
from agentscope_rx.errors import ContextOverflowError, UsageLimitError
from agentscope_rx.events import ContextEvent, Event, RetryEvent
from agentscope_rx.memory import SqlMemory
from agentscope_rx.memory.short_forms import restored
from agentscope_rx.messages import COMPRESSED, ChatUsage, GenerateReason
from agentscope_rx.models.response import ChatResponse, FinishReason
from agentscope_rx.models.wrappers.truncating import TruncatingModel
from agentscope_rx.session import JsonSession
from agentscope_rx.testing import HANG, Delay, ScriptedModel, ScriptedRequest, call, run_virtual
from tests.context_policy.parts import COUNT, Summariser, conversation, marked

HISTORY = conversation(40)
SUMMARY = "## Goal\nLook at every room.\n## State\nForty rooms are done.\n## Facts to keep\n- FACT room3 = value3"


def friday(model, memory=None, *, hook: CompactionHook | None = None, **options) -> ReActAgent:
    compaction = hook or CompactionHook(strategies=[Summarize(max_tokens=300, timeout=30)], max_tokens=3_300)
    kept = InMemoryMemory(HISTORY) if memory is None else memory
    return ReActAgent("Friday", model, "Be brief.", memory=kept, hooks=[compaction], **options)


def contexts(events: list[Event]) -> list[ContextEvent]:
    return [event for event in events if isinstance(event, ContextEvent)]


async def events_of(agent: ReActAgent, text: str = "And now?") -> list[Event]:
    return [event async for event in agent.stream(text)]


def asks_for_summary(request: ScriptedRequest) -> bool:
    return "</conversation>" in request.messages[-1].text


def stored(agent: ReActAgent) -> list[Msg]:
    assert isinstance(agent.memory, InMemoryMemory)
    return list(agent.memory.messages)


def assert_unchanged(agent: ReActAgent) -> None:
    """The memory has no mark, and nothing is running."""
    assert stored(agent)[: len(HISTORY)] == HISTORY
    assert not agent.running


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "I begin"])
def test_a_refused_request_is_made_again_once(text: str) -> None:
    error = ContextOverflowError("maximum context length is 2600 tokens, resulted in 2900 tokens", status=400)
    first = [ChatResponse((TextBlock(text),)), error] if text else error
    model = ScriptedModel(first, SUMMARY, "Fine.")
    agent = friday(model, hook=CompactionHook(strategies=[Summarize(max_tokens=300)], max_tokens=100_000, target=0.7))
    events = run_virtual(events_of(agent))
    assert [(each.cause, each.error) for each in contexts(events)] == [("overflow", "")]
    assert [type(event) for event in events].count(RetryEvent) == 1
    assert COUNT.count(model.requests[2].messages) < 2_600 < COUNT.count(model.requests[0].messages)
    assert stored(agent)[-1].text == "Fine." and marked(stored(agent))


def test_a_refusal_stands_if_nothing_gets_smaller() -> None:
    model = ScriptedModel(ContextOverflowError("too long", status=400), "")
    agent = friday(model, hook=CompactionHook(strategies=[Summarize()], max_tokens=100_000))
    with pytest.raises(ContextOverflowError):
        run_virtual(agent.call("And now?"))
    assert_unchanged(agent)


def test_compaction_comes_before_truncation() -> None:
    asked: list[int] = []

    def answer(request: ScriptedRequest) -> str:
        asked.append(COUNT.count(request.messages))
        assert not any("left out here" in each.text and "earlier messages" in each.text for each in request.messages)
        return SUMMARY if asks_for_summary(request) else "Fine."

    model = TruncatingModel(ScriptedModel(answer, repeat=True), max_tokens=3_300)
    agent = friday(model, hook=CompactionHook(strategies=[Summarize(max_tokens=300)]))
    events = run_virtual(events_of(agent))
    assert [each.step for each in contexts(events)] == ["summarize"] and max(asked) <= 3_300


# --- the tool ---------------------------------------------------------------------------------------------------------


def test_the_model_compacts_its_own_context() -> None:
    model = ScriptedModel(call("compact_context"), SUMMARY, "Fine.")
    agent = friday(model, hook=CompactionHook(strategies=[Summarize()], max_tokens=100_000, keep_rounds=1))
    events = run_virtual(events_of(agent))
    assert [(each.cause, each.error) for each in contexts(events)] == [("tool", "")]
    assert model.requests[2].messages[1].text.startswith("<summary>")
    # the question and the last round are there
    assert [each.role.value for each in model.requests[2].messages] == ["system", "user", "user", "assistant", "tool"]
    model.assert_complete()


def test_the_program_compacts_between_calls() -> None:
    model = ScriptedModel("One.", SUMMARY, "Two.")
    hook = CompactionHook(strategies=[Summarize()], max_tokens=100_000)
    agent = friday(model, hook=hook)

    async def main() -> list[Event]:
        await agent.call("First.")
        hook.ask(agent.conversation())
        return await events_of(agent, "Second.")

    assert [each.cause for each in contexts(run_virtual(main()))] == ["tool"]


def test_compact_changes_the_memory_at_once() -> None:
    agent = friday(ScriptedModel(SUMMARY), hook=CompactionHook(strategies=[Summarize()], max_tokens=100_000))
    done = run_virtual(agent.compact())
    assert [(each.cause, each.error) for each in done.events] == [("manual", "")] and marked(stored(agent))
    again = run_virtual(agent.compact())
    assert again.replaced == () and "nothing" in again.events[0].error


# --- usage and limits -------------------------------------------------------------------------------------------------


def test_a_summary_counts_for_the_run() -> None:
    summary = ChatResponse((TextBlock(SUMMARY),), usage=ChatUsage(3_000, 100), finish_reason=FinishReason.STOP)
    model = ScriptedModel(summary, ChatResponse((TextBlock("Fine."),), usage=ChatUsage(900, 5)))
    reply = run_virtual(friday(model).call("And now?"))
    assert reply.usage is not None and (reply.usage.input_tokens, reply.usage.output_tokens) == (3_900, 105)


def test_a_summary_counts_to_the_limits() -> None:
    summary = ChatResponse((TextBlock(SUMMARY),), usage=ChatUsage(3_000, 100), finish_reason=FinishReason.STOP)
    model = ScriptedModel(summary, "Fine.")
    agent = friday(model, limits=UsageLimits(input_tokens=2_000))
    with pytest.raises(UsageLimitError):
        run_virtual(agent.call("And now?"))
    assert marked(stored(agent)) and not agent.running


# --- failures, waits, interruptions -----------------------------------------------------------------------------------


def test_a_failed_summary_lets_the_run_go_on() -> None:
    model = ScriptedModel("I do not want to.", "Fine.")
    agent = friday(model)
    events = run_virtual(events_of(agent))
    (event,) = [each for each in contexts(events) if each.step == "summarize"]
    assert event.error and stored(agent)[-1].text == "Fine."
    assert_unchanged(agent)


def test_a_summary_that_takes_too_long_is_left_out() -> None:
    model = ScriptedModel([Delay(31), SUMMARY], "Fine.")
    agent = friday(model)

    async def main() -> tuple[list[Event], float]:
        begun = asyncio.get_running_loop().time()
        return await events_of(agent), asyncio.get_running_loop().time() - begun

    events, took = run_virtual(main())
    assert took == 30 and "30 s" in contexts(events)[0].error and len(model.closed) == 1
    assert_unchanged(agent)


@pytest.mark.parametrize("at", [0.5, 1.5, 2.5])
def test_an_interruption_during_a_summary_changes_nothing(at: float) -> None:
    model = ScriptedModel(["## Goal\n", Delay(1), "a\n", Delay(1), "## State\nb", Delay(1)], "Fine.")
    agent = friday(model)

    async def main() -> Msg:
        asyncio.get_running_loop().call_later(at, agent.interrupt)
        return await agent.call("And now?")

    assert run_virtual(main()).generate_reason is GenerateReason.INTERRUPTED
    assert len(model.closed) == 1
    assert_unchanged(agent)


@pytest.mark.parametrize("at", [0.0, 0.5, 1.5, 2.5])
def test_disposal_during_a_summary_changes_nothing(at: float) -> None:
    model = ScriptedModel(["## Goal\n", Delay(1), "a\n", Delay(1), "## State\nb", Delay(1)], "Fine.")
    agent = friday(model)

    async def main() -> None:
        subscription = agent.stream("And now?").subscribe(lambda _: None)
        await asyncio.sleep(at)
        subscription.dispose()
        await asyncio.sleep(100)

    run_virtual(main())
    assert len(model.requests) == len(model.closed)
    assert_unchanged(agent)


def test_silence_for_ever_ends_at_the_deadline() -> None:
    model = ScriptedModel(HANG, "Fine.")
    agent = friday(model)
    assert run_virtual(agent.call("And now?")).text == "Fine."
    assert_unchanged(agent)


def test_a_slow_reader_changes_nothing() -> None:
    agent = friday(ScriptedModel([Delay(1), SUMMARY], "Fine."))

    async def main() -> list[Event]:
        events: list[Event] = []
        async for event in agent.stream("And now?"):
            await asyncio.sleep(10)
            events.append(event)
        return events

    assert [each.error for each in contexts(run_virtual(main()))] == [""]
    assert stored(agent)[-1].text == "Fine."


# --- stores -----------------------------------------------------------------------------------------------------------


def whole(messages: list[Msg]) -> list[tuple[str, object]]:
    return [(each.id, restored(each).unmarked(COMPRESSED).content) for each in messages]


def test_a_session_keeps_the_originals(tmp_path: Path) -> None:
    session = JsonSession(tmp_path)
    before = friday(ScriptedModel(SUMMARY, "Fine."))
    after = friday(ScriptedModel("Yes."), InMemoryMemory())

    async def main() -> list[Msg]:
        await before.call("And now?")
        await before.save(session, "ann")
        await after.load(session, "ann")
        await after.call("Sure?")
        return [message async for message in after.memory.read()]

    messages = run_virtual(main())
    assert whole(messages)[: len(HISTORY)] == whole(HISTORY)
    model = after.model
    assert isinstance(model, ScriptedModel)
    assert model.requests[0].messages[1].text.startswith("<summary>")
    assert COUNT.count(model.requests[0].messages) < 2_600


def test_a_database_keeps_the_originals(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/conversations.db"

    async def main() -> tuple[list[Msg], ScriptedModel]:
        memory = SqlMemory(url, "ann")
        await memory.add(HISTORY)
        await friday(ScriptedModel(SUMMARY, "Fine."), memory).call("And now?")
        await memory.close()
        other = SqlMemory(url, "ann")
        model = ScriptedModel("Yes.")
        await friday(model, other).call("Sure?")
        messages = [message async for message in other.read()]
        await other.close()
        return messages, model

    messages, model = asyncio.run(main())
    assert whole(messages)[: len(HISTORY)] == whole(HISTORY)
    assert model.requests[0].messages[1].text.startswith("<summary>")
    assert "FACT room3 = value3" in model.requests[0].messages[1].text


def test_one_hook_serves_many_conversations() -> None:
    hook = CompactionHook(strategies=[Summarize(max_tokens=300)], max_tokens=3_300)
    models = [
        Summariser(change=lambda number, prompt: None if "</conversation>" in prompt else "Fine.") for _ in range(5)
    ]
    agents = [friday(model, InMemoryMemory(conversation(30 + 5 * n)), hook=hook) for n, model in enumerate(models)]

    async def main() -> None:
        await asyncio.gather(*(agent.call("And now?") for agent in agents))

    run_virtual(main())
    assert [bool(marked(stored(agent))) for agent in agents] == [len(m.prompts) > 1 for m in models]
