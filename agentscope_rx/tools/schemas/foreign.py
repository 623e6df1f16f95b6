"""Reads a schema of foreign origin within limits: `read_schema({...})`, in time linear in its size.

| limit (of one schema)       | default | why                                                                         |
|-----------------------------|---------|-----------------------------------------------------------------------------|
| `MAX_SCHEMA_SIZE`           | 256 Ki  | characters of its names and texts                                           |
| `MAX_SCHEMA_VALUES`         | 8,000   | values in it, of any kind                                                   |
| `MAX_SCHEMA_DEPTH`          | 64      | levels of nesting                                                           |
| `MAX_REFERENCES`            | 1,000   | `$ref`s                                                                     |
| `MAX_EXPANSION`             | 5,000   | parts that one value is checked by, references expanded: 30 references      |
|                             |         | that double each time are 2 kB, and a billion parts                         |
| `pattern.MAX_PATTERN_UNITS` | 20,000  | what its patterns expand to                                                 |

It also checks that each keyword has a value of the kind that its dialect demands, that references are to the schema
itself and end, and that the linear engine takes the patterns. `$id`, `$schema` and anchors within the schema have no
effect; a part with an `$id` of its own must have no references.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.schemas.guarded import MAX_SHOWN, Guard, TooComplexError
from agentscope_rx.tools.schemas.keywords import IN_PLACE, Dialect, dialect_of, misfit, parts_of
from agentscope_rx.tools.schemas.pattern import MAX_PATTERN_UNITS, Pattern, PatternError, compiled

Schema = Mapping[str, object] | bool
Place = tuple[int | str, ...]

MAX_SCHEMA_SIZE = 256 * 1024
MAX_SCHEMA_VALUES = 8_000
MAX_SCHEMA_DEPTH = 64
MAX_REFERENCES = 1_000
MAX_EXPANSION = 5_000

MAX_KEPT = 256
"""Schemas in the cache; those with more than `MAX_KEPT_SIZE` characters are not cached."""
MAX_KEPT_SIZE = 32 * 1024

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_WITHOUT_EFFECT = ("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")


class ReadSchema:
    """A schema within the limits: a guarded copy, the targets of its references, its patterns."""

    __slots__ = ("dialect", "patterns", "root", "targets")

    def __init__(self, root: dict[str, object], dialect: Dialect) -> None:
        self.root: dict[str, object] = root
        self.dialect: Dialect = dialect
        self.targets: dict[str, Schema] = {}
        self.patterns: dict[str, Pattern] = {}


_ready: OrderedDict[str, ReadSchema] = OrderedDict()
_lock = threading.Lock()


def read_schema(schema: Mapping[str, object]) -> ReadSchema:
    """The checked schema; a `ConfigurationError` names what is wrong with it, and where."""
    guard = Guard(MAX_SCHEMA_VALUES, MAX_SCHEMA_DEPTH, characters=MAX_SCHEMA_SIZE, strict=True)
    try:
        root = cast("dict[str, object]", guard.copy(schema))
    except TooComplexError as error:
        raise ConfigurationError(f"The schema is too large to be checked: {error}.") from None
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"This is no JSON schema: {error}.") from None
    # cached: each agent of a service has the same schemas
    text = json.dumps(root)
    with _lock:
        if (known := _ready.get(text)) is not None:
            _ready.move_to_end(text)
            return known
    read = _read(root)
    if len(text) <= MAX_KEPT_SIZE:
        with _lock:
            _ready[text] = read
            while len(_ready) > MAX_KEPT:
                _ready.popitem(last=False)
    return read


def _read(root: dict[str, object]) -> ReadSchema:
    dialect = dialect_of(root)
    if not dialect.evaluated & set(root):
        raise ConfigurationError(f"{root!r:.80} is no JSON schema: it has none of its keywords (type, ...).")
    return _Reading(ReadSchema(root, dialect)).done()


def resolve(root: Schema, reference: str) -> Schema | None:
    """The target of `#/a/b` within the root; None if there is none, or it is elsewhere."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    part = cast("object", root)
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, dict):
            part = cast("dict[str, object]", part).get(name)
        elif isinstance(part, (list, tuple)) and name.isascii() and name.isdigit() and len(name) < 10:
            items = cast("Sequence[object]", part)
            part = items[int(name)] if int(name) < len(items) else None
        else:
            return None
    return cast("Schema", part) if isinstance(part, (bool, Mapping)) else None


