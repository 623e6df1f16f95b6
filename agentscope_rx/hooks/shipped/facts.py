"""`tell_all`: what functions of the caller tell for the runtime state, by name; it never fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Final, cast

from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx.errors import DeadlineError
from agentscope_rx.reactive import Flow, catch, concat, defer, flat_map_iterable, flow, from_callable, just, timeout
from agentscope_rx.reactive.kernel.dropped import report_dropped

Fact = Callable[[], object]
"""Tells a fact: text, a number, or None for nothing to tell; or an awaitable or Observable of it."""

Told = Mapping[str, object]

UNKNOWN: Final = "not known"


def tell_all(facts: Mapping[str, Fact], seconds: float) -> Told | Flow[Told]:
    """What the functions tell: at once, or as a Flow if one of them takes time.

    A function that fails tells `UNKNOWN`, and its error is reported as dropped; so does one that takes longer than
    `seconds`.

    Signals: one mapping.
    Cancels: the function in progress.
    """
    told = {name: _told(name, fact, seconds) for name, fact in facts.items()}
    later = {name: cast("Flow[object]", value) for name, value in told.items() if isinstance(value, Flow)}
    if not later:
        return told
    found: dict[str, object] = dict(told)

    def put(name: str, value: object) -> Sequence[Told]:
        found[name] = value
        return ()

    waits = [value.pipe(flat_map_iterable(partial(put, name))) for name, value in later.items()]
    return concat(*waits, defer(lambda: just(cast("Told", found))))


def _told(name: str, fact: Fact, seconds: float) -> object:
    where = f"the fact {name!r:.60} of a runtime state"

    def failed(error: Exception) -> Flow[object]:
        report_dropped(error, where)
        return just(UNKNOWN)

    try:
        value = fact()
    except Exception as error:
        report_dropped(error, where)
        return UNKNOWN
    if isinstance(value, Observable):
        later = flow(cast("Observable[object]", value))
    elif isawaitable(value):
        awaited = cast("Awaitable[object]", value)
        later = from_callable(lambda: awaited)
    else:
        return value
    bounded = later.pipe(timeout(total=seconds, error=lambda which, limit: DeadlineError(which, limit, where)))
    # (an Observable without a value tells nothing)
    return bounded.pipe(ops.last_or_default(None), catch(failed))
