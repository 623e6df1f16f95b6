"""`Answer`: what a run says, in the terms that Chat Completions and Responses share.

| the run's event            | the client sees                                                                      |
|----------------------------|--------------------------------------------------------------------------------------|
| a chunk of text            | text; the messages of two rounds are apart by a blank line                           |
| a chunk of thinking        | reasoning                                                                            |
| calls of the agent's tools | nothing: they are the agent's own                                                    |
| the reply                  | text that no chunk has shown; calls that wait for the client; the value of an output |

Events of sub-agents are not shown. Their tokens count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal, NamedTuple

from agentscope_rx.errors import AgentScopeError
from agentscope_rx.events import ErrorEvent, Event, PostCallEvent
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.events.kinds import OutputChunkEvent, PostReasoningEvent, PostSummaryEvent, RetryEvent
from agentscope_rx.messages import ChatUsage, GenerateReason, Msg, ToolUseBlock
from agentscope_rx.messages.blocks import ToolResultKind
from agentscope_rx.service.protocols.openai.failures import ApprovalNeededError

FinishReason = Literal["stop", "length", "tool_calls"]
BETWEEN = "\n\n"
"""Between the messages of two rounds."""


class Part(NamedTuple):
    """New text, or new reasoning."""

    kind: Literal["text", "reasoning"]
    text: str


class Answer:
    """What a run has said so far. `see` each event of the run, then `check` how it ended; the rest is there then.

    With `structured` the text is the JSON of the reply's value, which is there at the end.
    """

    def __init__(self, *, structured: bool = False) -> None:
        self.calls: tuple[ToolUseBlock, ...] = ()
        self.usage: ChatUsage = ChatUsage()
        self.finish: FinishReason = "stop"
        self.reply: Msg | None = None
        self._structured = structured
        self._error: Exception | None = None
        self._message_id: str | None = None
        self._said: bool = False
        """Some text was shown."""
        self._apart: bool = False
        """The next text is of another message than the last one that was shown."""

    def see(self, event: Event) -> Iterator[Part]:
        """The parts that this event adds."""
        if event.depth:
            return
        if isinstance(event, ChunkEvent):
            yield from self._chunk(event)
        elif isinstance(event, RetryEvent):
            self._apart = self._said
        elif isinstance(event, (PostReasoningEvent, PostSummaryEvent)):
            yield from self._message(event.message)
        elif isinstance(event, PostCallEvent):
            yield from self._end(event)
        elif isinstance(event, ErrorEvent):
            # raised at the end: a client that left now would leave the run with an error that nobody has read
            self._error = event.error if isinstance(event.error, Exception) else AgentScopeError(event.error_text)

    def check(self) -> None:
        """Raise the error of a failed run; `ApprovalNeededError` if the run waits for a person."""
        if self._error is not None:
            raise self._error

    def _chunk(self, event: ChunkEvent) -> Iterator[Part]:
        if isinstance(event, OutputChunkEvent):
            return
        if event.thinking:
            yield Part("reasoning", event.thinking)
        if event.text and not self._structured:
            if self._message_id != event.message_id:
                self._message_id, self._apart = event.message_id, self._said
            yield self._text(event.text)

    def _message(self, message: Msg) -> Iterator[Part]:
        """The text of a message that came without chunks, for example from a cache or a hook."""
        if self._message_id != message.id and message.text and not self._structured:
            self._message_id, self._apart = message.id, self._said
            yield self._text(message.text)

    def _text(self, text: str) -> Part:
        if self._apart:
            text, self._apart = BETWEEN + text, False
        self._said = True
        return Part("text", text)

    def _end(self, event: PostCallEvent) -> Iterator[Part]:
        reply = self.reply = event.message
        self.usage = event.usage or self.usage
        self.calls = reply.pending_calls
        self._error = unanswerable(reply)
        if self.calls:
            self.finish = "tool_calls"
            return
        if reply.generate_reason in (GenerateReason.MAX_ITERATIONS, GenerateReason.LIMIT_REACHED):
            self.finish = "length"
        if self._structured and reply.has_structured:
            yield self._text(json.dumps(reply.structured(), ensure_ascii=False))
        else:
            yield from self._message(reply)


def unanswerable(reply: Msg) -> ApprovalNeededError | None:
    """The error if a call of this reply waits for a person, and not for the client."""
    kinds = {result.id: result.kind for result in reply.tool_results}
    asked = [call for call in reply.pending_calls if kinds.get(call.id) not in (None, ToolResultKind.SUSPENDED)]
    return ApprovalNeededError(asked) if asked else None
