"""Presets: arguments given in the model's place, hidden and fixed, or shown as defaults; and how arguments merge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from calling import use
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from reactivex import operators as ops

from agentscope_rx import Inject, ReActAgent, RuntimeContext
from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import Flow, just
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.tools import ExternalTool, Tool, ToolContext, Toolkit, preset, tool
from agentscope_rx.tools.schemas.check import SchemaCheck
from tests.agent.parts import remembered

SECRET = "sk-12345678"


@dataclass
class Place:
    city: str
    country: str = "IT"


class Account(BaseModel):
    key: str


def search(query: str, /, place: Place, account: Account, limit: int = 10, unit: Literal["C", "F"] = "C") -> str:
    """Search."""
    return f"{query} {place.city} {account.key} {limit} {unit}"


class Open(Tool):
    """A tool known by its JSON schema, which takes names that it does not say."""

    name = "open"
    parameters = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "root": {"$ref": "#/$defs/Root"}, "deep": {"type": "integer"}},
        "required": ["path", "root"],
        "$defs": {"Root": {"type": "string", "minLength": 2}},
    }

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(json.dumps(arguments, sort_keys=True))


def result(toolkit: Toolkit, name: str, /, **input: object) -> ToolResultBlock:
    block = toolkit.call(use(name, **input)).run()
    assert isinstance(block, ToolResultBlock)
    return block


def text(toolkit: Toolkit, name: str, /, **input: object) -> str:
    return result(toolkit, name, **input).text


def registered(source: object, **options: Any) -> tuple[Toolkit, ToolSchema]:
    toolkit = Toolkit()
    return toolkit, toolkit.register(source, **options).schema


# --- fixed ------------------------------------------------------------------------------------------------------


def test_a_fixed_preset_is_hidden_with_its_types():
    toolkit, schema = registered(search, presets={"query": "hi", "account": {"key": SECRET}})
    assert list(schema.parameters) == ["type", "properties", "required", "additionalProperties", "$defs"]
    assert list(schema.parameters["properties"]) == ["place", "limit", "unit"]
    assert schema.parameters["required"] == ["place"]
    assert list(schema.parameters["$defs"]) == ["Place"]
    assert text(toolkit, "search", place={"city": "Rome"}) == f"hi Rome {SECRET} 10 C"


@pytest.mark.spec("case 82", "D5", "W59")
def test_a_fixed_preset_wins_and_the_tool_runs():
    """Presets beat input in every kind of tool."""
    toolkit, _ = registered(search, presets={"account": {"key": SECRET}, "limit": 3})
    given = {"query": "hi", "place": {"city": "Rome"}, "account": {"key": "mine"}, "limit": "many"}
    assert text(toolkit, "search", **given) == f"hi Rome {SECRET} 3 C"
    refused = result(toolkit, "search", **given, limt=1)
    assert refused.kind is ToolResultKind.INVALID_ARGUMENTS
    assert refused.text.splitlines()[1:-1] == ["- limt: is not an argument of this tool; it takes query, place, unit"]


def test_a_fixed_preset_wins_through_all_that_stands_on_it():
    class Why(BaseModel):
        reason: str

    def of(**options: Any) -> Toolkit:
        return registered(made, presets={"limit": 3}, **options)[0]

    (made,) = preset(search, {"search": {"account": {"key": SECRET}}})
    given = {"query": "hi", "place": {"city": "Rome"}, "account": {"key": "mine"}, "limit": 5}
    assert text(of(), "search", **given) == f"hi Rome {SECRET} 3 C"
    assert text(of(name="find"), "find", **given) == f"hi Rome {SECRET} 3 C"
    assert text(of(extend=Why), "search", **given, reason="x") == f"hi Rome {SECRET} 3 C"
    shown = {
        "type": "object",
        "properties": {"query": {"type": "string"}, "place": {"type": "object"}},
        "additionalProperties": False,
    }
    assert text(of(parameters=shown), "search", **given) == f"hi Rome {SECRET} 3 C"
    assert result(of(parameters=shown), "search", **given, unit="C").kind is ToolResultKind.INVALID_ARGUMENTS


def test_a_field_added_under_a_presets_name_is_the_models():
    class Limit(BaseModel):
        limit: int

    def find(query: str, limit: int) -> str:
        return f"{query} {limit}"

    toolkit, _ = registered(find, presets={"limit": 3}, extend=Limit)
    assert text(toolkit, "find", query="hi", limit=5) == "hi 3"
    assert result(toolkit, "find", query="hi", limit="many").kind is ToolResultKind.INVALID_ARGUMENTS


@pytest.mark.spec("W59", "case 82", "case 88")
def test_a_fixed_preset_wins_where_any_name_may_be_sent():
    """Case 82 (shouldApplyPresetParametersAfterExplicitInput, ..WhenInputsAbsent), case 88, W59."""
    toolkit, schema = registered(Open(), presets={"root": "/data"})
    assert schema.parameters == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "deep": {"type": "integer"}},
        "required": ["path"],
    }
    assert text(toolkit, "open", path="a", root="/etc", more=1) == '{"more": 1, "path": "a", "root": "/data"}'
    assert text(toolkit, "open", path="a") == '{"path": "a", "root": "/data"}'
    assert "- path: is required" in text(toolkit, "open")


def test_a_tool_that_runs_elsewhere_takes_presets_too():
    external = ExternalTool("pick", "Pick.", {**Open.parameters, "additionalProperties": False})
    toolkit, schema = registered(external, presets={"root": "/data"})
    assert list(schema.parameters["properties"]) == ["path", "deep"]
    assert result(toolkit, "pick", path="a").kind is ToolResultKind.SUSPENDED
    assert result(toolkit, "pick", path=1).kind is ToolResultKind.INVALID_ARGUMENTS


def test_what_partial_binds_is_a_fixed_preset():
    def f(a: int, b: int, c: int = 3) -> str:
        return f"{a} {b} {c}"

    toolkit, schema = registered(partial(f, 1, c=4))
    assert list(schema.parameters["properties"]) == ["b"]
    assert text(toolkit, "f", b=2) == "1 2 4"
    assert text(toolkit, "f", a=9, b=2, c="five") == "1 2 4"
    assert result(toolkit, "f", b=2, d=5).kind is ToolResultKind.INVALID_ARGUMENTS


def test_a_preset_beside_what_is_injected():
    def ask(question: str, key: str, who: Annotated[str, Inject("user")], context: ToolContext) -> str:
        return f"{question} {key} {who} {context.call.id}"

    toolkit, schema = registered(ask, presets={"key": "k"})
    assert list(schema.parameters["properties"]) == ["question"]
    context = ToolContext(use("ask"), runtime=RuntimeContext(user="Ada"))
    assert toolkit.call(use("ask", question="hi"), context=context).run().text == "hi k Ada 1"  # pyright: ignore
    with pytest.raises(ToolDefinitionError, match="no parameter 'who' to be preset: it takes question, key"):
        registered(ask, presets={"who": "me"})


def test_each_call_gets_its_own_python_values_of_presets():
    def when(day: date, names: list[str]) -> str:
        names.append("x")
        return f"{day.year} {len(names)}"

    given = {"day": date(2026, 1, 2), "names": ["a"]}
    toolkit, schema = registered(when, presets=given)
    given["names"] = 5
    assert "required" not in schema.parameters and "$defs" not in schema.parameters
    assert [text(toolkit, "when") for _ in range(2)] == ["2026 2", "2026 2"]


# --- default ----------------------------------------------------------------------------------------------------


def test_a_default_preset_is_shown_and_may_be_overridden():
    toolkit, schema = registered(search, presets={"place": {"city": "Rome"}, "unit": "F"}, preset_mode="default")
    assert schema.parameters["required"] == ["query", "account"]
    assert schema.parameters["properties"]["place"] == {"$ref": "#/$defs/Place", "default": {"city": "Rome"}}
    assert schema.parameters["properties"]["unit"] == {"type": "string", "enum": ["C", "F"], "default": "F"}
    call = partial(text, toolkit, "search", query="hi", account={"key": "k"})
    assert call() == "hi Rome k 10 F"
    assert call(unit="C", place={"city": "Bari"}) == "hi Bari k 10 C"
    assert call(unit=None, place=None) == "hi Rome k 10 F", "null is no value of these: not sent"


def test_a_default_preset_of_a_json_schema_tool():
    toolkit, schema = registered(Open(), presets={"root": "/data"}, preset_mode="default")
    assert schema.parameters["properties"]["root"] == {"$ref": "#/$defs/Root", "default": "/data"}
    assert schema.parameters["required"] == ["path"]
    assert text(toolkit, "open", path="a", root="/x") == '{"path": "a", "root": "/x"}'
    assert text(toolkit, "open", path="a", root=None) == '{"path": "a", "root": "/data"}'


def test_null_that_is_a_value_is_the_model_s_word():
    def f(x: int | None) -> str:
        return str(x)

    toolkit, _ = registered(f, presets={"x": 3}, preset_mode="default")
    assert (text(toolkit, "f"), text(toolkit, "f", x=None)) == ("3", "None")


def test_a_default_that_json_cannot_write_does_not_show():
    def f(x: object) -> str:
        return type(x).__name__

    toolkit, schema = registered(f, presets={"x": object()}, preset_mode="default")
    assert schema.parameters == {"type": "object", "properties": {"x": {}}, "additionalProperties": False}
    assert text(toolkit, "f") == "object"


# --- checked once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fixed", "default"])
@pytest.mark.parametrize(
    ("source", "presets", "says"),
    [
        (search, {"qeury": 1}, "'search' has no parameter 'qeury' to be preset: it takes query, place, account"),
        (lambda: 1, {"x": 1}, "no parameter 'x' to be preset: it takes no arguments"),
        (
            search,
            {"limit": "many"},
            "preset limit=\"many\" of tool 'search' is refused .* limit: Input should be a valid",
        ),
        (search, {"unit": "K"}, "unit: Input should be 'C' or 'F'"),
        (search, {"place": {"town": "x"}}, "place.city: is required and was not given"),
        (
            Open(),
            {"root": "/"},
            "root=\"/\" of tool 'open' is refused by the tool itself: root: '/' is too short",
        ),
        (Open(), {"deep": 1.5}, "deep: 1.5 is not of type 'integer'"),
        (Open(), {"deep": date(2026, 1, 2)}, "is not of type 'integer'"),
        (Open(), {"else": 1}, "no parameter 'else'"),
    ],
)
def test_a_preset_that_the_tool_lacks_is_an_error_at_once(
    source: object, presets: dict[str, object], says: str, mode: Any
):
    toolkit = Toolkit()
    made = tool(name="nothing")(source) if getattr(source, "__name__", "") == "<lambda>" else source  # pyright: ignore
    with pytest.raises(ToolDefinitionError, match=says):
        toolkit.register(made, presets=presets, preset_mode=mode)
    assert len(toolkit) == 0


def test_a_validator_that_wants_all_arguments_gets_presets():
    class Strict(Open):
        def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
            if "path" not in arguments:
                raise ValueError("no path")
            return arguments

    toolkit, _ = registered(Strict(), presets={"root": "/data"})
    assert text(toolkit, "open", path="a") == '{"path": "a", "root": "/data"}'


# --- changed later ----------------------------------------------------------------------------------------------


@pytest.mark.spec("case 88")
def test_presets_are_changed_for_the_next_call_on():
    """Case 88 (testUpdatePresetParameters, testPresetParametersOverride); the schema follows, which Java's does not."""
    toolkit, _ = registered(Open(), name="see", presets={"root": "/data"}, description="Look.")
    toolkit.update_presets("see", {"root": "/other", "deep": 1})
    assert text(toolkit, "see", path="a") == '{"deep": 1, "path": "a", "root": "/other"}'
    assert list(toolkit.schemas()[0].parameters["properties"]) == ["path"]
    toolkit.update_presets("see", None)
    assert toolkit.schemas()[0] == ToolSchema("see", "Look.", Open.parameters)
    toolkit.update_presets("see", {"root": "/x"}, preset_mode="default")
    assert text(toolkit, "see", path="a", root="/y") == '{"path": "a", "root": "/y"}'


