"""Copies of foreign JSON with a short `repr`, and within limits of size and depth.

`jsonschema` quotes the value and the schema in each error, also in errors that it drops again: a value of a megabyte
would be written out for each branch of a union.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii
from typing import TypeVar, cast

MAX_SHOWN = 300
"""Characters of a value that a message quotes."""

MAX_BITS = 4096
"""The size of the largest whole number: arithmetic with larger ones takes more than linear time."""

T = TypeVar("T")


class TooComplexError(Exception):
    """It would take too long to check; the text names the limit."""


class GuardedDict(dict[str, object]):
    """A dict with a short `repr`."""

    __slots__ = ("_text",)

    def __repr__(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = _cut("{", ", ", (f"{key!r}: {value!r}" for key, value in self.items()), "}")
            return self._text


class GuardedList(list[object]):
    """A list with a short `repr`."""

    __slots__ = ("_text",)

    def __repr__(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = _cut("[", ", ", map(repr, self), "]")
            return self._text


class GuardedText(str):
    """A long string with a short `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{str.__repr__(self[:MAX_SHOWN])[:-1]}..."


def _cut(start: str, between: str, parts: Iterable[str], end: str) -> str:
    text = start
    for each in parts:
        if len(text) > MAX_SHOWN:
            return f"{text}..."
        text += each if text is start else f"{between}{each}"
    return text + end


class Guard:
    """Makes guarded copies of JSON, of at most `values` values together, at most `depth` deep.

    `characters` bounds the text in it. A value that is no JSON is kept, or a `TypeError` if `strict`.
    """

    __slots__ = ("_characters", "_depth", "_left", "_room", "_strict", "_texts", "_values")

    def __init__(self, values: int, depth: int, *, characters: int | None = None, strict: bool = False) -> None:
        self._strict = strict
        self._characters = characters
        self._room = characters or 0
        self._texts: dict[int, GuardedText] = {}
        self._values = values
        self._left = values
        self._depth = depth

    def copy(self, value: object, depth: int = 0) -> object:
        """The copy; `TooComplexError` if it is too large."""
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if kind is str:
            return self._text(cast("str", value))
        if kind is int or kind is float:
            return self._number(cast("int | float", value))
        if depth > self._depth:
            raise TooComplexError(f"it is nested more than {self._depth} levels deep")
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, object]", value)
            self._take(len(fields))
            depth += 1
            return GuardedDict({self._key(key): self.copy(each, depth) for key, each in fields.items()})
        if isinstance(value, (list, tuple)):
            items = cast("list[object]", value)
            self._take(len(items))
            depth += 1
            return GuardedList([self.copy(each, depth) for each in items])
        if isinstance(value, (str, int, float)):
            # an enum that is a str, a float of numpy's
            return self.copy(json.loads(json.dumps(value)), depth)
        return self._other(value, f"Object of type {kind.__name__} is not JSON")

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise TooComplexError(f"it holds more than {self._values:,} values")

    def _other(self, value: T, what: str) -> T:
        if self._strict:
            raise TypeError(what)
        return value

    def _key(self, key: str) -> str:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return self._other(key, f"a key is {key!r:.60}, not text")
        return self._text(key)

    def _text(self, text: str) -> str:
        if self._characters is not None:
            self._room -= len(text)
            if self._room < 0:
                raise TooComplexError(f"it has more than {self._characters:,} characters")
        if len(text) <= MAX_SHOWN:
            return text
        made = self._texts.get(id(text))
        if made is None:
            made = self._texts[id(text)] = GuardedText(text)
        return made

    def _number(self, value: int | float) -> int | float:
        if isinstance(value, float):
            return value if math.isfinite(value) else self._other(value, f"{value!r} is no JSON number")
        if value.bit_length() > MAX_BITS:
            raise TooComplexError(f"a number in it has more than {MAX_BITS} bits")
        return value


def canonical(value: object) -> str:
    """A text that two values share if, and only if, JSON schema calls them equal: `1 == 1.0`, `true != 1`.

    A text, since the hash of a text is keyed: an attacker can make thousands of numbers, or tuples of them, with the
    same hash, and a set of these takes quadratic time.
    """
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        parts = [
            f"{encode_basestring_ascii(name)}:{canonical(each)}" for name, each in sorted(fields.items(), key=_name)
        ]
        return f"{{{','.join(parts)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(canonical, cast('list[object]', value)))}]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return hex(value)
    return repr(value)


def _name(field: tuple[str, object]) -> str:
    return field[0]
