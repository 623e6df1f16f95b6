"""`default_chunker`: what is used if no chunker is given."""

from __future__ import annotations

from agentscope_rx.knowledge.chunker import Chunker
from agentscope_rx.knowledge.chunkers.text_chunkers import HeadingChunker


def default_chunker() -> Chunker:
    """By headings, in chunks of at most 384 tokens: each kind of section is cut by its own structure."""
    return HeadingChunker()
