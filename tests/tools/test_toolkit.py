"""The registry, the overlay, and batches: results in call order, at most n at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from random import Random
from typing import Any

import pytest
from calling import all_of, text_of, use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, DuplicateToolError, ToolDefinitionError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, just
from agentscope_rx.tools import FunctionTool, Tool, ToolChunk, ToolEvent, Toolkit, tool
from agentscope_rx.tools.calls.execute import PreparedCall


def one() -> int:
    return 1


def two() -> int:
    return 2


def three() -> int:
    return 3


class Echo(Tool):
    name = "echo"
    description = "Says it again."

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(arguments)


class Base:
    @tool
    def inherited(self) -> str:
        return type(self).__name__

    @tool
    def replaced(self) -> str:
        return "old"


class Tools(Base):
    @tool
    def own(self) -> str:
        return "own"

    @tool
    def replaced(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "new"

    def no_tool(self) -> str:
        return ""


def text(toolkit: Toolkit, name: str) -> str:
    block = toolkit.call(use(name)).run()
    assert isinstance(block, ToolResultBlock)
    return block.text


# --- registry ---------------------------------------------------------------------------------------------------


def test_tools_stand_in_the_order_of_registration():
    toolkit = Toolkit([two, Echo()])
    made = toolkit.register(one)
    assert isinstance(made, FunctionTool)
    assert toolkit.names == ("two", "echo", "one")
    assert [each.name for each in toolkit] == ["two", "echo", "one"]
    assert [each.name for each in toolkit.schemas()] == ["two", "echo", "one"]
    assert len(toolkit) == 3
    assert "echo" in toolkit
    assert "three" not in toolkit
    assert 3 not in toolkit
    assert toolkit.get("one") is made
    assert toolkit.get("three") is None


def test_schemas_are_the_same_tuple_until_the_tools_change():
    toolkit = Toolkit([one])
    before = toolkit.schemas()
    assert toolkit.schemas() is before
    toolkit.register(two)
    assert [each.name for each in toolkit.schemas()] == ["one", "two"]
    assert [each.name for each in before] == ["one"]
    toolkit.remove("one")
    assert toolkit.names == ("two",)


def test_an_object_gives_its_tools_inherited_ones_first():
    toolkit = Toolkit([Tools(), one])
    assert toolkit.names == ("inherited", "replaced", "own", "one")
    assert [text(toolkit, name) for name in ("inherited", "replaced", "own")] == ["Tools", "new", "own"]


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(DuplicateToolError, match="named 'one' is registered already") as caught:
        Toolkit([one, tool(name="one")(two)])
    assert caught.value.tool == "one"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (3, "3 is not a tool"),
        (None, "None is not a tool"),
        (object(), "is not a tool"),
        (Tools, "Register an instance"),
        (Echo, "Register an instance"),
        (Tools.own, r"unbound method: register it from an object, as in MyTools\(\).own"),
        (Tools.no_tool, "unbound method"),
    ],
)
def test_what_is_no_tool_is_refused(source: object, says: str):
    with pytest.raises(ToolDefinitionError, match=says):
        Toolkit([source])


def test_the_name_of_a_custom_tool_is_checked():
    class Bad(Echo):
        name = "not\tgood"

    class Nameless(Tool):
        def call(self, arguments: Mapping[str, object]) -> Flow[object]:
            return just(1)

    with pytest.raises(ToolDefinitionError, match="printable characters"):
        Toolkit([Bad()])
    with pytest.raises(ToolDefinitionError, match="Nameless has no name"):
        Toolkit([Nameless()])


def test_removing_what_is_not_there_is_an_error():
    with pytest.raises(ConfigurationError, match="'x' is not registered"):
        Toolkit().remove("x")


@pytest.mark.parametrize("n", [0, -1])
def test_max_concurrency_is_at_least_one(n: int):
    with pytest.raises(ConfigurationError, match="max_concurrency"):
        Toolkit(max_concurrency=n)


def test_a_copy_lives_its_own_life_and_keeps_class_and_settings():
    class Mine(Toolkit):
        pass

    toolkit = Mine([one, two], parallel=False, max_concurrency=3, execution_config=ExecutionConfig(timeout=7))
    other = toolkit.copy()
    other.remove("one")
    toolkit.register(three)
    assert type(other) is Mine
    assert (other.parallel, other.max_concurrency) == (False, 3)
    assert (toolkit.names, other.names) == (("one", "two", "three"), ("two",))
    assert text(other, "two") == "2"


# --- overlay ----------------------------------------------------------------------------------------------------


def test_an_overlay_leaves_the_toolkit_alone():
    toolkit = Toolkit([one])
    view = toolkit.overlay(two)
    assert (toolkit.names, view.names) == (("one",), ("one", "two"))
    assert [text(view, name) for name in ("one", "two")] == ["1", "2"]
    assert text(toolkit, "two").startswith("Error: There is no tool 'two'")


def test_an_overlay_sees_later_changes_of_what_is_beneath():
    toolkit = Toolkit([one])
    view = toolkit.overlay(two)
    assert len(view.schemas()) == 2
    toolkit.register(three)
    assert view.names == ("one", "three", "two")
    toolkit.remove("one")
    assert view.names == ("three", "two")


def test_an_overlay_cannot_take_a_name_nor_remove_from_beneath():
    toolkit = Toolkit([one])
    with pytest.raises(DuplicateToolError):
        toolkit.overlay(one)
    with pytest.raises(ConfigurationError, match="beneath this overlay"):
        toolkit.overlay(two).remove("one")


def test_a_copy_of_an_overlay_holds_all_of_it():
    toolkit = Toolkit([one])
    other = toolkit.overlay(two).copy()
    toolkit.remove("one")
    assert other.names == ("one", "two")


# --- batches ----------------------------------------------------------------------------------------------------


class Gate:
    """A tool whose calls end when the test says so; counts how many run."""

    def __init__(self) -> None:
        self.open: dict[int, asyncio.Event] = {}
        self.running = 0
        self.most = 0
        self.started: list[int] = []

    async def work(self, n: int) -> AsyncIterator[str]:
        self.started.append(n)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield f"began {n}"
            await self.open.setdefault(n, asyncio.Event()).wait()
            if n % 3 == 2:
                raise ValueError(f"failed {n}")
            yield f"ended {n}"
        finally:
            self.running -= 1


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@given(
    count=st.integers(0, 9), limit=st.integers(1, 4), parallel=st.booleans(), order=st.randoms(use_true_random=False)
)
def test_law_results_in_call_order_and_at_most_n_at_once(count: int, limit: int, parallel: bool, order: Random):
    async def main() -> tuple[Gate, list[ToolEvent]]:
        gate = Gate()
        toolkit = Toolkit([gate.work], max_concurrency=limit, parallel=parallel)
        calls = [use("work", str(i), n=i) for i in range(count)]
        running = all_of(toolkit.call_all(calls)).as_task()
        ended: set[int] = set()
        while len(ended) < count:
            await settle()
            n = order.choice([i for i in gate.started if i not in ended])
            gate.open[n].set()
            ended.add(n)
        return gate, await running

    gate, found = asyncio.run(main())
    results = [each for each in found if isinstance(each, ToolResultBlock)]
    assert [each.id for each in results] == [str(i) for i in range(count)]
    assert [each.kind for each in results] == [ToolResultKind.FAILED if i % 3 == 2 else None for i in range(count)]
    assert gate.most <= (limit if parallel else 1)
    assert gate.most == min(count, limit if parallel else 1)
    began = [each.call.id for each in found if isinstance(each, ToolChunk) and "began" in text_of(each)]
    assert sorted(began) == [str(i) for i in range(count)]


def test_by_default_a_round_runs_64_calls_at_once():
    async def main() -> Gate:
        gate = Gate()
        calls = [use("work", str(i), n=i) for i in range(66)]
        running = all_of(Toolkit([gate.work]).call_all(calls)).as_task()
        await settle()
        assert len(gate.started) == 64
        for i in range(66):
            gate.open.setdefault(i, asyncio.Event()).set()
        await running
        return gate

    gate = asyncio.run(main())
    assert gate.most == 64 and len(gate.started) == 66


def test_progress_does_not_wait_for_its_turn():
    async def main() -> list[str]:
        gate = Gate()
        seen: list[str] = []

        def note(event: ToolEvent) -> None:
            seen.append(text_of(event))

        done = asyncio.Event()
        calls = [use("work", str(i), n=i) for i in range(2)]
        Toolkit([gate.work]).call_all(calls).subscribe(note, on_completed=done.set)
        await settle()
        gate.open[1].set()
        await settle()
        gate.open[0].set()
        await done.wait()
        return seen

    # the second tool ends first: its chunks are there, its result waits
    assert asyncio.run(main()) == ["began 0", "began 1", "ended 1", "ended 0", "ended 0", "ended 1"]


def test_a_failing_call_does_not_touch_the_others():
    def boom() -> None:
        raise ValueError("boom")

    toolkit = Toolkit([one, boom])
    calls = [use("boom"), use("one", "2"), use("nowhere", "3"), use("one", "4", x=1), use("one", "5")]
    results = all_of(toolkit.call_all(calls)).run()
    kinds = [each.kind for each in results if isinstance(each, ToolResultBlock)]
    failed, missing, refused = ToolResultKind.FAILED, ToolResultKind.NOT_FOUND, ToolResultKind.INVALID_ARGUMENTS
    assert kinds == [failed, None, missing, refused, None]


def test_an_empty_batch_completes():
    assert all_of(Toolkit().call_all([])).run() == []


def test_a_disposed_batch_cancels_and_begins_nothing_more():
    async def main() -> Gate:
        gate = Gate()
        toolkit = Toolkit([gate.work], max_concurrency=2)
        running = toolkit.call_all([use("work", str(i), n=i) for i in range(5)]).as_task()
        await settle()
        running.cancel()
        await settle()
        return gate

    gate = asyncio.run(main())
    assert gate.started == [0, 1]
    assert gate.running == 0


def test_a_toolkit_serves_several_loops():
    toolkit = Toolkit([one])

    async def main() -> ToolEvent:
        return await toolkit.call(use("one"))

    assert text(toolkit, "one") == "1"
    for _ in range(2):
        block = asyncio.run(main())
        assert isinstance(block, ToolResultBlock)
        assert block.text == "1"


@pytest.mark.spec("case 89", "case 90")
def test_deletion_may_be_forbidden():
    toolkit = Toolkit([Echo()], allow_deletion=False)
    toolkit.create_tool_group("g", "Group")
    for copy in (toolkit, toolkit.copy()):
        with pytest.raises(ConfigurationError, match="allow_deletion=False"):
            copy.remove("echo")
        with pytest.raises(ConfigurationError, match="allow_deletion=False"):
            copy.remove("echo", only=Echo())
        with pytest.raises(ConfigurationError, match="allow_deletion=False"):
            copy.remove_tool_groups(["g"])
    toolkit.register(Echo(), on_conflict="override")
    assert toolkit.names == ("echo",)
    with pytest.raises(ConfigurationError, match="allow_deletion must be"):
        Toolkit(allow_deletion=1)  # pyright: ignore


# --- parts ------------------------------------------------------------------------------------------------------


def test_a_prepared_call_keeps_the_tool_that_it_was_made_with():
    toolkit = Toolkit([one], max_result=500)
    prepared = toolkit.prepare(ToolUseBlock("1", "one", {}))
    assert isinstance(prepared, PreparedCall)
    assert (prepared.tool, prepared.result_limit) == (toolkit.get("one"), toolkit.max_result)
    toolkit.remove("one")
    result = toolkit.call(prepared).run()
    assert isinstance(result, ToolResultBlock) and result.text == "1"


def test_a_call_that_cannot_run_is_prepared_as_its_result():
    toolkit = Toolkit([one])
    refused = toolkit.prepare(ToolUseBlock("1", "on", {}))
    assert isinstance(refused, ToolResultBlock) and refused.kind is ToolResultKind.NOT_FOUND
    assert toolkit.call(refused).run() == refused


def test_a_toolkit_inherits_from_nothing():
    assert Toolkit.__mro__ == (Toolkit, object)


MISSPELT: Any = {"nam": "x"}


@pytest.mark.parametrize(
    "call",
    [
        lambda: tool(**MISSPELT),
        lambda: Toolkit().register(one, **MISSPELT),
        lambda: Toolkit().register_all([one], **MISSPELT),
        lambda: Toolkit().register_mcp(MISSPELT, **MISSPELT),
        lambda: Toolkit().serve_mcp(**MISSPELT),
    ],
)
def test_an_unknown_option_is_a_type_error_that_names_it(call: Callable[[], object]):
    with pytest.raises(TypeError, match="unexpected keyword argument 'nam'"):
        call()
