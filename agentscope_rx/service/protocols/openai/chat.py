"""`POST /v1/chat/completions`: the messages of the request are the conversation.

Calls of the client's own tools end the answer with `finish_reason: "tool_calls"`. The conversation is kept as it is
then, with the calls and results of the agent's own tools, for the request that brings the results: their ids lead to
it. If it is no longer kept, the messages of the request are the conversation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple
from uuid import uuid4

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.errors.text import encode_json
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import ChatUsage, Msg, MsgRole, ToolUseBlock
from agentscope_rx.models.openai.history import messages_from_openai
from agentscope_rx.models.wire.json_codec import arguments_text
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.openai.answer import Answer
from agentscope_rx.service.protocols.openai.failures import error_body, openai_error
from agentscope_rx.service.protocols.openai.items import own_messages
from agentscope_rx.service.protocols.openai.parameters import (
    JsonObject,
    ListOfObjects,
    Parameters,
    output_of,
    read_parameters,
)
from agentscope_rx.service.protocols.openai.parked import ParkedConversations
from agentscope_rx.service.protocols.sse import sse_response
from agentscope_rx.service.protocols.whole import WholeResponse


class _StreamOptions(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    include_usage: bool = False
    include_obfuscation: bool = False


class ChatRequest(Parameters):
    """The body of a request."""

    messages: ListOfObjects
    stream_options: _StreamOptions | None = None
    response_format: JsonObject | None = None


class Completion(NamedTuple):
    """One answer: its id, and what is needed to write it."""

    id: str
    created: int
    model: str
    memory: Memory
    parked: ParkedConversations
    include_usage: bool


async def chat_completion(request: Request, host: AgentHost, parked: ParkedConversations) -> Response:
    """Answer one request."""
    body = await read_parameters(request, ChatRequest)
    tools, output = body.client_tools(), output_of(body.response_format, "response_format")
    memory, input = _conversation(body.messages, host.agent(body.model).name, parked)
    run = host.begin(
        body.model,
        input,
        memory=memory,
        context=None if tools is None else RuntimeContext(tools),
        output=output,
    )
    usage = body.stream_options is not None and body.stream_options.include_usage
    completion = Completion(f"chatcmpl-{uuid4().hex}", int(time.time()), body.model, memory, parked, usage)
    answer = Answer(structured=output is not None)
    if body.stream:
        return sse_response(run, encoder=ChatStream(completion, answer), refused=openai_error)
    whole = WholeCompletion(completion, answer)
    return WholeResponse(run, whole.see, whole.response, openai_error)


class WholeCompletion:
    """Collects the answer of one run for a response without a stream."""

    def __init__(self, completion: Completion, answer: Answer) -> None:
        self._completion = completion
        self._answer = answer
        self._said: dict[str, list[str]] = {"text": [], "reasoning": []}

    def see(self, event: object) -> None:
        """Take the next event of the run."""
        for part in self._answer.see(event):  # pyright: ignore[reportArgumentType]
            self._said[part.kind].append(part.text)

    def response(self) -> JSONResponse:
        """The answer."""
        completion, answer = self._completion, self._answer
        answer.check()
        message: dict[str, object] = {"role": "assistant", "content": "".join(self._said["text"]) or None}
        message["refusal"] = None
        if self._said["reasoning"]:
            message["reasoning_content"] = "".join(self._said["reasoning"])
        if answer.calls:
            message["tool_calls"] = _calls(completion, answer.calls)
        elif message["content"] is None:
            message["content"] = ""
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
        return JSONResponse({
            "id": completion.id,
            "object": "chat.completion",
            "created": completion.created,
            "model": completion.model,
            "choices": [choice],
            "usage": usage_of(answer.usage),
        })  # fmt: skip


class ChatStream:
    """The `EventEncoder` of one answer."""

    def __init__(self, completion: Completion, answer: Answer) -> None:
        self._completion = completion
        self._answer = answer
        head = {
            "id": completion.id,
            "object": "chat.completion.chunk",
            "created": completion.created,
            "model": completion.model,
        }
        self._head = "data: " + json.dumps(head)[:-1]
        self._began = False

    def encode(self, logged: LoggedEvent) -> bytes:
        """A chunk for each part of the answer."""
        made = ""
        for part in self._answer.see(logged.event):
            made += self._chunk({"content" if part.kind == "text" else "reasoning_content": part.text})
        return encode_json(made)

    def fail(self, error: Exception) -> bytes:
        """The error as data: OpenAI's clients raise it."""
        return encode_json(f"data: {json.dumps({'error': error_body(error)}, ensure_ascii=False)}\n\n")

    def close(self) -> bytes:
        """The calls of the client's tools, the reason of the end, and the usage."""
        completion, answer = self._completion, self._answer
        answer.check()
        made = "" if self._began else self._chunk({"content": ""})
        if answer.calls:
            calls = [{"index": place, **call} for place, call in enumerate(_calls(completion, answer.calls))]
            made += self._chunk({"tool_calls": calls})
        made += self._chunk({}, answer.finish)
        if completion.include_usage:
            usage = json.dumps(usage_of(answer.usage))
            made += f'{self._head}, "choices": [], "usage": {usage}}}\n\n'
        return encode_json(made + "data: [DONE]\n\n")

    def _chunk(self, delta: Mapping[str, object], finish: str | None = None) -> str:
        if not self._began:
            self._began = True
            delta = {"role": "assistant", **delta}
        text, reason = json.dumps(delta, ensure_ascii=False), json.dumps(finish)
        choices = f'[{{"index": 0, "delta": {text}, "logprobs": null, "finish_reason": {reason}}}]'
        return f'{self._head}, "choices": {choices}}}\n\n'


def usage_of(usage: ChatUsage) -> dict[str, object]:
    """The tokens of the whole run, in the form of Chat Completions."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _calls(completion: Completion, calls: Sequence[ToolUseBlock]) -> list[dict[str, object]]:
    """The calls on the wire; their conversation is kept for the results."""
    ids = completion.parked.keep(completion.memory, calls)
    return [
        {
            "id": ids[call.id],
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call)},
        }
        for call in calls
    ]


def _conversation(messages: Sequence[JsonObject], name: str, parked: ParkedConversations) -> tuple[Memory, list[Msg]]:
    """The memory of a request, and the input of its run: what comes after the assistant's last message."""
    found = own_messages(messages_from_openai(messages), name)
    begin = next((place for place in range(len(found), 0, -1) if found[place - 1].role is MsgRole.ASSISTANT), 0)
    history, input = found[:begin], [each for each in found[begin:] if each.role is not MsgRole.SYSTEM]
    if not input:
        raise InvalidInputError("messages must end with a message of the user, or with results of calls.")
    instructions = [each for each in found[begin:] if each.role is MsgRole.SYSTEM]
    if kept := parked.take(input):
        memory, input = kept
        return memory, input
    return InMemoryMemory([*history, *instructions]), input
