"""The JSON schema of one turn: a call of an offered tool with valid arguments, or an answer. Pure.

    call      {"tool": "read_file", "arguments": {"path": "README.md"}}
    answer    {"answer": "..."}

The server turns it into a grammar, so the model cannot leave it. Beyond the tool's own schema it holds the model to the
conversation where it would invent: a path or a search word is one that the request names, an expression uses the
numbers at hand, and an answer to an observation ends with the observation's own words (see `quoting`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from agentscope_rx.model.local.shortlist import COPIED, EXPRESSION, required, tool_features
from agentscope_rx.model.local.words import feature, is_function_word, is_name, shape, words
from agentscope_rx.model.options import ToolSchema

JsonSchema = dict[str, object]

_NUMBER_IN_TEXT = re.compile(r"\d+(?:\.\d+)?")
_QUOTED = re.compile(r"(?<!\w)[\"'`“‘]([^\"'`“”‘’]{1,80})[\"'`”’](?!\w)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_KEYWORDS = """
type properties required additionalProperties items prefixItems minItems maxItems enum const anyOf oneOf minLength
maxLength pattern minimum maximum exclusiveMinimum exclusiveMaximum
"""
_KEPT = frozenset(_KEYWORDS.split())
_LEAD_WORDS = 16
_ASKING = "what which who whom whose how where when why do does did is are was many much"
_NOT_TAKEN_UP = frozenset(_ASKING.split(" "))
_SPAN_WORDS = 60


def one_of(branches: Sequence[JsonSchema]) -> JsonSchema:
    """A turn that is one of the branches."""
    return branches[0] if len(branches) == 1 else {"anyOf": list(branches)}


def call(tool: ToolSchema, request: str, *, known: str = "", tried: Collection[object] = ()) -> JsonSchema:
    """A call of `tool` that serves the request. `known`: what observations say; `tried`: values that failed before."""
    arguments = _inlined(tool.parameters, cast("Mapping[str, object]", tool.parameters.get("$defs") or {}), 0)
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


def answer(quoted: str | None = None) -> JsonSchema:
    """An answer, free or of the form that `quoting` gives."""
    return _object({"answer": {"type": "string", "pattern": quoted} if quoted else {"type": "string"}})


def quoting(question: str, statements: Sequence[str]) -> str:
    """The pattern of an answer: a statement, or words of the question and a statement from a word of it to its end.

    What is said is the model's choice; a number or a name that was not seen cannot be said.
    """
    whole = "|".join(_literal(statement) for statement in statements)
    runs = "|".join(_run(clause, start) for clause in _clauses(question) for start in _beginnings(clause))
    if not runs:
        return f"^({whole})$"
    ends = "|".join(_from_any_word(statement.split()[-_SPAN_WORDS:]) for statement in statements)
    return f"^({whole}|(The )?({runs}) ((is|are|was|has|says) )?({ends}))$"


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
        numbers = _NUMBER_IN_TEXT.findall(request)
        if len(numbers) < 2:
            numbers += _NUMBER_IN_TEXT.findall(known)
        return {"type": "string", "pattern": _expression(numbers)}
    return schema


def _expression(numbers: Sequence[str]) -> str:
    """An expression of the numbers at hand; of any numbers if there are not two of them to compute with."""
    at_hand = "|".join(map(_literal, dict.fromkeys(numbers)))
    number = f"({at_hand})" if len(numbers) > 1 else "[0-9]{1,9}([.][0-9]{1,6})?"
    sign = r"( [-+*/%] | \*\* )"
    pair = f"{number}{sign}{number}"
    if len(numbers) == 2:
        return f"^{pair}$"
    if len(numbers) == 3:
        return rf"^({pair}{sign}{number}|\({pair}\){sign}{number}|{number}{sign}\({pair}\)|{pair})$"
    term = rf"({number}|\({pair}\))"
    return f"^{term}({sign}{term}){{1,{max(2, len(numbers) - 1)}}}$"


def _clauses(question: str) -> Iterator[list[str]]:
    """The runs of words of a question that an answer can take up; a sign, which would compute, is not one of them."""
    run: list[str] = []
    for token in question.split()[:_LEAD_WORDS]:
        word = token.strip(".,;:!?\"'`()")
        if not word or word.lower() in _NOT_TAKEN_UP or shape(word) == "<sign>":
            if run:
                yield run
            run = []
        else:
            run.append(word)
    if run:
        yield run


def _beginnings(clause: Sequence[str]) -> Iterator[int]:
    """Where in a clause a sentence can begin."""
    return (at for at, word in enumerate(clause) if word.lower() in ("the", "a", "an") or not is_function_word(word))


def _run(found: Sequence[str], start: int) -> str:
    """The words from `start` on, up to any of them."""
    pattern = ""
    for word in reversed(found[start + 1 :]):
        pattern = f"( {_literal(word)}{pattern})?"
    return _literal(found[start]) + pattern


def _from_any_word(found: Sequence[str]) -> str:
    pattern = ""
    for word in found[:-1]:
        pattern = f"({pattern}{_literal(word)} )?"
    return pattern + _literal(found[-1])


def _literal(text: str) -> str:
    # the pattern is of the JSON text of the string: what JSON escapes is escaped first
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", json.dumps(text, ensure_ascii=False)[1:-1])


def _object(properties: Mapping[str, object]) -> JsonSchema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _inlined(schema: object, definitions: Mapping[str, object], depth: int) -> JsonSchema:
    """A schema with what `$ref` points to in its place, and without what a grammar cannot hold."""
    if not isinstance(schema, Mapping) or depth > 8:
        return {}
    given = cast("Mapping[str, object]", schema)
    reference = given.get("$ref")
    if isinstance(reference, str):
        return _inlined(definitions.get(reference.rpartition("/")[2]), definitions, depth + 1)
    clean: JsonSchema = {}
    for key, value in given.items():
        if key not in _KEPT:
            continue
        if key == "properties" and isinstance(value, Mapping):
            fields = cast("Mapping[str, object]", value)
            clean[key] = {name: _inlined(field, definitions, depth + 1) for name, field in fields.items()}
        elif key in ("anyOf", "oneOf", "prefixItems"):
            clean[key] = [_inlined(item, definitions, depth + 1) for item in cast("Sequence[object]", value)]
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            clean[key] = _inlined(cast("object", value), definitions, depth + 1)
        else:
            clean[key] = value
    return clean
