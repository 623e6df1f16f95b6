"""The notices of hooks in the stream of a run: asked for, counted, observed (see `hooks.notices`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from agentscope_rx.agent.run import Run
from agentscope_rx.events import Event, RetrievalEvent
from agentscope_rx.hooks.ask_for_notices import notices_of
from agentscope_rx.hooks.notices import NOTICES, NoticeRequest
from agentscope_rx.reactive import Flow, concat, defer, flat_map_iterable, take_until

T = TypeVar("T")


def noticed(run: Run, request: NoticeRequest, following: Callable[[], Flow[T]]) -> Flow[Event | T]:
    """The notices of all hooks, each asked after those of the one before, then `following()`.

    An interruption ends the work of a hook, but not at the end of the run. The tokens of a retrieval count for the run.

    Signals: the notices, those of `following()`; the error of a hook, or a `HookError`.
    Cancels: the work of the hook in progress, or that flow.
    """
    return _ask(run, request, 0, following)


def _ask(run: Run, request: NoticeRequest, index: int, following: Callable[[], Flow[T]]) -> Flow[Event | T]:
    hooks, ends = run.hooks.noticing, request.before == "end"
    while index < len(hooks) and (ends or not run.interrupted):
        found = notices_of(hooks[index], request)
        index += 1
        if found is None:
            continue
        if not ends:
            found = found.pipe(take_until(run.interruption.event))
        counted = found.pipe(flat_map_iterable(lambda event: _counted(run, request, event)))
        for kind in NOTICES:
            counted = run.hooks.watched(kind, counted)
        return concat(counted, defer(partial(_ask, run, request, index, following)))
    return following()


def _counted(run: Run, request: NoticeRequest, event: Event) -> tuple[Event]:
    if isinstance(event, RetrievalEvent):
        count_retrieval(run, event, "" if request.model is None else request.model.model_name)
    return (event,)


def count_retrieval(run: Run, event: RetrievalEvent, model: str) -> None:
    """Count the model call of a retrieval, if it has made one; `model` is the one that it names none for."""
    if event.usage is not None:
        run.usage.add_model_call([(event.model_name or None, event.usage)], model)
