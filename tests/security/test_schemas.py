"""Schemas and arguments of foreign origin: none takes the loop's thread longer than 50 ms of its own CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.arguments import InvalidArgumentsError
from agentscope_rx.tools.from_schema import ExternalTool
from agentscope_rx.tools.function_tool import tool
from agentscope_rx.tools.schemas.check import SchemaCheck
from tests.support.assertions import in_cpu_time

T = TypeVar("T")
Json = dict[str, Any]

LIMIT = 0.25
"""Seconds of CPU time of one thread: five times the law, for a loaded machine."""


def quick(call: Callable[[], T]) -> T:
    """The result of a call that must not take long, the first time: what it computes may be kept."""
    return in_cpu_time(call, LIMIT, tries=1)


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    # imports, and the validator of the dialect, which is made once
    SchemaCheck({"pattern": "a"}).problems("a")


def refused(schema: Json, text: str) -> None:
    def register() -> None:
        with pytest.raises(ConfigurationError, match=text):
            SchemaCheck(schema)

    quick(register)


def nested(levels: int, keyword: str = "not") -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = {keyword: [schema] if keyword.endswith("Of") else schema}
    return schema


def doubling(levels: int, keyword: str = "allOf") -> Json:
    """`levels` definitions, each of which refers twice to the next."""
    definitions: Json = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"minProperties": 1}}}


def ring(size: int) -> Json:
    return {"$ref": "#/$defs/d0", "$defs": {f"d{n}": {"$ref": f"#/$defs/d{(n + 1) % size}"} for n in range(size)}}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (doubling(30), "too complex"),
        (doubling(30, "anyOf"), "too complex"),
        (doubling(30, "oneOf"), "too complex"),
        (
            {
                "$ref": "#/$defs/d0",
                "$defs": {
                    f"d{n}": {"if": {"$ref": f"#/$defs/d{n + 1}"}, "else": {"$ref": f"#/$defs/d{n + 1}"}}
                    for n in range(30)
                }
                | {"d30": True},
            },
            "too complex",
        ),
        (
            {
                "$ref": "#/$defs/d0",
                "$defs": {
                    f"d{n}": {"dependentSchemas": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "ab"}}
                    for n in range(30)
                }
                | {"d30": True},
            },
            "too complex",
        ),
        ({"$ref": "#"}, "without end"),
        (ring(1), "without end"),
        (ring(900), "without end"),
        (ring(1001), "more than 1,000 references"),
        ({"allOf": [{"$ref": "#"}]}, "without end"),
        (nested(65), "nested more than 64"),
        (nested(5000), "nested more than 64"),
        ({"enum": ["x" * 300_000]}, "more than 262,144 characters"),
        ({"enum": [*range(9000)]}, "more than 8,000 values"),
        ({"properties": {f"p{n}": {} for n in range(9000)}}, "more than 8,000 values"),
        ({"minimum": 10**4000}, "more than 4096 bits"),
        ({"pattern": r"^(?=.*\d).+$"}, "at pattern, .*look-around"),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "at properties.a.pattern, .*backreference"),
        ({"patternProperties": {"(?<!a)b": True}}, "at patternProperties, .*look-around"),
        ({"pattern": "(a{1000}){1000}"}, "expands to more than 20,000"),
        ({"pattern": "((((a{99}){99}){99}){99}){99}"}, "expands to more than 20,000"),
        ({"pattern": "a" * 21_000}, "expands to more than 20,000"),
        ({"pattern": "(" * 5_000}, "cannot be used"),
        ({"pattern": "[" * 9_000}, "cannot be used"),
        ({"pattern": r"\p{L}{200}"}, "expands to more than 20,000"),
        ({"allOf": [{"pattern": f"^a{n}$"} for n in range(500)]}, "patterns expand to more than"),
        ({"type": "string", "$id": "http://127.0.0.1:9/a", "$ref": "http://127.0.0.1:9/b"}, "not in it"),
        ({"properties": {"a": {"$id": "http://127.0.0.1:9/", "$ref": "#/$defs/a"}}, "$defs": {"a": {}}}, "of its own"),
        ({"$ref": "#/" + "a/" * 100_000}, "not in it"),
        ({"type": "object", "properties": {"a": {"type": {}}}}, "at properties.a.type"),
    ],
)  # fmt: skip
def test_a_schema_that_would_freeze_the_loop_is_refused_at_once(schema: Json, text: str):
    refused(schema, text)


UUIDS = [f"{n:08x}-0000-4000-8000-000000000000" for n in range(1000)]
TABLE = [{"id": n, "name": f"row {n}"} for n in range(4000)]
UNIQUE: Json = {"uniqueItems": True}
BIG = "x" * 1_000_000
COLLIDING = [n * (2**61 - 1) for n in range(9000)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"pattern": "^(a+)+$"}, "a" * 100_000 + "!"),
        ({"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}, "a" * 100_000),
        ({"pattern": "(x+x+)+y"}, BIG),
        ({"pattern": "[ab]*a[ab]{2000}c"}, "ab" * 50_000),
        ({"pattern": "(a{100}){90}"}, "a" * 10_000),
        ({"pattern": "((a?){30}){30}a{900}"}, "a" * 2_000),
        ({"items": {"pattern": "(x+x+)+y"}}, ["x" * 100 for _ in range(9000)]),
        ({"patternProperties": {"^(a+)+$": {"type": "null"}}}, {"a" * 40 + "!": 1}),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 40 + "!": 1}),
        ({"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}, {"a" * 40 + "!": 1}),
        ({"unevaluatedProperties": False, "patternProperties": {"^(a+)+$": {}}}, {"a" * 40 + "!": 1}),
        ({"patternProperties": {f"^(a{n}+)+$": {} for n in range(40)}}, {f"{'a' * 40}{n}": 1 for n in range(5000)}),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {"a" * 40 + f"!{n}": 1 for n in range(5000)}),
        (UNIQUE, TABLE),
        (UNIQUE, [[n] for n in range(5000)]),
        (UNIQUE, [n * 1.5 for n in range(9000)] + [None]),
        (UNIQUE, COLLIDING),
        (UNIQUE, [[n, {"a": n}] for n in COLLIDING[:2500]]),
        (UNIQUE, [None, *range(9000)]),
        (UNIQUE, [BIG + str(n) for n in range(20)]),
        ({"enum": [[n] for n in range(3900)]}, [1, 2]),
        ({"items": {"enum": [f"value {n}" for n in range(7900)]}}, [f"value {n}" for n in range(9000)]),
        ({"items": {"enum": [f"value {n}" for n in range(7900)]}}, ["x"] * 9000),
        ({"items": {"const": [*range(7000)]}}, [[*range(7000)], 1, 2]),
        ({"anyOf": [{"const": [*range(2000), n]} for n in range(3)]}, [*range(2000), 5]),
        ({"anyOf": [{"minLength": 2_000_000 + n} for n in range(3900)]}, BIG),
        ({"anyOf": [{"maxItems": n} for n in range(3900)]}, [BIG] * 9000),
        ({"oneOf": [{"type": "object"} for _ in range(3900)]}, {"a": BIG}),
        ({"oneOf": [{"type": "object"}, {"type": "object", "properties": {"a": {"oneOf": [{}, {}]}}}]}, {"a": {}}),
        ({"items": {"oneOf": [{"type": "string"} for _ in range(3000)]}}, [1] * 9000),
        ({"allOf": [{"items": {"type": "string"}} for _ in range(2500)]}, [1] * 9000),
        ({"allOf": [{"required": [f"p{n}" for n in range(7000)]}]}, {}),
        ({"required": [f"p{n}" for n in range(7900)]}, {}),
        ({"items": {"required": [f"p{n}" for n in range(7000)]}}, [{}] * 9000),
        ({"contains": {"not": {}}, "minContains": 5}, [1] * 9000),
        ({"allOf": [{"contains": True, "minContains": 5} for _ in range(2000)]}, [1] * 9000),
        ({"additionalProperties": False, "properties": {}}, {f"p{n}": n for n in range(9000)}),
        (
            {"additionalProperties": False, "properties": {f"{'ab' * 14}{n}": {} for n in range(6000)}},
            {f"{'ba' * 14}{n}": n for n in range(9000)},
        ),
        (
            {"items": {"additionalProperties": False, "properties": {f"{'ab' * 14}{n}": {} for n in range(6000)}}},
            [{f"{'ba' * 14}{n}": n} for n in range(4000)],
        ),
        ({"allOf": [{"additionalProperties": {}} for _ in range(3900)]}, {f"p{n}": n for n in range(9000)}),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {f"p{n}": {}}} for n in range(1500)]}, {"x": 1}),
        ({"unevaluatedItems": False, "contains": {"type": "null"}}, [1] * 9000),
        ({"multipleOf": 1e-300}, 10**400),
        ({"multipleOf": 0.1}, 10**1200),
        ({"minimum": 1}, 10**4000),
        ({"items": {"multipleOf": 1e-300}}, [10**1200] * 9000),
        ({"dependentRequired": {"a": [f"p{n}" for n in range(7000)]}}, {"a": 1}),
        ({"type": "array"}, [1] * 500_000),
        ({"type": "object"}, {f"p{n}": n for n in range(200_000)}),
        (
            {"properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
            json.loads('{"a":' * 90 + "{}" + "}" * 90),
        ),
        ({"items": {"$ref": "#"}, "type": "array"}, [[[[1] * 9] * 9] * 9] * 9),
        ({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}, json.loads("[" * 40 + "1" + "]" * 40)),
        (nested(30, "anyOf"), BIG),
        (nested(30, "oneOf"), {"a": [1] * 9000}),
    ],
)  # fmt: skip
def test_no_value_freezes_the_check(schema: Json, value: object):
    check = quick(lambda: SchemaCheck(schema))
    problems = quick(lambda: check.problems(value))
    assert len(problems) <= 50
    assert all(len(each.text) < 12_000 for each in problems)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"anyOf": [{"type": "string"}, {"minimum": 5}, {"type": "null"}]}}, [7] * 9000),
        ({"items": {"pattern": "(a{100}){90}"}}, ["a" * 10_000] * 20),
        ({}, [1] * 20_000),
        ({}, json.loads("[" * 200 + "]" * 200)),
    ],
)
def test_arguments_that_take_too_many_steps_are_invalid(schema: Json, value: object):
    tool = ExternalTool("search", "", {"type": "object", "properties": {"a": schema}})
    with pytest.raises(InvalidArgumentsError, match=r"too complex to be checked .*: send fewer or simpler values"):
        quick(lambda: tool.validate({"a": value}))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"type": "object", "properties": {"a": {"type": "integer"}}}}, [{"a": n} for n in range(1500)]),
        ({"uniqueItems": True}, [{"a": n} for n in range(3000)]),
        ({"type": "string", "minLength": 3}, "x" * 5_000_000),
        ({"items": {"enum": [f"zone {n}" for n in range(600)]}}, [f"zone {n % 600}" for n in range(5000)]),
        ({"items": {"pattern": r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}}, UUIDS),
        ({"pattern": r"^[\s\S]{1,2048}$"}, "some text " * 200),
        (doubling(10), {"a": 1}),
    ],
)  # fmt: skip
def test_what_is_only_large_is_checked_as_ever(schema: Json, value: object):
    check = quick(lambda: SchemaCheck(schema))
    assert quick(lambda: check.problems(value)) == []


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        (r"^\d{3}-\d{4}$", "123-4567", "١٢٣-4567"),
        (r"^\w+$", "a_1", "é"),
        (r"^[\w.+-]+@[\w-]+\.[\w.-]+$", "a@b.c", "a"),
        (r"^\/api\/v\d$", "/api/v1", "api"),
        (r"\uD83D\uDE00", "😀", "a"),
        (r"^{.*}$", "{a}", "a"),
        (r"x{a}", "x{a}", "xa"),
        (r"^[a[]$", "[", "]"),
        (r"^[a&&b]$", "&", "c"),
        (r"^[+--]$", ",", "."),
        (r"^[^\d\]]$", "a", "]"),
        (r"^(?<name>a|b)?$", "a", "c"),
        (r"(?i)^abc$", "ABC", "b"),
        (r"^\cA\x41\u0042\0$", "\x01AB\x00", "A"),
        (r"^\p{Lu}\S*$", "Éa", "éa"),
        (r"^[a-c]{2,3}$", "abc", "abca"),
        (r"^.{2,}$", "ab", "a\n"),
        (r"^[\s\S]{2}$", "😀\n", "a"),
        ("^a$", "a", "a\n"),
        ("^.$", "\ud800", "ab"),
        ("b+?", "abb", "a"),
    ],
)
def test_patterns_mean_what_json_schema_says(pattern: str, fits: str, does_not: str):
    check = SchemaCheck({"pattern": pattern})
    assert check.problems(fits) == []
    assert len(check.problems(does_not)) == 1


@pytest.mark.parametrize("schema", [{"multipleOf": 0.5}, {"multipleOf": 10}, {"minimum": 1e300}])
def test_numbers_beyond_a_float_are_numbers_as_any(schema: Json):
    assert SchemaCheck(schema).problems(10**400) == []


def test_a_part_with_its_own_dialect_counts_steps_too():
    for uri in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"):
        schema: Json = {"$schema": uri, "properties": {"a": {"$schema": uri, "pattern": "^(a+)+$"}}}
        check = SchemaCheck(schema)
        assert len(quick(lambda check=check: check.problems({"a": "a" * 50 + "!"}))) == 1


@pytest.mark.parametrize("known", [10, 5000])
def test_names_that_are_not_arguments_are_told_in_short(known: int):
    names = [f"{'ab' * 15}{n}" for n in range(known)]
    check = SchemaCheck({"additionalProperties": False, "properties": dict.fromkeys(names, True)})
    problems = quick(lambda: check.problems({f"{'ba' * 14}{n}": n for n in range(9000)}))
    assert len(problems) == 50
    assert sum(len(each.text) for each in problems) < 300_000


@pytest.mark.parametrize(
    "arguments",
    [
        {f"p{n}": n for n in range(9000)},
        {"city": [{"a" * 300: "b" * 300}] * 3000, "n" * 9000: 1},
        {"days": ["x"] * 9000},
        {"days": [{"deep": [1] * 100}] * 90},
    ],
)
def test_no_arguments_freeze_the_check_of_a_function(arguments: Json):
    @tool
    def forecast(city: str, days: list[int]) -> str:
        return ""

    def call() -> str:
        with pytest.raises(InvalidArgumentsError) as caught:
            forecast.validate(arguments)
        return str(caught.value)

    call()
    assert len(quick(call)) < 20_000
