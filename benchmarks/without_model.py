"""The rules of the embedded model with no model in them: each turn is the first text that its grammar allows.

So the tool is the one that the rules put first, its argument the first word that they offer, and the answer the line
that they rank highest. What a score has above this one is the own merit of the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models import ChatModel, ChatResponse
from agentscope_rx.models.local.prompt import next_turn
from agentscope_rx.models.local.reply import Reply
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.reactive import Flow, defer, flat_map_iterable, just

_NUMBERS = {"integer": 1, "number": 1, "boolean": True}


class RulesAlone(ChatModel):
    """Answers by the rules, and asks no model."""

    provider = "local"

    def __init__(self) -> None:
        super().__init__("rules-alone")

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        turn = next_turn(messages, tools, options.tool_choice)
        if turn.schema is None:
            return just(ChatResponse((TextBlock("I do not know."),), finish_reason="stop"))
        text = json.dumps(first(turn.schema), ensure_ascii=False)
        answer = just(ChatResponse((TextBlock(text),), finish_reason="stop"))
        return defer(lambda: answer.pipe(flat_map_iterable(Reply().feed)))


def first(schema: Mapping[str, object]) -> object:
    """The first value that a schema allows."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "anyOf", "oneOf"):
        listed = schema.get(key)
        if listed:
            one = cast("Sequence[object]", listed)[0]
            return one if key == "enum" else first(cast("Mapping[str, object]", one))
    kind = schema.get("type")
    if kind == "object":
        properties = cast("Mapping[str, Mapping[str, object]]", schema.get("properties") or {})
        return {name: first(each) for name, each in properties.items()}
    if kind == "array":
        return []
    pattern = schema.get("pattern")
    # the pattern is one of JSON text
    return json.loads(f'"{first_match(str(pattern))}"') if pattern else _NUMBERS.get(str(kind), "")


def first_match(pattern: str) -> str:
    """The first text that a pattern allows. A choice that comes again, as that of numbers, goes on to the next."""
    return "".join(_texts(re._parser.parse(pattern), {}))  # type: ignore[attr-defined]


def _texts(parsed: Any, taken: dict[str, int]) -> list[str]:
    found: list[str] = []
    for code, value in parsed:
        match str(code):
            case "LITERAL":
                found.append(chr(value))
            case "IN":
                listed = [chr(given if str(kind) == "LITERAL" else given[0]) for kind, given in value]
                # of the signs the one that most questions of this kind mean
                found.append("*" if "*" in listed else listed[0])
            case "BRANCH":
                choices = value[1]
                at = taken[str(choices)] = min(taken.get(str(choices), -1) + 1, len(choices) - 1)
                found += _texts(choices[at], taken)
            case "SUBPATTERN":
                found += _texts(value[3], taken)
            case "MAX_REPEAT" | "MIN_REPEAT":
                for _ in range(value[0]):
                    found += _texts(value[2], taken)
            case _:
                pass
    return found
