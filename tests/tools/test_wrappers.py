"""Wrappers: a tool over another keeps all of it but what it changes; functions from tools to tools."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from calling import all_of, text_of, use

from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, concat, just
from agentscope_rx.testing import run_virtual
from agentscope_rx.tools import (
    ExternalTool,
    FunctionTool,
    InvalidArgumentsError,
    Tool,
    ToolChunk,
    ToolContext,
    Toolkit,
    WrapperTool,
    approving,
    limited,
    mapped,
    only,
    prefixed,
    preset,
    renamed,
    tool,
    without,
)
from agentscope_rx.tools.wrapper import delegated, innermost, wraps
from tests.support.assertions import stable_id


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"read {path}"


@tool(execution_config=ExecutionConfig(timeout=5), requires_approval=True, interruptible=False, strict=True)
async def write(path: str, context: ToolContext):
    """Write a file."""
    context.emit(f"{context.call.name} by {context.agent}")
    yield "half"
    yield f"wrote {path}"


class Files:
    @tool
    def size(self, path: str) -> int:
        return len(path)


class Remote(Tool):
    name = "remote"
    description = "Far away."
    parameters = {"type": "object", "properties": {"x": {}}, "additionalProperties": False}
    url = "http://far"
    _private = 1

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(f"remote {arguments}")


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [each.name for each in tools]


def answer(tools: object, name: str, /, **input: object) -> ToolResultBlock:
    block = run_virtual(Toolkit([tools]).call(use(name, **input)))
    assert isinstance(block, ToolResultBlock)
    return block


# --- the base -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [read, write, Remote(), ExternalTool("x", reason="far")], ids=stable_id)
def test_a_wrapper_has_every_public_attribute_of_its_tool(inner: Tool):
    wrapper = WrapperTool(WrapperTool(inner))
    public = {name for name in dir(inner) if not name.startswith("_")} - {"call", "call_with", "validate", "schema"}
    assert set(delegated()) <= public
    for name in sorted(public):
        mine, theirs = getattr(wrapper, name), getattr(inner, name)
        assert mine is theirs or mine == theirs, name
    assert wrapper.schema == inner.schema
    assert Toolkit([wrapper]).schemas() == Toolkit([inner]).schemas()


def test_what_is_set_on_a_wrapper_leaves_its_tool_alone():
    wrapper = WrapperTool(read)
    before = read.schema
    for name in delegated():
        mark = object()
        setattr(wrapper, name, mark)
        assert getattr(wrapper, name) is mark
        assert getattr(WrapperTool(wrapper), name) is mark
        assert getattr(read, name, None) is not mark
    assert read.schema == before


def test_the_schema_is_the_inner_one_s_but_for_what_is_set():
    class Told(Remote):
        @property
        def schema(self) -> ToolSchema:
            return replace(super().schema, description="As of now.")

    wrapper = WrapperTool(Told())
    wrapper.name = "near"
    assert wrapper.schema == ToolSchema("near", "As of now.", Remote.parameters)
    wrapper.description = "Mine."
    assert wrapper.schema.description == "Mine."


def test_missing_and_private_attributes_are_errors():
    wrapper = WrapperTool(Remote())
    assert wrapper.url == "http://far"
    with pytest.raises(AttributeError, match="nothing"):
        wrapper.nothing  # pyright: ignore
    with pytest.raises(AttributeError, match="no attribute '_private'"):
        wrapper._private
    assert copy.copy(wrapper).url == "http://far"
    assert repr(WrapperTool(read)) == "<WrapperTool read over <tool read(path)>>"


def test_chunks_context_and_result_pass_through_wrappers():
    wrapped: Tool = write
    for _ in range(3):
        wrapped = WrapperTool(wrapped)
    context = ToolContext(use("write"), agent="Friday")
    events = all_of(Toolkit([wrapped]).call(use("write", path="a"), context=context)).run()
    assert [text_of(each) for each in events] == ["write by Friday", "half", "wrote a", "wrote a"]
    assert [type(each) for each in events] == [ToolChunk] * 3 + [ToolResultBlock]


def test_call_with_gets_the_context_over_a_tool_without_it():
    class Loud(WrapperTool):
        def call_with(
            self, arguments: Mapping[str, object], context: ToolContext, executor: Any = None
        ) -> Flow[object]:
            return concat(just(f"calling {context.call.id}"), super().call_with(arguments, context, executor))

    class Quiet(WrapperTool):
        pass

    assert (Loud(read).takes_context, Quiet(read).takes_context) == (True, False)
    assert (Quiet(Loud(read)).takes_context, Quiet(write).takes_context) == (True, True)
    events = all_of(Toolkit([Quiet(Loud(read))]).call(use("read", path="a"))).run()
    assert [text_of(each) for each in events] == ["calling 1", "read a"]


def test_a_subclass_without_executor_is_called_without_one():
    class Old(WrapperTool):
        def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:  # pyright: ignore
            return super().call_with(arguments, context)

    class Older(Old):
        def call(self, arguments: Mapping[str, object], executor: Any = None) -> Flow[object]:
            return super().call(arguments, executor)

    def where() -> str:
        return threading.current_thread().name

    with ThreadPoolExecutor(1, "mine") as pool:
        for wrapper, there in [(WrapperTool, True), (Old, False), (Older, False)]:
            toolkit = Toolkit([prefixed("a_", wrapper(tool(where)))], executor=pool)
            assert toolkit.call(use("a_where")).run().text.startswith("mine") is there  # pyright: ignore


def test_a_disposed_call_of_a_wrapped_tool_is_cancelled():
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("yes")

    async def main() -> None:
        running = Toolkit([prefixed("x_", WrapperTool(tool(forever)))]).call(use("x_forever")).as_task()
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert ended == ["yes"]


def test_which_tool_is_beneath():
    inner = Remote()
    outer = WrapperTool(WrapperTool(inner))
    assert innermost(outer) is inner
    assert wraps(outer, inner) and wraps(outer, outer) and wraps(outer, outer.inner)
    assert not wraps(outer, Remote()) and not wraps(inner, outer)


# --- from tools to tools --------------------------------------------------------------------------------------------


ALL = [Toolkit([read, write]), Files(), [Remote()]]


def test_any_source_of_tools():
    assert names(prefixed("my_", read)) == ["my_read"]
    assert names(prefixed("my_", Toolkit([read, write]))) == ["my_read", "my_write"]
    assert names(prefixed("my_", Files())) == ["my_size"]
    assert names(prefixed("my_", ALL)) == ["my_read", "my_write", "my_size", "my_remote"]
    assert names(prefixed("my_", (each for each in [read]))) == ["my_read"]
    assert names(prefixed("my_", lambda_like)) == ["my_lambda_like"]
    for nothing in (3, None, "read", {"a": read}, Files):
        with pytest.raises(ToolDefinitionError):
            prefixed("my_", nothing)


def lambda_like() -> None: ...


def test_filters_keep_the_order_and_refuse_unknown_names():
    assert names(only(ALL, "size", "read")) == ["read", "size"]
    assert names(without(ALL, "size", "read")) == ["write", "remote"]
    assert only(ALL, "read")[0] is read
    for wrong in (only, without):
        with pytest.raises(ConfigurationError, match=r"no tool 'red' here\. The tools are read, remote, size, write"):
            wrong(ALL, "red")


def test_names():
    assert names(renamed(ALL, {"read": "cat", "size": "wc"})) == ["cat", "write", "wc", "remote"]
    assert answer(renamed(read, {"read": "cat"}), "cat", path="a").text == "read a"
    assert "for tool 'cat'" in answer(renamed(read, {"read": "cat"}), "cat").text
    assert names(prefixed("a_", prefixed("b_", renamed(read, {"read": "cat"})))) == ["a_b_cat"]
    with pytest.raises(ConfigurationError, match="There is no tool 'red'"):
        renamed(ALL, {"red": "x"})
    with pytest.raises(ToolDefinitionError, match="cannot name a tool"):
        prefixed("my tools ", read)
    assert read.name == "read"


def test_approval():
    small, large = use("read", path="a"), use("read", path="abc")
    assert Toolkit(approving(read)).needs_approval(small)
    toolkit = Toolkit(approving(read, lambda arguments: len(arguments["path"]) > 1))
    assert (toolkit.needs_approval(small), toolkit.needs_approval(large)) == (False, True)
    assert not Toolkit(approving(write, False)).needs_approval(use("write", path="a"))
    with pytest.raises(ToolDefinitionError, match="requires_approval"):
        approving(read, "yes")  # pyright: ignore


def test_limits():
    made = limited(write, ExecutionConfig(max_attempts=2), interruptible=True)[0]
    assert made.execution_config == ExecutionConfig(timeout=5, max_attempts=2)
    assert (made.interruptible, write.interruptible) == (True, False)
    assert limited(read, interruptible=False)[0].interruptible is False

    async def slow() -> str:
        await asyncio.sleep(9)
        return "late"

    late = answer(limited(slow, ExecutionConfig(timeout=1)), "slow")
    assert late.kind is ToolResultKind.TIMEOUT
    with pytest.raises(ConfigurationError, match=r"A tool has no limit 'speed': it has .*interruptible"):
        limited(read, speed=1)
    with pytest.raises(ConfigurationError, match="A tool has no limit 'name'"):
        limited(read, name="x")
    with pytest.raises(ConfigurationError, match="interruptible must be True or False, not 3"):
        limited(read, interruptible=3)


def test_results():
    def upper(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock:
        return replace(result, output=(TextBlock(result.text.upper()),))

    async def twice(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock:
        await asyncio.sleep(1)
        return replace(result, output=(TextBlock(result.text * 2),))

    def nothing(call: ToolUseBlock, result: ToolResultBlock) -> None: ...

    tools = mapped(mapped(mapped(read, upper), nothing), twice)
    assert answer(tools, "read", path="a").text == "READ AREAD A"
    assert answer(mapped(mapped(read, twice), upper), "read", path="a").text == "READ AREAD A"
    wrong = mapped(mapped(read, lambda call, result: 3), upper)  # pyright: ignore
    assert answer(wrong, "read", path="a").text.startswith("Error: postprocess of tool 'read' returned int")


def test_presets():
    tools = preset(ALL, {"read": {"path": "a"}, "size": {"path": "abc"}})
    assert answer(tools, "read").text == "read a"
    assert answer(tools, "size").text == "3"
    assert answer(preset(read, {"read": {"path": "a"}}, "default"), "read", path="b").text == "read b"
    with pytest.raises(ConfigurationError, match="There is no tool 'red'"):
        preset(ALL, {"red": {}})


def test_they_stand_on_each_other_in_any_order():
    def mark(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock:
        return replace(result, output=(TextBlock(f"[{result.text}]"),))

    one = prefixed("fs_", approving(mapped(preset(read, {"read": {"path": "a"}}), mark)))
    two = mapped(preset(approving(prefixed("fs_", read)), {"fs_read": {"path": "a"}}), mark)
    for tools in (one, two):
        (made,) = tools
        assert innermost(made) is read
        assert (made.name, made.requires_approval, made.description) == ("fs_read", True, "Read a file.")
        assert made.schema.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
        assert answer(tools, "fs_read").text == "[read a]"
        assert answer(tools, "fs_read", path="b").text == "[read a]", "what is preset wins"
        refused = answer(tools, "fs_read", paht="b").text
        assert refused.startswith("[Error: Invalid arguments for tool 'fs_read':\n- paht: is not an argument")


def test_nothing_that_is_given_is_changed():
    before = {name: getattr(write, name) for name in delegated()}
    prefixed("x_", mapped(limited(approving(write, False), ExecutionConfig(timeout=1)), lambda call, result: None))
    assert {name: getattr(write, name) for name in delegated()} == before


def test_problems_of_an_inner_tool_have_the_outer_name():
    class Picky(Remote):
        def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
            raise InvalidArgumentsError("remote", ["x: is odd"])

    with pytest.raises(InvalidArgumentsError, match="tool 'far':\n- x: is odd") as caught:
        prefixed("", renamed(Picky(), {"remote": "far"}))[0].validate({})
    assert caught.value.tool == "far"


def test_a_function_made_on_the_way_is_a_function_tool():
    assert type(only(lambda_like, "lambda_like")[0]) is FunctionTool
