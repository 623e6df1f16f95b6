"""`ask_for_fields`: one question to a model that is answered by a JSON object, in the way that the model supports.

| the model's `output_modes` | the object is                                                  |
|----------------------------|----------------------------------------------------------------|
| "native"                   | the answer, by a `response_format` that enforces the schema    |
| "tool"                     | the arguments of a call, or JSON in the text                   |
| "prompted" only            | JSON in the text; the prompt has the schema                    |

The object is not checked against the schema: each caller reads what it needs and says what was wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ChatUsage, Msg
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.models.accumulate import ResponseAccumulator, accumulated
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.response import FinishReason
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.reactive import Flow, concat_map, defer

_DECODER: Final = json.JSONDecoder(strict=False)
_AROUND: Final = 200
"""The characters that may stand before an object in a text."""


@dataclass(frozen=True, slots=True)
class FieldsAnswer:
    """The object that a model answered with; `problem` says why there is none. `usage` is what the call cost."""

    fields: Mapping[str, object] = EMPTY  # pyright: ignore[reportAssignmentType]
    problem: str = ""
    usage: ChatUsage | None = None
    model_name: str = ""


def ask_for_fields(model: ChatModel, task: str, prompt: str, schema: ToolSchema) -> Flow[FieldsAnswer]:
    """Ask the model once. Options and state of the model stay as they are.

    Signals: one answer; a `ModelError`.
    Cancels: the model call.
    """

    def begin() -> Flow[FieldsAnswer]:
        native = "native" in model.output_modes
        tools = () if native or "tool" not in model.output_modes else (schema,)
        options = GenerateOptions(
            # a model that is told to call another tool could not answer
            tool_choice=None if model.options.tool_choice is None else ToolChoice("auto"),
            response_format=_response_format(schema) if native else None,
        )
        messages = (Msg.system(f"{task}\n{_form(schema, native=native, tool=bool(tools))}"), Msg.user(prompt))
        answered = accumulated(model.stream(messages, tools, options))
        return answered.pipe(concat_map(lambda answer: _read(answer, model, schema)))

    return defer(begin)


def _form(schema: ToolSchema, *, native: bool, tool: bool) -> str:
    if native:
        return "Answer with one JSON object."
    if tool:
        return f"Answer by one call of {schema.name}."
    return f"Answer with one JSON object by this JSON schema, and nothing else: {encode_json(schema.parameters)}"


def _response_format(schema: ToolSchema) -> Mapping[str, object]:
    named = {"name": schema.name, "strict": None, "schema": schema.parameters}
    return {"type": "json_schema", "json_schema": named}


def _read(answer: ResponseAccumulator, model: ChatModel, schema: ToolSchema) -> FieldsAnswer:
    fields, problem = _fields(answer, schema)
    return FieldsAnswer(fields, problem, answer.usage, answer.model or model.model_name)


def _fields(answer: ResponseAccumulator, schema: ToolSchema) -> tuple[Mapping[str, object], str]:
    message = Msg.assistant(answer.blocks(complete=True))
    for call in message.tool_calls:
        if call.name == schema.name and call.input_error is None:
            return call.input, ""
    if answer.finish_reason is FinishReason.LENGTH:
        return {}, "the model's answer was cut off at its length"
    if answer.finish_reason is FinishReason.CONTENT_FILTER:
        return {}, "the provider withheld the answer"
    if message.tool_calls:
        return {}, f"the model gave no call of {schema.name} with a JSON object as its arguments"
    found = _object_in(message.text)
    return (found, "") if found is not None else ({}, f"the model's answer has no JSON object: {message.text!r:.200}")


def _object_in(text: str) -> Mapping[str, object] | None:
    """The first JSON object of a text, after at most a few words or the fence around it."""
    begun = text.lstrip()
    if begun.startswith("<think>"):
        # some servers leave the thoughts in the text
        begun = begun.partition("</think>")[2]
    at = begun.find("{")
    if not 0 <= at <= _AROUND:
        return None
    try:
        found = cast("tuple[object, int]", _DECODER.raw_decode(begun, at))[0]
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, object]", found)
