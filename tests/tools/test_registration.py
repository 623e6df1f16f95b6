"""What `register` and `register_all` do with a tool: looks, schema, results, names, and which tools of a source."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from calling import all_of, text_of, use
from pydantic import BaseModel, Field

from agentscope_rx.errors import ConfigurationError, DuplicateToolError, ToolDefinitionError, ToolSuspend
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, just
from agentscope_rx.testing import run_virtual
from agentscope_rx.tools import FunctionTool, Tool, ToolChunk, ToolContext, Toolkit, tool
from tests.support.assertions import stable_id


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The one.
        b: The other.
    """
    return a + b


class Echo(Tool):
    name = "echo"
    description = "Says it again."
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(arguments["text"])


def result(toolkit: Toolkit, name: str, /, **input: object) -> ToolResultBlock:
    block = toolkit.call(use(name, **input)).run()
    assert isinstance(block, ToolResultBlock)
    return block


def text(toolkit: Toolkit, name: str, /, **input: object) -> str:
    return result(toolkit, name, **input).text


# --- looks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [add, tool(add), Echo(), functools.partial(add, b=2)], ids=stable_id)
def test_name_and_description_of_anything_can_be_replaced(source: object):
    toolkit = Toolkit()
    made = toolkit.register(source, name="other", description="Other.")
    assert toolkit.get("other") is made
    assert toolkit.schema("other") == made.schema
    assert (made.schema.name, made.schema.description) == ("other", "Other.")
    original = Toolkit([source])
    assert made.schema.parameters == original.schemas()[0].parameters
    assert original.names != ("other",), "the source is untouched"


def test_without_options_the_tool_is_registered_as_it_is():
    mine = Echo()
    toolkit = Toolkit()
    assert toolkit.register(mine) is mine
    assert type(toolkit.register(add)) is FunctionTool


def test_a_refused_call_names_the_tool_as_the_model_knows_it():
    toolkit = Toolkit()
    toolkit.register(add, name="plus")
    refused = result(toolkit, "plus", a="x")
    assert refused.kind is ToolResultKind.INVALID_ARGUMENTS
    assert refused.text.startswith("Error: Invalid arguments for tool 'plus':\n- a: ")
    assert result(toolkit, "plus", a=1).text == "2"


def test_config_is_laid_over_and_approval_replaced():
    mine = tool(execution_config=ExecutionConfig(timeout=5, max_attempts=2), requires_approval=True)(add)
    made = Toolkit().register(mine, execution_config=ExecutionConfig(timeout=9), requires_approval=False)
    assert made.execution_config == ExecutionConfig(timeout=9, max_attempts=2)
    assert made.requires_approval is False
    assert mine.requires_approval is True


def test_an_approval_rule_sees_the_tools_own_arguments():
    toolkit = Toolkit()
    toolkit.register(add, presets={"b": 5}, requires_approval=lambda arguments: arguments == {"a": 1, "b": 5})
    assert toolkit.needs_approval(use("add", a="1"))
    assert not toolkit.needs_approval(use("add", a=2))


def test_options_keep_blocking_tools_on_the_executor():
    import threading
    from concurrent.futures import ThreadPoolExecutor

    def where(context: ToolContext) -> str:
        return f"{context.call.name} {threading.current_thread().name}"

    def plain() -> str:
        return threading.current_thread().name

    with ThreadPoolExecutor(1, "mine") as pool:
        toolkit = Toolkit(executor=pool)
        toolkit.register(where, name="here", postprocess=lambda call, result: None)
        toolkit.register(plain, description="Where.")
        assert text(toolkit, "here").startswith("here mine")
        assert text(toolkit, "plain").startswith("mine")


