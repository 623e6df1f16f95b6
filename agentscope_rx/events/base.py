"""`Event`: the base of all events, with source, sequence number, time and JSON form.

Events are frozen values. A run sets source, sequence number and time of each event last, after all hooks. So the
numbers of the events that subscribers see ascend from 0 without gaps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from functools import cache
from os import PathLike
from typing import Annotated, ClassVar, Self, TypeVar, cast

from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationError, WithJsonSchema

from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.errors.text import encode_json
from agentscope_rx.events.versions import EVENTS_VERSION, upgraded
from agentscope_rx.frozen_values import dataclass, replaced
from agentscope_rx.messages.frozen import check_encodable, encodable, shown
from agentscope_rx.messages.msg import Msg
from agentscope_rx.messages.sources import reading
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.parts import PartStates

EXCLUDED_TUPLE = (PlainValidator(lambda value: ()), PlainSerializer(lambda value: None), WithJsonSchema(None))
"""Marks a field that is not part of the JSON; it is read back as an empty tuple."""
EXCLUDED = (PlainValidator(lambda value: None), PlainSerializer(lambda value: None), WithJsonSchema(None))
"""Marks a field that is not part of the JSON; it is read back as None."""

History = Annotated[Sequence[Msg], *EXCLUDED_TUPLE]
Options = Annotated[GenerateOptions | None, *EXCLUDED]
Schema = Annotated[ToolSchema | None, *EXCLUDED]
Error = Annotated[Exception | None, *EXCLUDED]
_Context = Annotated[RuntimeContext | None, *EXCLUDED]
_Parts = Annotated[PartStates | None, *EXCLUDED]


@dataclass(frozen=True, slots=True)
class EventSource:
    """The run that emits an event: its id, the agent's name, and its path (ids of runs and calls, outermost first).

    `context` is the live context of the call, `parts` the states that hooks and tools keep in its conversation. Neither
    is part of the event's JSON or of its equality.
    """

    run_id: str = ""
    agent: str = ""
    path: tuple[str, ...] = ()
    context: _Context = field(default=None, compare=False, repr=False)
    parts: _Parts = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for text in (self.run_id, self.agent, *self.path):
            check_encodable(text, "EventSource")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        # frozen, and the objects in the context belong to the caller
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.run_id, self.agent, self.path))


NOWHERE = EventSource()


class HasSource:
    """The parts of a `source`, for events and for the requests of hooks."""

    __slots__ = ()

    source: EventSource

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.source.run_id

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self.source.agent

    @property
    def path(self) -> tuple[str, ...]:
        """The ids of runs and calls from the outermost run to this one."""
        return self.source.path

    @property
    def context(self) -> RuntimeContext:
        """The context of the call; a new, empty one if there is none, as for an event that was read from JSON."""
        context = self.source.context
        return RuntimeContext() if context is None else context


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(HasSource):
    """An event of a run. `seq` numbers the events of a run from 0; `timestamp` is in seconds since the epoch."""

    type: ClassVar[str] = "event"

    source: EventSource = NOWHERE
    seq: int = -1
    timestamp: float = 0.0

    @property
    def depth(self) -> int:
        """The number of runs around this one: 0 for a run that a caller has begun, 1 for one of its sub-agents, ..."""
        return len(self.source.path) // 2

    def to_dict(self) -> dict[str, object]:
        """The event as plain JSON, without the conversation around it (`history`, `messages`).

        `InvalidInputError` if it holds values without a JSON form.
        """
        try:
            kind = type(self)
            dumped = _adapter(kind).dump_python(self, mode="json", exclude_none=True, exclude=_excluded(kind))
        except (ValueError, RecursionError) as error:
            # pydantic's own errors are ValueErrors
            raise InvalidInputError(f"This {self.type} event cannot be written as JSON: {error}") from error
        plain = cast("dict[str, object]", dumped)
        # blocks and messages hold no lone surrogates; a text field of the event itself may
        for name, value in plain.items():
            if type(value) is str and not value.isascii():
                plain[name] = encodable(value)
        source = self.source
        place = {"run_id": source.run_id, "agent": source.agent, "path": list(source.path)}
        return {"v": EVENTS_VERSION, "type": self.type, **place, **plain}

    def to_json(self) -> str:
        """One line of JSON; `event_from_json` reads it back."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))

    def replace(self, **changes: object) -> Self:
        """A copy with these fields changed."""
        return replaced(self, **changes)


def encode_event(event: Event) -> bytes:
    """The event as one line of JSON in UTF-8, without a line break, as logs and protocols hold it.

    `InvalidInputError` if it holds values without a JSON form.
    """
    return encode_json(event.to_json())


@cache
def _excluded(kind: type[Event]) -> set[str]:
    """The fields that are not part of the JSON: those that are not compared."""
    return {"source", *(each.name for each in fields(kind) if not each.compare)}


@cache
def _adapter(kind: type[Event]) -> TypeAdapter[Event]:
    return TypeAdapter(kind)


_KINDS: dict[str, type[Event]] = {}


E = TypeVar("E", bound=Event)


def register(kind: type[E]) -> type[E]:
    """Register a dataclass for `event_from_json`, under its `type`."""
    _KINDS[kind.type] = kind
    return kind


def kinds_of_events() -> tuple[type[Event], ...]:
    """All registered classes."""
    return tuple(_KINDS.values())


def event_from_dict(data: Mapping[str, object], *, file_root: str | PathLike[str] | None = None) -> Event:
    """The event from the result of `to_dict`; `InvalidInputError` if it is invalid.

    It reads this version of events and all older ones, and skips unknown fields. A newer version is an
    `EventVersionError`. The event may come from another machine, so `FileSource`s in its messages are locked unless
    they lie beneath `file_root`.
    """
    values = upgraded(data)
    name = values.pop("type", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidInputError(
            f"{shown(name)} is not a type of event that this release knows. If a newer release has written it, update "
            f"agentscope-rx. The types are {', '.join(sorted(_KINDS))}."
        )
    values["source"] = {k: values.pop(k) for k in ("run_id", "agent", "path") if k in values}
    try:
        return _adapter(kind).validate_python(values, context=reading(file_root, lock=True))
    except (ValidationError, RecursionError) as error:
        raise InvalidInputError(f"This is not a {name} event: {error}") from error


def event_from_json(line: str | bytes, *, file_root: str | PathLike[str] | None = None) -> Event:
    """The event from the result of `to_json`; `InvalidInputError` and `file_root` as for `event_from_dict`."""
    try:
        data: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"This is not a line of JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidInputError(f"An event must be a JSON object, not {shown(data)}.")
    return event_from_dict(cast("dict[str, object]", data), file_root=file_root)


put_source = Event.__dict__["source"].__set__
put_seq = Event.__dict__["seq"].__set__
put_timestamp = Event.__dict__["timestamp"].__set__


def stamp(event: Event, source: EventSource, seq: int, timestamp: float) -> Event:
    """The event with its place in the run: the same object if it has none yet, else a copy.

    Until then only the hooks of its run have seen it. A copy of each of 10,000 chunks would cost more than all else.
    """
    if event.seq >= 0:
        return replaced(event, source=source, seq=seq, timestamp=timestamp)
    put_source(event, source)
    put_seq(event, seq)
    put_timestamp(event, timestamp)
    return event
