"""`ReActAgent(long_term_memory=...)`: its modes, and the two tools."""

from __future__ import annotations

from typing import Any

import pytest

from agentscope_rx import ConversationPool, InMemorySession, RuntimeContext, Toolkit
from agentscope_rx.errors import ConfigurationError, LongTermMemoryError
from agentscope_rx.long_term_memory import MemoryScope, StaticLongTermMemory, long_term_memory_tools
from agentscope_rx.long_term_memory.memory_tools import MAX_LIMIT
from agentscope_rx.reactive import throw
from agentscope_rx.testing import ScriptedModel, call, check_tool, run_virtual
from tests.agent.parts import assert_whole, remembered
from tests.long_term_memory.parts import Told, agent, notes_in

TOOLS = ["record_to_memory", "retrieve_from_memory"]


@pytest.mark.spec("case 160")
@pytest.mark.parametrize(
    ("mode", "tools", "static"),
    [("static", [], True), ("agent", TOOLS, False), ("both", TOOLS, True), (None, TOOLS, True)],
)
def test_a_mode_installs_its_parts(mode: Any, tools: list[str], static: bool):
    ltm, model = Told("Ann lives in Rome."), ScriptedModel("Hello.")
    options = {} if mode is None else {"long_term_memory_mode": mode}
    friday = agent(model, long_term_memory=ltm, **options)
    run_virtual(friday.call("hi"))
    assert [tool.name for tool in model.requests[0].tools] == tools
    assert (len(notes_in(model)), len(ltm.recorded)) == ((1, 1) if static else (0, 0))


def test_without_one_nothing_changes():
    friday = agent(ScriptedModel("Hello."))
    assert len(friday.hooks) == 0 and not friday.toolkit.names


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigurationError, match="'static', 'agent' or 'both'"):
        agent(ScriptedModel(), long_term_memory=Told(), long_term_memory_mode="agent_control")
    with pytest.raises(ConfigurationError, match="long_term_memory must be a LongTermMemory"):
        agent(ScriptedModel(), long_term_memory="notes.db")
    with pytest.raises(ConfigurationError, match="needs a memory"):
        agent(ScriptedModel(), long_term_memory_mode="static")


def test_agents_can_share_a_toolkit_and_a_memory():
    # (AgentScope registers the tools in the caller's toolkit, so that a second agent on it fails)
    toolkit, ltm = Toolkit(), Told("x")
    friday = agent(ScriptedModel(), toolkit=toolkit, long_term_memory=ltm)
    other = agent(ScriptedModel(), toolkit=toolkit, long_term_memory=ltm)
    assert list(friday.toolkit.names) == list(other.toolkit.names) == TOOLS and not toolkit.names


@pytest.mark.spec("case 137")
def test_the_reason_is_of_the_assistant_the_facts_of_the_user():
    ltm = Told()
    model = ScriptedModel(call("record_to_memory", thinking="likes", content=["Ann likes tea.", " ", "Bob too."]), "ok")
    friday = agent(model, long_term_memory=ltm, long_term_memory_mode="agent")
    run_virtual(friday.call("hi", context=RuntimeContext(user_id="ann", session_id="s1")))
    # the reason is thinking: a memory without a model does not store it as a fact
    assert ltm.recorded == [["assistant: ", "user: Ann likes tea.", "user: Bob too."]]
    assert ltm.scopes == [MemoryScope(user="ann")]
    (source,) = ltm.sources
    assert source is not None and source.session_key == "s1" and source.agent == "Friday" and source.run_id
    assert remembered(friday)[2].tool_results[0].text == "Stored in long-term memory."
    assert_whole(friday)


@pytest.mark.spec("case 137")
@pytest.mark.parametrize(
    ("notes", "arguments", "text"),
    [
        ([], {"keywords": ["tea"]}, "Long-term memory has nothing about that."),
        (["Ann likes tea."], {"keywords": ["tea", "Ann"]}, "- Ann likes tea."),
        (["a", "b", "c"], {"keywords": ["tea"], "limit": 2}, "- a\n- b"),
        (["a"], {"keywords": [" "]}, "Nothing was searched for: keywords held no text."),
        (["a"], {"keywords": ["x"], "limit": -3}, "- a"),
    ],
)
def test_what_the_model_reads_of_a_search(notes: list[str], arguments: dict[str, Any], text: str):
    ltm = Told(*notes)
    friday = agent(
        ScriptedModel(call("retrieve_from_memory", **arguments), "ok"),
        long_term_memory=ltm,
        long_term_memory_mode="agent",
    )
    run_virtual(friday.call("hi"))
    result = remembered(friday)[2].tool_results[0]
    assert result.text.startswith(text) and result.kind is None
    assert ltm.asked == ([] if text.startswith("Nothing") else [" ".join(arguments["keywords"])])
    assert MAX_LIMIT == 50


def test_nothing_to_record_says_so():
    ltm = Told()
    model = ScriptedModel(call("record_to_memory", thinking="x", content=[]), "ok")
    friday = agent(model, long_term_memory=ltm, long_term_memory_mode="agent")
    run_virtual(friday.call("hi"))
    assert remembered(friday)[2].tool_results[0].text.startswith("Nothing was stored") and ltm.recorded == []


@pytest.mark.parametrize("name", TOOLS)
def test_a_failing_memory_is_an_error_result(name: str):
    ltm = Told(before=lambda what: throw(LongTermMemoryError("the disk is full")))
    arguments = {"thinking": "", "content": ["x"]} if name == TOOLS[0] else {"keywords": ["x"]}
    friday = agent(ScriptedModel(call(name, **arguments), "ok"), long_term_memory=ltm, long_term_memory_mode="agent")
    assert run_virtual(friday.call("hi")).text == "ok"
    result = remembered(friday)[2].tool_results[0]
    assert result.kind is not None and "the disk is full" in result.text


def test_the_tools_keep_the_laws_of_tools():
    record, retrieve = long_term_memory_tools(Told("x"))
    check_tool(record, arguments={"thinking": "", "content": ["x"]}, invalid={"content": 7})
    check_tool(retrieve, arguments={"keywords": ["x"]}, invalid={"keywords": 7})
    with pytest.raises(ConfigurationError, match="MemoryScope"):
        long_term_memory_tools(Told(), scope="ann")  # type: ignore[arg-type]


def test_the_users_of_a_pool_do_not_mix():
    ltm = Told("x")
    friday = agent(ScriptedModel("a", "b"), long_term_memory=ltm, long_term_memory_mode="static")

    async def main() -> None:
        async with ConversationPool(friday, InMemorySession()) as pool:
            await pool.call("ann", "s1", "hi")
            await pool.call("bob", "s2", "hi")

    run_virtual(main())
    assert [scope and scope.user for scope in ltm.scopes] == ["ann", "ann", "bob", "bob"]
    keys = [source and source.session_key for source in ltm.sources]
    assert len(set(keys)) == 2 and None not in keys


def test_the_hook_of_a_hooks_list_is_connected_later_too():
    ltm = Told("x")
    friday = agent(ScriptedModel("a"))
    friday.hooks.add(StaticLongTermMemory(ltm))
    run_virtual(friday.call("hi"))
    assert len(ltm.recorded) == 1
