"""`drop_transient`: transient messages leave memory at the end of the run, however it has ended."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.agent.removing import remove_from_memory
from agentscope_rx.agent.run import Run
from agentscope_rx.events import Event
from agentscope_rx.memory.views import transient_in
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, concat_map, empty


def drop_transient(run: Run) -> Flow[Event]:
    """Remove the transient messages. Of overlapping runs the last one removes them, as all of these use them.

    Signals: one `MemoryEvent`, if there were any; the error of memory.
    Cancels: the read; a write that has begun runs to its end.
    """

    def remove(history: Sequence[Msg]) -> Flow[Event]:
        if any(other is not run and not other.calls.ended for other in run.conversation.runs):
            return empty()
        ids = tuple(dict.fromkeys(message.id for message in transient_in(history)))
        if not ids:
            return empty()
        return remove_from_memory(run, history, ids)

    return run.history().pipe(concat_map(remove))
