"""`ChunkEvent`: what the events for the parts of a message share."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Protocol

from agentscope_rx.events.base import EXCLUDED, EXCLUDED_TUPLE, Event
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.blocks import ContentBlock, TextBlock, ThinkingBlock
from agentscope_rx.messages.msg import ChatUsage


class Accumulation(Protocol):
    """The deltas of one block; `upto(count)` builds the block as it was after so many, when it is called."""

    def upto(self, count: int) -> ContentBlock: ...


_View = Annotated[Accumulation | None, *EXCLUDED]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEvent(Event):
    """A part of a message while the model writes it. `delta` is the new part, `accumulated` the block so far.

    The delta of a tool call is a `ToolUseBlock` whose `raw` is the next part of its arguments' text. The chunks of one
    message share its `message_id`. They are a preview: the message is the one in the stage's Post event. In a hook
    `accumulated` has everything that the model has written of the block, in the stream everything that was shown.
    """

    iteration: int = 0
    message_id: str = ""
    delta: ContentBlock | None = None
    snapshot: ContentBlock | None = None
    """The whole block so far, in place of `delta`, in a stream with `incremental=False`."""
    usage: ChatUsage | None = None
    """The token usage of the answer so far, if the provider sent it. A chunk with usage alone has no delta."""
    view: _View = field(default=None, compare=False, repr=False)
    count: Annotated[int, *EXCLUDED_TUPLE] = field(default=0, compare=False, repr=False)

    @property
    def accumulated(self) -> ContentBlock | None:
        """The whole block so far, built when it is read.

        In a chunk hook it is the model's text; in the stream the text as chunk hooks have left it.
        """
        if self.snapshot is not None or self.view is None:
            return self.snapshot or self.delta
        return self.view.upto(self.count)

    @property
    def text(self) -> str:
        """The new text; '' if the delta is thinking or a tool call."""
        return self.delta.text if isinstance(self.delta, TextBlock) else ""

    @property
    def thinking(self) -> str:
        """The new thinking; '' if the delta is something else."""
        return self.delta.thinking if isinstance(self.delta, ThinkingBlock) else ""
