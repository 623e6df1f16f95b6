"""The questions about a collection, each with the passages that answer it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "collections"


@dataclass(frozen=True, slots=True)
class Expected:
    """A passage: the document, and a short phrase of the passage. How the documents are cut does not matter."""

    document: str
    phrase: str

    def answered_by(self, document: str, text: str) -> bool:
        """True if this text of this document has the phrase."""
        return document == self.document and bare(self.phrase) in bare(text)


@dataclass(frozen=True, slots=True)
class Question:
    """A question as a user would ask it; each of the expected passages answers it."""

    text: str
    kind: str
    expected: tuple[Expected, ...]

    def rank(self, found: Sequence[tuple[str, str]]) -> int | None:
        """The place from 1 of the first passage (document, text) that answers it; None if there is none."""
        for place, (document, text) in enumerate(found, 1):
            if any(each.answered_by(document, text) for each in self.expected):
                return place
        return None


def bare(text: str) -> str:
    """Letters and digits only: readers differ in what they keep of marks and spaces."""
    return re.sub(r"[\W_]+", "", text).lower()


def questions_of(collection: str) -> tuple[Question, ...]:
    """The questions of `collections/<collection>.toml`."""
    rows: list[dict[str, Any]] = tomllib.loads((FOLDER / f"{collection}.toml").read_text("utf-8"))["questions"]
    return tuple(Question(row["text"], row["kind"], tuple(Expected(*each) for each in row["expected"])) for row in rows)
