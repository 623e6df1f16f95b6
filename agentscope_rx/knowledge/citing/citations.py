"""What a reply cites: its marks, checked against the passages of its conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.knowledge.citing.marks import numbers_in
from agentscope_rx.knowledge.citing.numbers import known
from agentscope_rx.messages import Citation, GenerateReason, Msg, citations_of
from agentscope_rx.messages.citation import CITATIONS
from agentscope_rx.parts import PartStates

_OPEN = (GenerateReason.TOOL_SUSPENDED, GenerateReason.APPROVAL_REQUIRED)
"""Replies that repeat open calls, which a later call answers."""


def cited_by(reply: Msg, parts: PartStates | None) -> tuple[Msg, tuple[Citation, ...], tuple[int, ...]] | None:
    """The reply with its citations in `metadata["citations"]`, these, and the numbers that stand for no passage.

    None if it has no marks, or was searched already. Of a structured output the strings are read, not its lists.
    """
    if reply.generate_reason in _OPEN or CITATIONS in reply.metadata:
        return None
    texts = _strings(reply.structured()) if reply.has_structured else (reply.text,)
    numbers = sorted({number for text in texts for number in numbers_in(text)})
    if not numbers:
        return None
    passages = known(parts)
    citations = tuple(passages[each] for each in numbers if each in passages)
    unknown = tuple(each for each in numbers if each not in passages)
    if citations:
        reply = reply.replace(metadata={**reply.metadata, CITATIONS: [each.to_dict() for each in citations]})
    return reply, citations, unknown


def citations_in(messages: Iterable[Msg]) -> list[Citation]:
    """The citations of all these messages; those that cannot be read are left out: they may be of another program."""
    found: list[Citation] = []
    for message in messages:
        if CITATIONS not in message.metadata:
            continue
        try:
            found += citations_of(message)
        except InvalidInputError:
            continue
    return found


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, object]", value).values():
            yield from _strings(each)
    elif isinstance(value, (list, tuple)):
        for each in cast("Iterable[object]", value):
            yield from _strings(each)
