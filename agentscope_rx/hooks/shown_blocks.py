"""What has been shown of each block. Behind chunk hooks, `.accumulated` is the sum of the chunks as they left them.

    model says        my key is | 1234 | .
    a hook rewrites   my key is | **** | .
    .accumulated      in the hook 'my key is 1234', in the stream 'my key is ****'

So a hook can look at the whole block so far (a secret may come in pieces), and nothing that it took out comes back.
"""

from __future__ import annotations

from dataclasses import replace

from reactivex import Observable

from agentscope_rx.events import ChunkEvent, Event
from agentscope_rx.messages import ContentBlock
from agentscope_rx.models.growing_blocks import Growing, growing
from agentscope_rx.reactive import concat_map, defer


def shown(chunks: Observable[Event]) -> Observable[Event]:
    """The same chunks; each one's view is of what was shown, itself included.

    Signals: one chunk for each.
    Cancels: the source.
    """
    return defer(lambda: concat_map(_Shown().add)(chunks))


class _Shown:
    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        # by the block as the model wrote it; a chunk made by a hook alone goes on with its message's block of its kind
        self._blocks: dict[object, Growing[ContentBlock]] = {}

    def add(self, event: Event) -> Event:
        if not isinstance(event, ChunkEvent) or event.delta is None:
            return event
        delta = event.delta
        key = (event.view or event.message_id, type(delta))
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = growing(delta)
        return replace(event, view=block, count=block.add(delta))
