"""`ResponseParser`: the events of one answer of the Responses API -> increments. Pure: an `AnswerParser`.

| event                                                    | becomes                                              |
|----------------------------------------------------------|------------------------------------------------------|
| `response.output_text.delta`, `...refusal.delta`         | text                                                 |
| `response.reasoning_summary_text.delta`, `...text.delta` | thinking; a blank line between parts                 |
| `response.function_call_arguments.delta`                 | a piece of the call added before                     |
| `response.output_item.done`                              | content that came in no pieces; thinking's signature |
| `response.completed`, `response.incomplete`              | content that did not come; usage, finish reason      |
| `response.failed`, `error`                               | the error that it carries                            |
| anything else                                            | nothing                                              |

An answer is whole when `response.completed` or `response.incomplete` came. Events are numbered; a number lower than the
one before means that events were reordered on the way and the text is garbled: a `ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from agentscope_rx.errors import ServerError
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models.http_model import Clock
from agentscope_rx.models.openai.responses.output import Output
from agentscope_rx.models.response import ChatResponse, FinishReason, Numbered, in_blocks
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.wire.answers import CUT, DONE, broken_off, error_of_event, event_value, withheld
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    integer,
    malformed,
    object_in,
    objects_in,
    text_in,
)

LAST_EVENT = "response.completed"
"""The name of the last event of most answers."""

_ENDS = (LAST_EVENT, "response.incomplete", "response.failed", "response.cancelled")
_REASONS = {
    "max_output_tokens": FinishReason.LENGTH,
    "max_messages": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


class ResponseParser:
    """Reads one answer: an `AnswerParser`. `clock` gives seconds; the usage's time counts from its making."""

    __slots__ = ("_clock", "_content", "_finish", "_id", "_number", "_output", "_started", "_whole")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock()
        self._output = Output()
        self._id: str | None = None
        self._number = -1
        self._content = False
        self._finish: FinishReason | None = None
        self._whole = False

    def read(self, event: ServerEvent) -> Iterable[ChatResponse]:
        """The increments of one server-sent event."""
        if event.data.strip() == DONE:
            return ()
        data = event_value(event)
        if data is CUT:
            return ()
        if event.whole:
            return self.read_whole(data)
        if not isinstance(data, Mapping):
            raise malformed("an event must be a JSON object", data)
        return self._event(cast("JsonObject", data), event.event)

    def read_whole(self, answer: object) -> Iterable[ChatResponse]:
        """The increments of an answer that came in one piece."""
        if not isinstance(answer, Mapping):
            raise malformed("an answer must be a JSON object", answer)
        fields = cast("JsonObject", answer)
        _check_error(fields)
        if fields.get("output") is None:
            raise malformed("it has no output", fields)
        return self._ended(fields)

    def end(self) -> Iterable[ChatResponse]:
        """The content held back until the end; an error if the answer is not whole, or was withheld."""
        if not self._whole:
            raise broken_off()
        content = self._output.end()
        if self._finish is FinishReason.CONTENT_FILTER and not (self._content or content):
            raise withheld()
        return self._increment(content)

    def _event(self, fields: JsonObject, name: str) -> Iterable[ChatResponse]:
        kind = text_in(fields, "type") or name
        self._count(fields)
        if kind == "response.output_text.delta":
            # most events are of this kind
            piece = self._output.text(fields)
            if piece is None:
                return ()
            self._content = True
            return (ChatResponse((piece[1],), id=self._id, block=piece[0]),)
        if kind == "error":
            _check_error({"error": fields} if fields.get("error") is None else fields)
        if kind in _ENDS:
            return self._ended(object_in(fields, "response") or {})
        response = object_in(fields, "response")
        if response is not None:
            self._id = self._id or text_in(response, "id") or None
            return ()
        return self._increment(self._output.event(kind, fields), refused=kind.startswith("response.refusal"))

    def _count(self, fields: JsonObject) -> None:
        if "sequence_number" in fields:
            number = integer(fields, "sequence_number")
            # equal numbers are no error: some servers give all events the same
            if number < self._number:
                raise malformed(f"event {number} came after event {self._number}", fields)
            self._number = number

    def _increment(self, pieces: Iterable[Numbered], *, refused: bool = False) -> Iterable[ChatResponse]:
        about = {"refusal": True} if refused else {}
        found = [ChatResponse(blocks, id=self._id, metadata=about, block=block) for block, blocks in in_blocks(pieces)]
        self._content = self._content or bool(found)
        return found

    def _ended(self, response: JsonObject) -> Iterable[ChatResponse]:
        """The last increments: content that came in no pieces, and the usage."""
        _check_error(response)
        status = text_in(response, "status") or "completed"
        if status in ("failed", "cancelled"):
            raise ServerError(f"The answer was broken off: {status}.", status=500, code=status)
        self._id = self._id or text_in(response, "id") or None
        self._whole = True
        rest: list[ChatResponse] = []
        for index, item in enumerate(objects_in(response, "output")):
            rest += self._increment(self._output.settle(index, item))
        reason = text_in(object_in(response, "incomplete_details") or {}, "reason") or status
        self._finish = self._finished(status, reason)
        about = {"refusal": True} if self._output.refused else {}
        return (*rest, ChatResponse((), self._usage(response), self._finish, reason, self._id, about))

    def _finished(self, status: str, reason: str) -> FinishReason:
        if status == "completed":
            return FinishReason.TOOL_CALLS if self._output.calls else FinishReason.STOP
        return _REASONS.get(reason, FinishReason.OTHER)

    def _usage(self, response: JsonObject) -> ChatUsage | None:
        used = object_in(response, "usage")
        if not used:
            return None
        read = object_in(used, "input_tokens_details") or {}
        written = object_in(used, "output_tokens_details") or {}
        return ChatUsage(
            input_tokens=integer(used, "input_tokens"),
            output_tokens=integer(used, "output_tokens"),
            cached_tokens=integer(read, "cached_tokens"),
            reasoning_tokens=integer(written, "reasoning_tokens"),
            time=self._clock() - self._started,
        )


def _check_error(fields: JsonObject) -> None:
    """Raise the error that an event or an answer carries."""
    if fields.get("error"):
        raise error_of_event({"error": fields["error"]})
