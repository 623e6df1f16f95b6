"""Dictionaries inside frozen values: read-only, equal to and encoded as plain dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn


class FrozenDict(dict[str, object]):
    """A dict that refuses to change; copy it with `dict(...)` to work on it."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("This mapping belongs to a frozen value. Make a copy with dict(...) and replace the value.")

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    clear = _refuse
    pop = _refuse  # pyright: ignore[reportAssignmentType]
    popitem = _refuse
    setdefault = _refuse  # pyright: ignore[reportAssignmentType]
    update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, object]]]:
        # dict's own protocol restores items through __setitem__
        return (FrozenDict, (dict(self),))

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise TypeError("unhashable type: 'FrozenDict'")


EMPTY: FrozenDict = FrozenDict()


def freeze(mapping: Mapping[str, object] | None) -> FrozenDict:
    """The mapping as a read-only copy; None is empty."""
    if type(mapping) is FrozenDict:
        return mapping
    return FrozenDict(mapping) if mapping else EMPTY
