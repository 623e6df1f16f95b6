"""Thoughts, signatures and parts that only Gemini understands, there and back, as a `ThinkingBlock` in its place.

| on the wire                                           | as a ThinkingBlock                                |
|-------------------------------------------------------|---------------------------------------------------|
| a thought                                             | its text; the signature if it has one             |
| the signature of a text                               | after the text: no text, `spans` in the metadata  |
| the signature of an image                             | after the image: no text, `media` in the metadata |
| code that ran at the server, its result, server tools | no text; the `parts` as JSON in the metadata      |

A call's signature is in the call's own metadata. Spans are (start, end, signature) in the text: its pieces were parts
of their own, and go back as such. The metadata says whose it is (`vendor`), so that other providers leave it out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.models.gemini.parts import WirePart

VENDOR = "gemini"
SIGNATURE = "thoughtSignature"

Span = tuple[int, int, str]


def thought(text: str, signature: str | None) -> ThinkingBlock:
    """A piece of a thought."""
    return ThinkingBlock(text, signature, {"vendor": VENDOR} if signature else {})


def text_signatures(spans: Sequence[Span]) -> ThinkingBlock:
    """The signatures of the text before."""
    return ThinkingBlock("", spans[-1][2], {"vendor": VENDOR, "spans": [list(span) for span in spans]})


def media_signature(signature: str) -> ThinkingBlock:
    """The signature of the image before."""
    return ThinkingBlock("", signature, {"vendor": VENDOR, "media": True})


def kept_parts(parts: Sequence[str]) -> ThinkingBlock:
    """The block that keeps the wire's parts, each as JSON."""
    return ThinkingBlock("", None, {"vendor": VENDOR, "parts": list(parts)})


def is_own(block: ThinkingBlock) -> bool:
    """Whether the block is Gemini's: one without metadata may be anyone's, and is left out."""
    return block.metadata.get("vendor") == VENDOR


def spans_of(block: object) -> Sequence[Span]:
    """The signatures of the text before, if this is the block that keeps them."""
    spans = block.metadata.get("spans") if isinstance(block, ThinkingBlock) and is_own(block) else None
    return cast("Sequence[Span]", spans) if isinstance(spans, (list, tuple)) else ()


def wire_text(text: str, spans: Sequence[Span]) -> Iterator[WirePart]:
    """The parts of a text: the pieces that were signed, and what is between. A text that has changed is one part."""
    if any(end > len(text) or start > end for start, end, _ in spans):
        spans = ()
    done = 0
    for start, end, signature in spans:
        if text[done:start]:
            yield {"text": text[done:start]}
        yield {"text": text[start:end], SIGNATURE: signature}
        done = end
    if text[done:]:
        yield {"text": text[done:]}


def wire_thinking(block: ThinkingBlock) -> Iterator[WirePart]:
    """What is sent back for a block, but for the signatures of the text or image before it."""
    if not is_own(block):
        return
    parts = block.metadata.get("parts")
    if isinstance(parts, (list, tuple)):
        for part in cast("Sequence[object]", parts):
            yield _kept_part(part)
    if block.signature and block.thinking and "spans" not in block.metadata:
        yield {"text": block.thinking, "thought": True, SIGNATURE: block.signature}


def _kept_part(text: object) -> WirePart:
    try:
        part: object = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        part = None
    if not isinstance(part, dict):
        raise InvalidInputError(
            f"A thinking block of vendor {VENDOR!r} has a part that is no JSON object: {text!r:.80}"
        )
    return cast("WirePart", part)
