"""Where objects come from: the call's context, then the stores of it, of the agent, of the toolkit."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated, Protocol

import pytest
from calling import answer, use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Inject, ReActAgent, RuntimeContext, ToolContext, Toolkit, hook, tool
from agentscope_rx.context import ContextStore, InMemoryContextStore, ask
from agentscope_rx.errors import ConfigurationError, ContextError, InvalidInputError
from agentscope_rx.events import PreActingEvent
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.reactive import Flow, just
from agentscope_rx.testing import ScriptedModel, call


class Database:
    def __init__(self, name: str = "main") -> None:
        self.name = name


class Replica(Database):
    pass


class Cache:
    pass


class Clock(Protocol):
    def now(self) -> int: ...


class Fixed:
    def now(self) -> int:
        return 42


def name_of(db: Annotated[Database, Inject]) -> str:
    """Which database this is."""
    return db.name


def name_of_second(db: Annotated[Database, Inject("second")]) -> str:
    """Which database this is."""
    return db.name


# --- the store in memory ------------------------------------------------------------------------------------------


@pytest.mark.spec("case 115")
def test_objects_are_found_by_type_and_key():
    """Singletons, several of one type by key."""
    main, second, clock = Database(), Database("second"), Fixed()
    store = InMemoryContextStore(main).register(second, "second").register(clock, as_=Clock)
    assert store.get(Database) is main
    assert store.get(Database, "second") is second
    assert store.get(Clock) is clock
    assert store.get(Cache) is None and store.get(Database, "third") is None
    assert store.get(object, "second") is second
    assert repr(store) == "<InMemoryContextStore Database, Database['second'], Clock>"


def test_a_subclass_does_unless_several_would():
    replica = Replica("replica")
    assert InMemoryContextStore(replica).get(Database) is replica
    main = Database()
    assert InMemoryContextStore(main, replica).get(Database) is main, "the exact type wins"
    with pytest.raises(ContextError, match=r"several values .* register\(value, as_=object\)"):
        InMemoryContextStore(main, replica).get(object)
    assert InMemoryContextStore(main).register(main, as_=object).get(object) is main


@pytest.mark.spec("W64")
def test_a_store_beside_others_keeps_what_was_registered():
    """There is no builder that drops objects when a store is added; both are asked."""
    store = InMemoryContextStore(Database()).register(Cache())
    runtime = RuntimeContext(Fixed(), store=store)
    assert runtime.get(Fixed) and runtime.get(Database) and runtime.get(Cache)


def test_the_last_one_registered_takes_the_place():
    store = InMemoryContextStore(Database("old"))
    new = Database("new")
    assert store.register(new).get(Database) is new


def test_what_cannot_be_registered():
    with pytest.raises(InvalidInputError, match="None cannot be put into InMemoryContextStore"):
        InMemoryContextStore(None)
    with pytest.raises(InvalidInputError, match="as_=Database does not fit: the value is of type Cache"):
        InMemoryContextStore().register(Cache(), as_=Database)
    with pytest.raises(InvalidInputError, match="looks objects up by type"):
        InMemoryContextStore().get("db")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="neither pickled nor saved"):
        pickle.dumps(InMemoryContextStore())


def test_a_view_does_not_change():
    store = InMemoryContextStore(Database("old"))
    view = store.view()
    store.register(Database("new")).register(Cache())
    old = view.get(Database)
    assert old is not None and old.name == "old" and view.get(Cache) is None


def test_threads_register_at_once():
    store = InMemoryContextStore()

    def work(number: int) -> None:
        for index in range(50):
            store.register(Database(), f"{number}.{index}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(store.get(Database, f"{number}.{index}") for number in range(4) for index in range(50))


# --- the chain ----------------------------------------------------------------------------------------------------

PLACES = ("values", "attributes", "nested", "agent", "toolkit")


@pytest.mark.spec("case 115", "case 116", "§9.11")
@given(st.sets(st.sampled_from(PLACES)))
def test_law_the_first_that_has_it_gives_it(places: set[str]):
    """Call > its nested store > agent > toolkit, whichever of them there are."""

    def store(place: str) -> InMemoryContextStore:
        return InMemoryContextStore().register(Database(place), "second") if place in places else InMemoryContextStore()

    runtime = RuntimeContext(store=store("nested"))
    if "values" in places:
        runtime.put(Database("values"), "second")
    if "attributes" in places:
        runtime.attributes["second"] = Database("attributes")
    toolkit = Toolkit([name_of_second], context_store=store("toolkit"))
    context = ToolContext(use("name_of_second"), runtime=runtime, stores=(store("agent"),))
    block = toolkit.call(use("name_of_second"), context=context).run()
    assert isinstance(block, ToolResultBlock)
    wanted = next((place for place in PLACES if place in places), None)
    if wanted is None:
        assert "Neither the RuntimeContext of this call nor its stores" in block.text
    else:
        assert block.text == wanted


@pytest.mark.spec("case 116")
def test_in_an_agents_run():
    """Context on all levels, merged for the tools of a run."""
    seen: list[object] = []

    @tool
    async def look(context: ToolContext, db: Annotated[Database, Inject]) -> str:
        seen.append((db.name, context.get(Cache), context.require(Fixed).now()))
        return "ok"

    model = ScriptedModel([call("look")], "done")
    cache = Cache()
    toolkit = Toolkit([look], context_store=InMemoryContextStore(Database("toolkit"), Fixed()))
    friday = ReActAgent("Friday", model, toolkit=toolkit, context_store=InMemoryContextStore(Database("agent"), cache))
    friday.call("hi", context=RuntimeContext(store=InMemoryContextStore(Database("nested")))).run()
    assert seen == [("nested", cache, 42)]


def test_a_run_sees_what_was_there_when_it_began():
    agents, toolkits = InMemoryContextStore(), InMemoryContextStore()
    seen: list[str] = []

    @hook(PreActingEvent)
    def registers(event: PreActingEvent) -> None:
        agents.register(Database("late"))
        toolkits.register(Database("late"), "second")

    @tool
    def look(
        first: Annotated[Database | None, Inject] = None, second: Annotated[Database | None, Inject("second")] = None
    ) -> str:
        seen.append(f"{first and first.name} {second and second.name}")
        return "ok"

    model = ScriptedModel([call("look")], "done", [call("look")], "done")
    friday = ReActAgent(
        "Friday",
        model,
        toolkit=Toolkit([look], context_store=toolkits),
        context_store=agents,
        hooks=[registers],
    )
    friday.call("hi").run()
    friday.call("hi").run()
    assert seen == ["None None", "late late"]


def test_a_requested_context_goes_through_the_chain():
    def f(context: ToolContext) -> bool:
        return context.get(ToolContext) is context and context.get(RuntimeContext) is context.runtime

    assert answer(Toolkit([f], context_store=InMemoryContextStore()), use("f")).text == "true"


def test_a_missing_object_is_named_with_the_places_searched():
    class Mine:
        def get(self, kind: type, key: str) -> object:
            return None

    block = answer(Toolkit([name_of], context_store=Mine()), use("name_of"))
    assert block.kind is ToolResultKind.FAILED
    assert "its stores (Mine) hold a Database" in block.text


# --- a store of one's own -----------------------------------------------------------------------------------------


class Container:
    """As a dependency injection container: makes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[type, str]] = []

    def get(self, kind: type, key: str, /) -> object:
        self.asked.append((kind, key))
        return Database(f"made for {key!r}") if kind is Database else None


