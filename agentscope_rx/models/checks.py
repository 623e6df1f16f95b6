"""Checks of configuration values: each raises `ConfigurationError` with the name and the expected value.

| check           | accepts                                                      |
|-----------------|--------------------------------------------------------------|
| `check_count`   | a whole number of at least `minimum`                         |
| `check_seconds` | a number of seconds, more than 0 or (`zero=True`) at least 0 |
| `check_one_of`  | one of the choices, or None                                  |
| `check_objects` | a list of JSON objects                                       |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard, cast

from agentscope_rx.errors import ConfigurationError


def is_number(value: object) -> TypeGuard[float]:
    """True for an int or float, which a bool is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_count(name: str, value: object, minimum: int = 1) -> None:
    """The value is a whole number of at least `minimum`."""
    if type(value) is not int or value < minimum:
        raise ConfigurationError(f"{name} must be a whole number >= {minimum}, not {value!r:.60}.")


def check_seconds(
    name: str, value: object, *, zero: bool = False, optional: bool = False, infinite: bool = True
) -> None:
    """The value is more than 0 seconds; `zero` and `infinite` allow these, `optional` allows None."""
    if optional and value is None:
        return
    if not is_number(value) or not (value >= 0 if zero else value > 0) or (value == math.inf and not infinite):
        expected = f"{'>= 0' if zero else 'more than 0'} seconds{' (or None for no limit)' if optional else ''}"
        raise ConfigurationError(f"{name} must be {expected}, not {value!r:.60}.")


def check_one_of(name: str, value: object, choices: Iterable[object], *, optional: bool = True) -> None:
    """The value is one of the choices, with the same type (`True` is not 1); `optional` allows None, too."""
    if value is None and optional:
        return
    allowed = list(choices)
    if not any(value is each or (type(value) is type(each) and value == each) for each in allowed):
        expected = " or ".join(repr(each) for each in allowed)
        default = " (or None, to leave it to the model)" if optional else ""
        raise ConfigurationError(f"{name} must be {expected}{default}, not {value!r:.60}.")


def check_objects(name: str, value: object) -> tuple[Mapping[str, object], ...]:
    """The value is a list of JSON objects; returns them as a tuple."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise ConfigurationError(f"{name} takes a list of JSON objects, not {value!r:.60}.")
    items = cast("Sequence[object]", value)
    for each in items:
        if not isinstance(each, Mapping):
            raise ConfigurationError(f"{name} takes a list of JSON objects; it holds {each!r:.60}.")
    return tuple(cast("Sequence[Mapping[str, object]]", items))
