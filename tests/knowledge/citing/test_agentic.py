"""Modes of `ReActAgent(knowledge=...)`, and the tool `retrieve_knowledge`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent, RuntimeContext, Toolkit
from agentscope_rx.errors import AgentScopeError, ConfigurationError, KnowledgeError
from agentscope_rx.events import ActingChunkEvent, Event, RetrievalEvent, fold
from agentscope_rx.knowledge import KnowledgeBase, KnowledgeHook, KnowledgeScope, MergedKnowledge, knowledge_tools
from agentscope_rx.knowledge.citing.knowledge_tools import MAX_LIMIT
from agentscope_rx.knowledge.citing.retriever import Retriever
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.reactive import throw, timer
from agentscope_rx.testing import ScriptedModel, call, check_tool, run_virtual
from tests.agent.parts import assert_whole, remembered
from tests.knowledge.citing.parts import Told, agent, events_of, knowledge_in, passage
from tests.knowledge.retrieval.parts import MemoryStore, TopicEmbedding

TOOL = ["retrieve_knowledge"]


def results_of(friday: ReActAgent) -> list[Any]:
    return [result for message in remembered(friday) for result in message.tool_results]


def searching(knowledge: Any, query: str = "q", **options: Any) -> ReActAgent:
    """An agent whose model searches once."""
    model = ScriptedModel(call("retrieve_knowledge", query=query), "ok")
    if options:
        return agent(model, hooks=[KnowledgeHook(knowledge, mode="agentic", **options)])
    return agent(model, knowledge=knowledge, knowledge_mode="agentic")


def retrievals(events: list[Event]) -> list[RetrievalEvent]:
    return [each for each in events if isinstance(each, RetrievalEvent)]


@pytest.mark.spec("case 160")
@pytest.mark.parametrize(
    ("mode", "tools", "generic"),
    [("generic", [], True), ("agentic", TOOL, False), ("both", TOOL, True), ("none", [], False), (None, [], True)],
)
def test_a_mode_installs_its_parts(mode: Any, tools: list[str], generic: bool):
    docs, model = Told("A"), ScriptedModel("Hello [1].")
    options = {} if mode is None else {"knowledge_mode": mode}
    run_virtual(agent(model, knowledge=docs, **options).call("hi"))
    assert [tool.name for tool in model.requests[0].tools] == tools
    assert (bool(knowledge_in(model)), len(docs.asked)) == (generic, int(generic))


@pytest.mark.spec("case 160")
def test_several_bases_are_asked_at_once_and_merged():
    docs, faq = Told("A", "B", before=lambda query: timer(2)), Told("C", name="faq", before=lambda query: timer(2))
    model = ScriptedModel("ok")
    (found,) = retrievals(events_of(agent(model, knowledge=[docs, faq])))
    assert found.bases == ("docs", "faq") and found.elapsed == 2
    assert sorted((each.number, each.base) for each in found.passages)[0][0] == 1
    assert {each.base for each in found.passages} == {"docs", "faq"} and len(found.passages) == 3


def test_bases_are_joined_as_merged_knowledge_joins_them():
    docs, faq = Told("A"), Told("B", name="faq")
    merged = Retriever([docs, faq], threshold=None, timeout=3)._knowledge("")
    # (wrapped ones would hide what kind of base they are, and what their scores mean)
    assert isinstance(merged, MergedKnowledge) and merged.bases == (docs, faq) and merged.timeout == 3


def test_without_knowledge_nothing_changes():
    friday = agent(ScriptedModel("Hello."))
    assert len(friday.hooks) == 0 and not friday.toolkit.names
    none = agent(ScriptedModel("Hello."), knowledge=Told("A"), knowledge_mode="none")
    assert len(none.hooks) == 0 and not none.toolkit.names


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"knowledge": "docs.db"}, "knowledge must be a Knowledge"),
        ({"knowledge": []}, "knowledge must be a Knowledge"),
        ({"knowledge": [Told("A"), 3]}, "knowledge must be a Knowledge"),
        ({"knowledge": [Told("A"), Told("B")]}, "have the name 'docs'"),
        ({"knowledge": Told("A"), "knowledge_mode": "static"}, "'generic', 'agentic', 'both' or 'none'"),
        ({"knowledge_mode": "agentic"}, "needs knowledge"),
    ],
)
def test_wrong_arguments_of_an_agent_are_refused(options: dict[str, Any], text: str):
    with pytest.raises(ConfigurationError, match=text):
        agent(ScriptedModel(), **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "static"}, "mode must be"),
        ({"limit": 0}, "limit"),
        ({"max_characters": 0}, "max_characters"),
        ({"timeout": 0}, "timeout"),
        ({"threshold": 2}, "threshold must be a cosine"),
        ({"where": "en"}, "where takes conditions"),
        ({"rewrite": "gpt"}, "rewrite must be a QueryRewriter"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"cite": 1}, "cite must be True or False"),
        ({"in_sub_agents": 1}, "in_sub_agents must be True or False"),
    ],
)
def test_wrong_options_of_the_hook_are_refused(options: dict[str, Any], text: str):
    with pytest.raises(AgentScopeError, match=text):
        KnowledgeHook(Told("A"), **options)


def test_agents_can_share_a_toolkit_and_a_base():
    toolkit, docs = Toolkit(), Told("A")
    first = agent(ScriptedModel(), toolkit=toolkit, knowledge=docs, knowledge_mode="agentic")
    other = agent(ScriptedModel(), toolkit=toolkit, knowledge=docs, knowledge_mode="agentic")
    assert list(first.toolkit.names) == list(other.toolkit.names) == TOOL and not toolkit.names


def test_a_call_gets_numbered_passages_and_reports_them_first():
    docs = Told("A", "B", description="All about the zoo.")
    model = ScriptedModel(call("retrieve_knowledge", "c1", query="price", limit=1), "A [1].")
    friday = agent(model, knowledge=docs, knowledge_mode="agentic")
    events = events_of(friday)
    assert (docs.asked, docs.limits) == (["price"], [1])
    (found,) = retrievals(events)
    assert (found.call_id, found.question, [each.number for each in found.passages]) == ("c1", "price", [1])
    last = next(each for each in events if isinstance(each, ActingChunkEvent) and each.is_last)
    text = results_of(friday)[0].text
    assert found.seq < last.seq and '<passage number="1" document="guide.md"' in text and "\nA\n" in text
    schema = model.requests[0].tools[0]
    assert "All about the zoo." in schema.description and set(schema.parameters["properties"]) == {"query", "limit"}
    assert events[-1].type == "post_call" and events[-2].type == "citation" and fold(events).message is not None


def test_the_model_can_neither_widen_nor_bypass_the_scope():
    docs = Told("A")
    model = ScriptedModel(call("retrieve_knowledge", query="q", limit=10_000), "ok")
    friday = agent(model, hooks=[KnowledgeHook(docs, mode="agentic", where={"language": "en"})])
    run_virtual(friday.call("?", context=RuntimeContext(KnowledgeScope({"tenant": "acme"}))))
    assert docs.wheres == [{"language": "en", "tenant": "acme"}] and docs.limits == [MAX_LIMIT]


def test_calls_of_one_round_run_side_by_side():
    docs = Told(find=lambda query: [passage(query)], before=lambda query: timer(5))
    model = ScriptedModel([call("retrieve_knowledge", query="a"), call("retrieve_knowledge", query="b")], "ok")

    async def main() -> None:
        friday = agent(model, knowledge=docs, knowledge_mode="agentic")
        began = asyncio.get_running_loop().time()
        events = await friday.stream("?").pipe(ops.to_list())
        assert asyncio.get_running_loop().time() - began == 5
        assert sorted(each.number for found in retrievals(events) for each in found.passages) == [1, 2]

    run_virtual(main())


def test_with_several_bases_the_model_may_choose_one():
    docs, faq = Told("A", description="The guide."), Told("B", name="faq")
    model = ScriptedModel(
        call("retrieve_knowledge", query="q", base="faq"), call("retrieve_knowledge", query="q", base="no"), "ok"
    )
    friday = agent(model, knowledge=[docs, faq], knowledge_mode="agentic")
    found = retrievals(events_of(friday))
    assert not docs.asked and [each.bases for each in found] == [("faq",)]
    assert "There is no knowledge base 'no'. They are: docs, faq." in results_of(friday)[1].text
    assert "- docs: The guide.\n- faq: documents" in model.requests[0].tools[0].description


def test_errors_are_results_and_a_part_is_said_to_be_one():
    def fail(query: str) -> Any:
        return throw(KnowledgeError("the disk is away"))

    broken, faq = Told("A", before=fail), Told("B", name="faq")
    model = ScriptedModel(call("retrieve_knowledge", query="q"), "ok")
    alone = agent(model, knowledge=broken, knowledge_mode="agentic")
    (found,) = retrievals(events_of(alone))
    (result,) = results_of(alone)
    assert "the disk is away" in found.error_text and result.is_error and "the disk is away" in result.text
    both = searching([broken, faq])
    events_of(both)
    (result,) = results_of(both)
    assert (
        not result.is_error and "Not all knowledge could be searched: KnowledgeError: the disk is away" in result.text
    )
    assert "\nB\n" in result.text
    assert_whole(both)


def test_a_base_without_documents_is_an_error_result():
    friday = searching(KnowledgeBase(MemoryStore(), TopicEmbedding(), name="typo"))
    events_of(friday)
    (result,) = results_of(friday)
    assert result.is_error and "The knowledge base 'typo' has no documents" in result.text


@pytest.mark.parametrize(("docs", "query"), [(Told(), "q"), (Told("A"), "  ")])
def test_nothing_found_is_said(docs: Told, query: str):
    friday = searching(docs, query)
    events_of(friday)
    (result,) = results_of(friday)
    assert not result.is_error and ("No passage was found" in result.text) == bool(query.strip())


def test_a_slow_base_ends_in_an_error_result():
    docs = Told("A", before=lambda query: timer(60))
    friday = searching(docs, timeout=3)
    (found,) = retrievals(events_of(friday))
    assert found.elapsed == 3 and "within 3 s" in results_of(friday)[0].text


def test_an_interruption_ends_the_search_of_a_tool():
    closed: list[str] = []
    docs = Told("A", before=lambda query: timer(60).pipe(ops.finally_action(lambda: closed.append(query))))

    async def main() -> None:
        friday = searching(docs, timeout=None)
        handle = friday.start("?")
        await asyncio.sleep(1)
        handle.interrupt()
        await handle.result()
        assert closed == ["q"] and results_of(friday)[0].kind is ToolResultKind.INTERRUPTED
        assert_whole(friday)

    run_virtual(main())


def test_the_tool_works_without_the_hook():
    (tool,) = knowledge_tools([Told("A"), Told("B", name="faq")], cite=False)
    assert tool.read_only and tool.name == "retrieve_knowledge"
    check_tool(tool, arguments={"query": "price"}, invalid={"limit": 3})
    model = ScriptedModel(call("retrieve_knowledge", query="q"), "A [1].")
    friday = agent(model, tools=[tool])
    assert [each.type for each in events_of(friday)].count("retrieval") == 1
    assert "in brackets, as in [1]" not in results_of(friday)[0].text
