"""Stores that take time: coroutines and Observables, their deadline, disposal and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

import pytest
import reactivex
from calling import use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Inject, RuntimeContext, ToolContext, Toolkit
from agentscope_rx.context import ContextStore
from agentscope_rx.errors import ContextError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, defer, empty, just
from agentscope_rx.testing import run_virtual


class Database:
    def __init__(self, name: str = "") -> None:
        self.name = name


class Store:
    """Asked in the given way."""

    def __init__(self, give: Callable[[], object]) -> None:
        self.give = give
        self.asked = 0

    def get(self, kind: type, key: str, /) -> object:
        self.asked += 1
        return self.give()


class Patient(Store):
    lookup_timeout = None


class Hasty(Store):
    lookup_timeout = 0.5


async def later(value: object, delay: float = 1.0) -> object:
    await asyncio.sleep(delay)
    if isinstance(value, Exception):
        raise value
    return value


def flowing(value: object) -> Flow[object]:
    return defer(lambda: just(value))


def emptied(value: object) -> object:
    return empty() if value is None else reactivex.of(value, "a second one")


WAYS: dict[str, Callable[[object], object]] = {
    "plain": lambda value: value,
    "coroutine": later,
    "flow": flowing,
    "observable": emptied,
}


def name_of(db: Annotated[Database, Inject]) -> str:
    return db.name


async def fetches(context: ToolContext) -> str:
    found = await context.fetch(Database)
    return "none" if found is None else found.name


def answered(tool: object, *stores: ContextStore, config: ExecutionConfig | None = None) -> ToolResultBlock:
    """The result of a call, with the stores asked one after the other."""
    toolkit = Toolkit([tool], context_store=stores[-1])
    (name,) = toolkit.names
    context = ToolContext(use(name), runtime=RuntimeContext(), stores=stores[:-1])
    block = run_virtual(toolkit.call(use(name), context=context, config=config))
    assert isinstance(block, ToolResultBlock)
    return block


@given(
    st.lists(st.tuples(st.sampled_from(list(WAYS)), st.booleans()), min_size=1, max_size=4),
    st.sampled_from([name_of, fetches]),
)
def test_law_the_first_that_has_it_gives_it_however_it_answers(places: list[tuple[str, bool]], tool: object):
    stores = [
        Store(lambda way=way, has=has, index=index: WAYS[way](Database(f"{index}") if has else None))
        for index, (way, has) in enumerate(places)
    ]
    block = answered(tool, *stores)
    wanted = next((index for index, (_, has) in enumerate(places) if has), None)
    if wanted is not None:
        assert block.text == f"{wanted}"
        assert [store.asked for store in stores] == [1] * (wanted + 1) + [0] * (len(stores) - wanted - 1)
    elif tool is fetches:
        assert block.text == "none"
    else:
        assert block.kind is ToolResultKind.FAILED and "hold a Database" in block.text


@pytest.mark.parametrize("tool", [name_of, fetches])
@pytest.mark.parametrize(
    ("give", "said"),
    [
        (lambda: later(ConnectionError("down")), "failed to look up a Database: ConnectionError: down"),
        (lambda: reactivex.throw(ValueError("bad")), "failed to look up a Database: ValueError: bad"),
        (lambda: later("text"), "must return a Database or None, not str"),
        (lambda: later(None, 1000), "did not return a Database within 30 s"),
        (reactivex.never, "did not return a Database within 30 s"),
    ],
)
def test_a_failure_names_the_store_and_what_was_asked_for(tool: object, give: Callable[[], object], said: str):
    block = answered(tool, Store(give))
    assert block.kind is ToolResultKind.FAILED and f"The store Store {said}" in block.text


def test_a_store_says_how_long_it_may_take():
    assert answered(name_of, Patient(lambda: later(Database("late"), 100))).text == "late"
    assert "did not return a Database within 0.5 s" in answered(name_of, Hasty(lambda: later(Database()))).text
    # the deadline of the call counts as well
    block = answered(name_of, Patient(lambda: later(Database(), 100)), config=ExecutionConfig(timeout=2))
    assert block.kind is ToolResultKind.TIMEOUT


def test_a_disposed_call_cancels_the_lookup():
    ended: list[str] = []

    async def slow() -> object:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("cancelled")
        return None

    toolkit = Toolkit([name_of], context_store=Store(slow))

    async def main() -> list[object]:
        heard: list[object] = []
        subscription = toolkit.call(use("name_of")).subscribe(heard.append)
        await asyncio.sleep(1)
        subscription.dispose()
        await asyncio.sleep(1)
        return heard

    assert run_virtual(main()) == [] and ended == ["cancelled"]


@pytest.mark.parametrize("way", ["coroutine", "flow", "observable"])
def test_who_cannot_wait_is_told_what_to_do(way: str):
    store = Store(lambda: WAYS[way](Database()))
    with pytest.raises(ContextError, match=r"The store Store needs time to look up a Database.*context.fetch"):
        RuntimeContext(store=store).get(Database)
    with pytest.raises(ContextError, match="needs time"):
        ToolContext(use("f"), stores=(store,)).require(Database)


def test_a_store_in_the_call_and_a_coroutine_function():
    class Container:
        async def get(self, kind: type, key: str, /) -> object:
            return Database(f"made for {key!r}") if kind is Database else None

    def f(db: Annotated[Database, Inject("k")]) -> str:
        return db.name

    context = ToolContext(use("f"), runtime=RuntimeContext(store=Container()))
    block = run_virtual(Toolkit([f]).call(use("f"), context=context))
    assert isinstance(block, ToolResultBlock) and block.text == "made for 'k'"
