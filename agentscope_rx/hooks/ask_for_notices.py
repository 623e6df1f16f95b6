"""How a hook is asked for its notices: any number of events of the `NOTICES` kinds."""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import copy_context
from inspect import isawaitable
from typing import cast

from reactivex import Observable, abc

from agentscope_rx.errors import HookError
from agentscope_rx.events import Event
from agentscope_rx.hooks.base import Hook
from agentscope_rx.hooks.error_notes import add_note
from agentscope_rx.hooks.notices import NOTICES, NoticeRequest
from agentscope_rx.reactive import Flow, catch, concat_map, empty, flow, from_awaitable, just, throw


def notices_of(hook: Hook, request: NoticeRequest) -> Flow[Event] | None:
    """The events that the hook reports, with their source; None if it has nothing to report. It is asked now.

    Signals: the events; the error of the hook, with a note that names it; `HookError` for other answers.
    Cancels: the work of the hook.
    """
    try:
        answer: object = copy_context().run(hook.notices, request)
    except Exception as error:
        add_note(error, hook, "notices", request.agent)
        raise
    if answer is None:
        return None

    def checked(item: object) -> Flow[Event]:
        if item is None:
            return empty()
        if type(item) not in NOTICES:
            kinds = " or ".join(kind.__name__ for kind in NOTICES)
            raise HookError(f"gave {item!r:.60} as a notice, not a {kinds}", hook=hook.name, event="notices")
        event = cast("Event", item)
        return just(event if event.source is request.source else event.replace(source=request.source))

    if isinstance(answer, abc.ObservableBase):
        found = flow(cast("Observable[object]", answer))
    elif isawaitable(answer):
        found = from_awaitable(cast("Awaitable[object]", answer))
    else:
        found = just(answer)
    events = found.pipe(concat_map(checked))
    return events.pipe(catch(lambda error: throw(add_note(error, hook, "notices", request.agent))))
