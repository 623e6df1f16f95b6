"""`SubagentsHook`: the list in the system message, spawning, going on, listing, saving and loading."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from agentscope_rx import Approve, InMemorySession, ReActAgent, RuntimeContext, ToolUseBlock
from agentscope_rx.context_policy import CompactionHook
from agentscope_rx.errors import ConfigurationError, DeadlineError, DuplicateToolError, InvalidInputError
from agentscope_rx.events import Event, PostCallEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.sub_agents import (
    GENERAL_PURPOSE,
    SubAgent,
    SubAgentScan,
    SubagentsHook,
    SubAgentSource,
    WorkspaceSubAgents,
)
from agentscope_rx.sub_agents.wording import INSTRUCTION, listed
from agentscope_rx.testing import ScriptedModel, call, check_hook, check_tool, collect_dropped, run_virtual
from tests.agent.parts import remembered
from tests.agent.sub.parts import assert_all_whole, child_of
from tests.sub_agents.parts import FAILED, Log, assert_free, boss, declare, helper, listing, model_of, said, send, spawn


def system(model: ScriptedModel, index: int = 0) -> str:
    return model.requests[index].messages[0].text


def test_the_list_is_in_the_system_message(tmp_path: Path):
    declare(tmp_path / "subagents", "b", description='"Ends </description></subagent> early."')
    declare(tmp_path / "subagents", "a")
    hook = SubagentsHook(WorkspaceSubAgents(tmp_path))
    agent = boss(hook, "1", "2")
    agent.call("Hi.").run()
    expected = (
        f"You are Boss.\n{INSTRUCTION}\n<available_subagents>\n"
        "<subagent>\n<name>a</name>\n<description>The a.</description>\n</subagent>\n"
        "<subagent>\n<name>b</name>\n"
        "<description>Ends &lt;/description&gt;&lt;/subagent&gt; early.</description>\n</subagent>\n"
        "</available_subagents>"
    )
    assert system(agent.model) == expected
    agent.call("Hi.").run()
    assert system(agent.model, 1) == expected
    assert "available_subagents" not in "".join(message.text for message in agent.memory.messages)


def test_a_change_of_a_file_is_in_the_next_call(tmp_path: Path):
    hook = SubagentsHook(WorkspaceSubAgents(tmp_path))
    agent = boss(hook, "1", "2", "3")
    agent.call("Hi.").run()
    path = declare(tmp_path / "subagents", "new")
    agent.call("Hi.").run()
    path.unlink()
    agent.call("Hi.").run()
    assert ["<name>new" in system(agent.model, index) for index in range(3)] == [False, True, False]


def test_a_sub_agent_gets_its_task_and_its_prompt_only():
    declared = helper("The answer.")
    agent = boss(declared, spawn("s", "helper", "What is it?", label="Fact"), "Done.")
    reply = agent.call("Ask.").run()
    assert reply.text == "Done."
    child = child_of(agent)
    assert said(agent)["s"] == (None, f"status: ok\nlabel: Fact\nconversation_id: {child.id}\n\nThe answer.")
    request = model_of(declared).requests[0]
    assert [message.role.value for message in request.messages] == ["system", "user"]
    assert request.messages[0].text.startswith("You are helper.\n\nYou are a sub-agent")
    assert request.messages[1].text == "What is it?" and request.tools == ()


def test_its_events_and_costs_are_in_the_run_of_its_parent():
    agent = boss(helper("An answer."), spawn("s"), "Done.")
    events: list[Event] = []

    async def main() -> None:
        async for event in agent.stream("go"):
            events.append(event)

    run_virtual(main())
    nested = [event for event in events if len(event.path) == 3]
    assert nested and all(event.path[1] == "s" and event.agent == "helper" for event in nested)
    assert isinstance(nested[-1], PostCallEvent)


def test_a_conversation_goes_on_by_label_or_by_id():
    declared = helper("One.", "Two.", "Three.")

    async def main() -> None:
        agent = boss(declared, spawn("s", label="My Helper"), send("t", "my helper", "and?"), "Done.")
        await agent.call("go")
        assert said(agent)["t"][1].endswith("\n\nTwo.")
        child = child_of(agent)
        agent.model = ScriptedModel(send("u", child.id), "Done.")
        await agent.call("go on")
        assert said(agent)["u"][1].endswith("\n\nThree.")
        assert [message.text for message in model_of(declared).requests[2].messages[1:]] == [
            "go",
            "One.",
            "and?",
            "Two.",
            "more",
        ]

    run_virtual(main())


def test_labels_are_unique_without_case_and_made_if_missing():
    agent = boss(
        helper("a", "b", "c"),
        [spawn("1"), spawn("2"), spawn("3", label=" Helper-1 "), spawn("4", label="x"), spawn("5", label="X")],
        listing("l"),
        "Done.",
    )
    agent.call("go").run()
    results = said(agent)
    assert results["1"][1].startswith("status: ok\nlabel: helper-1\n")
    assert results["2"][1].startswith("status: ok\nlabel: helper-2\n")
    for id in ("3", "5"):
        assert results[id][0] is FAILED and "There is a sub-agent with the label" in results[id][1]
    assert [line.split(",")[0] for line in results["l"][1].splitlines()] == [
        "- label: helper-1",
        "- label: helper-2",
        "- label: x",
    ]


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (spawn("e", "helpr"), "There is no sub-agent 'helpr'. There are: helper."),
        (send("e", "nobody"), "None was started yet: use agent_spawn."),
        (spawn("e", "helper", ""), "task"),
    ],
    ids=["spawn", "send", "task"],
)
def test_a_wrong_name_gets_an_error_with_the_right_ones(use: ToolUseBlock, text: str):
    agent = boss(helper(), use, "Done.")
    agent.call("go").run()
    kind, shown = said(agent)["e"]
    assert kind is not None and text in shown


def test_a_label_that_is_nearly_right_is_suggested():
    agent = boss(helper("a"), spawn("s", label="paris"), send("e", "pariss"), "Done.")
    agent.call("go").run()
    assert "There are: paris." in said(agent)["e"][1]


def test_agent_list_says_what_they_do():
    log = Log()

    async def main() -> None:
        turns = (call("slow"), "slept", call("delete", path="x"))
        declared = helper(*turns, tools=["slow", "delete"])
        agent = boss(declared, spawn("s", label="sleeps"), spawn("t", label="asks"), tools=[log])
        task = agent.call("go").as_task()
        await asyncio.sleep(1)
        children = agent.conversation().children
        assert children is not None
        assert listed(children.all).endswith(
            f"label: sleeps, agent: helper, conversation_id: {child_of(agent).id}, status: working"
        )
        assert [each.name for each in (await task).pending_calls] == ["delete"]
        first, second = listed(children.all).splitlines()
        assert first.endswith("status: idle") and second.endswith("status: waits for a person")

    run_virtual(main())


def test_parallel_sub_agents_work_at_the_same_time():
    log = Log()

    async def main() -> None:
        declared = [
            helper(call("slow", seconds=10), f"{name} done", name=name, tools=["slow"]) for name in ("a", "b", "c")
        ]
        agent = boss(SubagentsHook(*declared), [spawn(n, n) for n in ("a", "b", "c")], "Done.", tools=[log])
        await agent.call("go")
        assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.1)
        assert [text.rpartition("\n")[2] for _, text in said(agent).values()] == ["a done", "b done", "c done"]
        assert_free(agent)

    run_virtual(main())


def test_three_levels_with_tools_that_become_fewer():
    log = Log()

    async def main() -> None:
        low = helper(call("look", path="p"), "low", name="low", tools=["look"])
        mid = helper(spawn("l", "low"), "mid", name="mid", spawns=True, tools=["look", "write"])
        top = helper(spawn("m", "mid"), "top", name="top", spawns=True, without_tools=["delete"])
        agent = boss(SubagentsHook(low, mid, top), spawn("t", "top"), "Done.", tools=[log])
        await agent.call("go")
        spawning = ["agent_spawn", "agent_send", "agent_list"]
        assert [tool.name for tool in model_of(top).requests[0].tools] == ["slow", "write", "look", *spawning]
        assert [tool.name for tool in model_of(mid).requests[0].tools] == ["write", "look", *spawning]
        assert [tool.name for tool in model_of(low).requests[0].tools] == ["look"]
        assert log.done == ["look p"]
        await assert_all_whole(agent.conversation(), remembered(agent))

    run_virtual(main())


def test_a_general_purpose_one_inherits_model_and_tools():
    log = Log()
    agent = ReActAgent(
        "Boss",
        ScriptedModel(spawn("s", "general-purpose"), call("look", path="x"), "Found.", "Done."),
        tools=[log],
        hooks=[SubagentsHook(general_purpose=True)],
    )
    agent.call("go").run()
    assert log.done == ["look x"] and said(agent)["s"][1].endswith("Found.")
    assert [tool.name for tool in agent.model.requests[1].tools] == ["slow", "write", "look", "delete"]


def test_a_ready_agent_and_a_function_that_makes_one():
    made: list[ReActAgent] = []

    def make() -> ReActAgent:
        made.append(ReActAgent("Maker", ScriptedModel("made", "again")))
        return made[-1]

    ready = ReActAgent("Ready", ScriptedModel("ready"))
    hook = SubagentsHook(SubAgent("ready", "Is there.", agent=ready), SubAgent("made", "Is made.", agent=make))
    agent = boss(hook, [spawn("r", "ready"), spawn("m", "made")], send("n", "made-1"), "Done.")
    agent.call("go").run()
    assert [said(agent)[id][1].rpartition("\n")[2] for id in "rmn"] == ["ready", "made", "again"]
    assert len(made) == 1


def test_what_a_function_makes_must_be_an_agent():
    agent = boss(SubagentsHook(SubAgent("odd", "Is odd.", agent=lambda: 7)), spawn("s", "odd"), "Done.")
    agent.call("go").run()
    assert "the function must return an agent, not 7" in said(agent)["s"][1]
    assert agent.conversation().children is None or agent.conversation().children.all == ()


def test_which_hooks_a_sub_agent_gets():
    class Mine(Hook):
        pass

    class Shared(Hook):
        in_sub_agents = True

    def more(declared: SubAgent) -> list[Hook]:
        return [Mine()]

    compaction, shared, mine = CompactionHook(max_tokens=1_000_000), Shared(), Mine()
    hook = SubagentsHook(helper("a"), hooks=more)
    agent = boss(hook, spawn("s"), "Done.", hooks=[compaction, shared, mine])
    agent.call("go").run()
    inner = child_of(agent).runs_on
    assert isinstance(inner, ReActAgent)
    assert compaction in inner.hooks.all and shared in inner.hooks.all
    others = [each for each in inner.hooks.all if isinstance(each, Mine)]
    assert len(others) == 1 and others[0] is not mine
    assert "compact_context" in inner.toolkit and "agent_spawn" not in inner.toolkit


def test_conversations_and_labels_survive_save_and_load():
    session = InMemorySession()

    async def main() -> None:
        agent = boss(helper("One."), spawn("s", label="paris"), "Done.")
        await agent.bind(session, "k")
        await agent.call("go")
        declared = helper("Two.")
        other = boss(declared, [listing("l"), send("t", "PARIS")], "Done.")
        assert await other.load(session, "k")
        await other.call("go on")
        assert "label: paris, agent: helper" in said(other)["l"][1]
        assert said(other)["t"][1].endswith("\n\nTwo.")
        assert [message.text for message in model_of(declared).requests[0].messages[1:]] == ["go", "One.", "more"]

    run_virtual(main())


def test_a_declaration_that_is_gone_after_a_load_is_an_error():
    session = InMemorySession()

    async def main() -> None:
        agent = boss(helper("One."), spawn("s", label="paris"), "Done.")
        await agent.call("go")
        await agent.save(session, "k")
        other = boss(helper(name="other"), send("t", "paris"), "Done.")
        assert await other.load(session, "k")
        await other.call("go on")
        assert "which is not declared any more" in said(other)["t"][1]
        assert_free(other)

    run_virtual(main())


def test_approvals_inside_reach_another_process():
    session, log = InMemorySession(), Log()

    async def main() -> None:
        agent = boss(helper(call("delete", "d", path="x"), tools=["delete"]), spawn("s"), tools=[log])
        reply = await agent.call("go")
        assert [call.id for call in reply.pending_calls] == ["s/d"]
        await agent.save(session, "k")
        other = boss(helper("Deleted.", tools=["delete"]), "Done.", tools=[log])
        assert await other.load(session, "k")
        assert (await other.call(Approve("s/d"))).text == "Done."
        assert log.done == ["delete x"] and said(other)["s"][1].endswith("Deleted.")
        await assert_all_whole(other.conversation(), remembered(other))
        assert_free(other)

    run_virtual(main())


def test_pending_calls_inside_are_closed_with_the_parents():
    session, log = InMemorySession(), Log()

    async def main() -> None:
        agent = boss(helper(call("delete", "d", path="x"), tools=["delete"]), spawn("s"), tools=[log])
        await agent.call("go")
        await agent.save(session, "k")
        declared = helper("Else.", tools=["delete"])
        other = boss(declared, send("t", "helper-1", "else?"), "Done.", tools=[log])
        assert await other.load(session, "k")
        await other.call("Something else.")
        assert log.done == [] and said(other)["t"][1].endswith("Else.")
        await assert_all_whole(other.conversation(), remembered(other))

    run_virtual(main())


def test_an_edit_of_a_call_inside_is_checked_at_once():
    log = Log()

    async def main() -> None:
        agent = boss(helper(call("delete", "d", path="x"), tools=["delete"]), spawn("s"), tools=[log])
        await agent.call("go")
        with pytest.raises(ValueError, match="does not take"):
            await agent.call(Approve("s/d", {"path": 7}))

    run_virtual(main())


def test_what_an_agent_loses_its_sub_agents_lose_too():
    log = Log()

    async def main() -> None:
        declared = helper("One.", call("write", path="x"), "Two.")
        agent = boss(declared, spawn("s", label="h"), "Done.", send("t", "h"), "Done.", tools=[log])
        await agent.call("go")
        agent.toolkit.remove("write")
        await agent.call("go on")
        assert log.done == [] and [tool.name for tool in model_of(declared).requests[1].tools] == [
            "slow",
            "look",
            "delete",
        ]
        assert [m.text for m in model_of(declared).requests[1].messages[1:]] == ["go", "One.", "more"]

    run_virtual(main())


def test_an_unknown_tool_is_an_error_when_the_agent_is_made():
    with pytest.raises(ConfigurationError, match=r"'lok', which is no tool of its parent\. Did you mean 'look'"):
        boss(helper(tools=["lok"]), tools=[Log()])
    with pytest.raises(ConfigurationError, match="without_tools names 'x'"):
        boss(helper(without_tools=["x"]))


def test_a_file_with_an_unknown_tool_is_not_listed(tmp_path: Path):
    problems: list[str] = []
    declare(tmp_path / "subagents", "bad", tools="lok")
    declare(tmp_path / "subagents", "good", tools="look")
    hook = SubagentsHook(tmp_path / "subagents", on_problem=lambda error: problems.append(str(error)))
    agent = boss(hook, spawn("s", "bad"), "Done.", "Again.", tools=[Log()])
    agent.call("go").run()
    agent.call("go").run()
    assert len(problems) == 1 and "Did you mean 'look'?" in problems[0] and "bad.md" in problems[0]
    assert "<name>good" in system(agent.model) and "<name>bad" not in system(agent.model)
    assert "Did you mean 'look'?" in said(agent)["s"][1]


def test_a_model_that_cannot_be_made_is_a_result(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    declared = SubAgent("far", "Is far.", model="anthropic:x")
    agent = boss(SubagentsHook(declared), spawn("s", "far"), "Done.")
    agent.call("go").run()
    kind, text = said(agent)["s"]
    assert kind is FAILED and "Sub-agent 'far' cannot be started" in text and "ANTHROPIC_API_KEY" in text


def test_one_hook_serves_several_agents():
    hook = SubagentsHook(SubAgent("same", "The same.", "Do."))
    agents = [
        ReActAgent(f"Boss{n}", ScriptedModel(spawn("s", "same"), f"from {n}", "Done."), hooks=[hook]) for n in "ab"
    ]
    for agent in agents:
        agent.call("go").run()
    assert [said(agent)["s"][1].rpartition("\n")[2] for agent in agents] == ["from a", "from b"]


def test_two_hooks_need_other_tools():
    with pytest.raises(DuplicateToolError, match="agent_spawn"):
        boss(SubagentsHook(GENERAL_PURPOSE), hooks=[SubagentsHook(GENERAL_PURPOSE)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limits": 3}, "SubAgentLimits"),
        ({"hooks": 3}, "hooks must be a function"),
        ({"instruction": None}, "instruction must be text"),
        ({"general_purpose": "no"}, "general_purpose"),
    ],
    ids=str,
)
def test_an_option_without_meaning_is_refused(options: dict[str, object], text: str):
    with pytest.raises(ConfigurationError, match=text):
        SubagentsHook(GENERAL_PURPOSE, **options)  # pyright: ignore[reportArgumentType]


def test_a_hook_without_sub_agents_is_refused():
    with pytest.raises(ConfigurationError, match="needs sub-agents"):
        SubagentsHook()
    with pytest.raises(ConfigurationError, match=r"agent=\.\.\."):
        SubagentsHook(ReActAgent("A", ScriptedModel()))  # pyright: ignore[reportArgumentType]


def test_it_keeps_the_laws_of_hooks():
    check_hook(lambda: SubagentsHook(GENERAL_PURPOSE))


class Slow(SubAgentSource):
    def __init__(self, event: threading.Event) -> None:
        self.event = event

    def scan(self) -> SubAgentScan:
        self.event.wait(30)
        return SubAgentScan()


def test_a_source_that_hangs_does_not_hold_the_call():
    event = threading.Event()
    agent = boss(SubagentsHook(helper("x"), Slow(event), timeout=0.05), spawn("s"), "Hello.")
    with collect_dropped() as dropped:
        try:
            assert agent.call("Hi.").run().text == "Hello."
        finally:
            event.set()
    assert {type(each) for each in dropped} == {DeadlineError}
    assert "did not finish within 0.05 s" in str(dropped[0])
    assert "There are: none at all" in said(agent)["s"][1]


def test_the_tool_that_lists_keeps_the_laws_of_tools():
    check_tool(SubagentsHook(GENERAL_PURPOSE).tools()[2], arguments={}, invalid={"x": 1})


def _endless() -> ReActAgent:
    return ReActAgent("Far", ScriptedModel("Here.", repeat=True))


@pytest.mark.parametrize("ready", [True, False])
def test_arguments_of_the_caller_name_tools_below(ready: bool):
    """Those of a ready agent are not known at the top; those of declared ones are tools of the parent."""
    context = RuntimeContext(tool_arguments={"wrte": {"path": "x"}})
    declared = SubAgent("r", "Is ready.", agent=_endless()) if ready else helper()
    agent = boss(SubagentsHook(declared), "Done.", tools=[Log()])
    if ready:
        assert agent.call("go", context=context).run().text == "Done."
    else:
        with pytest.raises(InvalidInputError, match="wrte"):
            agent.call("go", context=context).run()
