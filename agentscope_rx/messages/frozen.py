"""What is inside frozen values: dictionaries and lists that refuse to change, text that can be encoded.

    freeze({"a": [1, {"b": 2}]})    read-only all the way down; equal to, and encoded as, what went in
    thaw(frozen)                    a plain copy to work on

Tuples become lists on the way in, because JSON has no other: what is kept is what a round trip gives back.

Values are nested at most `MAX_DEPTH` levels deep. Every encoder, copy and comparison recurses, and a value that only
some of them can follow to its end would fail a run at a place that has nothing to do with it. A value that contains
itself is refused by the same limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from types import NoneType
from typing import NoReturn, cast

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
"""How many levels of dicts and lists a value may have: the arguments of a call, each value in metadata."""

_SCALARS = frozenset((int, float, bool, NoneType))


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("This belongs to a frozen value. Work on a copy (dict(...), list(...)) and replace the value.")


class FrozenDict(dict[str, object]):
    """A dict that refuses to change; copy it with `dict(...)` to work on it."""

    __slots__ = ()

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse  # pyright: ignore[reportAssignmentType]
    clear = _refuse
    pop = _refuse  # pyright: ignore[reportAssignmentType]
    popitem = _refuse
    setdefault = _refuse  # pyright: ignore[reportAssignmentType]
    update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, object]]]:
        # dict's own protocol restores items through __setitem__
        return (FrozenDict, (dict(self),))

    def __deepcopy__(self, memo: dict[int, object]) -> FrozenDict:
        # by way of __reduce__ a copy takes five frames of the stack for each level
        return FrozenDict({key: deepcopy(value, memo) for key, value in self.items()})

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        # of the keys alone: values may be anything, and equal dicts have equal keys
        return hash(frozenset(self))


class FrozenList(list[object]):
    """A list that refuses to change; copy it with `list(...)` to work on it."""

    __slots__ = ()

    __setitem__ = _refuse
    __delitem__ = _refuse
    __iadd__ = _refuse
    __imul__ = _refuse
    append = _refuse
    clear = _refuse
    extend = _refuse
    insert = _refuse
    pop = _refuse
    remove = _refuse
    reverse = _refuse
    sort = _refuse

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[object]]]:
        return (FrozenList, (list(self),))

    def __deepcopy__(self, memo: dict[int, object]) -> FrozenList:
        return FrozenList([deepcopy(item, memo) for item in self])

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(("FrozenList", len(self)))


EMPTY: FrozenDict = FrozenDict()


def freeze(mapping: Mapping[str, object] | None, field: str = "A frozen value") -> FrozenDict:
    """The mapping as a read-only copy, all the way down; None is empty. `field` is what an error calls it.

    `InvalidInputError` if it is no mapping, or if a value in it has more than `MAX_DEPTH` levels or contains itself.
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
    """A plain copy, all the way down: to be handed to code that may write to it."""
    thawed: dict[str, object] = {}
    # a loop, not a comprehension: one frame of the stack for each level
    for key, value in mapping.items():
        kind = type(value)
        if kind is FrozenDict:
            value = thaw(cast("FrozenDict", value))
        elif kind is FrozenList:
            value = _thawed(cast("FrozenList", value))
        thawed[key] = value
    return thawed


def deeper(value: object, levels: int) -> bool:
    """Whether dicts and lists are nested more than so many levels deep; looks no further, and does not recurse."""
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
        # the last one in is looked at first: what contains itself is found after `levels` steps
        waiting.extend([(each, left - 1) for each in inner if type(each) is not str and type(each) not in _SCALARS])
    return False


def check_encodable(text: str, field: str) -> None:
    """`InvalidInputError` if an id, a name or an address has a lone surrogate: replaced, it would be another one."""
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
    """A value as an error quotes it: its repr, cut; its type alone where it has no repr."""
    try:
        text = repr(value)
    except Exception:
        # nested too deep, or a __repr__ that fails
        text = f"<{type(value).__name__}>"
    return text[:most]


class _TooDeepError(Exception):
    """There are no levels left."""


def _frozen_dict(mapping: Mapping[object, object], levels: int) -> FrozenDict:
    """The mapping frozen; each value in it may have so many levels."""
    frozen: dict[str, object] = {}
    for key, value in mapping.items():
        kind = type(value)
        if kind is str:
            if not cast("str", value).isascii():
                value = encodable(cast("str", value))
        elif kind not in _SCALARS:
            value = _frozen(value, levels)
        # JSON has no other keys than text, but that is the caller's affair
        frozen[encodable(key) if isinstance(key, str) else cast("str", key)] = value
    return FrozenDict(frozen)


def _frozen(value: object, levels: int) -> object:
    if isinstance(value, str):
        # an enum that is a str stays what it is
        return encodable(value)
    if isinstance(value, (FrozenDict, FrozenList)):
        # frozen before, at a level that is not known here
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
