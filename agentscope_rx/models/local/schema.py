"""The JSON schema of one turn: a call of an offered tool with valid arguments, or an answer. Pure.

    call      {"tool": "read_file", "arguments": {"path": "README.md"}}
    answer    {"answer": "..."}

The server turns it into a grammar, so the model cannot leave it. Beyond the tool's own schema it holds the model to the
conversation where it would invent: a path or a search word is one that the request names, an expression uses the
numbers at hand, and an answer to an observation ends with the observation's own words (`quoting.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import cast

from agentscope_rx.models.local.shortlist import COPIED, EXPRESSION, required, tool_features
from agentscope_rx.models.local.words import feature, is_function_word, is_name, words
from agentscope_rx.models.options import ToolSchema

JsonSchema = dict[str, object]

_NUMBER_IN_TEXT = re.compile(r"\d+(?:\.\d+)?")
_QUOTED = re.compile(r"(?<!\w)[\"'`“‘]([^\"'`“”‘’]{1,80})[\"'`”’](?!\w)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_PERCENT = re.compile(r"\s*\bpercent\b")
_SIGN = r"(?:\*\*|//|%\s*of\b|[-+*/^%])"
_PAIR = re.compile(rf"\d\)*\s*{_SIGN}\s*\(*\d")
_TERM = r"\(*\d+(?:\.\d+)?\)*"
_WRITTEN = re.compile(rf"(?<![\w.]){_TERM}(?:\s*{_SIGN}\s*{_TERM})+(?!\w)")
_KEYWORDS = """
type properties required additionalProperties items prefixItems minItems maxItems enum const anyOf oneOf minLength
maxLength pattern minimum maximum exclusiveMinimum exclusiveMaximum
"""
_KEPT = frozenset(_KEYWORDS.split())


def one_of(branches: Sequence[JsonSchema]) -> JsonSchema:
    """A turn that is one of the branches."""
    return branches[0] if len(branches) == 1 else {"anyOf": list(branches)}


def call(tool: ToolSchema, request: str, *, known: str = "", tried: Collection[object] = ()) -> JsonSchema:
    """A call of `tool` that serves the request. `known`: what observations say; `tried`: values that failed before."""
    definitions = cast("Mapping[str, object]", tool.parameters.get("$defs") or {})
    arguments = _Inlining(definitions).inlined(tool.parameters, 0)
    arguments.setdefault("type", "object")
    listed = dict(cast("Mapping[str, JsonSchema]", arguments.get("properties") or {}))
    spare = candidates(tool, request)
    for name, schema in list(listed.items()):
        if name not in required(tool) and len(spare) <= len(required(tool)):
            # the request says nothing that an optional argument could be made of
            del listed[name]
        elif schema.get("type") == "string" and "enum" not in schema:
            listed[name] = _held(name, schema, spare, request, known, tried)
    arguments["properties"] = listed
    arguments.setdefault("additionalProperties", False)
    return _object({"tool": {"const": tool.name}, "arguments": arguments})


def answer(form: str | None = None) -> JsonSchema:
    """An answer, free or of the form that a pattern gives."""
    return _object({"answer": {"type": "string", "pattern": form} if form else {"type": "string"}})


def literal(text: str) -> str:
    """The pattern of a text, as it stands in JSON: what JSON escapes is escaped first."""
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", json.dumps(text, ensure_ascii=False)[1:-1])


def candidates(tool: ToolSchema, request: str) -> list[str]:
    """What of a request a call of the tool can be about: what it quotes, else names in it, else all its words."""
    quoted = _QUOTED.findall(request)
    if quoted:
        return list(dict.fromkeys(quoted))
    said = tool_features(tool)
    plain: list[str] = []
    names: list[str] = []
    for sentence in _SENTENCE_END.split(request):
        for index, word in enumerate(words(sentence)):
            if is_name(word, first=index == 0):
                names.append(word)
            elif not is_function_word(word) and feature(word) not in said:
                plain.append(word)
    return list(dict.fromkeys(names or plain))


def _held(
    name: str, schema: JsonSchema, spare: Sequence[str], request: str, known: str, tried: Collection[object]
) -> JsonSchema:
    """A string argument held to the conversation, if its name says that it is copied or computed from there."""
    if COPIED.fullmatch(name) and "pattern" not in schema:
        choice = [word for word in spare if word not in tried]
        return {"type": "string", "enum": choice} if choice else schema
    if EXPRESSION.fullmatch(name):
        if spelled := written_out(request):
            return {"type": "string", "pattern": f"^({'|'.join(map(literal, spelled))})$"}
        numbers = _NUMBER_IN_TEXT.findall(request)
        if len(numbers) < 2:
            numbers += _NUMBER_IN_TEXT.findall(known)
        return {"type": "string", "pattern": _expression(numbers)}
    return schema


def written_out(request: str) -> list[str]:
    """The expressions that a request writes out itself: "(120 + 45) / 3", "15% of 240"."""
    found = (match[0].strip() for match in _WRITTEN.finditer(_PERCENT.sub("%", request)))
    return list(dict.fromkeys(each for each in found if each.count("(") == each.count(")") and _PAIR.search(each)))


def _expression(numbers: Sequence[str]) -> str:
    """An expression of the numbers at hand; of any numbers if there are not two of them to compute with."""
    at_hand = "|".join(map(literal, dict.fromkeys(numbers)))
    number = f"({at_hand})" if len(numbers) > 1 else "[0-9]{1,9}([.][0-9]{1,6})?"
    sign = r"( [-+*/%] | \*\* )"
    pair = f"{number}{sign}{number}"
    if len(numbers) == 2:
        return f"^{pair}$"
    if len(numbers) == 3:
        return rf"^({pair}{sign}{number}|\({pair}\){sign}{number}|{number}{sign}\({pair}\)|{pair})$"
    term = rf"({number}|\({pair}\))"
    return f"^{term}({sign}{term}){{1,{max(2, len(numbers) - 1)}}}$"


def _object(properties: Mapping[str, object]) -> JsonSchema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


MAX_PARTS = 2_000
"""Parts that a schema has once its references are written out; what is beyond may be anything."""


class _Inlining:
    """A schema with what `$ref` points to in its place, and without what a grammar cannot hold."""

    def __init__(self, definitions: Mapping[str, object]) -> None:
        self._definitions = definitions
        self._room = MAX_PARTS

    def inlined(self, schema: object, depth: int) -> JsonSchema:
        self._room -= 1
        if not isinstance(schema, Mapping) or depth > 8 or self._room < 0:
            return {}
        given = cast("Mapping[str, object]", schema)
        reference = given.get("$ref")
        if isinstance(reference, str):
            return self.inlined(self._definitions.get(reference.rpartition("/")[2]), depth + 1)
        clean: JsonSchema = {}
        for key, value in given.items():
            if key not in _KEPT:
                continue
            if key == "properties" and isinstance(value, Mapping):
                fields = cast("Mapping[str, object]", value)
                clean[key] = {name: self.inlined(field, depth + 1) for name, field in fields.items()}
            elif key in ("anyOf", "oneOf", "prefixItems"):
                clean[key] = [self.inlined(item, depth + 1) for item in cast("Sequence[object]", value)]
            elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
                clean[key] = self.inlined(cast("object", value), depth + 1)
            else:
                clean[key] = value
        return clean