def test_any_object_with_get_is_a_store():
    container: ContextStore = Container()
    toolkit = Toolkit([name_of, name_of_second], context_store=container)
    assert answer(toolkit, use("name_of")).text == "made for ''"
    assert answer(toolkit, use("name_of_second")).text == "made for 'second'"
    runtime = RuntimeContext(store=container)
    found = runtime.get(Database, "hook")
    assert found is not None and found.name == "made for 'hook'", "hooks find what is in the call's own"


class Raising:
    def get(self, kind: type, key: str) -> object:
        raise ConnectionError("the registry is down")


class Wrong:
    def get(self, kind: type, key: str) -> object:
        return "a database"


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (Raising(), "The store Raising failed to look up a Database: ConnectionError: the registry is down"),
        (Wrong(), "The store Wrong must return a Database or None, not str."),
    ],
)
def test_a_store_that_fails_is_named_in_an_error_result(store: ContextStore, said: str):
    block = answer(Toolkit([name_of], context_store=store), use("name_of"))
    assert (block.kind, block.id, block.name) == (ToolResultKind.FAILED, "1", "name_of")
    assert block.text.startswith("Error: Tool 'name_of' cannot run, 'db' is missing: ") and said in block.text


def test_a_store_is_not_asked_if_an_earlier_one_answers():
    assert ask(Container(), Database, "") is not None
    context = ToolContext(use("name_of"), runtime=RuntimeContext(Database("call's")))
    block = Toolkit([name_of], context_store=Raising()).call(use("name_of"), context=context).run()
    assert "call's" in str(block)


