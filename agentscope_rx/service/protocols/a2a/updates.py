"""`Updates`: the events of a run as updates of a task.

| the run's event                    | the update                                                               |
|------------------------------------|--------------------------------------------------------------------------|
| a chunk of text                    | a piece of the artifact of its message (`append`)                         |
| the message is complete            | the artifact's last piece; the whole of it if no chunk has shown it       |
| the stream was discarded (`retry`) | the artifact begins anew, without a text                                  |
| the reply                          | `completed`; a structured value is an artifact with a data part           |
| the reply has calls that wait      | `input-required`, with what is asked for                                  |
| the reply of an interrupted run    | `canceled`                                                               |
| an error                           | `rejected` if the run was refused, else `failed`                          |

Thinking, calls of the agent's own tools and events of sub-agents are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Self
from uuid import uuid4

from a2a.types import (
    Artifact,
    Part,
    StreamResponse,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.timestamp_pb2 import Timestamp

from agentscope_rx.errors import AgentScopeError, GuardrailError
from agentscope_rx.events import ErrorEvent, Event, PostCallEvent
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.events.kinds import OutputChunkEvent, PostReasoningEvent, PostSummaryEvent, RetryEvent
from agentscope_rx.messages import GenerateReason, Msg
from agentscope_rx.service.failure import answer_to
from agentscope_rx.service.protocols.a2a.parts import Waiting, message_of, metadata_of, question_of, waiting_in
from agentscope_rx.service.protocols.a2a.wire import value_of


class Updates:
    """What a task has shown so far, and what the next event of its run adds. A client goes on with a copy."""

    def __init__(self, task_id: str, context_id: str) -> None:
        self._task_id = task_id
        self._context_id = context_id
        self._open: str | None = None
        """The artifact whose pieces are being shown."""
        self._said = ""
        """What was shown of it."""
        self._whole: str | None = None
        """The last artifact that was completed."""
        self.waiting: Waiting = {}
        """The calls that wait for the client, at the end of a run."""

    def copy(self) -> Self:
        """The same state, for another reader of the run."""
        return copy(self)

    def see(self, event: Event) -> Iterator[StreamResponse]:
        """The updates that this event makes."""
        if event.depth:
            return
        if isinstance(event, ChunkEvent):
            if event.text and not isinstance(event, OutputChunkEvent):
                yield self._piece(event.message_id, event.text)
        elif isinstance(event, RetryEvent):
            if self._open is not None and self._said:
                self._said = ""
                yield self._artifact(self._open, [Part(text="")])
        elif isinstance(event, (PostReasoningEvent, PostSummaryEvent)):
            yield from self._message(event.message)
        elif isinstance(event, PostCallEvent):
            yield from self._end(event)
        elif isinstance(event, ErrorEvent):
            yield self.failed(event.error if isinstance(event.error, Exception) else AgentScopeError(event.error_text))

    def status(self, state: TaskState, parts: list[Part], **metadata: object) -> StreamResponse:
        """The task has this state from now on."""
        now = Timestamp()
        now.GetCurrentTime()
        message = message_of(parts, uuid4().hex, self._context_id, self._task_id) if parts else None
        return StreamResponse(
            status_update=TaskStatusUpdateEvent(
                task_id=self._task_id,
                context_id=self._context_id,
                status=TaskStatus(state=state, message=message, timestamp=now),
                metadata=metadata_of(metadata) if metadata else None,
            )
        )

    def failed(self, error: Exception) -> StreamResponse:
        """The end of a run that has failed, or was refused."""
        answer = answer_to(error)
        refused = answer.status in (409, 422, 429, 503) or isinstance(error, GuardrailError)
        state = TaskState.TASK_STATE_REJECTED if refused else TaskState.TASK_STATE_FAILED
        return self.status(state, [Part(text=answer.message)], error_type=answer.kind)

    def _piece(self, id: str, text: str) -> StreamResponse:
        append = self._open == id
        self._open, self._said = id, self._said + text if append else text
        return self._artifact(id, [Part(text=text)], append=append)

    def _message(self, message: Msg) -> Iterator[StreamResponse]:
        if self._whole == message.id or not message.text:
            return
        same = self._open == message.id and self._said == message.text
        self._open, self._said, self._whole = None, "", message.id
        # a hook may have changed what was streamed: then the artifact is replaced
        yield self._artifact(message.id, [Part(text="" if same else message.text)], append=same, last=True)

    def _end(self, event: PostCallEvent) -> Iterator[StreamResponse]:
        reply = event.message
        self.waiting = waiting_in(reply)
        if self.waiting:
            yield self.status(TaskState.TASK_STATE_INPUT_REQUIRED, question_of(self.waiting))
            return
        if reply.generate_reason is not GenerateReason.INTERRUPTED:
            yield from self._message(reply)
        if reply.has_structured:
            yield self._artifact(
                f"{reply.id}-value", [Part(data=value_of(reply.structured()))], name="value", last=True
            )
        canceled = reply.generate_reason is GenerateReason.INTERRUPTED
        state = TaskState.TASK_STATE_CANCELED if canceled else TaskState.TASK_STATE_COMPLETED
        usage = event.usage
        spent = {} if usage is None else {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        yield self.status(state, [], reason=reply.generate_reason.value, **spent)

    def _artifact(
        self, id: str, parts: list[Part], *, append: bool = False, last: bool = False, name: str = "reply"
    ) -> StreamResponse:
        return StreamResponse(
            artifact_update=TaskArtifactUpdateEvent(
                task_id=self._task_id,
                context_id=self._context_id,
                artifact=Artifact(artifact_id=id, name=name, parts=parts),
                append=append,
                last_chunk=last,
            )
        )
