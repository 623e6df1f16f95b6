"""Which of the offered tools a request speaks of: by shared words and shapes, before the model is asked. Pure.

A model of this size chooses well among few. So a tool stays in the choice if its evidence comes near the best; without
any evidence all stay. The evidence of a tool is what its name, description and parameters share with the request; an
example of an argument (`examples` in its schema) counts by its shape, so that "12 * 3" speaks for a calculator and
"notes.txt" for a reader of files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from agentscope_rx.models.local.words import Features, features, overlaps, shapes
from agentscope_rx.models.options import ToolSchema

NEAR = 0.7
"""The share of the best evidence that keeps a tool in the choice."""

COPIED = re.compile(
    r"(?:.*_)?(?:path|file|filename|folder|directory|dir|url|pattern|query|keyword|word|phrase|name|id)s?"
)
"""Names of parameters that take a word of the request."""

EXPRESSION = re.compile(r"(?:.*_)?(?:expression|formula|equation|calculation)")
"""Names of parameters that take arithmetic."""

_FILE = re.compile(r"(?:.*_)?(?:path|file|filename)s?")
_SHOWN = ((_FILE, "a/b.txt"), (EXPRESSION, "1 + 2"))
_STEP_MARK = re.compile(r"^(?:(?:and\s+)?(?:then|next|finally|after that)\b[,:]?|\d+[.)](?=\s))\s*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?;])(?<!^\d\.)\s+|\n+", re.MULTILINE)
_SEQUENCE = re.compile(r"(?:,|;)?\s+(?:and\s+)?then\s+")


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The tools in the choice, best first. `certain`: the request has words that speak for them."""

    tools: tuple[ToolSchema, ...]
    certain: bool


def shortlist(request: str, tools: Sequence[ToolSchema]) -> Shortlist:
    """The tools that the request speaks of."""
    scores = overlaps(features(request), [tool_features(tool) for tool in tools])
    best = max(scores, default=0.0)
    ranked = sorted(zip(scores, range(len(tools)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return Shortlist(tuple(tools[index] for score, index in ranked if score >= NEAR * best), best > 0)


def tool_features(tool: ToolSchema) -> Features:
    """What a tool says of itself."""
    found = features(tool.name.replace("_", " ")) | features(tool.description)
    shown: list[str] = []
    for name, schema in parameters(tool).items():
        found |= features(name.replace("_", " ")) | features(str(schema.get("description", "")))
        shown += map(str, examples(schema))
    # a tool without examples is taken at its parameters' names
    for example in shown or [text for named, text in _SHOWN for name in parameters(tool) if named.fullmatch(name)]:
        found |= shapes(example)
    return found


def parameters(tool: ToolSchema) -> Mapping[str, Mapping[str, object]]:
    """The schemas of a tool's parameters by name."""
    given = tool.parameters.get("properties")
    if not isinstance(given, Mapping):
        return {}
    listed = cast("Mapping[str, object]", given)
    return {
        name: cast("Mapping[str, object]", schema) if isinstance(schema, Mapping) else {}
        for name, schema in listed.items()
    }


def required(tool: ToolSchema) -> tuple[str, ...]:
    """The names of the parameters that a call must give."""
    given = tool.parameters.get("required")
    return tuple(str(name) for name in cast("Sequence[object]", given)) if isinstance(given, Sequence) else ()


def examples(schema: Mapping[str, object]) -> tuple[object, ...]:
    """The example values that a parameter's schema gives."""
    given = schema.get("examples")
    return tuple(cast("Sequence[object]", given)) if isinstance(given, Sequence) and not isinstance(given, str) else ()


def steps(request: str, tools: Sequence[ToolSchema]) -> list[str]:
    """The steps that a request spells out, in order; most requests are one.

    A new step begins at "then". A request whose sentences are commands ("Read ...", by the verbs in the tools' names)
    has a step for each of them; a question with a command behind it is one step.
    """
    verbs = {tool.name.partition("_")[0].lower() for tool in tools}
    found: list[str] = []
    commanded = False
    for sentence in _SENTENCE_END.split(request.strip()):
        for number, part in enumerate(_SEQUENCE.split(sentence)):
            bare = _STEP_MARK.sub("", part.strip())
            if not bare:
                continue
            command = bare.partition(" ")[0].strip(".,:;").lower() in verbs
            marked = number > 0 or bare != part.strip()
            if found and not marked and not (command and commanded):
                found[-1] += f" {bare}"
            else:
                found.append(bare)
                commanded = command
    return found
