"""An agent as a tool: its name and description, its arguments, the conversations that it keeps."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from agentscope_rx import ConfigurationError, InMemoryMemory, ReActAgent, Toolkit
from agentscope_rx.agent import AgentTool
from agentscope_rx.agent.sub_agent.agent_tool import tool_name
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.testing import ScriptedModel, run_virtual
from agentscope_rx.tools import ToolContext
from tests.agent.parts import events_of, remembered
from tests.agent.sub.parts import agent, ask, child_of, history, researcher, use
from tests.support.assertions import results_in


@pytest.mark.spec("§9.15", "case 125")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Researcher", "call_researcher"),
        ("  Data  Analyst ", "call_data_analyst"),
        ("web-search_2", "call_web-search_2"),
        ("a__b", "call_a_b"),
        ("C++ Coder!", r"call_c_coder_[0-9a-f]{8}"),
        ("研究员", r"call_agent_[0-9a-f]{8}"),
        ("研究员 One", r"call_one_[0-9a-f]{8}"),
        ("x" * 200, r"call_x{50}_[0-9a-f]{8}"),
        ("y" * 49 + " " + "z" * 100, r"call_y{49}_[0-9a-f]{8}"),
        ("", "call_agent"),
    ],
)
def test_names(name: str, expected: str):
    """What no provider accepts is replaced, and what that would mix up is told apart."""
    made = tool_name(name)
    assert re.fullmatch(expected, made) and len(made) <= 64 and "__" not in made


@pytest.mark.spec("case 125")
def test_names_of_different_agents_differ():
    assert len({tool_name(name) for name in ("研究员", "分析师", "c", "c++", "c#", "x" * 100, "x" * 101)}) == 7


@pytest.mark.spec("§9.15")
def test_what_a_model_sees():
    """A message, and the id of a conversation to go on with; nothing else."""
    made = researcher().as_tool()
    assert (made.name, made.description) == ("call_researcher", "Call Researcher to complete tasks.")
    assert list(made.parameters["properties"]) == ["message", "conversation_id"]
    assert made.parameters["required"] == ["message"]
    (itself,) = ReActAgent("Boss", ScriptedModel("x"), tools=[researcher()]).toolkit
    assert itself.name == made.name
    named = researcher().as_tool("look_up", "Looks things up.")
    assert (named.name, named.description) == ("look_up", "Looks things up.")


@pytest.mark.spec("W67")
def test_an_agent_made_by_a_function_is_made_at_its_first_call():
    """Not at registration; and once, whatever the number of conversations."""
    made: list[ReActAgent] = []

    def make() -> ReActAgent:
        made.append(researcher("one", "two"))
        return made[-1]

    async def main() -> None:
        tool = AgentTool(make, name="call_researcher")
        parent = agent("Boss", [ask("p"), ask("q")], "ok", tools=[tool])
        assert not made
        await parent.call("go")
        assert len(made) == 1 and parent.conversation().children is not None
        assert len(parent.conversation().children.all) == 2

    run_virtual(main())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AgentTool(researcher), "needs a name"),
        (lambda: AgentTool(3, name="x"), "takes an agent"),
        (lambda: AgentTool(researcher(), name="two words"), "two words"),
        (lambda: researcher().as_tool(forward="all"), "forward must be"),
        (lambda: researcher().as_tool(max_conversations=0), "max_conversations"),
        (lambda: researcher().as_tool(interrupt_grace=-1), "interrupt_grace"),
        (lambda: researcher().as_tool(memory=InMemoryMemory()), "each conversation has its own"),
    ],
)
def test_what_cannot_work_is_refused_at_once(make: Any, words: str):
    with pytest.raises(ConfigurationError, match=words):
        make()


def test_a_function_that_makes_no_agent_is_an_error_result():
    async def main() -> None:
        parent = agent("Boss", ask("p"), "ok", tools=[AgentTool(lambda: 3, name="call_researcher")])
        await parent.call("go")
        kind, text = results_in(remembered(parent))["p"]
        assert kind is ToolResultKind.FAILED and "must return an agent" in text

    run_virtual(main())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "message: is required"),
        ({"message": "  "}, "must not be blank"),
        ({"message": 3}, "must be a string, not int"),
        ({"message": "x", "conversation_id": 5}, "conversation_id: must be a string"),
        ({"message": "x", "session": "y"}, "session"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, object], words: str):
    async def main() -> None:
        parent = agent("Boss", use("call_researcher", "p", **arguments), "ok", tools=[researcher().as_tool()])
        await parent.call("go")
        kind, text = results_in(remembered(parent))["p"]
        assert kind is ToolResultKind.INVALID_ARGUMENTS and words in text

    run_virtual(main())


@pytest.mark.spec("§9.15", "case 123")
def test_a_conversation_is_gone_on_with_by_its_id():
    """Each has a memory of its own; the model goes on with one by the id that a result told."""

    async def main() -> None:
        child = researcher("one", "two", "three")
        parent = agent("Boss", ask("p", "first"), "ok", tools=[child.as_tool()])
        await parent.call("go")
        taken = child_of(parent)
        assert results_in(remembered(parent))["p"][1] == f"conversation_id: {taken.id}\n\none"
        parent.model.turns += (
            (ask("q", "second", conversation_id=taken.id),), (ask("r", "third", conversation_id=""),), ("done",),
        )  # fmt: skip
        await parent.call("more")
        assert [message.text for message in await history(taken)] == ["first", "one", "second", "two"]
        assert [message.text for message in await history(child_of(parent, 1))] == ["third", "three"]
        # the agent's own memory is no conversation here
        assert not remembered(child)

    run_virtual(main())


def test_a_missing_or_busy_conversation_is_an_error_result():
    """Nothing is begun instead: the model reads what it can do."""

    async def main() -> None:
        child = researcher("one", "two", "three")
        other = agent("Other", "other")
        parent = agent("Boss", ask("p"), "ok", tools=[child.as_tool(), other.as_tool()])
        await parent.call("go")
        id = child_of(parent).id
        parent.model.turns += (
            (
                ask("q", conversation_id="nope"),
                use("call_other", "r", message="go", conversation_id=id),
                ask("s", conversation_id=id),
                ask("t", conversation_id=id),
            ),
            ("done",),
        )
        await parent.call("more")
        said = results_in(remembered(parent))
        assert f"There is no conversation 'nope'. There are: {id}." in said["q"][1]
        assert "There are none yet" in said["r"][1]
        assert said["s"][0] is None and "taken by call 's'" in said["t"][1]
        assert said["t"][0] is ToolResultKind.FAILED

    run_virtual(main())


def test_two_parents_conversations_share_nothing():
    async def main() -> None:
        child = researcher("one", "two")
        parent = agent("Boss", ask("p"), "ok", ask("q"), "ok", tools=[child.as_tool()])
        first, second = InMemoryMemory(), InMemoryMemory()
        await parent.call("go", memory=first)
        await parent.call("go", memory=second)
        ids = [child_of(parent.conversation(memory)).id for memory in (first, second)]
        assert ids[0] != ids[1]

    run_virtual(main())


def test_the_least_recently_used_go_but_not_those_that_wait():
    async def main() -> None:
        child = researcher(use("ask_person", "x"), "b", "c", "d", "b again", "e", external=True, max_iters=2)
        parent = agent("Boss", ask("a"), tools=[child.as_tool(max_conversations=3)], pending="recover", max_iters=20)
        await parent.call("go")
        waits = child_of(parent)
        parent.model.turns += ((ask("b"), ask("c")), ("ok",))
        assert waits.call_id == "a"
        # (another run, in the same conversation, while one waits: what waits is passed by, and free then)
        await parent.call("on")
        assert waits.call_id is None
        children = parent.conversation().children
        b = children.all[1].id
        parent.model.turns += ((ask("d"),), (ask("b2", conversation_id=b),), (ask("e"),), ("ok",))
        await parent.call("on")
        assert waits.id not in {each.id for each in children.all}
        assert len(children.all) == 3 and b in {each.id for each in children.all}
        assert sorted(each.slot for each in children.all) == [0, 1, 2]

    run_virtual(main())


@pytest.mark.spec("§9.15")
def test_called_by_hand_it_keeps_its_conversations_itself():
    """A toolkit without an agent; events come as `ToolNested`, the context is passed on."""

    async def main() -> None:
        child = researcher("one", "two")
        toolkit = Toolkit([child.as_tool()])
        events = [event async for event in toolkit.call(ask("p"))]
        result = events[-1]
        id = result.text.split()[1]
        assert {type(event).__name__ for event in events} == {"ToolNested", "ToolChunk", "ToolResultBlock"}
        assert (await toolkit.call(ask("p", "more", conversation_id=id))).text == f"conversation_id: {id}\n\ntwo"
        alone = researcher("three").as_tool()
        values = [value async for value in alone.call({"message": "hi"})]
        assert values[-1].text.endswith("three")
        assert ToolContext(ask("p")).host is None
        # several at once, and one Flow more than once, are calls of their own
        twice = researcher("four", "five").as_tool().call({"message": "hi"})
        results = await asyncio.gather(twice.as_task(), twice.as_task())
        assert {result.text.split()[-1] for result in results} == {"four", "five"}

    run_virtual(main())


def test_an_agent_that_calls_itself_ends():
    async def main() -> None:
        model = ScriptedModel(["Who?", use("call_narcissus", "n", message="me?")], repeat=True)
        narcissus = ReActAgent("Narcissus", model, max_iters=1)
        narcissus.toolkit.register(narcissus.as_tool())
        events = await events_of(narcissus, "go")
        assert max(event.depth for event in events) == 16
        assert events[-1].message.text == "Who?"

    run_virtual(main())
