"""jsonschema's validators with a budget of steps: each evaluated keyword and each error takes some.

    errors = found(read, value)                the errors, as jsonschema gives them; `TooComplexError`

A step takes about two microseconds for any schema and value: `MAX_STEPS` of them stay below 50 ms of CPU on a slow
machine. They are counted, not timed, so that the same arguments always have the same answer.

Keywords that take jsonschema more than linear time are implemented here: patterns by the linear engine, `uniqueItems`,
`enum` and `const` by hashing, `required` and `additionalProperties` without long texts, references by table. The
"unevaluated" keywords follow jsonschema line by line, with their steps counted.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from agentscope_rx.tools.schemas.foreign import REFERENCES, ReadSchema
from agentscope_rx.tools.schemas.guarded import Guard, TooComplexError, canonical
from agentscope_rx.tools.schemas.keywords import Dialect

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

MAX_STEPS = 15_000
"""Steps of one validation."""
MAX_VALUES = 10_000
"""Values in the validated value, on all levels together."""
MAX_DEPTH = 100
"""Levels of nesting in the validated value."""
MAX_ERRORS = 50
"""Errors of one validation; it stops after them."""

_PER_ITEM = frozenset(("items", "additionalItems", "contains", "propertyNames", "unevaluatedItems"))
_PER_PART = frozenset(("allOf", "anyOf", "oneOf", "dependentRequired", "dependencies", "prefixItems"))
_HASHED = frozenset(("enum", "const"))
_NAMES_A_STEP = 16
NEW_ERROR = 8
"""Steps that a new error takes."""

Errors = Iterator["ValidationError"]
Keyword = Callable[[Any, Any, Any, Any], "Errors | None"]


class _Run:
    """One validation: its remaining steps, and its caches for the schema."""

    __slots__ = ("_evolved", "_values", "left", "read")

    def __init__(self, read: ReadSchema) -> None:
        self.read = read
        self.left = MAX_STEPS
        self._evolved: dict[int, Validator] = {}
        self._values: dict[int, frozenset[str]] = {}

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooComplexError(f"checking it takes more than {MAX_STEPS:,} steps")

    def evolved(self, validator: Validator, schema: object) -> Validator:
        """The validator of this part, made once."""
        made = self._evolved.get(id(schema))
        if made is None:
            # (the schema holds its parts for as long as this table is there)
            self.take(2)
            made = self._evolved[id(schema)] = type(validator)(cast("Any", schema), _resolver=_NOWHERE)  # pyright: ignore[reportCallIssue]
        return made

    def values(self, enum: list[object]) -> frozenset[str]:
        """The values of an `enum` in their canonical form, made once."""
        made = self._values.get(id(enum))
        if made is None:
            self.take(len(enum) // 4)
            made = self._values[id(enum)] = frozenset(map(self.canonical, enum))
        return made

    def canonical(self, value: object) -> str:
        text = canonical(value)
        self.take(len(text) // 100)
        return text


class _Local(threading.local):
    run: _Run


_local = _Local()
_NOWHERE: Any = object()
"""In the place of jsonschema's resolver of references, which would fetch unknown ones."""


def found(read: ReadSchema, value: object) -> list[ValidationError]:
    """jsonschema's errors for the value, up to `MAX_ERRORS`; `TooComplexError`."""
    copy = Guard(MAX_VALUES, MAX_DEPTH).copy(value)
    before = getattr(_local, "run", None)
    _local.run = _Run(read)
    try:
        validator = _class_of(read.dialect)(cast("Any", read.root), _resolver=_NOWHERE)  # pyright: ignore[reportCallIssue]
        return list(islice(validator.iter_errors(cast("Any", copy)), MAX_ERRORS))
    except RecursionError:
        raise TooComplexError("it is nested too deep for the schema") from None
    finally:
        if before is None:
            del _local.run
        else:
            _local.run = before


@cache
def _class_of(dialect: Dialect) -> type[Validator]:
    from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]

    base = dialect.validator
    functions = cast("Mapping[str, Keyword]", base.VALIDATORS)
    own = {**functions, **{name: each for name, each in _OWN.items() if name in functions}}
    made: Any = cast("Any", extend)(base, {name: _counted(name, each) for name, each in own.items()})
    # jsonschema makes a new validator for each part at each value, of another class if a part has $schema
    made.evolve = _evolve
    made.descend = _descend
    return made


