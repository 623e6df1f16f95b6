"""Frozen dictionaries and lists, and text that can be encoded: the content of frozen values.

    freeze({"a": [1, {"b": 2}]})    read-only at every level; equal to the original, with the same JSON
    thaw(frozen)                    a plain copy to work on

Tuples become lists, so that a frozen value equals its JSON round trip.

Values are nested at most `MAX_DEPTH` levels deep, because encoders, copies and comparisons recurse: a deeper value
would fail later, in unrelated code. The same limit refuses a value that contains itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from types import NoneType
from typing import TYPE_CHECKING, NoReturn, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.errors.text import encodable

__all__ = [
    "EMPTY",
    "MAX_DEPTH",
    "FrozenDict",
    "FrozenList",
    "check_encodable",
    "deeper",
    "encodable",
    "freeze",
    "shown",
    "thaw",
]

MAX_DEPTH = 100
"""The most levels of dicts and lists in a value: the arguments of a call, or a value in metadata."""

_SCALARS = frozenset((int, float, bool, NoneType))


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("This belongs to a frozen value. Work on a copy (dict(...), list(...)) and replace the value.")


class FrozenDict(dict[str, object]):
    """A dict that refuses to change; copy it with `dict(...)` to work on it."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker sees a dict
        __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, object]]]:
        # dict's own protocol would restore items through __setitem__
        return (FrozenDict, (dict(self),))

    def __deepcopy__(self, memo: dict[int, object]) -> FrozenDict:
        # through __reduce__ a copy would take five stack frames for each level
        return FrozenDict({key: deepcopy(value, memo) for key, value in self.items()})

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        # of the keys only: values may be unhashable, and equal dicts have equal keys
        return hash(frozenset(self))


class FrozenList(list[object]):
    """A list that refuses to change; copy it with `list(...)` to work on it."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker sees a list
        __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = _refuse
        insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[object]]]:
        return (FrozenList, (list(self),))

    def __deepcopy__(self, memo: dict[int, object]) -> FrozenList:
        return FrozenList([deepcopy(item, memo) for item in self])

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(("FrozenList", len(self)))


EMPTY: FrozenDict = FrozenDict()


def freeze(mapping: Mapping[str, object] | None, field: str = "A frozen value") -> FrozenDict:
    """A copy of the mapping that is read-only at every level; None is empty. `field` is its name in errors.

    `InvalidInputError` if it is not a mapping, or if a value in it has more than `MAX_DEPTH` levels.
    """
    if type(mapping) is FrozenDict:
        return mapping
    if mapping is None:
        return EMPTY
    if not isinstance(mapping, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(
            f"{field} must be a mapping (such as a dict), not {type(mapping).__name__}: {shown(mapping)}"
        )
    if not mapping:
        return EMPTY
    try:
        return _frozen_dict(cast("Mapping[object, object]", mapping), MAX_DEPTH)
    except _TooDeepError:
        raise InvalidInputError(
            f"{field} has a value that is nested more than {MAX_DEPTH} levels deep, or that contains itself. "
            "Give it fewer levels, or put the inner part into it as JSON text."
        ) from None


def thaw(mapping: Mapping[str, object]) -> dict[str, object]:
    """A plain copy at every level, for code that may change it."""
    thawed: dict[str, object] = {}
    # a loop, not a comprehension: one stack frame for each level
    for key, value in mapping.items():
        kind = type(value)
        if kind is FrozenDict:
            value = thaw(cast("FrozenDict", value))
        elif kind is FrozenList:
            value = _thawed(cast("FrozenList", value))
        thawed[key] = value
    return thawed


def deeper(value: object, levels: int) -> bool:
    """True if dicts and lists are nested deeper than `levels`; stops there, and does not recurse."""
    waiting = [(value, levels)]
    while waiting:
        found, left = waiting.pop()
        if isinstance(found, Mapping):
            inner: Iterable[object] = cast("Mapping[object, object]", found).values()
        elif isinstance(found, (list, tuple)):
            inner = cast("list[object]", found)
        else:
            continue
        if left == 0:
            return True
        # depth first: a value that contains itself is found after `levels` steps
        waiting.extend([(each, left - 1) for each in inner if type(each) is not str and type(each) not in _SCALARS])
    return False


def check_encodable(text: str, field: str) -> None:
    """`InvalidInputError` if an id, a name or an address has a lone surrogate, which cannot be replaced there."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{field} must be text that can be encoded: {text!r:.60} has the half character {text[error.start]!r} at "
            f"position {error.start}. Give it without, or decode what it was made from with errors='replace'."
        ) from None


def shown(value: object, most: int = 80) -> str:
    """A value for the text of an error: its shortened repr, or its type if it has no repr."""
    try:
        text = repr(value)
    except Exception:
        # nested too deep, or __repr__ fails
        text = f"<{type(value).__name__}>"
    return text[:most]


class _TooDeepError(Exception):
    """More levels than allowed."""


def _frozen_dict(mapping: Mapping[object, object], levels: int) -> FrozenDict:
    """The frozen mapping; each value in it may have `levels` levels."""
    frozen: dict[str, object] = {}
    for key, value in mapping.items():
        kind = type(value)
        if kind is str:
            if not cast("str", value).isascii():
                value = encodable(cast("str", value))
        elif kind not in _SCALARS:
            value = _frozen(value, levels)
        # keys that are not text stay, although JSON has none
        frozen[encodable(key) if isinstance(key, str) else cast("str", key)] = value
    return FrozenDict(frozen)


def _frozen(value: object, levels: int) -> object:
    if isinstance(value, str):
        # a str enum keeps its type
        return encodable(value)
    if isinstance(value, (FrozenDict, FrozenList)):
        # frozen before, but perhaps at a higher level
        if deeper(value, levels):
            raise _TooDeepError
        return value
    if isinstance(value, (list, tuple)):
        if levels == 0:
            raise _TooDeepError
        items: list[object] = []
        for item in cast("list[object]", value):
            items.append(item if type(item) in _SCALARS else _frozen(item, levels - 1))
        return FrozenList(items)
    if isinstance(value, Mapping):
        if levels == 0:
            raise _TooDeepError
        return _frozen_dict(cast("Mapping[object, object]", value), levels - 1) if value else EMPTY
    return value


def _thawed(items: FrozenList) -> list[object]:
    thawed: list[object] = []
    for item in items:
        kind = type(item)
        if kind is FrozenDict:
            item = thaw(cast("FrozenDict", item))
        elif kind is FrozenList:
            item = _thawed(cast("FrozenList", item))
        thawed.append(item)
    return thawed
