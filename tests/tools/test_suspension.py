"""A call that waits: a tool that suspends, however it is written, and tools that run outside of the process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest
import reactivex
from calling import events, result, use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import AgentScopeError, InvalidInputError, ToolDefinitionError, ToolError, ToolSuspend
from agentscope_rx.messages import Msg, ToolResultBlock, ToolResultKind
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, concat, defer, just, throw
from agentscope_rx.tools import ExternalTool, Tool, ToolChunk, Toolkit, ToolRetry

AGAIN = ExecutionConfig(max_attempts=5, initial_backoff=0, retry_on=lambda error: True)

# --- a tool that raises ToolSuspend -----------------------------------------------------------------------------


def blocking() -> str:
    raise ToolSuspend("ask a person", ticket=7)


async def coroutine() -> str:
    raise ToolSuspend("ask a person", ticket=7)


def generator() -> Iterator[str]:
    yield "half way"
    raise ToolSuspend("ask a person", ticket=7)


async def async_generator() -> AsyncIterator[str]:
    yield "half way"
    raise ToolSuspend("ask a person", ticket=7)


def observable() -> Flow[str]:
    return concat(just("half way"), throw(ToolSuspend("ask a person", ticket=7)))


def stock_observable() -> reactivex.Observable[str]:
    return reactivex.throw(ToolSuspend("ask a person", ticket=7))


def on_entry() -> Flow[str]:
    raise ToolSuspend("ask a person", ticket=7)


class Port(Tool):
    name = "port"

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        raise ToolSuspend("ask a person", ticket=7)


class InValidation(Tool):
    name = "in_validation"

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        raise ToolSuspend("ask a person", ticket=7)

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        raise AssertionError("never called")


SUSPENDING = [
    blocking,
    coroutine,
    generator,
    async_generator,
    observable,
    stock_observable,
    on_entry,
    Port(),
    InValidation(),
]


@pytest.mark.spec("W08")
@pytest.mark.parametrize("config", [None, AGAIN, ExecutionConfig(timeout=60, idle_timeout=60)])
@pytest.mark.parametrize("suspending", SUSPENDING, ids=lambda each: getattr(each, "__name__", type(each).__name__))
def test_a_suspension_is_a_placeholder_and_never_retried(suspending: object, config: ExecutionConfig | None):
    """Also where it is raised on entry. Java 9.14: the reason is the text."""
    *before, last = events(suspending, config)
    assert isinstance(last, ToolResultBlock)
    assert (last.kind, last.text, last.metadata) == (ToolResultKind.SUSPENDED, "ask a person", {"ticket": 7})
    assert last.id == "1"
    assert not any(isinstance(each, ToolRetry) for each in before)


def test_progress_before_a_suspension_is_shown():
    chunk, _ = events(async_generator)
    assert isinstance(chunk, ToolChunk)


def test_a_suspension_after_failed_attempts_ends_the_trying():
    calls: list[int] = []

    async def flaky() -> str:
        calls.append(1)
        raise ConnectionError if len(calls) == 1 else ToolSuspend

    notice, last = events(flaky, AGAIN)
    assert isinstance(notice, ToolRetry)
    assert isinstance(last, ToolResultBlock)
    assert last.kind is ToolResultKind.SUSPENDED
    assert len(calls) == 2


@pytest.mark.spec("case 109")
@pytest.mark.parametrize("reason", [None, ""])
def test_without_a_reason_it_says_so(reason: str | None):
    async def suspends() -> None:
        raise ToolSuspend(reason)

    assert result(suspends).text == "Tool execution suspended"


def test_the_class_alone_can_be_raised():
    async def suspends() -> None:
        raise ToolSuspend

    assert result(suspends).kind is ToolResultKind.SUSPENDED


def test_siblings_of_a_suspended_call_are_not_touched():
    def fine() -> str:
        return "fine"

    toolkit = Toolkit([fine, blocking])
    found: list[object] = []
    calls = [use("fine", "1"), use("blocking", "2"), use("fine", "3")]
    toolkit.call_all(calls).pipe(reactivex.operators.do_action(found.append)).run()
    kinds = [(each.id, each.kind) for each in found if isinstance(each, ToolResultBlock)]
    assert kinds == [("1", None), ("2", ToolResultKind.SUSPENDED), ("3", None)]


def test_suspend_is_a_tool_error_of_the_tree():
    error = ToolSuspend("why", path=("a", 1))
    assert isinstance(error, ToolError) and isinstance(error, AgentScopeError)
    assert not error.retryable
    assert error.metadata == {"path": ["a", 1]}


@pytest.mark.parametrize("value", [object(), float("nan"), b"bytes", {1: {2}}])
def test_what_a_suspension_carries_must_be_json(value: object):
    with pytest.raises(InvalidInputError, match="must be JSON"):
        ToolSuspend("why", value=value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values, max_size=3),
    st.text(min_size=1, max_size=20).map(ascii),
)
def test_what_a_suspension_carries_survives_json(metadata: dict[str, object], reason: str):
    async def suspends() -> None:
        raise ToolSuspend(reason, **metadata)

    block = result(suspends)
    assert json.loads(json.dumps(block.metadata)) == block.metadata
    message = Msg.tool(block, "agent")
    assert Msg.from_json(message.to_json()).tool_results == (block,)
    assert block.text == reason


# --- the placeholders -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ToolResultKind)
def test_a_call_that_waits_has_not_failed(kind: ToolResultKind):
    waits = kind in (ToolResultKind.SUSPENDED, ToolResultKind.APPROVAL_REQUIRED, ToolResultKind.IN_DOUBT)
    assert kind.waits is waits
    assert ToolResultBlock("1", "x", "text", kind).is_error is not waits  # pyright: ignore[reportArgumentType]


# --- external tools ---------------------------------------------------------------------------------------------

PICK = ToolSchema(
    "pick",
    "Let the user pick a file.",
    {
        "type": "object",
        "properties": {
            "folder": {"type": "string", "minLength": 1},
            "count": {"type": "integer", "maximum": 3},
            "filter": {"$ref": "#/$defs/filter"},
        },
        "required": ["folder"],
        "additionalProperties": False,
        "$defs": {"filter": {"enum": ["images", "text"]}},
    },
    strict=True,
)


@pytest.mark.spec("case 107")
def test_an_external_tool_is_its_schema():
    toolkit = Toolkit()
    made = toolkit.register_schema(PICK)
    assert isinstance(made, ExternalTool)
    assert toolkit.schemas() == (PICK,)
    assert toolkit.get("pick") is made


@pytest.mark.spec("case 108")
def test_a_valid_call_of_an_external_tool_suspends_by_nature():
    """Java 9.4: a schema-only tool always suspends, with the default reason. (§22.6 case 108)"""
    block = result(ExternalTool.of(PICK), folder="/tmp")
    assert (block.kind, block.text) == (ToolResultKind.SUSPENDED, "Tool execution suspended")
    assert result(ExternalTool.of(PICK, reason="The browser picks."), folder="/").text == "The browser picks."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "folder: is required and was not given"),
        ({"folder": None}, "folder: is required and was not given"),
        ({"folder": 3}, "folder: "),
        ({"folder": ""}, "folder: "),
        ({"folder": "/", "count": 4}, "count: "),
        ({"folder": "/", "count": "two"}, "count: "),
        ({"folder": "/", "filter": "video"}, "filter: "),
        ({"folder": "/", "foldr": "x"}, "did you mean 'folder'?"),
    ],
)
def test_arguments_of_an_external_tool_are_checked(arguments: dict[str, object], said: str):
    block = result(ExternalTool.of(PICK), **arguments)
    assert block.kind is ToolResultKind.INVALID_ARGUMENTS
    assert said in block.text


def test_a_null_for_what_may_be_left_out_counts_as_not_given():
    """Java 9.8: explicit nulls of declared, non-required properties are taken away before validation."""
    assert result(ExternalTool.of(PICK), folder="/", count=None).kind is ToolResultKind.SUSPENDED


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "string"},
        {"properties": {}},
        {"type": "object", "properties": {"x": {"type": "text"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"x": {"$dynamicRef": "#x"}}},
    ],
)
def test_an_uncheckable_schema_is_refused_at_once(parameters: dict[str, object]):
    with pytest.raises(ToolDefinitionError, match="'bad'"):
        ExternalTool("bad", "", parameters)


def test_an_external_tool_without_parameters():
    assert result(ExternalTool("ring")).kind is ToolResultKind.SUSPENDED


def test_an_external_tools_name_is_checked():
    assert ExternalTool("pick file").name == "pick file", "it is described elsewhere; the wire has other letters for it"
    for name in ("", " pick", "pick\n", "x" * 257):
        with pytest.raises(ToolDefinitionError, match="cannot name a tool"):
            ExternalTool(name)


def test_nothing_is_suspended_before_subscription():
    called: list[int] = []

    def counts() -> Flow[str]:
        def suspend() -> Flow[str]:
            called.append(1)
            return throw(ToolSuspend())

        return defer(suspend)

    flow: Callable[[], object] = Toolkit([counts]).call(use("counts")).run
    assert called == []
    flow()
    assert called == [1]
