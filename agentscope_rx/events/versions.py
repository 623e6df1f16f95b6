"""The version of the events' JSON, and the steps from older versions to it.

    {"v": 1, "type": "pre_call", ...}       the version that this release writes
    {"type": "pre_call", ...}               version 0: as written before events had versions

A new version is needed if a reader of the old one would misread an event: a field is renamed or removed, or its meaning
or type changes. Such a change adds 1 to `EVENTS_VERSION`, a step to `_STEPS` and a file to `tests/events/logs`. A new
field or a new kind of event needs none: readers skip fields that they do not know, and refuse kinds that they do not
know by their name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentscope_rx.errors import EventVersionError, InvalidInputError
from agentscope_rx.messages.frozen import shown

EVENTS_VERSION = 1
"""The version of the events' JSON that this release writes; it reads this one and all older ones."""


def _from_0(data: dict[str, object]) -> dict[str, object]:
    """Version 1 added the version itself."""
    return data


_STEPS: Mapping[int, Callable[[dict[str, object]], dict[str, object]]] = {0: _from_0}
"""By version: the function that makes an event of it one of the next version. It may change the dict."""


def upgraded(data: Mapping[str, object]) -> dict[str, object]:
    """A copy of an event's JSON in the current version, without `v`; `EventVersionError` if it is of a newer one."""
    values = dict(data)
    version = values.pop("v", 0)
    if type(version) is not int or version < 0:
        raise InvalidInputError(f"The version of an event, 'v', must be a whole number, not {shown(version)}.")
    if version > EVENTS_VERSION:
        raise EventVersionError(version, EVENTS_VERSION)
    for older in range(version, EVENTS_VERSION):
        values = _STEPS[older](values)
    return values
