"""`PolicyState`: what a policy knows of one conversation from one request to the next. It is saved with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Final, cast

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.parts import Part

NAME: Final = "context_policy"


@dataclass(frozen=True, slots=True)
class PolicyState:
    """`asked`: the model has asked for a compaction. `factor`: see `sizes`. `limit`: what `model` has refused beyond.

    `left` and `left_messages` are the sizes that a compaction could not make smaller, and `failed` those at which a
    strategy has failed: neither is tried again before the conversation has grown by a tenth. `over`: the request was
    above the budget, and this has been reported.
    """

    asked: bool = False
    factor: float = 1.0
    limit: int = 0
    model: str = ""
    left: int = 0
    left_messages: int = 0
    over: bool = False
    failed: Mapping[str, int] = field(default_factory=dict[str, int])


def _read(data: object) -> PolicyState:
    """The state as far as it can be read: all of it is known again after the next request."""
    given = thaw(cast("Mapping[str, object]", data)) if isinstance(data, Mapping) else {}
    default = PolicyState()
    values: dict[str, object] = {}
    for each in fields(PolicyState):
        value = given.get(each.name)
        expected = getattr(default, each.name)
        if type(value) is type(expected) and _sound(value):
            values[each.name] = value
    return PolicyState(**values)  # pyright: ignore[reportArgumentType]


def _sound(value: object) -> bool:
    if isinstance(value, dict):
        items = cast("dict[object, object]", value)
        return all(isinstance(key, str) and type(each) is int for key, each in items.items())
    return not isinstance(value, float) or 0.1 <= value <= 10


def policy_part() -> Part[PolicyState]:
    """The state of a policy in each conversation."""
    return Part(NAME, 1, PolicyState(), dump=asdict, read=_read)
