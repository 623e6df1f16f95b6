"""`NUMBERS`: which passage each number stands for, in one conversation.

    first retrieval     guide.md 3 -> [1]   faq.md 0 -> [2]
    a later call        guide.md 3 -> [1]   prices.csv 7 -> [3]        the same chunk keeps its number

The numbers go on through the conversation, and are saved with it: an answer of an earlier turn, which is in the history
with its marks, then means what it meant, and no number gets a second meaning. A chunk of a document that has changed
since is another one. The last `KEPT` passages are known; an older number is unknown, and is not given again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.messages import Citation
from agentscope_rx.parts import Part, Where

KEPT = 256
"""How many passages of a conversation can be cited."""
MOST_ADOPTED = 100_000
"""A greater number of others is not adopted: it would leave none for the passages of this conversation."""
_LONGEST = 10_000
"""The characters of a citation of others that is adopted: it is saved with the conversation."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """The passages by key, the latest last, and the greatest number that was given."""

    last: int
    citations: Mapping[str, Citation]


def _dump(numbered: Numbered) -> object:
    return {"last": numbered.last, "passages": [[key, each.to_dict()] for key, each in numbered.citations.items()]}


def _read(state: object) -> Numbered:
    try:
        saved = cast("Mapping[str, object]", state)
        pairs = cast("Sequence[tuple[str, Mapping[str, object]]]", saved["passages"])
        citations = {str(key): Citation.from_dict(each) for key, each in pairs}
        return Numbered(int(cast("int", saved["last"])), _latest(citations))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise InvalidInputError(f"The numbers of passages in this conversation cannot be read: {error}") from error


NUMBERS = Part("citations", 1, Numbered(0, {}), dump=_dump, read=_read)


def number(where: Where, passages: Iterable[Passage]) -> tuple[Citation, ...]:
    """The passages with their numbers in this conversation; new ones get the next numbers."""
    found = {_key(each): each for each in passages}

    def change(before: Numbered) -> tuple[Numbered, tuple[Citation, ...]]:
        last, citations = before.last, dict(before.citations)
        given: list[Citation] = []
        for key, passage in found.items():
            known = citations.pop(key, None)
            if known is None:
                last += 1
            citations[key] = passage.citation(last if known is None else known.number)
            given.append(citations[key])
        return Numbered(last, _latest(citations)), tuple(given)

    return NUMBERS.change(where, change) if found else ()


def adopt(where: Where, others: Iterable[Citation]) -> None:
    """Know what others have cited in a message to this conversation, under their numbers, as far as these are free."""
    given = tuple(others)

    def change(before: Numbered) -> tuple[Numbered, None]:
        taken = {each.number for each in before.citations.values()}
        new = [
            each
            for each in given
            if before.last < each.number <= MOST_ADOPTED and each.number not in taken and _size(each) <= _LONGEST
        ]
        if not new:
            return before, None
        citations = {**before.citations, **{f"of another agent: {each.number}": each for each in new}}
        return Numbered(max(each.number for each in new), _latest(citations)), None

    if given:
        NUMBERS.change(where, change)


def known(where: Where) -> dict[int, Citation]:
    """The passages by their numbers."""
    return {each.number: each for each in NUMBERS.get(where).citations.values()}


def _size(citation: Citation) -> int:
    return len(citation.base) + len(citation.document) + len(citation.title) + sum(map(len, citation.headings))


def _latest(citations: Mapping[str, Citation]) -> dict[str, Citation]:
    return dict(list(citations.items())[-KEPT:])


def _key(passage: Passage) -> str:
    chunk = passage.chunk
    parts = (passage.base, chunk.document.id, chunk.document.digest, str(chunk.number), chunk.text)
    hashed = blake2b(digest_size=12)
    for part in parts:
        # (with its length, so that two passages are not one because of where a text ends)
        encoded = part.encode("utf-8", "surrogatepass")
        hashed.update(len(encoded).to_bytes(8, "big") + encoded)
    return hashed.hexdigest()