@pytest.mark.spec("case 91")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on_conflict": "replace"}, "on_conflict must be one of 'error', 'override', 'skip', 'rename', not 'replace'"),
        ({"preset_mode": "soft"}, "preset_mode must be one of 'fixed', 'default', not 'soft'"),
        ({"description": 3}, "description must be text, not 3"),
        ({"parameters": [1]}, "parameters must be a JSON schema"),
        ({"presets": ["a"]}, "presets must be a dict of arguments"),
        ({"execution_config": 5}, "execution_config must be an ExecutionConfig, not 5"),
        ({"postprocess": "upper"}, "postprocess must be a function of a call and its result, not 'upper'"),
        ({"requires_approval": "yes"}, "requires_approval of tool 'add' must be True, False or"),
        ({"name": "not good"}, "name='not_good'"),
        ({"extend": dict}, "extend= of tool 'add' must be a pydantic model"),
    ],
)
def test_a_wrong_option_is_an_error_and_registers_nothing(options: dict[str, Any], says: str):
    """One source, and options that are none or right."""
    toolkit = Toolkit()
    with pytest.raises(ConfigurationError, match=says):
        toolkit.register(add, **options)
    assert len(toolkit) == 0
    with pytest.raises(TypeError, match="nothing"):
        toolkit.register(add, nothing=1)  # pyright: ignore


# --- schema -------------------------------------------------------------------------------------------------------

NARROW = {
    "type": "object",
    "properties": {"a": {"type": "integer", "maximum": 9, "description": "A digit."}},
    "required": ["a"],
    "additionalProperties": False,
}


def test_a_replaced_schema_is_shown_and_checked():
    toolkit = Toolkit()
    made = toolkit.register(add, parameters=NARROW)
    assert made.schema.parameters == NARROW
    assert text(toolkit, "add", a=9) == "10"
    assert "a: 10 is greater than the maximum of 9" in text(toolkit, "add", a=10)
    assert "b: is not an argument of this tool" in text(toolkit, "add", a=1, b=1)


def test_the_tool_s_own_validation_still_counts():
    toolkit = Toolkit()
    toolkit.register(add, parameters={"type": "object", "properties": {"a": {}}})
    assert "- a: Input should be a valid integer" in text(toolkit, "add", a="x")


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"type": "object", "properties": {"b": {}}}, "do not fit the tool: a: is required"),
        ({"type": "object", "properties": {"a": {}, "c": {}}}, "do not fit the tool: c: is not an argument"),
        ({"type": "string"}, "must be a JSON schema of type object"),
        ({"type": "object", "properties": {"a": {"type": "what"}}}, "cannot be checked: .*'what' is not one of"),
    ],
)
def test_a_schema_that_no_call_could_pass_is_refused(parameters: dict[str, object], says: str):
    with pytest.raises(ToolDefinitionError, match=says):
        Toolkit().register(add, parameters=parameters)


class Inner(BaseModel):
    x: int


class Why(BaseModel):
    reason: str = Field(min_length=3, description="Why you call.")
    level: int = 1
    inner: Inner | None = None


def nested(it: Inner) -> int:
    return it.x


@pytest.mark.spec("case 114")
def test_an_extension_is_checked_and_not_given_to_the_tool():
    """§22.6 case 114 (testMergePreservesOtherBaseSchemaFields): and the fields are validated, which Java's are not."""
    seen: list[Mapping[str, object]] = []

    def spy(a: int, context: ToolContext) -> str:
        seen.append(context.call.input)
        return str(a)

    toolkit = Toolkit()
    parameters = toolkit.register(spy, extend=Why).schema.parameters
    assert list(parameters["properties"]) == ["a", "reason", "level", "inner"]
    assert parameters["properties"]["reason"] == {"type": "string", "minLength": 3, "description": "Why you call."}
    assert (parameters["required"], parameters["additionalProperties"]) == (["a", "reason"], False)
    assert list(parameters["$defs"]) == ["Inner"]
    assert text(toolkit, "spy", a=1, reason="because") == "1"
    assert seen == [{"a": 1, "reason": "because"}]
    assert text(toolkit, "spy", a="x", reason="no", levl=2).splitlines()[1:-1] == [
        '- a: Input should be a valid integer, unable to parse string as an integer; given "x"',
        '- reason: String should have at least 3 characters; given "no"',
        "- levl: is not an argument of this tool; did you mean 'level'?",
    ]
    assert "- reason: is required and was not given" in text(toolkit, "spy", a=1)
    # nulls as models send them: for what may be left out, and is no null, they say nothing
    assert text(toolkit, "spy", a=1, reason="because", level=None, inner=None) == "1"


