"""The rules of the embedded model with no model in them: each turn is the first thing that they allow.

So an argument is the first word that they offer, and the answer the line that they rank highest. What a score has above
this one is the own merit of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models import ChatModel, ChatResponse, FinishReason, ToolUseDelta
from agentscope_rx.models.local.prompt import next_turn
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.reactive import Flow, just

_PLAIN: dict[str, object] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


class RulesAlone(ChatModel):
    """Answers by the rules, and asks no model."""

    provider = "local"

    def __init__(self) -> None:
        super().__init__("rules-alone")

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        turn = next_turn(messages, tools, options.tool_choice)
        if turn.schema is not None:
            called = ToolUseDelta(0, "call", turn.tool, json.dumps(first(turn.schema), ensure_ascii=False))
            return just(ChatResponse((called,), finish_reason=FinishReason.TOOL_CALLS))
        reply = turn.reply or (turn.lines[0] if turn.lines else "I do not know.")
        return just(ChatResponse((TextBlock(reply),), finish_reason=FinishReason.STOP))


def first(arguments: Mapping[str, object]) -> dict[str, object]:
    """The first arguments that a schema allows."""
    listed = cast("Mapping[str, Mapping[str, object]]", arguments.get("properties") or {})
    return {name: _value(each) for name, each in listed.items()}


def _value(schema: Mapping[str, object]) -> object:
    if "enum" in schema:
        return cast("Sequence[object]", schema["enum"])[0]
    return schema.get("default", _PLAIN.get(str(schema.get("type")), ""))
