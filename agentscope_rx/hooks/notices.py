"""`NoticeRequest`: the moment before which a hook may put events of its own into the stream (see `Hook.notices`).

    Retrieval  PreReasoning  ReasoningChunk ...  PostReasoning        before "round", and before "summary"
    Citation  PostCall                                                before "end"

A notice reports something and changes nothing by itself: what a hook found is given to the model by its hook on
PreReasoningEvent, and a reply is changed by its hook on PostCallEvent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Literal

from reactivex import Observable

from agentscope_rx.events import CitationEvent, Event, PlanEvent, RetrievalEvent
from agentscope_rx.events.base import EventSource, HasSource
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.reactive import Flow

NOTICES: tuple[type[Event], ...] = (RetrievalEvent, CitationEvent, PlanEvent)
"""The kinds that hooks may report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRequest(HasSource):
    """A run before a model request, or before its PostCallEvent. Everything is read-only.

    `history` is a cold flow of one value: the memory now. `model` is the agent's model, None at the end of a run
    without one. `reply` is None before the end of the run. `limit_reached` is true before a summary at a limit: time
    and tokens are short.
    """

    before: Literal["round", "summary", "end"]
    source: EventSource
    history: Flow[Sequence[Msg]]
    model: ChatModel | None = None
    iteration: int = 0
    reply: Msg | None = None
    limit_reached: bool = False


NoticeAnswer = Observable[Event] | Awaitable[Event | None] | Event | None
"""What `Hook.notices` may return."""
