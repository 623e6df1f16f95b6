"""`ResponseStream`: an answer as the events and the body of the Responses API.

response.created, response.in_progress
response.output_item.added, response.content_part.added      reasoning, message or function_call
response.output_text.delta ...                               or reasoning_text, function_call_arguments
response.output_text.done, response.content_part.done, response.output_item.done
response.completed | response.incomplete | response.failed
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from uuid import uuid4

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors.text import encode_json
from agentscope_rx.events import Event
from agentscope_rx.messages import ChatUsage, ToolUseBlock
from agentscope_rx.models.wire.json_codec import arguments_text
from agentscope_rx.service.protocols.openai.answer import Answer, Part
from agentscope_rx.service.protocols.openai.failures import error_body
from agentscope_rx.service.protocols.openai.items import call_item, message_item, reasoning_item, text_part

StreamEvent = tuple[str, dict[str, object]]


class _Kind(NamedTuple):
    prefix: str
    item: Callable[[str, str, str], dict[str, object]]
    name: str


_KINDS = {
    "text": _Kind("msg", message_item, "output_text"),
    "reasoning": _Kind("rs", reasoning_item, "reasoning_text"),
}


class ResponseStream:
    """The `EventEncoder` of one response; `about` are the fields of the response that do not change."""

    def __init__(self, about: Mapping[str, object], answer: Answer) -> None:
        self._about = about
        self._answer = answer
        self._output: list[dict[str, object]] = []
        self._open: _Kind | None = None
        self._item_id = ""
        self._text: list[str] = []
        self._number = 0
        self._began = False

    # --- as a stream ----------------------------------------------------------------------------------------------

    def encode(self, logged: LoggedEvent) -> bytes:
        """The events of this event's parts."""
        return self._written(self.see(logged.event))

    def fail(self, error: Exception) -> bytes:
        """`response.failed`, and an `error` event, which OpenAI's clients raise."""
        body = error_body(error)
        failed = self._body("failed", error={"code": "server_error", "message": body["message"]})
        # the fields are those of the documented event; the official client raises for an `error` within
        events: list[StreamEvent] = [("response.failed", {"response": failed}), ("error", {**body, "error": body})]
        return self._written(iter(events))

    def close(self) -> bytes:
        """The end of the response."""
        return self._written(self._ending())

    def _written(self, events: Iterator[StreamEvent]) -> bytes:
        made = ""
        for kind, fields in events:
            data = {**fields, "type": kind, "sequence_number": self._number}
            self._number += 1
            made += f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
        return encode_json(made)

    # --- the events -----------------------------------------------------------------------------------------------

    def see(self, event: Event) -> Iterator[StreamEvent]:
        """The stream events that this event of the run is."""
        for part in self._answer.see(event):
            yield from self._begin()
            yield from self._part(part)

    def body(self) -> dict[str, object]:
        """The whole response, after the last event."""
        for _ in self._ending():
            pass
        return self._body(self._status)

    @property
    def _status(self) -> str:
        return "incomplete" if self._answer.finish == "length" else "completed"

    def _begin(self) -> Iterator[StreamEvent]:
        if not self._began:
            self._began = True
            yield "response.created", {"response": self._body("in_progress")}
            yield "response.in_progress", {"response": self._body("in_progress")}

    def _part(self, part: Part) -> Iterator[StreamEvent]:
        kind = _KINDS[part.kind]
        if self._open is not kind:
            yield from self._end_item()
            self._open, self._item_id, self._text = kind, f"{kind.prefix}_{uuid4().hex}", []
            item = kind.item(self._item_id, "", "in_progress")
            yield "response.output_item.added", {"output_index": len(self._output), "item": item}
            if part.kind == "text":
                yield "response.content_part.added", {**self._place(), "part": text_part("")}
        self._text.append(part.text)
        more: dict[str, object] = {"delta": part.text, "logprobs": []} if part.kind == "text" else {"delta": part.text}
        yield f"response.{kind.name}.delta", {**self._place(), **more}

    def _end_item(self) -> Iterator[StreamEvent]:
        kind = self._open
        if kind is None:
            return
        text = "".join(self._text)
        done: dict[str, object] = {"text": text, "logprobs": []} if kind.prefix == "msg" else {"text": text}
        yield f"response.{kind.name}.done", {**self._place(), **done}
        if kind.prefix == "msg":
            yield "response.content_part.done", {**self._place(), "part": text_part(text)}
        item = kind.item(self._item_id, text, "completed")
        yield "response.output_item.done", {"output_index": len(self._output), "item": item}
        self._output.append(item)
        self._open = None

    def _call(self, call: ToolUseBlock) -> Iterator[StreamEvent]:
        id, arguments = f"fc_{uuid4().hex}", arguments_text(call)
        place = {"item_id": id, "output_index": len(self._output)}
        item = call_item(id, call, "", "in_progress")
        yield "response.output_item.added", {"output_index": len(self._output), "item": item}
        yield "response.function_call_arguments.delta", {**place, "delta": arguments}
        yield "response.function_call_arguments.done", {**place, "arguments": arguments, "name": call.name}
        item = call_item(id, call, arguments, "completed")
        yield "response.output_item.done", {"output_index": len(self._output), "item": item}
        self._output.append(item)

    def _ending(self) -> Iterator[StreamEvent]:
        self._answer.check()
        yield from self._begin()
        yield from self._end_item()
        for call in self._answer.calls:
            yield from self._call(call)
        yield f"response.{self._status}", {"response": self._body(self._status)}

    def _place(self) -> dict[str, object]:
        return {"item_id": self._item_id, "output_index": len(self._output), "content_index": 0}

    def _body(self, status: str, error: Mapping[str, object] | None = None) -> dict[str, object]:
        ended = status in ("completed", "incomplete")
        return {
            **self._about,
            "status": status,
            "error": error,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": list(self._output),
            "usage": _usage(self._answer.usage) if ended else None,
        }


def _usage(usage: ChatUsage) -> dict[str, object]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
