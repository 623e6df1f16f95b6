"""Extracts the one JSON object of a text: plain, in a fence, or with prose around it. It never guesses.

| text                                        | gives                                          |
|---------------------------------------------|------------------------------------------------|
| a JSON object                               | it                                             |
| fences (```json ... ```) with an object     | it, if there is one such fence                 |
| prose around an object                      | it, if there is one                            |
| several different objects                   | `NoJsonError`                                  |
| none, or a broken one; an array, a scalar   | `NoJsonError` with the reason                  |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from agentscope_rx.lazy import pattern
from agentscope_rx.models.accumulate import parse_arguments

# possessive quantifiers: a text that begins to match and fails is not scanned again from each position
_FENCE = pattern(r"```[ \t]*+[\w+-]*+[ \t]*+\n(.*?)(?:\n[ \t]*+```|\Z)", re.DOTALL)
_TOKEN = pattern(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)

MAX_CANDIDATES = 1000
"""The largest number of parts of a text that look like a JSON object."""


class NoJsonError(Exception):
    """The text holds no JSON object, or more than one; the message is for the model."""


def extract_object(text: str) -> Mapping[str, object]:
    """The JSON object that the text is, or holds; `NoJsonError` gives the reason if there is none."""
    stripped = text.strip()
    value, problem = parse_arguments(stripped)
    if problem is None and stripped and stripped != "null":
        return value
    found = [stripped] if stripped.startswith(("[", '"')) else []
    for several in (_fenced(stripped), _braced(stripped)):
        candidates = [*islice(several, MAX_CANDIDATES + 1)]
        if len(candidates) > MAX_CANDIDATES:
            raise NoJsonError(f"the answer holds more than {MAX_CANDIDATES} JSON objects; it must hold one")
        objects = _different(candidates)
        if len(objects) > 1:
            raise NoJsonError("the answer holds several different JSON objects; it must hold one")
        if objects:
            return objects[0]
        found += candidates
    if not found:
        raise NoJsonError("the answer holds no JSON object")
    raise NoJsonError(f"the answer is {parse_arguments(found[0])[1] or 'not a JSON object'}")


def _different(candidates: list[str]) -> list[Mapping[str, object]]:
    objects: list[Mapping[str, object]] = []
    for each in candidates:
        value, problem = parse_arguments(each)
        if problem is None and value not in objects:
            objects.append(value)
        if len(objects) > 1:
            break
    return objects


def _fenced(text: str) -> Iterator[str]:
    """The content of fences that looks like a JSON object; an unclosed fence ends with the text."""
    for match in _FENCE().finditer(text):
        inner = match[1].strip()
        if inner.startswith("{"):
            yield inner


def _braced(text: str) -> Iterator[str]:
    """The outermost {...} of the text. Braces within strings do not count; an unclosed object ends with the text."""
    start = text.find("{")
    while start >= 0:
        end = _end(text, start)
        yield text[start:end]
        start = text.find("{", end)


def _end(text: str, start: int) -> int:
    depth = 0
    for token in _TOKEN().finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return len(text)
