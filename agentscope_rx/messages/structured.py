"""The structured value of a message: JSON in its metadata, and its conversion to a Python type.

Validation is strict as for JSON: a date is an ISO string and an enum its value, but "3" is not an int and 1 not a bool.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from agentscope_rx.errors import InvalidInputError

T = TypeVar("T")

STRUCTURED = "structured_output"
"""The key in a message's (and a tool result's) metadata."""

ADAPTERS = 128
"""How many adapters are cached; building one takes milliseconds."""


def adapter_of(kind: type[T] | object) -> TypeAdapter[T]:
    """The cached adapter of a type; raises the error of pydantic for an unsupported type."""
    try:
        # int | str and str | int are equal, but validate in another order
        return cast("TypeAdapter[T]", _adapter(kind, repr(kind)))
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return TypeAdapter(cast("type[T]", kind))


@lru_cache(ADAPTERS)
def _adapter(kind: object, name: str) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", kind))


def read_json(adapter: TypeAdapter[T], value: object) -> T:
    """The JSON value as a value of the type; `pydantic.ValidationError` if it does not fit."""
    return adapter.validate_json(to_json(value), strict=True)


def structured_as(kind: type[T] | object, value: object, message_id: str) -> T:
    """The stored value as this type; `InvalidInputError` if it does not fit."""
    adapter: TypeAdapter[T] = adapter_of(kind)
    try:
        return read_json(adapter, value)
    except ValidationError as error:
        name = kind.__name__ if isinstance(kind, type) else str(kind)
        raise InvalidInputError(f"The structured output of message {message_id} is no {name}: {error}") from error
