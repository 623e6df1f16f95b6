"""Shared by the parsers of all providers: reading an event, the blocks of a piece of text, the errors at an end."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, cast

from agentscope_rx.errors import ContentFilterError, ModelConnectionError, ModelError, ProtocolError
from agentscope_rx.messages import TextBlock, ThinkingBlock
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.json_codec import malformed
from agentscope_rx.models.wire.json_size import load_json

DONE = "[DONE]"
"""The data of the last event of many streams."""


class Cut(Enum):
    """The type of `CUT`."""

    CUT = "cut"


CUT: Final = Cut.CUT
"""In place of the value of an event that the end of the stream cut in two."""


def event_value(event: ServerEvent) -> object:
    """The JSON value of an event; `ProtocolError` if it has none.

    `CUT` for half an event at the end of a stream: the parser's `end` decides if the answer is whole without it.
    """
    try:
        return load_json(event.data)
    except (ValueError, RecursionError) as error:
        if event.cut:
            return CUT
        if event.event == "error":
            raise error_of_event(event.data) from error
        raise malformed(f"it is not JSON ({error})", event.data) from error


def error_of_event(data: object) -> ModelError:
    """The error that an event named `error` carries: its data is an error, holds one, or is its text."""
    given = cast("Mapping[str, object]", data if isinstance(data, Mapping) else {"error": data})
    found = answered_error(given) or answered_error({"error": given})
    return found or ProtocolError("The server sent an error without a message.", body=str(given)[:500])


def text_blocks(text: str) -> tuple[TextBlock, ...]:
    """The block of a piece of text; none of an empty one."""
    return (TextBlock(text),) if text else ()


def thinking_blocks(text: str) -> tuple[ThinkingBlock, ...]:
    """The block of a piece of thinking; none of an empty one."""
    return (ThinkingBlock(text),) if text else ()


def broken_off() -> ModelConnectionError:
    """The error for a stream that ended in the middle: such an answer must not look finished."""
    return ModelConnectionError("The stream ended before the answer was complete.")


def withheld(why: str = "") -> ContentFilterError:
    """The error for an answer of which a content filter let nothing through."""
    return ContentFilterError(f"The provider's content filter withheld the whole answer{f': {why}' if why else '.'}")
