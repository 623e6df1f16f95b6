"""`default_chunker`: what is used if no chunker is given."""

from __future__ import annotations

from agentscope_rx.knowledge.chunkers.text_chunkers import HeadingChunker, TextChunker


def default_chunker() -> TextChunker:
    """By headings, in chunks of at most 256 tokens: each kind of section is cut by its own structure."""
    return HeadingChunker()
