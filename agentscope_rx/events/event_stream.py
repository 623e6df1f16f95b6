"""`EventStream`: the events of a run as a `Flow`, with the two things that are asked of it most.

agent.stream("hi")                                  Flow[Event], in the order of the run
agent.stream("hi").of_type(ReasoningChunkEvent)     Flow[ReasoningChunkEvent]
agent.stream("hi").text()                           Flow[str]: the words, as they are written
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events.base import Event
from agentscope_rx.events.kinds import PostCallEvent, ReasoningChunkEvent, SummaryChunkEvent
from agentscope_rx.messages.blocks import TextBlock
from agentscope_rx.reactive import Flow, defer, flat_map_iterable

E = TypeVar("E", bound=Event)


class EventStream(Flow[Event]):
    """The events of one run for each subscription. What `pipe` gives is an ordinary `Flow`."""

    def of_type(self, *kinds: type[E]) -> Flow[E]:
        """Only the events of these classes (subclasses included), typed as such; those of sub-agents, too.

        Signals: the events; completion or the error of the run.
        Cancels: the run.
        """
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Event)):  # pyright: ignore[reportUnnecessaryIsInstance]
                # this error is the one to read: none beside it that the stream was never begun
                self.take_over()
                raise ConfigurationError(f"of_type takes classes of events, not {kind!r:.60}.")

        def chosen(event: Event) -> Iterator[E]:
            if isinstance(event, kinds):
                yield event

        return self.pipe(flat_map_iterable(chosen))

    def text(self) -> Flow[str]:
        """The text of the answer in pieces, as they are written: of this run, without thinking and without sub-agents.

        What the model says before it calls tools is part of it. A newline comes between two messages, so that the
        pieces of a run that says one are its reply's `text`. A reply that no chunk has shown (an interruption's, a
        value) comes as one piece. Chunks are a preview: what a hook makes of the whole message afterwards, and that an
        attempt was discarded, is not known here.

        Signals: pieces of text, none of them empty; completion or the error of the run.
        Cancels: the run.
        """
        return defer(lambda: self.pipe(flat_map_iterable(_Words().of)))


class _Words:
    """What has been said of each message, to find what is new."""

    __slots__ = ("_block", "_messages", "_shown")

    def __init__(self) -> None:
        self._messages: list[str] = []
        # of streams with accumulated content: whose text, and how much of it has been said
        self._block: object = None
        self._shown = 0

    def of(self, event: Event) -> Iterator[str]:
        if event.depth:
            return
        if isinstance(event, (ReasoningChunkEvent, SummaryChunkEvent)):
            text = event.text if event.snapshot is None else self._new(event)
            if text:
                yield self._apart(event.message_id) + text
        elif isinstance(event, PostCallEvent):
            message = event.message
            if message.text and message.id not in self._messages:
                yield self._apart(message.id) + message.text

    def _new(self, event: ReasoningChunkEvent | SummaryChunkEvent) -> str:
        if not isinstance(event.snapshot, TextBlock):
            return ""
        block = (event.message_id, event.view)
        if block != self._block:
            self._block, self._shown = block, 0
        text = event.snapshot.text[self._shown :]
        self._shown = len(event.snapshot.text)
        return text

    def _apart(self, message_id: str) -> str:
        """What comes between the message before and this one."""
        if self._messages and self._messages[-1] == message_id:
            return ""
        self._messages.append(message_id)
        return "\n" if len(self._messages) > 1 else ""