def test_a_tool_registered_without_presets_can_get_some():
    toolkit = Toolkit([search])
    toolkit.update_presets("search", {"account": {"key": "k"}})
    assert text(toolkit, "search", query="hi", place={"city": "Rome"}) == "hi Rome k 10 C"


def test_presets_that_cannot_be_leave_things_as_they_are():
    toolkit, _ = registered(Open(), presets={"root": "/data"})
    for presets, says in [({"root": 1}, "is refused by the tool itself"), ({"x": 1}, "no parameter 'x'")]:
        with pytest.raises(ToolDefinitionError, match=says):
            toolkit.update_presets("open", presets)
    with pytest.raises(ConfigurationError, match="'nothing' is not registered"):
        toolkit.update_presets("nothing", {})
    with pytest.raises(ConfigurationError, match="preset_mode must be one of"):
        toolkit.update_presets("open", {}, preset_mode="hard")  # pyright: ignore
    assert text(toolkit, "open", path="a") == '{"path": "a", "root": "/data"}'


@pytest.mark.spec("W62")
def test_copies_and_overlays_have_presets_of_their_own():
    """A copy shares nothing that changes."""
    toolkit, _ = registered(Open(), presets={"root": "/data"})
    copy, view = toolkit.copy(), toolkit.overlay()
    copy.update_presets("open", {"root": "/copy"})
    view.update_presets("open", {"root": "/view"})
    answers = [text(each, "open", path="a") for each in (toolkit, copy, view)]
    assert [json.loads(each)["root"] for each in answers] == ["/data", "/copy", "/view"]


