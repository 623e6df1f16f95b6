"""What a reply cites: its marks, checked, in its metadata and in the stream; numbers through a conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentscope_rx import Approve, Msg, ReActAgent, SequentialPipeline, tool
from agentscope_rx.events import CitationEvent, Event, PostCallEvent, fold
from agentscope_rx.hooks import hook
from agentscope_rx.knowledge import KnowledgeHook
from agentscope_rx.knowledge.citing.numbers import KEPT, NUMBERS, adopt, known, number
from agentscope_rx.messages import Citation, citations_of
from agentscope_rx.parts import PartStates
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.durable.crashes import NotingMemory, World, new_world, play, thinned
from tests.agent.durable.test_every_moment import acting, use
from tests.agent.durable.test_every_moment import model as durable_model
from tests.agent.parts import assert_whole, remembered
from tests.knowledge.citing.parts import Told, agent, events_of, knowledge_in, numbers_in_request, passage


@tool(requires_approval=True)
def order(thing: str) -> str:
    """Orders a thing."""
    return f"ordered {thing}"


def both(find: Any) -> KnowledgeHook:
    return KnowledgeHook(Told(find=find), mode="both")


def cited(events: list[Event]) -> list[CitationEvent]:
    return [each for each in events if isinstance(each, CitationEvent)]


def by_query(query: str) -> list[Any]:
    """One passage for each word of the query, of a document of that name."""
    return [passage(f"on {word}", document=word) for word in query.split()]


def test_a_reply_has_the_citations_of_its_marks():
    found = [passage("A", page=3, headings=("Prices", "Adults"), title="Guide"), passage("B", 1), passage("C", 2)]
    friday = agent(ScriptedModel("5 euros [1], in winter 3 [3][9]."), knowledge=Told(find=lambda query: found))
    events = events_of(friday)
    (event,) = cited(events)
    assert [each.number for each in event.citations] == [1, 3] and event.unknown == (9,)
    first = event.citations[0]
    assert (first.document, first.title, first.page, first.headings) == ("guide.md", "Guide", 3, ("Prices", "Adults"))
    last = events[-1]
    assert isinstance(last, PostCallEvent) and events[-2] is event
    # the text stays as the model wrote it; the reply, memory and the fold have the same
    assert last.message.text == "5 euros [1], in winter 3 [3][9]." and event.message_id == last.message.id
    assert citations_of(last.message) == event.citations == citations_of(remembered(friday)[-1])
    assert fold(events).message == last.message and fold(events).history[-1] == last.message


def test_without_marks_there_is_no_event():
    friday = agent(ScriptedModel("5 euros, see `row[1]`."), knowledge=Told("A"))
    assert not cited(events_of(friday)) and citations_of(remembered(friday)[-1]) == ()


def test_a_number_out_of_nothing_is_unknown():
    (event,) = cited(events_of(agent(ScriptedModel("5 euros [1]."), knowledge=Told("A"), knowledge_mode="agentic")))
    assert (event.citations, event.unknown) == ((), (1,))


def test_without_cite_nothing_is_asked_for_nor_read():
    model = ScriptedModel("5 euros [1].")
    friday = agent(model, hooks=[KnowledgeHook(Told("A"), cite=False)])
    assert not cited(events_of(friday)) and "in brackets, as in" not in knowledge_in(model)


def test_the_same_chunk_keeps_its_number_in_a_run():
    model = ScriptedModel(
        call("retrieve_knowledge", query="b a"), call("retrieve_knowledge", query="c b"), "all [1], [2] and [3]"
    )
    events = events_of(agent(model, knowledge=Told(find=by_query), knowledge_mode="both"), "a")
    (event,) = cited(events)
    assert [(each.number, each.document) for each in event.citations] == [(1, "a"), (2, "b"), (3, "c")]


def test_numbers_go_on_through_the_conversation_and_are_saved(tmp_path: Path):
    def friday(model: ScriptedModel) -> ReActAgent:
        return agent(model, knowledge=Told(find=by_query), session=tmp_path, session_key="s1")

    run_virtual(friday(ScriptedModel("on a [1]")).call("a"))
    # another process: the mark of the answer in the history still means a
    model = ScriptedModel("as I said, a [1], and b [2]")
    (event,) = cited(events_of(friday(model), "b"))
    assert numbers_in_request(model) == {2: "on b"}
    assert [(each.number, each.document) for each in event.citations] == [(1, "a"), (2, "b")] and not event.unknown


def test_another_process_goes_on_with_pending_calls(tmp_path: Path):
    def friday(*turns: Any) -> ReActAgent:
        model = ScriptedModel(*turns)
        return agent(model, knowledge=Told(find=by_query), tools=[order], session=tmp_path, session_key="s1")

    pending = run_virtual(friday(call("order", "c1", thing="tea")).call("a"))
    assert pending.pending_calls and citations_of(pending) == ()
    again = friday("ordered, see [1]")
    (event,) = cited(events_of(again, Approve("c1")))
    assert [(each.number, each.document) for each in event.citations] == [(1, "a")]
    assert_whole(again)


def test_a_run_that_was_lost_goes_on_with_the_same_numbers():
    def script(text: str, results: int) -> object:
        if results == 0:
            return [call("retrieve_knowledge", query=f"{text} more"), use(f"{text}1", f"{text}-a")]
        return f"{text} is done [1] [2] [3] [9]."

    def make(world: World) -> ReActAgent:
        options: dict[str, Any] = {"tools": acting(world), "memory": NotingMemory(world)}
        return ReActAgent("A", durable_model(world, script), hooks=[both(by_query)], **options)

    async def replies(world: World) -> list[object]:
        saved = await world.session.load_all("k")
        found = [Msg.from_dict(item) for item in saved.lists["memory"]]
        return [[(each.number, each.document) for each in citations_of(message)] for message in found]

    async def main() -> None:
        world = new_world()
        expected = await play(world, make, ["one", "two"])
        world.recording = False
        cites = await replies(world)
        assert [(1, "one"), (2, "more")] in cites and [(1, "one"), (2, "more"), (3, "two")] in cites
        for moment in thinned(world.moments, 3):
            resumed = new_world(moment.sessions, moment.effects)
            resumed.recording = False
            found = await play(resumed, make, ["one", "two"], [])
            # (of the numbers, which is the latest may differ: last in the list are the states of parts)
            assert found[:-1] == expected[:-1], moment.where
            assert await replies(resumed) == cites, moment.where

    run_virtual(main())


def test_conversations_have_numbers_of_their_own():
    from agentscope_rx import InMemoryMemory

    model = ScriptedModel("[1]", repeat=True)
    friday = agent(model, knowledge=Told(find=by_query))
    run_virtual(friday.call("a", memory=InMemoryMemory()))
    run_virtual(friday.call("b", memory=InMemoryMemory()))
    assert numbers_in_request(model, 0) == {1: "on a"} and numbers_in_request(model, 1) == {1: "on b"}


def test_the_strings_of_a_structured_output_are_read():
    class Price(BaseModel):
        answer: str
        amounts: list[int]

    model = ScriptedModel(call("generate_response", answer="5 euros [1]", amounts=[2, 3]))
    friday = agent(model, knowledge=Told("A"))
    events = run_virtual(collected(friday, Price))
    (event,) = cited(events)
    assert [each.number for each in event.citations] == [1] and event.unknown == ()
    last = events[-1]
    assert isinstance(last, PostCallEvent) and last.message.structured(Price).amounts == [2, 3]
    assert [each.number for each in citations_of(last.message)] == [1]


async def collected(friday: ReActAgent, output: Any) -> list[Event]:
    return [each async for each in friday.stream("?", output=output)]


def test_a_summary_and_a_stopped_run_are_read_too():
    model = ScriptedModel(call("retrieve_knowledge", query="a"), "So far: a [1].")
    friday = agent(model, knowledge=Told(find=by_query), knowledge_mode="agentic", max_iters=1)
    (event,) = cited(events_of(friday))
    assert [each.document for each in event.citations] == ["a"]


def test_the_reply_is_read_as_other_hooks_have_left_it():
    @hook(PostCallEvent)
    def edit(event: PostCallEvent) -> PostCallEvent:
        return event.replace(message=event.message.replace(content="Only B [2]."))

    friday = agent(ScriptedModel("A [1]."), knowledge=Told("A", "B"), hooks=[edit])
    (event,) = cited(events_of(friday))
    assert [each.number for each in event.citations] == [2] and remembered(friday)[-1].text == "Only B [2]."


def test_two_hooks_share_the_numbers_and_cite_once():
    docs, faq = Told("A"), Told("B", name="faq")
    friday = agent(ScriptedModel("[1] [2]"), hooks=[KnowledgeHook(docs), KnowledgeHook(faq)])
    events = events_of(friday)
    (event,) = cited(events)
    assert [(each.number, each.base) for each in event.citations] == [(1, "docs"), (2, "faq")]


def test_a_member_of_a_pipeline_knows_earlier_citations():
    first = ReActAgent("First", ScriptedModel("on a [1]"), knowledge=Told(find=lambda query: by_query("a")))
    second = ReActAgent("Second", ScriptedModel("a [1], b [2]"), knowledge=Told(find=lambda query: by_query("b")))
    reply = run_virtual(SequentialPipeline([first, second]).call("?"))
    assert [(each.number, each.document) for each in citations_of(reply)] == [(1, "a"), (2, "b")]


def test_a_sub_agent_shares_the_numbers_of_its_parent():
    knowledge = KnowledgeHook(Told(find=by_query))
    helper = ReActAgent("Helper", ScriptedModel("b costs 3 [2]", repeat=True), hooks=[knowledge])
    model = ScriptedModel(call("call_helper", message="b"), "a [1], b [2]")
    boss = ReActAgent("Boss", model, tools=[helper], hooks=[knowledge])
    names = [each.name for each in boss.toolkit.schemas()]
    assert names == ["call_helper"], names
    events = events_of(boss, "a")
    assert [(event.agent, [(each.number, each.document) for each in event.citations]) for event in cited(events)] == [
        ("Helper", [(2, "b")]),
        ("Boss", [(1, "a"), (2, "b")]),
    ]


def test_metadata_of_others_that_cannot_be_read_is_passed_over():
    friday = agent(ScriptedModel("a [1]"), knowledge=Told(find=by_query))
    given = Msg("Other", "a", metadata={"citations": [{"nonsense": 1}]})
    (event,) = cited(events_of(friday, given))
    assert [each.document for each in event.citations] == ["a"]


# --- the numbers ------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=8))
def test_a_number_never_changes_its_meaning(retrievals: list[list[int]]):
    parts, meant = PartStates(), {}
    for chunks in retrievals:
        for each in number(parts, [passage(f"text {chunk}", chunk) for chunk in chunks]):
            assert meant.setdefault(each.number, each.chunk) == each.chunk
    assert sorted(meant) == list(range(1, len(meant) + 1)) and len(set(meant.values())) == len(meant)
    loaded = PartStates()
    loaded.restore(parts.dump())
    assert known(loaded) == known(parts) and NUMBERS.get(loaded) == NUMBERS.get(parts)


def test_a_chunk_of_a_changed_document_is_another_one():
    parts = PartStates()
    first = number(parts, [passage("A", digest="1")])
    again = number(parts, [passage("A", digest="2"), passage("B", digest="1"), passage("A", digest="1")])
    assert [each.number for each in (*first, *again)] == [1, 2, 3, 1]


def test_the_latest_passages_are_known():
    parts = PartStates()
    number(parts, [passage("first")])
    for index in range(KEPT):
        number(parts, [passage(f"text {index}", index)])
    assert 1 not in known(parts) and len(known(parts)) == KEPT
    # its number is not given again
    assert [each.number for each in number(parts, [passage("first")])] == [KEPT + 2]


def test_citations_of_others_take_no_number_that_is_given():
    parts = PartStates()
    number(parts, [passage("A")])
    adopt(parts, [Citation(number=1, base="x", document="other"), Citation(number=4, base="x", document="other")])
    assert {key: each.document for key, each in known(parts).items()} == {1: "guide.md", 4: "other"}
    assert [each.number for each in number(parts, [passage("B", 1)])] == [5]


def test_runs_side_by_side_get_different_numbers():
    async def main() -> None:
        friday = agent(ScriptedModel("ok", repeat=True), knowledge=Told(find=by_query), check_running=False)
        await asyncio.gather(*(friday.call(f"q{index}") for index in range(8)))
        numbers = known(friday.conversation())
        assert sorted(numbers) == list(range(1, 9))
        assert {each.document for each in numbers.values()} == {f"q{index}" for index in range(8)}

    run_virtual(main())