def test_an_extension_over_a_json_schema_tool():
    toolkit = Toolkit()
    toolkit.register(Echo(), extend=Why)
    assert text(toolkit, "echo", text="hi", reason="because") == "hi"
    assert "- reason: is required" in text(toolkit, "echo", text="hi")


@pytest.mark.spec("case 114")
def test_fields_that_are_there_already_are_a_conflict():
    """§22.6 case 114 (testExtendedModelConflictDetection)."""

    class Clash(BaseModel):
        b: int

    with pytest.raises(ToolDefinitionError, match="'add' cannot be extended by Clash: 'b' would occur twice"):
        Toolkit().register(add, extend=Clash)


@pytest.mark.spec("case 113")
def test_equal_definitions_are_shared_others_refused():
    """§22.6 case 113 (testHoistDefsEquivalent, testHoistDefsConflict)."""
    assert list(Toolkit().register(nested, extend=Why).schema.parameters["$defs"]) == ["Inner"]

    def other() -> type[BaseModel]:
        class Inner(BaseModel):
            y: str

        class More(BaseModel):
            more: Inner

        return More

    More = other()
    More.model_rebuild(_types_namespace={"Inner": More.model_fields["more"].annotation})
    with pytest.raises(ToolDefinitionError, match="two different types are called 'Inner'"):
        Toolkit().register(nested, extend=More)


# --- results ------------------------------------------------------------------------------------------------------