# --- hidden from everything else -------------------------------------------------------------------------------


def test_a_fixed_preset_is_in_no_message_event_or_request():
    def spend(amount: int, key: str) -> str:
        if amount < 0:
            raise ValueError("negative")
        return "paid" if key == SECRET else "refused"

    toolkit = Toolkit()
    toolkit.register(spend, presets={"key": SECRET}, requires_approval=lambda arguments: arguments["amount"] > 5)
    calls = [use("spend", str(n), amount=n) for n in (1, -1)]
    bad = [use("spend", "b", amount="x", key="mine")]
    model = ScriptedModel(calls, bad, "done")
    friday = ReActAgent("Friday", model, toolkit=toolkit)
    seen: list[str] = []
    friday.stream("go").pipe(ops.do_action(lambda event: seen.append(event.to_json()))).run()
    everything = "".join(seen) + repr(remembered(friday)) + repr(model.requests)
    assert "paid" in everything and "negative" in everything and "amount: Input should be" in everything
    assert SECRET not in everything


def test_a_comparing_schema_hides_fixed_presets():
    external = ExternalTool(
        "pick",
        "Pick.",
        {"type": "object", "properties": {"a": {}, "key": {"type": "string"}}, "not": {"required": ["a", "key"]}},
    )
    toolkit, _ = registered(external, presets={"key": SECRET})
    refused = result(toolkit, "pick", a=1)
    assert refused.kind is ToolResultKind.INVALID_ARGUMENTS
    assert "- arguments: they do not go together" in refused.text
    assert SECRET not in refused.text


