"""Compaction in a run: hooks make the conversation smaller before each model request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agentscope_rx import (
    GenerateReason,
    Hook,
    InMemoryMemory,
    Msg,
    ReActAgent,
    TextBlock,
    ToolUseBlock,
    UsageLimits,
    hook,
    tool,
)
from agentscope_rx.errors import ConfigurationError, HookError
from agentscope_rx.events import ContextEvent, Event, MemoryEvent, PreReasoningEvent, fold
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.memory.short_forms import has_short_forms, shortened
from agentscope_rx.messages import COMPRESSED, TRANSIENT, ChatUsage
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import just, throw
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import ScriptedModel
from tests.agent.compacting import SUMMARY, Compacts, look, requests, step, summarized, texts, with_short_results
from tests.agent.parts import agent, assert_whole, events_of, remembered, types


def contexts(events: Sequence[Event]) -> list[ContextEvent]:
    return [event for event in events if isinstance(event, ContextEvent)]


def test_a_round_goes_on_with_the_smaller_conversation():
    compacts = Compacts(above=3)
    model = ScriptedModel(look(1), look(2), "done")
    friday = agent(model, hooks=[compacts])
    events = run_virtual(events_of(friday, "hi"))
    assert requests(model) == [["hi"], ["hi", "c1", "c1"], [SUMMARY, "hi", "c2", "c2"]]
    assert texts(remembered(friday)) == ["hi", "c1", "c1", "c2", "c2", "done"], "memory keeps the originals"
    at = types(events).index("context")
    assert types(events)[at - 1 : at + 3] == ["post_acting", "context", "memory", "pre_reasoning"]
    report, change = events[at], events[at + 1]
    assert isinstance(report, ContextEvent) and isinstance(change, MemoryEvent)
    assert (report.step, report.cause, report.messages_before, report.messages_after) == ("summarize", "messages", 5, 2)
    assert report.source == events[0].source and report.run_id == events[0].run_id
    assert [COMPRESSED in each.marks for each in change.replaced] == [True, True]
    assert list(fold(events).history) == list(remembered(friday))
    assert_whole(friday)


def test_hooks_on_the_round_see_what_the_compaction_has_left():
    seen: list[tuple[list[str], int]] = []

    @hook(PreReasoningEvent)
    def note(event: PreReasoningEvent) -> None:
        seen.append((texts(event.messages), len(event.history)))

    friday = agent(ScriptedModel(look(1), "done"), hooks=[note, Compacts(with_short_results, above=2)])
    run_virtual(friday.call("hi"))
    assert seen == [(["hi"], 1), (["hi", "c1", "c1"], 3)]
    (result,) = [each for each in remembered(friday) if each.tool_results]
    assert has_short_forms(result) and "Sunny" in result.tool_results[0].text


def test_short_forms_are_what_a_request_sends():
    model = ScriptedModel(look(1), "done")
    friday = agent(model, hooks=[Compacts(with_short_results, above=2)])
    run_virtual(friday.call("hi"))
    (result,) = model.requests[-1].messages[-1].tool_results
    assert result.text == "short" and not has_short_forms(model.requests[-1].messages[-1])


def test_each_hook_is_asked_about_what_the_one_before_has_left():
    first = Compacts(with_short_results, above=2)
    second = Compacts(above=2)
    second.priority = 20
    friday = agent(ScriptedModel(look(1), look(2), "done"), hooks=[second, first])
    events = run_virtual(events_of(friday, "hi"))
    assert [each.messages[-1].tool_results[0].text for each in second.asked[1:]] == ["short", "short"]
    assert [each.step for each in contexts(events)] == ["shorten results", "shorten results", "summarize"]
    assert list(fold(events).history) == list(remembered(friday))


def test_what_the_hook_is_told():
    usage = ChatResponse((TextBlock("thinking about it"), look(1)), usage=ChatUsage(120, 8))
    compacts = Compacts(lambda request: None)
    friday = agent(ScriptedModel([usage], "done"), hooks=[compacts])
    question = Msg.user("hi")
    run_virtual(friday.call(question))
    first, second = compacts.asked
    assert (first.why, first.iteration, first.last, first.error) == ("round", 0, None, None)
    assert first.system_message is not None and first.system_message.text == "You are Friday."
    assert [each.name for each in first.tools] == ["weather", "slow", "broken", "count"]
    assert first.question == {question.id} and first.model is friday.model and not first.pending
    assert (second.iteration, second.last) == (1, (1, 120))
    assert texts(second.messages)[0] == "hi" and list(second.history) == list(second.messages)


@pytest.mark.parametrize("takes_away", [False, True])
def test_the_hook_is_told_what_others_add(takes_away: bool):
    """So that the count of the provider, which is of all of it, can be compared with an estimate."""
    note, hint, rules = Msg.user("a note"), Msg.user("a hint"), Msg.system("Be brief.")

    @hook(PreReasoningEvent)
    def adds(event: PreReasoningEvent) -> PreReasoningEvent:
        messages = [note, *event.messages[takes_away:]]
        return event.replace(messages=messages, hints=[*event.hints, hint], system_message=rules)

    usages = [ChatResponse((look(number),), usage=ChatUsage(100 * number, 8)) for number in (1, 2)]
    compacts = Compacts(lambda request: None)
    friday = agent(ScriptedModel(*([each] for each in usages), "done"), hooks=[compacts, adds])
    run_virtual(friday.call("hi"))
    first, *others = compacts.asked
    assert not first.added and first.system_message is not None and first.system_message.text == "You are Friday."
    for each in others:
        assert list(each.added) == [note, hint] and each.system_message == rules
    assert [each.last for each in others] == ([None, None] if takes_away else [(1, 100), (3, 200)])


def test_the_count_of_the_last_request_ends_with_a_compaction():
    usages = [ChatResponse((look(number),), usage=ChatUsage(100 * number, 8)) for number in (1, 2, 3)]
    compacts = Compacts(above=4)
    friday = agent(ScriptedModel(*([each] for each in usages), "done"), hooks=[compacts])
    run_virtual(friday.call("hi"))
    assert [each.last for each in compacts.asked] == [None, (1, 100), (3, 200), (4, 300)]


def test_enqueued_input_belongs_to_the_question():
    compacts = Compacts(lambda request: None)

    @tool
    async def ask_more() -> str:
        """Enqueues."""
        friday.enqueue(more)
        return "ok"

    more = Msg.user("and this")
    model = ScriptedModel([look(1).replace(name="ask_more", input={})], "done")
    friday = agent(model, tools=[ask_more], hooks=[compacts])
    run_virtual(friday.call("hi"))
    assert more.id in compacts.asked[1].question and len(compacts.asked[1].question) == 2


def test_the_summary_is_asked_about_too():
    compacts = Compacts(lambda request: summarized(request, 0), above=2)
    model = ScriptedModel(look(1), "what I have found")
    friday = agent(model, hooks=[compacts], max_iters=1)
    events = run_virtual(events_of(friday, "hi"))
    assert [each.why for each in compacts.asked] == ["round", "round"]
    assert types(events)[-6:] == ["context", "memory", "pre_summary", "summary_chunk", "post_summary", "post_call"]
    assert requests(model)[1][:2] == [SUMMARY, "hi"]
    assert list(fold(events).history) == list(remembered(friday))


def test_a_step_that_failed_is_told_and_changes_nothing():
    def fails(request: CompactionRequest) -> Compaction:
        return Compaction(events=(step(request, request.messages).replace(error="the model is away"),))

    friday = agent(ScriptedModel("hello"), hooks=[Compacts(fails)])
    events = run_virtual(events_of(friday, "hi"))
    assert [each.error for each in contexts(events)] == ["the model is away"]
    assert "memory" not in types(events) and texts(remembered(friday)) == ["hi", "hello"]


def test_a_compaction_of_equal_messages_is_none():
    compacts = Compacts(lambda request: Compaction(replaced=request.history))
    friday = agent(ScriptedModel("hello"), hooks=[compacts])
    assert "memory" not in types(run_virtual(events_of(friday, "hi")))


# --- costs of a summary -------------------------------------------------------------------------------------------


def paid(request: CompactionRequest) -> Compaction:
    made = summarized(request, 2)
    return Compaction(
        replaced=made.replaced,
        events=[each.replace(usage=ChatUsage(1_000, 50), model_name="cheap") for each in made.events],
    )


def test_the_model_call_of_a_summary_counts_for_the_run():
    friday = agent(ScriptedModel(look(1), look(2), "done"), hooks=[Compacts(paid, above=3)])
    events = run_virtual(events_of(friday, "hi"))
    usage = fold(events).usage
    assert (usage.input_tokens, usage.output_tokens) == (1_000, 50)
    assert fold(events[:-1]).usage == usage, "before the last event, too"


def test_a_limit_that_a_summary_has_reached_ends_the_run():
    limits = UsageLimits(total_tokens=500, on_limit="summary")
    model = ScriptedModel(look(1), look(2), "what I have found")
    friday = agent(model, hooks=[Compacts(paid, above=3)], limits=limits)
    reply = run_virtual(friday.call("hi"))
    assert reply.generate_reason is GenerateReason.LIMIT_REACHED and len(model.requests) == 3
    assert_whole(friday)


# --- refused ------------------------------------------------------------------------------------------------------


def with_other_content(request: CompactionRequest) -> Compaction:
    return Compaction(replaced=[request.history[0].replace(content=(TextBlock("changed"),))])


REFUSED = [
    (with_other_content, "changed more than the metadata"),
    (lambda request: Compaction(replaced=[Msg.user("new")]), "memory does not have"),
    (lambda request: Compaction(replaced=[request.history[0].marked(TRANSIENT)]), "transient"),
    (lambda request: Compaction(replaced=["text"]), "not a Msg"),
    (lambda request: Compaction(events=["text"]), "not a ContextEvent"),
    (lambda request: "text", "not one Compaction"),
    (lambda request: just(Compaction(), Compaction()), "several values"),
]


@pytest.mark.parametrize(("answer", "told"), REFUSED)
def test_a_compaction_that_would_lose_something_is_refused(answer, told: str):
    friday = agent(ScriptedModel("hello"), hooks=[Compacts(answer)])
    with pytest.raises(HookError, match=told) as caught:
        run_virtual(friday.call("hi"))
    assert caught.value.hook == "Compacts" and caught.value.event == "compact"
    assert texts(remembered(friday)) == ["hi"]
    assert_whole(friday)


@pytest.mark.parametrize("late", [False, True])
def test_an_error_of_a_hook_fails_the_run_with_its_name(late: bool):
    def fails(request: CompactionRequest):
        if late:
            return throw(ValueError("no"))
        raise ValueError("no")

    friday = agent(ScriptedModel("hello"), hooks=[Compacts(fails)])
    with pytest.raises(ValueError, match="no") as caught:
        run_virtual(friday.call("hi"))
    assert "Raised by hook Compacts on compact of agent Friday." in caught.value.__notes__
    assert_whole(friday)


def test_a_coroutine_may_compact():
    class Slowly(Hook):
        async def compact(self, request: CompactionRequest) -> Compaction | None:
            await asyncio.sleep(5)
            return summarized(request, 1) if len(request.history) > 2 else None

    model = ScriptedModel(look(1), "done")
    friday = agent(model, hooks=[Slowly()])
    run_virtual(friday.call("hi"))
    assert requests(model)[1] == [SUMMARY, "hi"]


def test_an_observer_cannot_compact():
    class Watches(Compacts):
        observe_only = True

    with pytest.raises(ConfigurationError, match="observe_only: a compaction changes the memory"):
        agent(ScriptedModel("hello"), hooks=[Watches()])


def test_a_hook_that_only_compacts_gets_no_events():
    assert Compacts.kinds == () and "that compacts" in repr(Compacts())


# --- memory that is changed meanwhile -----------------------------------------------------------------------------


def test_what_is_observed_while_a_hook_works_is_kept():
    compacts = Compacts(above=2, delay=5)
    model = ScriptedModel(look(1), "done")
    friday = agent(model, hooks=[compacts])

    async def run() -> None:
        running = asyncio.ensure_future(friday.call("hi"))
        await asyncio.sleep(2)
        await friday.observe("Bob says hello")
        await running

    run_virtual(run())
    assert "Bob says hello" in requests(model)[1] and "Bob says hello" in texts(remembered(friday))


@pytest.mark.parametrize("how", ["removed", "rewritten"])
def test_what_others_take_out_meanwhile_stays_out(how: str):
    given = [Msg.user(f"old {number}") for number in range(4)]
    compacts = Compacts(lambda request: summarized(request, 2, "old 0 and others"), above=4, delay=5)
    model = ScriptedModel("done")
    friday = agent(model, hooks=[compacts], memory=InMemoryMemory(given))

    async def run() -> list[Event]:
        running = asyncio.ensure_future(events_of(friday, "hi"))
        await asyncio.sleep(2)
        if how == "removed":
            await friday.memory.delete([given[0].id])
        else:
            await friday.memory.replace(given[0].replace(content=(TextBlock("[removed]"),)))
        return await running

    (event,) = contexts(run_virtual(run()))
    assert "meanwhile" in event.error
    left = ["[removed]"] if how == "rewritten" else []
    assert requests(model) == [[*left, "old 1", "old 2", "old 3", "hi"]]


def test_the_window_is_cut_from_what_the_compaction_has_left():
    """Compaction changes memory and goes first; the window leaves out what is still too much."""
    compacts = Compacts(lambda request: summarized(request, 4), above=4)
    model = ScriptedModel(look(1), look(2), look(3), "done")
    friday = agent(model, hooks=[compacts], memory=InMemoryMemory(), memory_window=70)
    run_virtual(friday.call("hi"))
    assert max(len(each.messages) for each in compacts.asked) >= 5, "the hook sees all that would be sent"
    assert requests(model)[-1][0] == SUMMARY and "hi" in requests(model)[-1]
    assert len(requests(model)[-1]) < 6, "and the window leaves out more"


def test_a_short_form_that_is_there_already_stays():
    kept = shortened(Msg.user("a long question"), {0: TextBlock("short")})
    model = ScriptedModel("hello", "again")
    friday = agent(model, memory=InMemoryMemory([kept]))
    run_virtual(friday.call("and"))
    run_virtual(friday.call("more"))
    assert requests(model) == [["short", "and"], ["short", "and", "hello", "more"]]


# --- sub-agents ---------------------------------------------------------------------------------------------------


def test_a_sub_agent_compacts_its_own_conversation():
    inner = agent(ScriptedModel(look(1), look(2), "found"), hooks=[Compacts(above=3)])
    model = ScriptedModel([ToolUseBlock("p1", "search", {"message": "search"})], "done")
    outer = ReActAgent("Boss", model, tools=[inner.as_tool("search")], hooks=[Compacts(lambda request: None)])
    events = run_virtual(events_of(outer, "hi"))
    (event,) = contexts(events)
    assert event.agent == "Friday" and event.depth == 1
    assert requests(inner.model)[-1][0] == SUMMARY
    assert list(fold(events).history) == list(outer.memory.messages)
    assert not any(COMPRESSED in each.marks for each in outer.memory.messages)


def test_the_summary_of_a_sub_agent_counts_for_the_outer_run():
    inner = agent(ScriptedModel(look(1), look(2), "found"), hooks=[Compacts(paid, above=3)])
    model = ScriptedModel([ToolUseBlock("p1", "search", {"message": "search"})], "done")
    outer = ReActAgent("Boss", model, tools=[inner.as_tool("search")])
    events = run_virtual(events_of(outer, "hi"))
    assert fold(events).usage.input_tokens == 1_000


def test_a_compaction_does_not_undo_what_others_did_meanwhile():
    """Its summary would not cover what they have compressed."""
    given = [Msg.user(f"old {number}") for number in range(6)]
    slow = Compacts(lambda request: summarized(request, 5, "slow"), delay=5, above=6, why=["round"])
    model = ScriptedModel("done")
    friday = agent(model, hooks=[slow], memory=InMemoryMemory(given))

    async def main() -> list[Event]:
        running = asyncio.ensure_future(events_of(friday, "hi"))
        await asyncio.sleep(2)
        await friday.memory.compress([each.id for each in given[:4]], "by hand")
        return await running

    events = run_virtual(main())
    (event,) = contexts(events)
    assert "meanwhile" in event.error and "memory" not in types(events)
    assert requests(model)[0] == ["by hand", "old 4", "old 5", "hi"]
