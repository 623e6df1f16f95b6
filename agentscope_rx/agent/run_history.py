"""`run_history`: the conversation with all messages of a run, also those that a database memory does not give any more.

A run that compacts its conversation, or is given further input, may be longer than the part that such a memory gives.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.agent.run import Run
from agentscope_rx.messages import Msg
from agentscope_rx.messages.history import History
from agentscope_rx.reactive import Flow, concat_map, flat_map_iterable, just, then

COMPACTED = "has compacted"
"""The key in a run's extras: it has made the conversation smaller."""


def run_history(run: Run) -> Flow[Sequence[Msg]]:
    """What the memory gives, with the messages of the run from its first input on.

    Signals: one sequence of messages; the error of memory.
    Cancels: the read.
    """
    return run.history().pipe(concat_map(lambda history: _completed(run, history))) if _may_lack(run) else run.history()


def _may_lack(run: Run) -> bool:
    return run.memory.durable and bool(run.input.messages)


def _completed(run: Run, history: Sequence[Msg]) -> Flow[Sequence[Msg]]:
    first = run.input.messages[0].id
    at = next((n for n in range(len(history) - 1, -1, -1) if history[n].id == first), None)
    if at is not None and COMPACTED not in run.extras:
        return just(history)
    before = history[: at or 0]
    found: list[Msg] = []

    def keep(message: Msg) -> Sequence[None]:
        if message.id == first:
            found.clear()
        if found or message.id == first:
            found.append(message)
        return ()

    def whole(count: int) -> Flow[Sequence[Msg]]:
        if count <= len(history):
            return just(history)
        read: Flow[None] = run.memory.read().pipe(flat_map_iterable(keep))
        return read.pipe(then(lambda: just(History([*before, *found]) if found else history)))

    return run.memory.count().pipe(concat_map(whole))
