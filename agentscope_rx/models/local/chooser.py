"""Matches a request to a tool and to lines of a text, by shared words alone. Pure.

Words are compared by their stems and weighted by rarity; a path such as `notes.txt` matches tools that take one. This
matches words, not meaning: without a shared word there is no match.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentscope_rx.models.options import ToolSchema

MAX_LINES, MAX_WORDS = 10, 40
_WORD = re.compile(r"\w(?:[\w./:-]*\w)?")
_PATH = re.compile(r".*(?:/|\.[A-Za-z]).*")
_QUOTED = re.compile(r"(?<!\w)[\"'`“‘]([^\"'`“”‘’]{1,80})[\"'`”’](?!\w)")
_ENDING = re.compile(r"(?<=\w{4})(?:ing|es|ed|s)$")
_FUNCTION_WORDS = """a an the is are was were be it its in on at of to for from by and or as with what which who whom
whose how much many do does did me my you your we our i he she they his her their this that these those there here have
has had can will if then not no please about into all any some when where why tell show give look"""
_GRAMMAR = frozenset(_FUNCTION_WORDS.split())


def choose(request: str, tools: Sequence[ToolSchema]) -> ToolSchema | None:
    """The tool that shares most words with the request; None if no tool shares any."""
    scores = _scores(_stems(request, "<path>"), [_stems(tool_text(tool), "<path>") for tool in tools])
    best = max(scores, default=0.0)
    return tools[scores.index(best)] if best else None


def has_path(request: str) -> bool:
    """True for a request that names a file."""
    return any(_PATH.fullmatch(word) for word in _WORD.findall(request))


def candidates(request: str, tool: ToolSchema) -> list[str]:
    """Candidates for arguments: the request's quotations, else paths, else names, else words not in the tool's text."""
    known = _stems(tool_text(tool))
    spare = [word for word in _WORD.findall(request) if not _stems(word) <= known]
    paths = [word for word in spare if _PATH.fullmatch(word)]
    names = [word for word in spare if word[0].isupper() and not request.startswith(word)]
    return list(dict.fromkeys(_QUOTED.findall(request) or paths or names or spare))[:MAX_WORDS]


def best_lines(request: str, used: str, lines: Sequence[str]) -> list[str]:
    """The lines that share most words with the request, best first; all lines as one if a call used all its words."""
    if not (words := _stems(request) - _stems(used)):
        return ["\n".join([*lines[:MAX_LINES], *["..."] * (len(lines) > MAX_LINES)])]
    scores = _scores(words, [_stems(line) for line in lines])
    order = sorted(range(len(lines)), key=lambda at: -scores[at])
    return [lines[at] for at in order if scores[at] >= max(scores) / 2 > 0][:MAX_LINES]


def properties(tool: ToolSchema) -> Mapping[str, Any]:
    """The schemas of a tool's parameters by name."""
    given: Any = tool.parameters.get("properties")
    return {name: each for name, each in given.items() if isinstance(each, Mapping)} if given else {}


def tool_text(tool: ToolSchema) -> str:
    """The words of a tool: its name, description and its parameters' examples."""
    shown = [str(each.get("examples", name)) for name, each in properties(tool).items()]
    return " ".join([tool.name.replace("_", " "), tool.description, *shown])


def _stems(text: str, path: str | None = None) -> frozenset[str]:
    found = [word.lower() for word in _WORD.findall(text)]
    return frozenset(path if path and _PATH.fullmatch(w) else _ENDING.sub("", w) for w in found if w not in _GRAMMAR)


def _scores(words: frozenset[str], texts: Sequence[frozenset[str]]) -> list[float]:
    """The score of each text: the sum of its shared words, each weighted by rarity."""
    counts = Counter(word for text in texts for word in text)
    return [sum(math.log(1 + len(texts) / counts[word]) for word in words & text) for text in texts]
