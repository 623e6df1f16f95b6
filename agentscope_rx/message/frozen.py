"""What is inside frozen values: dictionaries and lists that refuse to change, text that can be encoded.

    freeze({"a": [1, {"b": 2}]})    read-only all the way down; equal to, and encoded as, what went in
    thaw(frozen)                    a plain copy to work on

Tuples become lists on the way in, because JSON has no other: what is kept is what a round trip gives back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, cast

from agentscope_rx.errors import InvalidInputError


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

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(("FrozenList", len(self)))


EMPTY: FrozenDict = FrozenDict()


def freeze(mapping: Mapping[str, object] | None) -> FrozenDict:
    """The mapping as a read-only copy, all the way down; None is empty."""
    if type(mapping) is FrozenDict:
        return mapping
    if mapping is None:
        return EMPTY
    if not isinstance(mapping, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(
            f"A mapping (such as a dict) was expected, not {type(mapping).__name__}: {mapping!r:.80}"
        )
    # JSON has no other keys than text, but that is the caller's affair
    return FrozenDict({_key(key): _frozen(value) for key, value in mapping.items()}) if mapping else EMPTY


def thaw(mapping: Mapping[str, object]) -> dict[str, object]:
    """A plain copy, all the way down: to be handed to code that may write to it."""
    return {key: _thawed(value) for key, value in mapping.items()}


def encodable(text: str) -> str:
    """The text, its lone surrogates replaced by U+FFFD: no encoder takes them, and one would spoil a whole memory."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # a pair that came as two halves is one character
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _key(key: str) -> str:
    return encodable(key) if type(key) is str else key


def _frozen(value: object) -> object:
    if isinstance(value, str):
        # an enum that is a str stays what it is
        return encodable(value) if type(value) is str else value
    if isinstance(value, dict):
        return freeze(cast("dict[str, object]", value))
    if type(value) in (list, tuple):
        return FrozenList(_frozen(item) for item in cast("list[object]", value))
    return value


def _thawed(value: object) -> object:
    if type(value) is FrozenDict:
        return thaw(value)
    if type(value) is FrozenList:
        return [_thawed(item) for item in value]
    return value
