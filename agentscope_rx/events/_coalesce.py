"""`coalesce_chunks`: merges two chunk events of one block into one, for a slow consumer.

    seq 4 "It "   seq 5 "is "   seq 6 "sunny."      becomes      seq 6 "It is sunny."

    agent.stream("Weather?").buffered(coalesce=coalesce_chunks)

It merges adjacent text, or thinking, of one block of one message of one run. It merges nothing else: deltas of tool
calls, the progress of tools and all other events stay as they are.

The merged event is the later one with the joined delta. So `seq` ascends but has gaps: a client resumes from the number
of the last event that it has. `accumulated` and `timestamp` are those of the later event. `fold` gives the same result,
because it uses Post events.
"""

from __future__ import annotations

from dataclasses import replace

from agentscope_rx.events.base import Event
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.messages.blocks import ContentBlock, TextBlock, ThinkingBlock

MAX_CHARS = 8192
"""The largest length of a merged delta; a further one becomes an event of its own."""


def coalesce_chunks(earlier: Event, later: Event, *, max_chars: int = MAX_CHARS) -> Event | None:
    """One event in place of both, or None if they do not belong to one text: for `Flow.buffered(coalesce=...)`.

    It merges the text, or the thinking, of one block of one message. Pieces of tool calls, progress of tools and other
    events stay apart. The merged event is the later one with the joined piece, and has its `seq`: numbers ascend, with
    gaps. `accumulated` and `fold` give the same as without merging. A merged piece has at most `max_chars` characters,
    so a slow consumer does not make merging slow.
    """
    if not (isinstance(earlier, ChunkEvent) and isinstance(later, ChunkEvent) and _of_one_block(earlier, later)):
        return None
    if later.snapshot is not None:
        # accumulated content: the later event includes the earlier one
        same = type(later.snapshot) is type(earlier.snapshot) and isinstance(later.snapshot, (TextBlock, ThinkingBlock))
        return replace(later, usage=later.usage or earlier.usage) if same else None
    delta = _joined(earlier.delta, later.delta, max_chars)
    return None if delta is None else replace(later, delta=delta, usage=later.usage or earlier.usage)


def _of_one_block(earlier: ChunkEvent, later: ChunkEvent) -> bool:
    return (
        type(earlier) is type(later)
        # `view` distinguishes the blocks of a message; events that were read from JSON have none
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