def shout(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock:
    return replace(result, output=(TextBlock(f"{call.name}: {result.text.upper()}"),))


async def shout_later(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock:
    await asyncio.sleep(1)
    return shout(call, result)


@pytest.mark.spec("case 92")
@pytest.mark.parametrize("function", [shout, shout_later])
def test_a_result_is_what_postprocess_makes_of_it(function: Any):
    """There are no converter classes: a function is given, once, for any kind of tool."""
    toolkit = Toolkit()
    toolkit.register(Echo(), postprocess=function)
    assert run_virtual(toolkit.call(use("echo", text="hi"))).text == "echo: HI"


def test_none_leaves_it_and_the_id_stays_the_call_s():
    toolkit = Toolkit()
    toolkit.register(add, postprocess=lambda call, result: None)
    toolkit.register(Echo(), postprocess=lambda call, result: replace(result, id="x", name="y"))
    assert text(toolkit, "add", a=1) == "2"
    assert (result(toolkit, "echo", text="hi").id, result(toolkit, "echo", text="hi").name) == ("1", "echo")


def test_it_sees_failures_but_no_suspension():
    seen: list[ToolResultKind | None] = []

    def look(call: ToolUseBlock, result: ToolResultBlock) -> None:
        seen.append(result.kind)

    def fails(how: str) -> None:
        raise ToolSuspend("later") if how == "suspend" else ValueError(how)

    toolkit = Toolkit()
    toolkit.register(fails, postprocess=look)
    assert result(toolkit, "fails", how="suspend").kind is ToolResultKind.SUSPENDED
    assert result(toolkit, "fails", how="x").kind is ToolResultKind.FAILED
    assert result(toolkit, "fails").kind is ToolResultKind.INVALID_ARGUMENTS
    assert seen == [ToolResultKind.FAILED, ToolResultKind.INVALID_ARGUMENTS]


def test_a_broken_postprocess_is_a_failed_result_run_once():
    ran: list[int] = []

    @tool(execution_config=ExecutionConfig(max_attempts=3, retry_on=lambda error: True))
    def work() -> str:
        ran.append(1)
        return "done"

    def raises(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock:
        raise ValueError("no")

    async def raises_later(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock:
        raise ValueError("no")

    for function, says in [
        (raises, "Error: ValueError: no"),
        (raises_later, "Error: ValueError: no"),
        (lambda call, result: result.text, "Error: postprocess of tool 'work' returned str"),
    ]:
        toolkit = Toolkit()
        toolkit.register(work, postprocess=function)  # pyright: ignore
        failed = result(toolkit, "work")
        assert failed.kind is ToolResultKind.FAILED
        assert failed.text.startswith(says)
    assert len(ran) == 3


def test_progress_passes_by_and_comes_as_before():
    async def steps():
        yield "one"
        yield "two"

    toolkit = Toolkit()
    toolkit.register(steps, postprocess=shout)
    events = all_of(toolkit.call(use("steps"))).run()
    assert [text_of(each) for each in events] == ["one", "two", "steps: TWO"]
    assert [type(each) for each in events] == [ToolChunk, ToolChunk, ToolResultBlock]


def test_a_hanging_postprocess_meets_deadline_and_disposal():
    cancelled: list[int] = []

    async def hangs(call: ToolUseBlock, result: ToolResultBlock) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(1)

    toolkit = Toolkit()
    toolkit.register(Echo(), postprocess=hangs, execution_config=ExecutionConfig(timeout=7))
    late = run_virtual(toolkit.call(use("echo", text="hi")))
    assert late.kind is ToolResultKind.TIMEOUT
    assert cancelled == [1]

    async def dispose() -> None:
        running = toolkit.call(use("echo", text="hi")).as_task()
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(dispose())
    assert cancelled == [1, 1]


# --- names that are taken -----------------------------------------------------------------------------------------


def one() -> int:
    return 1


def two() -> int:
    return 2


def test_a_name_that_is_taken_error_override_skip_rename():
    toolkit = Toolkit([one, add])
    first = toolkit.get("one")
    with pytest.raises(DuplicateToolError):
        toolkit.register(two, name="one")
    assert toolkit.register(two, name="one", on_conflict="skip") is first
    assert text(toolkit, "one") == "1"
    made = toolkit.register(two, name="one", on_conflict="override")
    assert (toolkit.get("one"), text(toolkit, "one")) == (made, "2")
    assert toolkit.names == ("one", "add"), "the place is kept: prompts are"
    for _ in range(2):
        toolkit.register(one, on_conflict="rename")
    assert toolkit.names == ("one", "add", "one_2", "one_3")
    assert [text(toolkit, name) for name in ("one_2", "one_3")] == ["1", "1"]


def test_a_name_found_by_renaming_is_never_too_long():
    long = "x" * 64
    toolkit = Toolkit()
    names = [toolkit.register(one, name=long, on_conflict="rename").name for _ in range(11)]
    assert names[:2] == [long, "x" * 62 + "_2"]
    assert names[-1] == "x" * 61 + "_11"
    assert toolkit.schema(names[-1]) is not None and toolkit.schema(names[-1]).name == names[-1]  # pyright: ignore


def test_an_overlay_may_replace_a_tool_for_one_run():
    toolkit = Toolkit([one])
    view = toolkit.overlay()
    view.register(two, name="one", on_conflict="override")
    assert (text(view, "one"), text(toolkit, "one")) == ("2", "1")
    assert view.names == ("one",)
    view.register(two, name="one", on_conflict="rename")
    assert view.names == ("one", "one_2")


# --- several at once ----------------------------------------------------------------------------------------------


class Base:
    calls = 0

    @tool
    def first(self, key: str = "") -> str:
        return f"{type(self).__name__} {key}"

    @tool
    def replaced(self) -> str:
        return "old"

    @tool
    def dropped(self) -> str:
        return "old"

    @tool
    def hidden(self) -> str:
        return "old"


class Mine(Base):
    @property
    def expensive(self) -> str:
        raise AssertionError("a property was looked at")

    @property
    def hidden(self) -> str:  # pyright: ignore
        raise AssertionError("a property was looked at")

    @tool
    def replaced(self) -> str:  # pyright: ignore
        return "new"

    def dropped(self) -> str:  # pyright: ignore
        return "no tool any more"

    @tool
    @staticmethod
    def static(n: int) -> int:
        return n

    @classmethod
    @tool
    def of_class(cls) -> str:
        return cls.__name__


@pytest.mark.spec("W63")
def test_the_tools_of_an_object_are_those_its_class_shows():
    """W63; inherited methods, static and class methods, what a subclass made of them; no property is touched."""
    toolkit = Toolkit([Mine()])
    assert toolkit.names == ("first", "replaced", "static", "of_class")
    assert [text(toolkit, name) for name in ("first", "replaced", "of_class")] == ["Mine ", "new", "Mine"]
    assert text(toolkit, "static", n=3) == "3"


def test_register_all_chooses_prefixes_and_presets_by_name():
    toolkit = Toolkit()
    made = toolkit.register_all(
        Mine(),
        enable=["first", "replaced", "static"],
        disable=["replaced"],
        prefix="my_",
        presets={"first": {"key": "k"}},
    )
    assert [each.name for each in made] == ["my_first", "my_static"]
    assert toolkit.names == ("my_first", "my_static")
    assert text(toolkit, "my_first") == "Mine k"
    assert "key" not in made[0].parameters["properties"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"enable": ["frist"]}, "There is no tool 'frist' here. The tools are first, of_class, replaced, static"),
        ({"disable": ["frist"]}, "There is no tool 'frist'"),
        ({"presets": {"frist": {}}}, "There is no tool 'frist'"),
        ({"enable": "first"}, r"enable takes a list of names, as in enable=\['first'\]"),
        ({"prefix": "my tools "}, "name='my_tools_first'"),
    ],
)
def test_a_name_that_is_not_there_is_an_error_of_register_all(options: dict[str, Any], says: str):
    toolkit = Toolkit()
    with pytest.raises(ConfigurationError, match=says):
        toolkit.register_all(Mine(), **options)
    assert len(toolkit) == 0


def test_several_sources_at_once_and_all_or_none():
    toolkit = Toolkit([one])
    toolkit.register_all([two, Toolkit([add]), (Mine(), [Echo()])])
    assert toolkit.names == ("one", "two", "add", "first", "replaced", "static", "of_class", "echo")
    other = Toolkit([two])
    with pytest.raises(DuplicateToolError):
        other.register_all([add, one, two])
    assert other.names == ("two",)
    assert [each.name for each in other.register_all([one, one, two], on_conflict="rename")] == [
        "one",
        "one_2",
        "two_2",
    ]


# --- taking out ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("case 89")
def test_a_tool_is_taken_out_only_if_it_is_that_very_tool():
    """By identity, also where options were laid over it; not if it has been replaced."""
    mine = Echo()
    toolkit = Toolkit()
    made = toolkit.register(mine, description="Other.")
    assert toolkit.remove("echo", only=Echo()) is None
    assert toolkit.remove("nowhere", only=mine) is None
    assert toolkit.names == ("echo",)
    assert toolkit.remove("echo", only=mine) is made
    toolkit.register(mine)
    toolkit.register(Echo(), on_conflict="override")
    assert toolkit.remove("echo", only=mine) is None
    assert toolkit.names == ("echo",)


@pytest.mark.spec("case 90", "W66")
def test_what_is_not_to_be_taken_out_lies_beneath_an_overlay():
    """No switch forbids deletion; an overlay cannot remove tools of its base."""
    toolkit = Toolkit([one])
    view = toolkit.overlay(two)
    with pytest.raises(ConfigurationError, match="beneath this overlay"):
        view.remove("one")
    assert view.remove("one", only=toolkit.get("one")) is None  # pyright: ignore
    view.remove("two")
    assert (toolkit.names, view.names) == (("one",), ("one",))


def test_schemas_follow_every_change():
    toolkit = Toolkit([one])
    before = toolkit.schemas()
    toolkit.register(two, name="one", description="Two.", on_conflict="override")
    assert toolkit.schemas() != before
    toolkit.register(one, on_conflict="skip")
    assert toolkit.schemas() == (ToolSchema("one", "Two.", Toolkit([two]).schemas()[0].parameters),)
