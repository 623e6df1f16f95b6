"""The JSON of the protocol's messages, which the SDK has as protobuf types without annotations."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import TypeVar, cast

from a2a.utils.errors import A2AError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Value

from agentscope_rx.errors import InvalidInputError

M = TypeVar("M", bound=Message)


def to_json(message: Message) -> dict[str, object]:
    """The message as the JSON object of the protocol."""
    return cast("dict[str, object]", MessageToDict(message))


def from_json(given: object, kind: type[M]) -> M:
    """The JSON object as this message. `InvalidInputError` if it is none; fields of later versions are ignored."""
    if not isinstance(given, dict):
        raise InvalidInputError(f"The request must be an object, not {given!r:.60}.")
    try:
        message = ParseDict(cast("dict[str, object]", given), kind(), ignore_unknown_fields=True)
        validate_proto_required_fields(message)
    except (ParseError, RecursionError) as error:
        raise InvalidInputError(f"The request is invalid: {error!s:.500}") from None
    except A2AError as error:
        raise InvalidInputError(f"The request is invalid: {error.message:.200} {error.data!r:.500}") from None
    return message


def value_of(given: object) -> Value:
    """Plain JSON as the value of a data part."""
    return ParseDict(cast("dict[str, object]", given), Value())


def plain(value: Value) -> object:
    """The value of a data part as plain JSON."""
    return cast("object", MessageToDict(value))
