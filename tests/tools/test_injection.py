"""Parameters that come from the call's context: never in the schema, never from the model."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Optional, Protocol

import pytest
from calling import all_of, text_of, use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Inject, RuntimeContext, ToolContext
from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, just
from agentscope_rx.tools import Tool, ToolChunk, Toolkit, ToolRetry, tool
from tests.support.assertions import stable_id


class Database:
    def __init__(self, name: str = "main") -> None:
        self.name = name


class Replica(Database):
    pass


class Clock(Protocol):
    def now(self) -> int: ...


class Fixed:
    def now(self) -> int:
        return 42


def given_to(runtime: RuntimeContext, name: str = "f") -> ToolContext:
    return ToolContext(use(name), runtime=runtime, run_id="run-1", agent="Friday", path=("run-1",))


def called(function: object, runtime: RuntimeContext | None = None, /, **arguments: object) -> ToolResultBlock:
    toolkit = Toolkit([function])
    name = toolkit.names[0]
    context = None if runtime is None else given_to(runtime, name)
    block = toolkit.call(use(name, **arguments), context=context).run()
    assert isinstance(block, ToolResultBlock)
    return block


# --- what is injected -------------------------------------------------------------------------------------------


def test_the_call_itself():
    seen: list[ToolContext] = []

    def f(x: int, context: ToolContext) -> int:
        seen.append(context)
        return x

    runtime = RuntimeContext()
    call = use("f", "call-1", x=1)
    Toolkit([f]).call(call, context=given_to(runtime)).run()
    (context,) = seen
    assert context.call is call
    assert context.runtime is runtime
    assert (context.run_id, context.agent, context.path) == ("run-1", "Friday", ("run-1",))


def test_a_toolkit_called_by_hand_gives_a_context_without_a_run():
    def f(context: ToolContext, runtime: RuntimeContext) -> str:
        assert runtime is context.runtime
        return f"{context.call.id} {context.run_id!r} {context.interrupted}"

    assert called(f).text == "1 '' False"


def test_every_call_of_a_batch_gets_its_own():
    async def f(context: ToolContext) -> str:
        return context.call.id

    toolkit = Toolkit([f])
    found = all_of(toolkit.call_all([use("f", "1"), use("f", "2")], context=given_to(RuntimeContext()))).run()
    assert [text_of(each) for each in found] == ["1", "2"]


@pytest.mark.spec("case 30")
def test_a_hook_and_a_tool_share_one_context():
    """Java case 30: what was put before the call is seen by the tool, what the tool puts is seen after."""
    runtime = RuntimeContext()
    runtime.put("from a hook")

    def f(context: RuntimeContext) -> str:
        context.put(7)
        return context.require(str)

    assert called(f, runtime).text == "from a hook"
    assert runtime.get(int) == 7


@pytest.mark.spec("W21")
def test_two_assembled_calls_do_not_swap_their_contexts():
    """A context is an argument of its call, parked nowhere."""

    async def f(context: RuntimeContext) -> str:
        return context.require(str)

    toolkit = Toolkit([f])
    first = toolkit.call(use("f"), context=given_to(RuntimeContext("first")))
    second = toolkit.call(use("f"), context=given_to(RuntimeContext("second")))
    assert [text_of(flow.run()) for flow in (second, first, second)] == ["second", "first", "second"]


def test_objects_are_found_by_type_key_base_and_protocol():
    def f(
        db: Annotated[Database, Inject],
        old: Annotated[Database, Inject("old")],
        clock: Annotated[Clock, Inject()],
        tenant: Annotated[str, Inject("tenant")],
        user: Annotated[str, Inject("user_id")],
        names: Annotated[list[str], Inject],
    ) -> str:
        return f"{db.name} {old.name} {clock.now()} {tenant} {user} {names}"

    runtime = RuntimeContext(Replica("replica"), ["a"], tenant="acme", user_id="u1")
    runtime.put(Database("old"), "old")
    runtime.put(Fixed(), as_=Clock)
    assert called(f, runtime).text == "replica old 42 acme u1 ['a']"


def test_a_default_is_used_if_there_is_nothing():
    main = Database("default")

    def f(
        db: Annotated[Database, Inject] = main,
        other: Annotated[Database | None, Inject] = main,
        maybe: Annotated[Replica | None, Inject] = None,
    ) -> str:
        assert other is not None
        return f"{db.name} {other.name} {maybe}"

    assert called(f).text == "default default None"
    assert called(f, RuntimeContext(Database("given"))).text == "given given None"


def test_an_optional_one_without_default_is_none():
    def f(
        a: Annotated[Database | None, Inject],
        b: Annotated[Database, Inject] | None,
        c: Annotated[Optional[int], Inject],  # noqa: UP045
    ) -> str:
        return f"{a} {b} {c}"

    assert called(f).text == "None None None"


def test_what_is_missing_is_a_failed_result_that_names_it():
    def query(db: Annotated[Database, Inject]) -> str:
        raise AssertionError("never called")

    block = called(query, RuntimeContext())
    assert block.kind is ToolResultKind.FAILED
    assert block.metadata == {"error_type": "InjectionError"}
    for word in ("'query'", "'db'", "Database", "RuntimeContext"):
        assert word in block.text


def test_what_is_ambiguous_is_a_failed_result_that_names_it():
    class Other(Database):
        pass

    def query(db: Annotated[Database, Inject]) -> str:
        raise AssertionError("never called")

    block = called(query, RuntimeContext(Replica(), Other()))
    assert block.metadata == {"error_type": "InjectionError"}
    assert "Replica, Other" in block.text


# --- every kind of callable -------------------------------------------------------------------------------------


def blocking(db: Annotated[Database, Inject], n: int) -> str:
    return f"{db.name} {n}"


async def coroutine(n: int, db: Annotated[Database, Inject]) -> str:
    return f"{db.name} {n}"


def generator(n: int, db: Annotated[Database, Inject]) -> Iterator[str]:
    yield f"{db.name} {n}"


async def async_generator(n: int, db: Annotated[Database, Inject]) -> AsyncIterator[str]:
    yield f"{db.name} {n}"


def observable(n: int, db: Annotated[Database, Inject]) -> Flow[str]:
    return just(f"{db.name} {n}")


def positional(db: Annotated[Database, Inject], n: int, /) -> str:
    return f"{db.name} {n}"


def keyword(*, n: int, db: Annotated[Database, Inject]) -> str:
    return f"{db.name} {n}"


class Methods:
    @tool
    def method(self, n: int, db: Annotated[Database, Inject]) -> str:
        return f"{db.name} {n}"


class Callable_:
    def __call__(self, db: Annotated[Database, Inject], n: int) -> str:
        return f"{db.name} {n}"


def with_more(n: int, extra: str, db: Annotated[Database, Inject]) -> str:
    return f"{db.name} {n}"


ALL = [
    blocking,
    coroutine,
    generator,
    async_generator,
    observable,
    positional,
    keyword,
    Methods().method,
    Callable_(),
    partial(with_more, extra="x"),
    tool(name="renamed")(tool(blocking)),
]


@pytest.mark.parametrize("function", ALL, ids=stable_id)
def test_every_kind_of_callable_is_injected_and_hides_it(function: object):
    toolkit = Toolkit([function])
    (schema,) = toolkit.schemas()
    assert "db" not in str(schema.parameters)
    assert schema.parameters["required"] == ["n"]
    block = toolkit.call(use(schema.name, n="5"), context=given_to(RuntimeContext(Database()))).run()
    assert text_of(block) == "main 5"


def test_the_docstring_of_an_injected_parameter_is_for_people():
    def f(n: int, context: ToolContext) -> None:
        """Do it.

        Args:
            n: How often.
            context: The call.
        """

    made = tool(f)
    assert "The call" not in str(made.schema)
    assert made.schema.description == "Do it."


def test_a_tool_with_injected_parameters_is_still_its_function():
    made = tool(blocking)
    assert made(Database("by hand"), 3) == "by hand 3"
    assert inspect.signature(made) == inspect.signature(blocking)


def test_partial_may_bind_what_would_be_injected():
    assert called(partial(blocking, db=Database("bound")), n=1).text == "bound 1"


# --- what the model may not do ----------------------------------------------------------------------------------

HIDDEN = ("context", "runtime", "db", "other")


@tool
async def guarded(
    n: int,
    context: ToolContext,
    runtime: RuntimeContext,
    db: Annotated[Database, Inject],
    other: Annotated[str | None, Inject("other")] = None,
) -> str:
    assert isinstance(context, ToolContext) and isinstance(runtime, RuntimeContext)
    return f"{n} {db.name} {other}"


@given(
    st.dictionaries(
        st.sampled_from(HIDDEN), st.none() | st.integers() | st.text(max_size=3) | st.just({"name": "evil"}), min_size=1
    )
)
def test_a_model_never_overrides_what_is_injected(sent: dict[str, object]):
    block = called(guarded, RuntimeContext(Database()), n=1, **sent)
    assert block.kind is ToolResultKind.INVALID_ARGUMENTS
    for name in sent:
        assert f"- {name}: is not an argument of this tool" in block.text
    for name in HIDDEN:
        assert f"it takes {name}" not in block.text and f"did you mean {name!r}" not in block.text


def test_the_schema_of_a_tool_that_takes_only_a_context():
    def f(context: ToolContext | None = None) -> str:
        return "with" if context is not None else "without"

    assert tool(f).schema.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert called(f).text == "with"
    assert f() == "without"


# --- definitions that cannot work -------------------------------------------------------------------------------


def union(x: Annotated[int | str, Inject]) -> None: ...


def literal(x: Annotated[Database | Replica | None, Inject]) -> None: ...


@pytest.mark.parametrize("function", [union, literal])
def test_only_one_class_can_be_injected(function: Callable[..., object]):
    with pytest.raises(ToolDefinitionError, match=r"'x'.*no single class"):
        tool(function)


# --- retries and executors --------------------------------------------------------------------------------------


def test_each_attempt_looks_again():
    runtime = RuntimeContext()
    tries: list[int] = []

    async def f(context: RuntimeContext, db: Annotated[Database | None, Inject]) -> str:
        tries.append(1)
        if db is None:
            context.put(Database("put by the first attempt"))
            raise ConnectionError
        return db.name

    toolkit = Toolkit([f], execution_config=ExecutionConfig(max_attempts=2, initial_backoff=0))
    notice, last = all_of(toolkit.call(use("f"), context=given_to(runtime))).run()
    assert isinstance(notice, ToolRetry)
    assert text_of(last) == "put by the first attempt"


def test_the_toolkits_executor_runs_it():
    import threading

    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:

        def f(context: ToolContext) -> str:
            context.emit("from the pool")
            return threading.current_thread().name

        chunk, last = all_of(Toolkit([f], executor=pool).call(use("f"))).run()
    assert isinstance(chunk, ToolChunk)
    assert text_of(last).startswith("mine")


# --- the port ---------------------------------------------------------------------------------------------------


class Plain(Tool):
    name = "plain"

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just("plain")


class Aware(Plain):
    name = "aware"

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        context.emit("progress")
        return just(f"{context.agent} {context.call.id}")


class Wrapped(Tool):
    """A tool in another's clothes, with all that the other is given."""

    def __init__(self, inner: Tool) -> None:
        self.inner = inner
        self.name = f"my_{inner.name}"
        self.parameters = inner.parameters

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return self.inner.validate(arguments)

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return self.inner.call(arguments)

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        return self.inner.call_with(arguments, context)


def test_a_tool_class_gets_the_context_by_overriding_one_method():
    toolkit = Toolkit([Plain(), Aware(), Wrapped(Aware()), Wrapped(Plain()), Wrapped(guarded)])
    context = given_to(RuntimeContext(Database()))

    def said(name: str, **arguments: object) -> list[str]:
        return [text_of(each) for each in all_of(toolkit.call(use(name, **arguments), context=context)).run()]

    assert said("plain") == ["plain"]
    assert said("aware") == ["progress", "Friday 1"]
    assert said("my_aware") == ["progress", "Friday 1"]
    assert said("my_plain") == ["plain"]
    assert said("my_guarded", n=1) == ["1 main None"]


def test_only_what_asks_for_a_context_takes_one():
    assert [each.takes_context for each in (Plain(), Aware(), tool(blocking), tool(name="x")(lambda: 1))] == [
        False,
        True,
        True,
        False,
    ]


def test_call_without_a_context_injects_from_an_empty_one():
    async def f(context: ToolContext) -> str:
        return context.call.name

    assert tool(f).call({}).run() == "f"
