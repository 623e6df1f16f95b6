"""What of an observation a small model is shown: the few statements that share most with the question. Pure.

A statement is a sentence or a line; a run of short lines, such as a list of names, is one statement. Ranking is
BM25's: rare words count more, long statements less. The best come first, for that is where this model looks.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from agentscope_rx.models.local.words import Features, features, matter

MAX_STATEMENTS = 4
MAX_CHARACTERS = 700
"""What fits the attention of a small model, and costs five seconds of reading at most."""

NEAR = 0.5
"""The share of the best score that lets a statement in."""

_SHORT = re.compile(r"(?!#)\S+(?: \S+)?")
_SHORT_LENGTH = 40
_DIGITS_LAST = re.compile(r"[0-9.,:]*$")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`\"'(])")
_FOUND = re.compile(r"\S+:\d+: ")
"""How a search marks where a line was found: it belongs to the whole line."""

_K1 = 1.2
_B = 0.5
_TITLE = 1.5


def statements(text: str) -> list[str]:
    """The statements of a text, in order, none twice."""
    found: list[str] = []
    names: list[str] = []
    for line in [*_unwrapped(text), ""]:
        if _SHORT.fullmatch(line) and len(line) <= _SHORT_LENGTH and line[-1] not in ".!?":
            names.append(line)
            continue
        if names:
            found.append(", ".join(names))
            names = []
        found += [line] if _FOUND.match(line) else [sentence for sentence in _SENTENCE.split(line) if sentence]
    return list(dict.fromkeys(found))


def is_found(statement: str) -> bool:
    """Whether it is a line that a search found, with its place."""
    return _FOUND.match(statement) is not None


def is_list(statement: str) -> bool:
    """Whether it is a run of names."""
    names = statement.split(", ")
    return len(names) > 1 and all(_SHORT.fullmatch(name) for name in names)


def focus(question: str, text: str, spent: Features = frozenset()) -> list[str]:
    """The statements of a text that a question is about, best first; the beginning of the text if none is.

    `spent` are features of the question that led to this text: they do not tell its parts apart.
    """
    listed = statements(text)
    scores = _bm25((features(question) | matter(question)) - spent, listed)
    best = max(scores, default=0.0)
    order = sorted(range(len(listed)), key=lambda index: (-scores[index], index))
    chosen = [listed[index] for index in order if scores[index] >= NEAR * best]
    return _fitting(chosen[:MAX_STATEMENTS])


def _unwrapped(text: str) -> Iterator[str]:
    """The lines of a text; a line of prose that goes on in the next one is joined with it."""
    held = ""
    for line in text.splitlines():
        line = " ".join(line.split())
        if held and line[:1].islower() and len(held) > _SHORT_LENGTH and held[-1] not in ".!?:":
            held += f" {line}"
            continue
        yield held
        held = line
    yield held


def _bm25(asked: Features, listed: Sequence[str]) -> list[float]:
    documents = [features(statement) | matter(statement) for statement in listed]
    lengths = [1 + len(statement.split()) for statement in listed]
    mean = sum(lengths) / max(1, len(lengths))
    counts = Counter(found for document in documents for found in document)
    scores: list[float] = []
    for index, (document, length) in enumerate(zip(documents, lengths, strict=True)):
        weight = sum(math.log(1 + len(listed) / counts[found]) for found in asked & document)
        # a text begins with what it is
        title = _TITLE if index == 0 else 1.0
        scores.append(title * weight * (_K1 + 1) / (1 + _K1 * (1 - _B + _B * length / mean)))
    return scores


def _fitting(chosen: Sequence[str]) -> list[str]:
    """As many of the chosen as fit; the first one cut if it does not."""
    fitting: list[str] = []
    room = MAX_CHARACTERS
    for statement in chosen:
        if len(statement) > room:
            break
        fitting.append(statement)
        room -= len(statement)
    return fitting or [begun for statement in chosen[:1] if (begun := _begun(statement))]


def _begun(statement: str) -> str:
    """The beginning that fits: whole words, or at least no part of a number."""
    begun, blank, _ = statement[: MAX_CHARACTERS + 1].rpartition(" ")
    return begun if blank else _DIGITS_LAST.sub("", statement[:MAX_CHARACTERS])
