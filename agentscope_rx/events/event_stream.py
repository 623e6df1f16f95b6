"""`EventStream`: the events of a run as a `Flow`, with its two most common selections.

agent.stream("hi")                                  Flow[Event], in the order of the run
agent.stream("hi").of_type(ReasoningChunkEvent)     Flow[ReasoningChunkEvent]
agent.stream("hi").text()                           Flow[str]: the text, as it is written
agent.stream("hi").blocks()                         Flow[BlockEvent]: AgentScope 2's vocabulary
agent.stream("hi").buffered(64, max_bytes=2**20)    through a buffer of 64 events and 1 MB of content
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events._size import event_size
from agentscope_rx.events.base import Event
from agentscope_rx.events.kinds import PostCallEvent, ReasoningChunkEvent, SummaryChunkEvent
from agentscope_rx.messages.blocks import TextBlock
from agentscope_rx.reactive import Flow, FlowIterator, Overflow, defer, flat_map_iterable
from agentscope_rx.reactive.channel import DEFAULT_CAPACITY

if TYPE_CHECKING:
    from agentscope_rx.events.blocks import BlockEvent

E = TypeVar("E", bound=Event)


class EventStream(Flow[Event]):
    """The events of one run for each subscription. `pipe` returns an ordinary `Flow`."""

    def of_type(self, *kinds: type[E]) -> Flow[E]:
        """The events of these classes and their subclasses, typed; those of sub-agents included.

        Signals: the events; completion or the error of the run.
        Cancels: the run.
        """
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Event)):  # pyright: ignore[reportUnnecessaryIsInstance]
                # no warning beside this error that the stream was never subscribed to
                self.take_over()
                raise ConfigurationError(f"of_type takes classes of events, not {kind!r:.60}.")

        def chosen(event: Event) -> Iterator[E]:
            if isinstance(event, kinds):
                yield event

        return self.pipe(flat_map_iterable(chosen))

    def text(self) -> Flow[str]:
        """The text of the answer as it is written: that of this run, without thinking and without sub-agents.

        It includes the text before tool calls. A newline separates two messages, so the text of a run with one message
        is the `text` of its reply. A reply without chunks (after an interruption, or a value) comes as a whole. Chunks
        are a preview: a hook that changes the whole message, and discarded attempts, do not change the text.

        Signals: parts of the text, none of them empty; completion or the error of the run.
        Cancels: the run.
        """
        return defer(lambda: self.pipe(flat_map_iterable(_TextParts().of)))

    def blocks(self, *, session_id: str = "", reply_id: str | None = None) -> Flow[BlockEvent]:
        """The events in AgentScope 2's vocabulary: blocks that start, grow and end (see `events.blocks`).

        `session_id` is that of the reply; `reply_id` the id of the parked reply that the run continues, if it does.

        Signals: the events of the run's events; completion or the error of the run, behind its REPLY_END.
        Cancels: the run.
        """
        # its 28 kinds are imported by those who use them
        from agentscope_rx.events.blocks import BlockView

        return defer(lambda: self.pipe(flat_map_iterable(BlockView(session_id=session_id, reply_id=reply_id).add)))

    def buffered(
        self,
        capacity: int = DEFAULT_CAPACITY,
        overflow: Overflow | None = None,
        *,
        coalesce: Callable[[Event, Event], Event | None] | None = None,
        max_bytes: int | None = None,
        size_of: Callable[[Event], int] | None = None,
    ) -> FlowIterator[Event]:
        """Like `Flow.buffered`. For `max_bytes` the size of an event is its `event_size`, unless you give `size_of`."""
        if max_bytes is not None and size_of is None:
            size_of = event_size
        return super().buffered(capacity, overflow, coalesce=coalesce, max_bytes=max_bytes, size_of=size_of)


class _TextParts:
    """The text that was emitted of each message, to find the new part."""

    __slots__ = ("_block", "_messages", "_shown")

    def __init__(self) -> None:
        self._messages: list[str] = []
        # in streams with accumulated content: the block, and the length of its text that was emitted
        self._block: object = None
        self._shown = 0

    def of(self, event: Event) -> Iterator[str]:
        if event.depth:
            return
        if isinstance(event, (ReasoningChunkEvent, SummaryChunkEvent)):
            text = event.text if event.snapshot is None else self._new(event)
            if text:
                yield self._separator(event.message_id) + text
        elif isinstance(event, PostCallEvent):
            message = event.message
            if message.text and message.id not in self._messages:
                yield self._separator(message.id) + message.text

    def _new(self, event: ReasoningChunkEvent | SummaryChunkEvent) -> str:
        if not isinstance(event.snapshot, TextBlock):
            return ""
        block = (event.message_id, event.view)
        if block != self._block:
            self._block, self._shown = block, 0
        text = event.snapshot.text[self._shown :]
        self._shown = len(event.snapshot.text)
        return text

    def _separator(self, message_id: str) -> str:
        """The newline between the message before and this one."""
        if self._messages and self._messages[-1] == message_id:
            return ""
        self._messages.append(message_id)
        return "\n" if len(self._messages) > 1 else ""
