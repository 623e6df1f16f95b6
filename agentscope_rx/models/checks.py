"""Checks of a model's own options, made when the model is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from agentscope_rx.errors import ConfigurationError


def check_one_of(name: str, given: object, choices: Iterable[object], *, optional: bool = True) -> None:
    """`ConfigurationError` for a value that is none of these; `optional` allows None, too.

    `True` is not 1 here: values are equal only if their types are.
    """
    if given is None and optional:
        return
    allowed = list(choices)
    if not any(type(given) is type(each) and given == each for each in allowed):
        listed = " or ".join(repr(each) for each in allowed)
        default = " (or None, to leave it to the model)" if optional else ""
        raise ConfigurationError(f"{name} must be {listed}{default}, not {given!r:.60}.")


def check_objects(name: str, given: object) -> tuple[Mapping[str, object], ...]:
    """The JSON objects of a list; `ConfigurationError` for any other value."""
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise ConfigurationError(f"{name} takes a list of JSON objects, not {given!r:.60}.")
    items = cast("Sequence[object]", given)
    for each in items:
        if not isinstance(each, Mapping):
            raise ConfigurationError(f"{name} takes a list of JSON objects; it holds {each!r:.60}.")
    return tuple(cast("Sequence[Mapping[str, object]]", items))