class _Reading:
    """One pass over all parts of a schema, each once."""

    def __init__(self, read: ReadSchema) -> None:
        self._read = read
        self._references = 0
        self._units = 0
        self._seen: dict[int, dict[str, object]] = {}
        self._waiting: list[tuple[object, Place, bool]] = [(read.root, (), False)]
        """Parts to be checked, their places, and True within a part that has an `$id` of its own."""

    def done(self) -> ReadSchema:
        while self._waiting:
            part, place, named = self._waiting.pop()
            if isinstance(part, dict):
                fields = cast("dict[str, object]", part)
                if id(fields) not in self._seen:
                    self._seen[id(fields)] = fields
                    self._part(fields, place, named)
            elif not isinstance(part, bool):
                _refuse(place, f"{part!r} is not of type 'object', 'boolean'")
        _Expansion(self._read).count(self._seen.values())
        return self._read

    def _part(self, part: dict[str, object], place: Place, named: bool) -> None:
        known = self._read.dialect.known
        named = named or (bool(place) and isinstance(part.get("$id"), str) and not str(part["$id"]).startswith("#"))
        for keyword, value in part.items():
            if keyword not in known:
                continue
            if (wrong := misfit(self._read.dialect, keyword, value)) is not None:
                _refuse((*place, keyword, *wrong.place), wrong.text)
            if keyword in REFERENCES and keyword in self._read.dialect.evaluated:
                self._reference(cast("str", value), place, named)
            elif keyword == "pattern":
                self._pattern(cast("str", value), (*place, keyword))
            elif keyword == "patternProperties":
                for pattern in cast("Mapping[str, object]", value):
                    self._pattern(pattern, (*place, keyword))
            for step, each in parts_of(self._read.dialect, keyword, value):
                self._waiting.append((each, (*place, keyword, *step), named))
        for keyword in _WITHOUT_EFFECT:
            part.pop(keyword, None)

    def _reference(self, reference: str, place: Place, named: bool) -> None:
        self._references += 1
        if self._references > MAX_REFERENCES:
            raise ConfigurationError(
                f"The schema is too large to be checked: it has more than {MAX_REFERENCES:,} references."
            )
        if named:
            _refuse(place, f"{reference!r} is a reference within a part that has an $id of its own")
        target = resolve(self._read.root, reference)
        if target is None:
            raise ConfigurationError(
                f"The schema refers to {reference!r:.{MAX_SHOWN}}, which is not in it (as '#/...')."
            )
        self._read.targets[reference] = target
        self._waiting.append((target, tuple(reference.split("/")[1:]), False))

    def _pattern(self, source: str, place: Place) -> None:
        if source in self._read.patterns:
            return
        try:
            pattern = self._read.patterns[source] = compiled(source)
        except PatternError as error:
            _refuse(place, f"the regular expression {source!r:.100} cannot be used: {error}")
        self._units += pattern.price
        if self._units > MAX_PATTERN_UNITS:
            raise ConfigurationError(
                f"The schema is too large to be checked: its patterns expand to more than {MAX_PATTERN_UNITS:,} "
                "characters."
            )


class _Expansion:
    """Counts the parts that one value is checked by, with each reference expanded as often as it is used."""

    def __init__(self, read: ReadSchema) -> None:
        self._read = read
        self._known: dict[int, int | None] = {}

    def count(self, parts: Iterable[dict[str, object]]) -> None:
        """Count all parts; `ConfigurationError` for a circle, or for too many."""
        for part in parts:
            self._size(part)

    def _size(self, start: dict[str, object]) -> None:
        # without recursion: a chain of references may be a thousand parts long
        stack: list[tuple[dict[str, object], list[dict[str, object]]]] = []
        self._enter(start, stack)
        while stack:
            part, children = stack[-1]
            if children:
                self._enter(children.pop(), stack)
                continue
            stack.pop()
            total = 1 + sum(self._known[id(each)] or 0 for each in self._in_place(part))
            if total > MAX_EXPANSION:
                raise ConfigurationError(
                    f"The schema is too complex to be checked: with its references expanded, a value is checked "
                    f"by more than {MAX_EXPANSION:,} parts of it."
                )
            self._known[id(part)] = total

    def _enter(self, part: dict[str, object], stack: list[tuple[dict[str, object], list[dict[str, object]]]]) -> None:
        if id(part) not in self._known:
            self._known[id(part)] = None
            stack.append((part, list(self._in_place(part))))
        elif self._known[id(part)] is None:
            raise ConfigurationError("The schema refers to itself without end.")

    def _in_place(self, part: dict[str, object]) -> Iterator[dict[str, object]]:
        dialect = self._read.dialect
        for keyword, value in part.items():
            if keyword in REFERENCES and keyword in dialect.evaluated:
                found: list[object] = [self._read.targets[cast("str", value)]]
            elif keyword in IN_PLACE and keyword in dialect.known:
                found = [each for _, each in parts_of(dialect, keyword, value)]
            else:
                continue
            yield from (cast("dict[str, object]", each) for each in found if isinstance(each, dict))


def path_text(place: Place) -> str:
    """A place as a person writes it: `days[0].city`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def _refuse(place: Place, what: str) -> NoReturn:
    where = path_text(place)[:MAX_SHOWN] or "its root"
    raise ConfigurationError(f"This is no JSON schema that can be checked: at {where}, {what[:MAX_SHOWN]}.")
