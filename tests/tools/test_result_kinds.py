"""Every way in which a call can end: one result, with its call's id and name, a kind, and one spelling of errors."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

import pytest
from calling import answer, result, use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Inject, Msg, ToolContext, ToolError, Toolkit, ToolSuspend, tool
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, defer, throw
from agentscope_rx.tools import ResultLimit
from agentscope_rx.tools.results.convert import output_of


class Database:
    pass


def broken() -> None:
    raise ValueError("it broke")


def refuses() -> None:
    raise ToolError("Not on a Sunday.")


def waits() -> None:
    raise ToolSuspend("Ask Ann.")


def ours(context: ToolContext) -> ToolResultBlock:
    return ToolResultBlock("other", "other", (TextBlock("Error: no"),), ToolResultKind.REJECTED)


def unreadable() -> bytes:
    return b"\x00\x01"


def needs(db: Annotated[Database, Inject]) -> None:
    pass


def takes(x: int) -> int:
    return x


@tool(execution_config=ExecutionConfig(timeout=0.01))
async def slow() -> None:
    import asyncio

    await asyncio.Event().wait()


@tool(max_result=600)
def flood() -> str:
    return "x" * 5000


@tool(max_result=600)
def floods_and_breaks() -> None:
    raise ValueError("x" * 5000)


@tool(max_result=ResultLimit(600, evictor=lambda call, result: 1 / 0))  # pyright: ignore
def cannot_be_kept() -> str:
    return "x" * 5000


EVERY = Toolkit(
    [broken, refuses, waits, ours, unreadable, needs, takes, slow, flood, floods_and_breaks, cannot_be_kept]
)

WAYS = [
    (use("broken"), ToolResultKind.FAILED),
    (use("refuses"), ToolResultKind.FAILED),
    (use("waits"), ToolResultKind.SUSPENDED),
    (use("ours"), ToolResultKind.REJECTED),
    (use("unreadable"), ToolResultKind.FAILED),
    (use("needs"), ToolResultKind.FAILED),
    (use("nothing"), ToolResultKind.NOT_FOUND),
    (use("takes"), ToolResultKind.INVALID_ARGUMENTS),
    (use("takes", x="many"), ToolResultKind.INVALID_ARGUMENTS),
    (ToolUseBlock("1", "takes", raw='{"x": ', input_error="it ends too early"), ToolResultKind.INVALID_ARGUMENTS),
    (use("slow"), ToolResultKind.TIMEOUT),
    (use("flood"), None),
    (use("floods_and_breaks"), ToolResultKind.FAILED),
    (use("cannot_be_kept"), None),
    (use("takes", x=7), None),
]


@pytest.mark.spec("W65", "W80")
@pytest.mark.parametrize(("call", "kind"), WAYS, ids=lambda value: getattr(value, "name", ""))
def test_every_result_says_whose_it_is_and_how_it_came_out(call: ToolUseBlock, kind: ToolResultKind | None):
    """Whatever goes wrong, and wherever; and JSON gives it back as it was."""
    block = answer(EVERY, call)
    assert (block.id, block.name, block.kind) == (call.id, call.name, kind)
    assert block.is_error == (kind is not None and kind is not ToolResultKind.SUSPENDED)
    assert block.text.startswith("Error: ") == block.is_error
    message = Msg.tool(block)
    assert Msg.from_json(message.to_json()) == message
    (data,) = json.loads(message.to_json())["content"]
    assert data["kind"] == (None if kind is None else str(kind))


def _suspends() -> None:
    raise ToolSuspend("Ask Ann.")


def _breaks() -> None:
    raise ValueError("it broke")


def _forms(act: Callable[[], None]) -> list[object]:
    def plain() -> None:
        act()

    async def coroutine() -> None:
        act()

    def generator() -> Iterator[str]:
        act()
        yield "never"

    async def async_generator() -> AsyncIterator[str]:
        act()
        yield "never"

    def observable() -> Flow[str]:
        def later() -> Flow[str]:
            act()
            return throw(AssertionError())

        return defer(later)

    def at_once() -> Flow[str]:
        act()
        return throw(AssertionError())

    async def late_flow() -> Flow[str]:
        return observable()

    return [plain, coroutine, generator, async_generator, observable, at_once, late_flow]


@pytest.mark.spec("case 97", "case 101")
@pytest.mark.parametrize("index", range(7))
def test_failures_and_suspensions_look_the_same_from_every_form(index: int):
    """A suspension gets out of each kind of callable, and errors are worded alike."""
    broke, waits = result(_forms(_breaks)[index]), result(_forms(_suspends)[index])
    assert (broke.kind, broke.text) == (ToolResultKind.FAILED, "Error: ValueError: it broke")
    assert (waits.kind, waits.text) == (ToolResultKind.SUSPENDED, "Ask Ann.")


# --- more of what tools return --------------------------------------------------------------------------------------


@dataclass
class Invoice:
    id: uuid.UUID
    total: decimal.Decimal
    due: datetime.datetime
    paid: bool = False


NUMBER = uuid.UUID(int=7)
DUE = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)


@pytest.mark.spec("W58", "case 102")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (decimal.Decimal("1.50"), "1.50"),
        (NUMBER, str(NUMBER)),
        (DUE, "2024-02-29T12:30:00Z"),
        (datetime.timedelta(minutes=90), "PT1H30M"),
        (2**70, str(2**70)),
        (float("nan"), "NaN"),
        (
            Invoice(NUMBER, decimal.Decimal("1.50"), DUE),
            f'{{"id":"{NUMBER}","total":"1.50","due":"2024-02-29T12:30:00Z","paid":false}}',
        ),
        ({NUMBER: [decimal.Decimal(1)]}, f'{{"{NUMBER}":["1"]}}'),
    ],
)
def test_values_of_the_standard_library(value: object, text: str):
    """What JSON writes as a string is that string, without quotes of its own."""
    assert output_of(value) == (TextBlock(text),)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.uuids(), st.datetimes())
def test_law_what_is_read_back_is_what_was_returned(number: decimal.Decimal, id: uuid.UUID, time: datetime.datetime):
    texts = [block.text for value in (number, id, time) for block in output_of(value) if isinstance(block, TextBlock)]
    assert decimal.Decimal(texts[0]) == number
    assert uuid.UUID(texts[1]) == id
    assert datetime.datetime.fromisoformat(texts[2]) == time
