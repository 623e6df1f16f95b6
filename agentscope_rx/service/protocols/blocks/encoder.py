"""`BlockEncoder`: the events of one run, or of one behind the other, as AgentScope 2's."""

from __future__ import annotations

import time

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors.text import encode_json
from agentscope_rx.events import ErrorEvent, PostCallEvent
from agentscope_rx.events.blocks import BlockEvent, BlockView, ReplyEndEvent
from agentscope_rx.models.wire.json_codec import encode_json as written
from agentscope_rx.service.failure import answer_to


class BlockEncoder:
    """Each event is a line of `data` without a name or an id. `continues` are replies that go on, by run."""

    __slots__ = ("_continues", "_error", "_reply_id", "_session_id", "_view")

    def __init__(self, session_id: str, continues: dict[str, str]) -> None:
        self._session_id = session_id
        self._continues = continues
        self._view: BlockView | None = None
        self._reply_id = ""

    def encode(self, logged: LoggedEvent) -> bytes:
        """The block events that this event is."""
        event = logged.event
        if self._view is None:
            reply_id = self._continues.get(event.run_id)
            self._reply_id = reply_id or event.run_id
            self._view = BlockView(session_id=self._session_id, reply_id=reply_id)
        made = self._view.add(event)
        if not event.depth and isinstance(event, (PostCallEvent, ErrorEvent)):
            self._view = None
        return b"".join([_frame(each) for each in made])

    def fail(self, error: Exception) -> bytes:
        """The end of the reply, with the error."""
        answer = answer_to(error)
        return _frame(
            ReplyEndEvent(
                id=f"{self._reply_id}:error",
                created_at=time.time(),
                reply_id=self._reply_id,
                session_id=self._session_id,
                finished_reason="error",
                error={"type": "internal", "message": answer.message},
            )
        )

    def close(self) -> bytes:
        """Nothing: the reply's last event says how it ended."""
        return b""


def _frame(event: BlockEvent) -> bytes:
    return encode_json(f"data: {written(event.to_dict())}\n\n")
