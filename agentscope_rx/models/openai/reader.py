"""`AnswerReader`: a Chat Completions answer as the transport brings it, event by event, for the `ChunkParser`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from agentscope_rx.errors import ModelError, ProtocolError
from agentscope_rx.models.http_model import Clock
from agentscope_rx.models.openai.parser import ChunkParser
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.json_codec import decode_json

DONE = "[DONE]"
"""The data of the last event."""


class AnswerReader:
    """Reads one answer: an `AnswerParser`."""

    __slots__ = ("_parser", "end", "read_whole")

    def __init__(self, clock: Clock, audio: str | None = None) -> None:
        self._parser = ChunkParser(clock, audio)
        self.read_whole = self._parser.feed_whole
        self.end = self._parser.end

    def read(self, event: ServerEvent) -> Iterable[ChatResponse]:
        """The increments of one server-sent event."""
        if event.data.strip() == DONE:
            self._parser.done()
            return ()
        try:
            chunk = decode_json(event.data)
        except ProtocolError as error:
            if event.cut:
                # half an event at the end: whether the answer is whole without it is for the parser to say
                return ()
            if event.event == "error":
                raise _told(event.data) from error
            raise
        if event.event == "error":
            raise _told(chunk)
        return self._parser.feed_whole(chunk) if event.whole else self._parser.feed(chunk)


def _told(complaint: object) -> ModelError:
    """The error that an event named `error` carries, whatever its data looks like."""
    given = cast("Mapping[str, object]", complaint if isinstance(complaint, Mapping) else {"error": complaint})
    told = answered_error(given) or answered_error({"error": given})
    return told or ProtocolError("The server sent an error event without saying more.", body=str(given))