def test_protocols_that_cannot_be_checked_are_the_stores_affair():
    class Clocks:
        def get(self, kind: type, key: str) -> object:
            return Fixed() if kind is Clock else None

    def hour(clock: Annotated[Clock, Inject]) -> int:
        return clock.now()

    assert answer(Toolkit([hour], context_store=Clocks()), use("hour")).text == "42"


@pytest.mark.parametrize("store", [{"db": Database()}, "db", Database(), Container, 7])
def test_what_is_no_store_is_refused_where_it_is_given(store: object):
    for take in (
        lambda: Toolkit(context_store=store),  # pyright: ignore[reportArgumentType]
        lambda: RuntimeContext(store=store),  # pyright: ignore[reportArgumentType]
        lambda: ReActAgent("a", ScriptedModel(), context_store=store),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(ConfigurationError, match=r"must be an object with get\(kind, key\)"):
            take()


# --- the schema ---------------------------------------------------------------------------------------------------


class Methods:
    @tool
    def method(self, x: int, db: Annotated[Database, Inject], context: ToolContext) -> str:
        return db.name

    @tool
    @classmethod
    def of_class(cls, x: int, db: Annotated[Database, Inject("second")]) -> str:
        return db.name

    @tool
    @staticmethod
    def static(x: int, runtime: RuntimeContext) -> str:
        return "main"


class Answering:
    def __call__(self, x: int, db: Annotated[Database | None, Inject] = None) -> str:
        return "main"


def plain(x: int, db: Annotated[Database, Inject], keyed: Annotated[Database, Inject("second")]) -> str:
    return db.name


async def coroutine(x: int, context: ToolContext, db: Annotated[Database | None, Inject]) -> str:
    return "main"


def generator(x: int, db: Annotated[Database, Inject]) -> Iterator[str]:
    yield db.name


async def async_generator(x: int, *, db: Annotated[Database, Inject]) -> AsyncIterator[str]:
    yield db.name


def observable(db: Annotated[Database, Inject], /, x: int) -> Flow[str]:
    return just(db.name)


def bound_beforehand(y: int, x: int, runtime: RuntimeContext | None, db: Annotated[Database, Inject]) -> str:
    return db.name


FORMS = [
    plain,
    coroutine,
    generator,
    async_generator,
    observable,
    partial(bound_beforehand, 1),
    Methods().method,
    Methods().of_class,
    Methods().static,
    Answering(),
    tool(name="renamed")(plain),
]


@pytest.mark.spec("§9.12")
@pytest.mark.parametrize("form", FORMS, ids=lambda form: getattr(form, "__name__", type(form).__name__))
def test_what_is_injected_shows_in_no_schema(form: object):
    """In every form of a tool the model sees `x` alone, and may not send the others."""
    toolkit = Toolkit([form], context_store=InMemoryContextStore(Database()).register(Database("main"), "second"))
    (schema,) = toolkit.schemas()
    assert list(schema.parameters["properties"]) == ["x"]  # pyright: ignore
    assert "Database" not in str(schema.parameters) and "ontext" not in str(schema.parameters)
    assert answer(toolkit, use(schema.name, x=1)).text == "main"
    smuggled = answer(toolkit, use(schema.name, x=1, db="mine"))
    assert smuggled.kind is ToolResultKind.INVALID_ARGUMENTS
    assert "db: is not an argument of this tool" in smuggled.text


def test_a_tool_of_a_coroutine_looks_on_its_own():
    async def f(context: ToolContext) -> str:
        await asyncio.sleep(0)
        return context.require(Database, "second").name

    store = InMemoryContextStore().register(Database("main"), "second")
    assert answer(Toolkit([f], context_store=store), use("f")).text == "main"