def _evolve(self: Any, *, schema: object, **others: object) -> Validator:
    return _local.run.evolved(self, schema)


def _descend(
    self: Any,
    instance: object,
    schema: object,
    path: int | str | None = None,
    schema_path: int | str | None = None,
    resolver: object = None,
) -> Errors:
    for error in _local.run.evolved(self, schema).iter_errors(cast("Any", instance)):
        if path is not None:
            error.path.appendleft(path)
        if schema_path is not None:
            error.schema_path.appendleft(schema_path)
        yield error


def _counted(name: str, function: Keyword) -> Keyword:
    per_item, per_part, hashed = name in _PER_ITEM, name in _PER_PART, name in _HASHED

    def keyword(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
        run = _local.run
        steps = 1
        if not hashed and isinstance(value, (dict, list)):
            parts = len(cast("list[object]", value))
            steps += parts if per_part else parts // _NAMES_A_STEP
        if per_item and isinstance(instance, (dict, list)):
            steps += len(cast("list[object]", instance))
        run.take(steps)
        for error in function(validator, value, instance, schema) or ():
            # a new error has no path yet
            run.take(2 if error.schema_path else NEW_ERROR)
            yield error

    return keyword


def _error(message: str, **about: Any) -> ValidationError:
    from jsonschema import ValidationError

    return ValidationError(message, **about)


# --- keywords implemented here --------------------------------------------------------------------------------------


def _pattern(validator: Any, pattern: str, instance: object, schema: object) -> Errors:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield _error(f"{instance!r} does not match {pattern!r}")


def _matches(pattern: str, text: str) -> bool:
    run = _local.run
    engine = run.read.patterns[pattern]
    run.take(engine.cost(text))
    return engine.matches(text)


def _pattern_properties(validator: Any, patterns: dict[str, object], instance: object, schema: object) -> Errors:
    if isinstance(instance, dict):
        for pattern, part in patterns.items():
            for name, each in cast("dict[str, object]", instance).items():
                if _matches(pattern, name):
                    yield from validator.descend(each, part, path=name, schema_path=pattern)


def _additional_properties(validator: Any, part: object, instance: object, schema: dict[str, Any]) -> Errors:
    if not isinstance(instance, dict):
        return
    fields = cast("dict[str, object]", instance)
    _local.run.take(len(fields) // 4)
    named = cast("Mapping[str, object]", schema.get("properties", {}))
    patterns = cast("Mapping[str, object]", schema.get("patternProperties", {}))
    extras = [name for name in fields if name not in named and not any(_matches(each, name) for each in patterns)]
    if part is not False:
        for name in extras:
            yield from validator.descend(fields[name], part, path=name)
    elif extras:
        yield _unexpected("Additional properties are not allowed", extras)


def _unexpected(what: str, names: list[Any], how: str = "unexpected") -> ValidationError:
    quoted = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    return _error(f"{what} ({quoted} {'was' if len(names) == 1 else 'were'} {how})")


def _reference(validator: Any, reference: str, instance: object, schema: object) -> Errors:
    yield from validator.descend(instance, _local.run.read.targets[reference])


def _required(validator: Any, required: object, instance: object, schema: object) -> Errors:
    if isinstance(instance, dict) and isinstance(required, list):
        for name in cast("list[str]", required):
            if name not in instance:
                # each error has the one name that it is about
                yield _error(f"{name!r} is a required property", validator_value=[name])


def _unique_items(validator: Any, unique: bool, instance: object, schema: object) -> Errors:
    if unique and isinstance(instance, list):
        run, items = _local.run, cast("list[object]", instance)
        run.take(len(items))
        if len(set(map(run.canonical, items))) < len(items):
            yield _error(f"{instance!r} has non-unique elements")


def _enum(validator: Any, values: list[object], instance: object, schema: object) -> Errors:
    if _local.run.canonical(instance) not in _local.run.values(values):
        yield _error(f"{instance!r} is not one of {values!r}")


def _const(validator: Any, value: object, instance: object, schema: object) -> Errors:
    if not _same(value, instance):
        yield _error(f"{value!r} was expected")


def _same(one: object, other: object) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return _local.run.canonical(one) == _local.run.canonical(other)


def _multiple_of(validator: Any, factor: int | float, instance: object, schema: object) -> Errors:
    if isinstance(instance, bool) or not isinstance(instance, (int, float)):
        return
    if isinstance(instance, float) and not math.isfinite(instance):
        failed = True
    elif isinstance(factor, float):
        try:
            quotient = instance / factor
            failed = int(quotient) != quotient
        except OverflowError:
            failed = (Fraction(instance) / Fraction(factor)).denominator != 1
    else:
        failed = bool(instance % factor)
    if failed:
        yield _error(f"{instance!r} is not a multiple of {factor}")


# --- unevaluated parts ----------------------------------------------------------------------------------------------


def _unevaluated_properties(validator: Any, part: object, instance: object, schema: object) -> Errors:
    if not isinstance(instance, dict):
        return
    fields = cast("dict[str, object]", instance)
    known = _evaluated(validator, fields, schema, _keys)
    wrong = [
        name
        for name, each in fields.items()
        if name not in known and next(validator.descend(each, part, path=name), None) is not None
    ]
    if wrong and part is False:
        yield _unexpected("Unevaluated properties are not allowed", sorted(wrong))
    elif wrong:
        yield _unexpected(
            "Unevaluated properties are not valid under the given schema", wrong, "unevaluated and invalid"
        )


def _unevaluated_items(validator: Any, part: object, instance: object, schema: object) -> Errors:
    if isinstance(instance, list):
        items = cast("list[object]", instance)
        known = _evaluated(validator, items, schema, _indexes)
        extra = [each for index, each in enumerate(items) if index not in known]
        if extra:
            yield _unexpected("Unevaluated items are not allowed", extra)


Own = Callable[[Any, Any, Mapping[str, Any]], Generator[object]]
_ABSENT = object()


def _evaluated(validator: Any, instance: Any, schema: object, own: Own) -> set[object]:
    """The properties, or the indexes of items, that some keyword of the schema evaluates."""
    run = _local.run
    run.take(1 + len(instance))
    if not isinstance(schema, dict):
        return set()
    parts = cast("dict[str, Any]", schema)
    keys = set(own(validator, instance, parts))
    for keyword in REFERENCES:
        if keyword in parts and keyword in run.read.dialect.evaluated:
            keys |= _evaluated(validator, instance, run.read.targets[parts[keyword]], own)
    for name, each in parts.get("dependentSchemas", {}).items():
        if own is _keys and name in instance:
            keys |= _evaluated(validator, instance, each, own)
    for keyword in ("allOf", "oneOf", "anyOf"):
        for each in parts.get(keyword, ()):
            if _fits(validator, instance, each):
                keys |= _evaluated(validator, instance, each, own)
    if "if" in parts:
        fits = _fits(validator, instance, parts["if"])
        if fits:
            keys |= _evaluated(validator, instance, parts["if"], own)
        if (then := "then" if fits else "else") in parts:
            keys |= _evaluated(validator, instance, parts[then], own)
    return keys


def _fits(validator: Any, instance: object, schema: object) -> bool:
    _local.run.take(1)
    return next(validator.descend(instance, schema), None) is None


def _keys(validator: Any, instance: dict[str, object], parts: Mapping[str, Any]) -> Generator[object]:
    yield from parts.get("properties", {}).keys() & instance.keys()
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if (part := parts.get(keyword)) is not None:
            yield from (name for name, each in instance.items() if _fits(validator, each, part))
    for pattern in parts.get("patternProperties", ()):
        yield from (name for name in instance if _matches(pattern, name))


def _indexes(validator: Any, instance: list[object], parts: Mapping[str, Any]) -> Generator[object]:
    items = parts.get("items", _ABSENT)
    if isinstance(items, list) and "additionalItems" not in parts:
        yield from range(len(cast("list[object]", items)))
    elif items is not _ABSENT:
        yield from range(len(instance))
    yield from range(len(parts.get("prefixItems", ())))
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in parts:
            yield from (index for index, each in enumerate(instance) if _fits(validator, each, parts[keyword]))


_OWN: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "required": _required,
    "uniqueItems": _unique_items,
    "enum": _enum,
    "const": _const,
    "multipleOf": _multiple_of,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
    **dict.fromkeys(REFERENCES, _reference),
}
