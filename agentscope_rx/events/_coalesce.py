"""`coalesce_chunks`: two chunk events of one block -> one, for a consumer that is behind.

    seq 4 "It "   seq 5 "is "   seq 6 "sunny."      becomes      seq 6 "It is sunny."

    agent.stream("Weather?").buffered(coalesce=coalesce_chunks)

What is merged: the text, or the thinking, of one block of one message of one run, next to each other. Nothing else:
pieces of tool calls, tools' progress and every other event wait for their turn as they are.

The merged event is the later one with the joined piece. So `seq` stays ascending but has gaps: each event says all up
to its number that was not said before, which is what a client resumes from. `accumulated` and `timestamp` are the later
one's; `fold` gives the same, as it goes by Post events.
"""

from __future__ import annotations

from dataclasses import replace

from agentscope_rx.events.base import Event
from agentscope_rx.events.kinds import ChunkEvent
from agentscope_rx.messages.blocks import ContentBlock, TextBlock, ThinkingBlock

MAX_CHARS = 8192
"""How long a merged piece may grow before the next one waits in a place of its own."""


def coalesce_chunks(earlier: Event, later: Event, *, max_chars: int = MAX_CHARS) -> Event | None:
    """One event that says what both say, or None if they are not pieces of one text: for `Flow.buffered(coalesce=...)`.

    Nor are they merged to more than `max_chars`: so a buffer of n events holds at most n times that (or single pieces
    that came longer), and merging costs the same however far the consumer is behind.
    """
    if not (isinstance(earlier, ChunkEvent) and isinstance(later, ChunkEvent) and _of_one_block(earlier, later)):
        return None
    if later.snapshot is not None:
        # accumulated content: the later one says what the earlier one did
        same = type(later.snapshot) is type(earlier.snapshot) and isinstance(later.snapshot, (TextBlock, ThinkingBlock))
        return replace(later, usage=later.usage or earlier.usage) if same else None
    delta = _joined(earlier.delta, later.delta, max_chars)
    return None if delta is None else replace(later, delta=delta, usage=later.usage or earlier.usage)


def _of_one_block(earlier: ChunkEvent, later: ChunkEvent) -> bool:
    return (
        type(earlier) is type(later)
        # the blocks of a message are told apart by where they grow; events that were read from JSON have no such place
        and earlier.view is later.view
        and earlier.message_id == later.message_id
        and earlier.source == later.source
    )


def _joined(earlier: ContentBlock | None, later: ContentBlock | None, max_chars: int) -> ContentBlock | None:
    if isinstance(earlier, TextBlock) and isinstance(later, TextBlock):
        if len(earlier.text) + len(later.text) > max_chars:
            return None
        return TextBlock(earlier.text + later.text)
    if isinstance(earlier, ThinkingBlock) and isinstance(later, ThinkingBlock):
        # a signature ends its block
        if earlier.signature or len(earlier.thinking) + len(later.thinking) > max_chars:
            return None
        metadata = {**earlier.metadata, **later.metadata}
        return ThinkingBlock(earlier.thinking + later.thinking, later.signature, metadata)
    return None
