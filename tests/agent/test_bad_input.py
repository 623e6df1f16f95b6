"""Arguments that cannot work: an error at construction or call that says what to change, and nothing is started."""

from __future__ import annotations

import pytest

from agentscope_rx import (
    AgentScopeError,
    ConfigurationError,
    GracefulShutdown,
    Hook,
    InMemoryMemory,
    InMemorySession,
    InvalidInputError,
    Msg,
    ReActAgent,
    RuntimeContext,
    StreamOptions,
    Toolkit,
    UsageLimits,
    hook,
    tool,
)
from agentscope_rx.errors import RunInsideLoopError
from agentscope_rx.events import PreReasoningEvent, ReasoningChunkEvent
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import agent, remembered, weather


def without_annotation(city):
    """A tool that no model could call."""


@hook(PreReasoningEvent)
def remind(event: PreReasoningEvent) -> None:
    """A hook."""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"model": None}, "needs a model, such as"),
        ({"model": "gpt-5"}, "A model is named provider:name, such as"),
        ({"name": " "}, "needs a name"),
        ({"sys_prompt": Msg.system("Hi")}, "sys_prompt must be a str"),
        ({"max_iters": 0}, "max_iters must be a whole number of at least 1"),
        ({"max_iters": "3"}, "max_iters must be a whole number of at least 1"),
        ({"interrupt_grace": -1}, "interrupt_grace must be >= 0"),
        ({"interrupt_grace": "5"}, "interrupt_grace must be >= 0"),
        ({"tools": [weather, weather]}, "Rename one of them"),
        ({"tools": [without_annotation]}, "has no annotation. Add one, such as city: str"),
        ({"tools": ["weather"]}, "is not a tool"),
        ({"tools": weather}, r"Did you mean tools=\[\.\.\.\]"),
        ({"tools": without_annotation}, r"Did you mean tools=\[\.\.\.\]"),
        ({"tools": "weather"}, r"Did you mean tools=\[\.\.\.\]"),
        ({"tools": Toolkit([weather])}, r"Did you mean toolkit=\.\.\."),
        ({"toolkit": [weather]}, r"Did you mean tools=\[\.\.\.\]"),
        ({"tools": [weather], "toolkit": Toolkit()}, "either tools or a toolkit"),
        ({"memory": []}, "memory must be a Memory"),
        ({"hooks": remind}, r"Did you mean hooks=\[\.\.\.\]"),
        ({"hooks": [print]}, r"Decorate a function with @hook"),
        ({"hooks": [Hook]}, "make an object of your Hook class"),
        ({"tracer": print}, "tracer must be a Tracer"),
        ({"generate_options": {"temperature": 1}}, "generate_options must be GenerateOptions"),
        ({"model_execution_config": {"timeout": 1}}, "model_execution_config must be ExecutionConfig"),
        ({"tool_execution_config": 30}, "tool_execution_config must be ExecutionConfig"),
    ],
)
def test_construction_says_what_to_change(arguments, says: str):
    given = {"name": "Friday", "model": ScriptedModel()} | arguments
    with pytest.raises(ConfigurationError, match=says):
        ReActAgent(**given)


@pytest.mark.parametrize(
    ("input", "says"),
    [
        (5, "not int"),
        ({"role": "user", "content": "Hi"}, "not dict"),
        ([{"role": "user", "content": "Hi"}], "the list holds"),
        (["Hi"], "the list holds 'Hi'"),
        (Msg.system("Be brief."), "A SYSTEM message cannot be part of the input"),
        ([Msg.user("Hi"), Msg.system("Be brief.")], "sys_prompt"),
    ],
)
def test_input_is_checked_where_it_is_given(input, says: str):
    friday = agent(ScriptedModel())
    for give in (friday.call, friday.stream, friday.observe):
        with pytest.raises(InvalidInputError, match=says):
            give(input)
    assert len(remembered(friday)) == 0


def test_other_arguments_of_calls():
    friday = agent(ScriptedModel())
    for options in ({"kinds": ()}, ReasoningChunkEvent):
        with pytest.raises(InvalidInputError, match="must be StreamOptions"):
            friday.stream("Hi", options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInputError, match="takes a Msg or a str, not 5"):
        friday.interrupt(5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="takes classes of events, not 'x'"):
        StreamOptions(kinds="x")  # pyright: ignore[reportArgumentType]


def test_run_on_the_thread_of_a_loop_says_await():
    async def main() -> Msg:
        friday = agent(ScriptedModel("Hello"))
        with pytest.raises(RunInsideLoopError, match="await"):
            friday.call("Hi").run()
        return await friday.call("Hi")

    assert run_virtual(main()).text == "Hello"


def test_an_agent_called_from_its_own_tool_or_hook_is_busy():
    @tool
    async def myself() -> str:
        """Ask the agent that is asking."""
        return (await friday.call("Inner")).text

    friday = agent(ScriptedModel(call("myself"), "Done"), tools=[myself])
    assert run_virtual(friday.call("Hi")).text == "Done"
    assert "is still running" in remembered(friday)[2].tool_results[0].text

    @hook(PreReasoningEvent)
    async def again(event: PreReasoningEvent) -> None:
        await friday.call("Inner")

    friday = agent(ScriptedModel("Done"), hooks=[again])
    with pytest.raises(AgentScopeError, match="is still running"):
        run_virtual(friday.call("Hi"))


def test_a_debugger_shows_what_things_are():
    friday = ReActAgent("Friday", ScriptedModel(), tools=[weather], hooks=[remind])
    assert repr(friday) == "<ReActAgent Friday, model scripted, tools: weather>"
    assert repr(InMemoryMemory([Msg.user("Hi")])) == "<InMemoryMemory of 1 messages>"
    assert repr(remind) == "<hook remind on PreReasoningEvent, priority 100>"
    assert repr(Hook()) == "<hook Hook on every event, priority 100>"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: UsageLimits(prices={"m": 2}), r"prices\['m'\] must be Price"),
        (lambda: UsageLimits(prices=3), "a table by model name"),
        (lambda: GracefulShutdown(timeout="3"), "timeout must be a number of seconds, not '3'"),
        (lambda: GracefulShutdown(grace=None), "grace must be"),
        (lambda: Toolkit().register_schema("x"), "register_schema takes ToolSchema"),
        (lambda: agent(ScriptedModel()).interrupt("x", "USR"), "source must be one of user, tool, system"),
        (lambda: agent(ScriptedModel()).save(InMemorySession(), "k", persistence="memory"), "persistence must be"),
        (lambda: RuntimeContext(db=1).get("db"), r"looks objects up by type: use get\(str, 'db'\)"),
        (lambda: RuntimeContext(db=1).require("db"), "looks objects up by type"),
    ],
)
def test_wrong_types_are_told_where_they_are_given(make, text):
    with pytest.raises((ConfigurationError, InvalidInputError), match=text):
        make()


@pytest.mark.parametrize("name", ["reply", "_reasoning", "_acting", "_summarizing"])
def test_a_method_of_another_library_is_not_passed_over(name):
    kind = type("Mine", (ReActAgent,), {name: lambda self, *args: None})
    with pytest.raises(ConfigurationError, match=f"Mine.{name}.*would never be called"):
        kind("Friday", ScriptedModel())
