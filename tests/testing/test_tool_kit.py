"""`check_tool`: every form of a tool keeps the laws, and each kind of fault is found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors import ToolSuspend
from agentscope_rx.messages import Base64Source, ImageBlock
from agentscope_rx.reactive import Flow, defer, from_callable, from_iterable, just, throw
from agentscope_rx.testing import ScriptedModel, check_tool
from agentscope_rx.tools import Tool, ToolContext
from tests.testing.faults import broken

PARIS = {"city": "Paris"}
NOWHERE = {"city": "Atlantis"}


def weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise LookupError("There is no such city. Use another one.")
    return f"Sunny in {city}"


@tool
async def waiting(city: str) -> str:
    """The weather of a city, after a while."""
    await asyncio.sleep(2)
    return weather(city)


@tool
def steps(city: str, context: ToolContext) -> Iterator[str]:
    """The weather of a city, in steps."""
    context.emit("looking")
    yield "nearly there"
    yield weather(city)


@tool
async def waiting_steps(city: str) -> AsyncIterator[str]:
    """The weather of a city, in steps with time between them."""
    for _ in range(2):
        await asyncio.sleep(1)
        yield "looking"
    yield weather(city)


@tool
def observed(city: str) -> reactivex.Observable[str]:
    """The weather of a city, as an Observable."""
    return reactivex.timer(1).pipe(ops.map(lambda _: weather(city)))


@tool
def pictured(city: str) -> list[object]:
    """A picture of a city."""
    weather(city)
    return ["It looks so:", ImageBlock(Base64Source("image/png", "iVBORw=="))]


@pytest.mark.parametrize("form", [weather, waiting, steps, waiting_steps, observed, pictured], ids=lambda t: t.__name__)
def test_each_form_of_a_tool_keeps_the_laws(form: Any):
    report = check_tool(form, arguments=PARIS, failing=NOWHERE, invalid={"city": ["Paris"], "x": 1})
    assert {"definition", "validation", "failure", "interruption", "call 1.04", "call 3.05"} <= set(report.checked)


def test_an_agent_as_a_tool_keeps_the_laws():
    expert = ReActAgent("expert", ScriptedModel("Sunny.", repeat=True))
    check_tool(expert.as_tool(description="Knows it."), arguments={"message": "Weather?"}, concurrent=False)


def test_a_tool_with_approval_is_not_run_by_an_agent():
    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pays."""
        return "paid"

    report = check_tool(pay, arguments={"amount": 3}, repeatable=False)
    assert dict(report.skipped)["run"] == "in a run the tool waits for approval"


# --- faults -----------------------------------------------------------------------------------------------------------


class Sound(Tool):
    """A tool that keeps the laws; the base of the faulty ones."""

    name = "weather"
    description = "The weather of a city."
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return defer(lambda: just(weather(str(arguments["city"]))))


class NoDescription(Sound):
    description = " "


class NoSchema(Sound):
    parameters = {"type": "string"}

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return arguments


class NamesTooMuch(Sound):
    parameters = {"type": "object", "properties": {}, "required": ["city"]}


class TakesAnything(Sound):
    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return {"city": "Paris", **arguments}


class RefusesByKeyError(Sound):
    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return {"city": arguments["city"]}


class ChangesArguments(Sound):
    def validate(self, arguments: Any) -> Mapping[str, object]:
        checked = super().validate(arguments)
        arguments["days"] = 1
        return checked


class UnknownBytes(Sound):
    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(b"\x01\x02")


class Nothing(Sound):
    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return from_callable(self.fail)

    async def fail(self) -> object:
        raise RuntimeError("always")


class FailsAsText(Sound):
    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just("Error: there is no such city." if arguments["city"] == "Atlantis" else "Sunny")


class OneAtATime(Sound):
    busy = False

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return from_callable(self.alone)

    async def alone(self) -> str:
        if self.busy:
            raise RuntimeError("another call is under way")
        self.busy = True
        try:
            await asyncio.sleep(1)
        finally:
            self.busy = False
        return "Sunny"


class WaitsInARun(Sound):
    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        if context.agent:
            return throw(ToolSuspend("later"))
        return self.call(arguments)


class LeavesATimer(Sound):
    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        async def look() -> str:
            try:
                await asyncio.sleep(9)
            except asyncio.CancelledError:
                if context.agent:
                    asyncio.get_running_loop().call_later(999, lambda: None)
                raise
            return "Sunny"

        return from_callable(look)


class Once(Sound):
    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return from_iterable(iter(["Sunny"]))


FAULTS: list[tuple[type[Tool], str, dict[str, Any]]] = [
    (NoDescription, "definition", {}),
    (NoSchema, "definition", {}),
    (NamesTooMuch, "definition", {}),
    (TakesAnything, "validation", {}),
    (RefusesByKeyError, "validation", {}),
    (ChangesArguments, "validation", {}),
    (UnknownBytes, "result", {}),
    (Nothing, "result", {}),
    (FailsAsText, "failure", {"failing": NOWHERE}),
    (OneAtATime, "apart", {}),
    (WaitsInARun, "run", {}),
    (LeavesATimer, "interruption", {}),
    (Once, "call 1.10", {}),
]


@pytest.mark.parametrize(("kind", "rule", "given"), FAULTS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_fault_of_a_tool_is_found(kind: type[Tool], rule: str, given: dict[str, Any]):
    broken(lambda: check_tool(kind(), arguments=PARIS, **given), rule)


def test_what_is_no_tool_is_found():
    for source in (3, lambda city: city):
        broken(lambda source=source: check_tool(source), "definition")


def test_each_rule_has_a_fault():
    report = check_tool(Sound(), arguments=PARIS, failing=NOWHERE)
    assert report.skipped and json.dumps(report.checked)
    own = {rule for rule in report.checked if not rule.startswith("call ")}
    assert own == {rule for _, rule, _ in FAULTS} - {"call 1.10"}