# --- schemas with odd corners -----------------------------------------------------------------------------------


def test_what_refers_to_a_hidden_property_still_finds_it():
    class Twice(Open):
        parameters = {
            "type": "object",
            "properties": {"a": {"type": "string", "maxLength": 2}, "b": {"items": {"$ref": "#/properties/a"}}},
            "$defs": {"a": {"type": "null"}, "unused": {}},
            "additionalProperties": False,
        }

    _, schema = registered(Twice(), presets={"a": "x"})
    assert schema.parameters["properties"] == {"b": {"items": {"$ref": "#/$defs/a_"}}}
    assert schema.parameters["$defs"] == {"a": {"type": "null"}, "unused": {}, "a_": {"type": "string", "maxLength": 2}}
    assert SchemaCheck(schema.parameters).problems({"b": ["abc"]})


def test_definitions_still_in_use_are_kept():
    def f(default: Place, enum: list[Account], gone: Place) -> None: ...

    _, schema = registered(f, presets={"gone": {"city": "x"}})
    assert set(schema.parameters["$defs"]) == {"Place", "Account"}
    SchemaCheck(schema.parameters)


def test_presets_under_a_schema_of_the_registrar_s():
    parameters = {"type": "object", "properties": {"path": {"enum": ["a", "b"]}, "root": {}}, "required": ["path"]}
    toolkit, schema = registered(Open(), presets={"root": "/data"}, parameters=parameters)
    assert list(schema.parameters["properties"]) == ["path"]
    assert text(toolkit, "open", path="a") == '{"path": "a", "root": "/data"}'
    assert "path: 'c' is not one of ['a', 'b']" in text(toolkit, "open", path="c")


