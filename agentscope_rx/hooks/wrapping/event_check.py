"""`EventCheck`: one hook's operator around the events of a call or a stage.

| events                                     | the operator                                                           |
|--------------------------------------------|------------------------------------------------------------------------|
| records: those that report what memory has | lets each pass once, unchanged and in order (`fold` relies on them)    |
| a RetryEvent that discards                 | is announced even if the operator drops it or holds it back            |
| all others: Pre events, chunks, retries    | may be changed, dropped, delayed; the operator may add some, but not   |
|                                            | behind the PostCallEvent                                               |

A further attempt is refused once memory was written, at the same time as another, and after completion. If chunks of
an earlier attempt were shown, it begins with a RetryEvent that discards them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from agentscope_rx.errors import HookError
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    ErrorEvent,
    Event,
    PostCallEvent,
    PreActingEvent,
    PreReasoningEvent,
    RetryEvent,
)
from agentscope_rx.events.base import kinds_of_events
from agentscope_rx.hooks.wrapping.around_hook import Step
from agentscope_rx.hooks.wrapping.checked import Checked
from agentscope_rx.hooks.wrapping.requests import CallRequest, StageRequest
from agentscope_rx.reactive import Flow
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.kernel.scope import Scope

_PREVIEWS = (ChunkEvent, ActingChunkEvent, PreReasoningEvent, PreActingEvent, RetryEvent, ErrorEvent)
RECORDS = frozenset(kind for kind in kinds_of_events() if not issubclass(kind, _PREVIEWS))
"""The kinds of events that report what memory and the parts of the conversation have."""


class EventCheck(Checked[Event, CallRequest | StageRequest]):
    """See the table above. `wrote` is true once the call or stage has written to memory.

    `watched` calls the hooks of the RetryEvents that a further attempt begins with.
    """

    __slots__ = ("_over", "_owed", "_recorded", "_shown", "_watched", "_wrote")

    def __init__(
        self,
        step: Step,
        request: CallRequest | StageRequest,
        wrote: Callable[[], bool],
        watched: Callable[[Flow[Event]], Flow[Event]],
        sink: Sink[Event],
        scope: Scope,
    ) -> None:
        super().__init__(step, request, sink, scope)
        self._wrote = wrote
        self._watched = watched
        self._recorded = False
        # the run's PostCallEvent has come out
        self._over = False
        # records that have gone in and not come out
        self._owed: deque[Event] = deque()
        # the calls whose chunks were shown; None for those of the model
        self._shown: dict[str | None, None] = {}

    def begins(self) -> HookError | Iterable[Event]:
        what = "call" if isinstance(self.request, CallRequest) else "stage"
        if self.active:
            return self.problem(f"subscribed to the {what} a second time while it was running")
        if self.completed:
            return self.problem(f"subscribed to the {what} again after it had completed")
        if self.attempts > 1 and (self._recorded or self._wrote()):
            return self.problem(
                f"tried the {what} again after it had written to memory, which cannot be taken back. Try again around "
                "the model or the tool instead"
            )
        shown, self._shown = self._shown, {}
        return [self._discarding(call) for call in shown]

    def lead(self, first: Iterable[Event]) -> Flow[Event]:
        return self._watched(super().lead(first))

    def _discarding(self, call: str | None) -> RetryEvent:
        error = self.error
        return RetryEvent(
            source=self.request.source,
            stage="model" if call is None else "tool",
            tool_use_id=call,
            attempt=self.attempts - 1,
            error_type="" if error is None else type(error).__name__,
            error_text=f"Hook {self.step.hook.name} has ended the attempt." if error is None else str(error),
            discarded=True,
        )

    def entered(self, item: Event, sink: Sink[Event]) -> None:
        kind = type(item)
        if kind in RECORDS:
            self._recorded = True
            self._owed.append(item)
        elif kind is RetryEvent and cast("RetryEvent", item).discarded:
            self.announce(item, sink)
            return
        sink.on_next(item)

    def announced(self, item: Event) -> None:
        self._shown.pop(cast("RetryEvent", item).tool_use_id, None)

    def on_next(self, item: Event) -> None:
        if self.disposed:
            return
        kind = type(item)
        if kind in RECORDS:
            if not (self._owed and self._owed[0] is item):
                self.fail(self._misplaced(item))
                return
            self._owed.popleft()
            self._over = kind is PostCallEvent and item.run_id == self.request.run_id
        elif self._over:
            name = type(item).__name__
            self.fail(self.problem(f"emitted a {name} after the PostCallEvent, which is the last event of a call"))
            return
        elif not isinstance(item, Event):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(self.problem(f"must emit events, not {type(item).__name__}: {item!r:.60}"))
            return
        elif kind is RetryEvent:
            call = cast("RetryEvent", item).tool_use_id
            # (held back with chunks of its attempt, which have come out meanwhile: discard those, too)
            if self.is_repeated(item) and call not in self._shown:
                return
            if cast("RetryEvent", item).discarded:
                self.announced(item)
        else:
            self._note_shown(item)
        self._sink.on_next(item)

    def _note_shown(self, item: Event) -> None:
        depth = len(self.request.source.path)
        if len(item.source.path) > depth:
            # of a sub-agent, which one of the calls has run
            self._shown[item.source.path[depth]] = None
        elif isinstance(item, ChunkEvent):
            self._shown[None] = None
        elif isinstance(item, ActingChunkEvent):
            self._shown[item.tool_use.id] = None

    def _misplaced(self, item: Event) -> HookError:
        name = type(item).__name__
        if any(owed is item for owed in self._owed):
            lost = self._owed[0]
            return self.problem(
                f"lost this {type(lost).__name__}, or changed its order or its fields: {_ADVICE}", lost.type
            )
        return self.problem(f"emitted a {name} twice, changed it or made one: {_ADVICE}", item.type)

    def ends(self) -> HookError | None:
        if self._owed:
            lost = self._owed[0]
            return self.problem(f"lost this {type(lost).__name__}: {_ADVICE}", lost.type)
        if self.completed:
            return None
        what = "call" if isinstance(self.request, CallRequest) else "stage"
        ended = "failed" if self.error is not None else "not completed" if self.attempts else "not begun"
        return self.problem(
            f"completed a {what} that has {ended}. It must complete when the {what} does, or fail; to answer in place "
            "of the model or a tool, stand around these"
        )


_ADVICE = (
    "it reports what memory has, so it must pass once and as it is. Hooks on the event itself may change it, before "
    "memory is written"
)
