"""What a model's own options may be, refused where the model is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from agentscope_rx.errors import ConfigurationError


def check_one_of(name: str, given: object, choices: Iterable[object]) -> None:
    """`ConfigurationError` for a value that is none of these, and not None."""
    allowed = list(choices)
    if given is not None and not any(
        given is each or (type(given) is type(each) and given == each) for each in allowed
    ):
        said = " or ".join(repr(each) for each in allowed)
        raise ConfigurationError(f"{name} must be {said} (or None, to leave it to the model), not {given!r:.60}.")


def check_objects(name: str, given: object) -> tuple[Mapping[str, object], ...]:
    """The list of JSON objects that this is; `ConfigurationError` if it is none."""
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise ConfigurationError(f"{name} takes a list of JSON objects, not {given!r:.60}.")
    items = cast("Sequence[object]", given)
    for each in items:
        if not isinstance(each, Mapping):
            raise ConfigurationError(f"{name} takes a list of JSON objects; it holds {each!r:.60}.")
    return tuple(cast("Sequence[Mapping[str, object]]", items))
