"""Thinking and what else only Anthropic understands, there and back: one `ThinkingBlock` for each, in its place.

| on the wire                              | as a ThinkingBlock                                         |
|------------------------------------------|------------------------------------------------------------|
| `thinking`                               | its text, its signature                                    |
| `redacted_thinking`                      | no text; the data as signature, `redacted` in the metadata |
| blocks of server tools, and unknown ones | no text; they are kept whole in the metadata's `blocks`    |

The metadata says whose it is (`vendor`), so that another provider leaves it out; thinking with a signature and without
metadata is taken for Anthropic's. Thinking without a signature (cut off, or another vendor's) cannot be sent back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from agentscope_rx.messages import ThinkingBlock

VENDOR = "anthropic"
OWN = {"vendor": VENDOR}
_REDACTED = {"vendor": VENDOR, "redacted": True}


def redacted(data: str) -> ThinkingBlock:
    """The block that keeps encrypted thinking."""
    return ThinkingBlock("", data, _REDACTED)


def kept(blocks: Sequence[Mapping[str, object]]) -> ThinkingBlock:
    """The block that keeps the wire's blocks as they are."""
    return ThinkingBlock("", None, {"vendor": VENDOR, "blocks": list(blocks)})


def wire_thinking(block: ThinkingBlock) -> Iterator[dict[str, object]]:
    """What is sent back for a block, in the order it came in; nothing for what is not Anthropic's."""
    if block.metadata and block.metadata.get("vendor") != VENDOR:
        return
    blocks = block.metadata.get("blocks")
    if isinstance(blocks, (list, tuple)):
        for each in cast("Sequence[Mapping[str, object]]", blocks):
            yield dict(each)
    if not block.signature:
        return
    if block.metadata.get("redacted"):
        yield {"type": "redacted_thinking", "data": block.signature}
    else:
        yield {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