# --- laws of the merge ------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
DEFAULTS = {"c": -3, "d": -4}


def takes(a: int, b: int, c: int = -3, d: int = -4, who: Annotated[str, Inject("who")] = "nobody") -> dict[str, Any]:
    return {"a": a, "b": b, "c": c, "d": d, "who": who}


class Closed(Tool):
    """The same as a JSON schema; what is not given is the tool's own affair."""

    name = "takes"
    parameters = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in NAMES},
        "required": ["a", "b"],
        "additionalProperties": False,
    }

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just({**DEFAULTS, **arguments, "who": "nobody"})


VALUES = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9))
SENT = st.dictionaries(st.sampled_from((*NAMES, "z", "who")), st.integers(10, 19))


@given(presets=VALUES, sent=SENT, mode=st.sampled_from(["fixed", "default"]), of=st.sampled_from([takes, Closed()]))
def test_law_of_the_merge(presets: dict[str, int], sent: dict[str, int], mode: Any, of: Any):
    """fixed: the preset, else what is sent, else the default; default: what is sent, else the preset, else the default.

    A name that the tool does not take is refused; so is a call that leaves something out; nothing is told of presets.
    """
    toolkit, schema = registered(of, presets=presets, preset_mode=mode)
    shown = [name for name in NAMES if mode == "default" or name not in presets]
    assert list(schema.parameters["properties"]) == shown
    assert schema.parameters.get("required", []) == [name for name in ("a", "b") if name not in presets]
    outcome = result(toolkit, "takes", **sent)
    merged = {**DEFAULTS, **sent, **presets} if mode == "fixed" else {**DEFAULTS, **presets, **sent}
    strays = [name for name in sent if name not in NAMES]
    missing = [name for name in ("a", "b") if name not in merged]
    if strays or missing:
        assert outcome.kind is ToolResultKind.INVALID_ARGUMENTS
        told = [line for line in outcome.text.splitlines() if line.startswith("- ")]
        assert sorted(line[2:].partition(":")[0] for line in told) == sorted(strays + missing)
    else:
        assert json.loads(outcome.text) == {**merged, "who": "nobody"}


@given(presets=VALUES, sent=st.dictionaries(st.sampled_from(NAMES), st.one_of(st.integers(), st.text(max_size=2))))
def test_law_presets_validate_as_merged_arguments_do(presets: dict[str, int], sent: dict[str, Any]):
    plain = tool(takes)
    made = Toolkit().register(plain, presets=presets)

    def outcome(of: Tool, arguments: dict[str, Any]) -> object:
        try:
            return of.validate(arguments)
        except ConfigurationError:
            raise
        except Exception as error:
            return str(error)

    assert outcome(made, sent) == outcome(plain, {**sent, **presets})


@given(schema_presets=VALUES, more=VALUES)
def test_law_updates_do_not_add_up(schema_presets: dict[str, int], more: dict[str, int]):
    toolkit, _ = registered(takes, presets=schema_presets)
    toolkit.update_presets("takes", more)
    assert toolkit.schemas() == registered(takes, presets=more)[0].schemas()
