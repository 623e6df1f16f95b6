"""`remove_from_memory`: messages leave memory during a run; the summary that one carries goes to another one."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.agent.run import Run
from agentscope_rx.events import Event, MemoryEvent
from agentscope_rx.memory.views import summary_carrier
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, concat, concat_map, just, shield, then


def remove_from_memory(
    run: Run, history: Sequence[Msg], removed: Sequence[str], replaced: Sequence[Msg] = (), *after: Flow[object]
) -> Flow[Event]:
    """Replace these messages of the history, and remove those of these ids; then do what else is to be done.

    Signals: one MemoryEvent, which also has the message that carries the summary from now on; the error of memory.
    Cancels: nothing: the writes, once begun, run to their end.
    """
    event = MemoryEvent(source=run.source, replaced=tuple(replaced), removed=tuple(removed))
    writes: list[Flow[object]] = [run.memory.replace(message) for message in replaced]
    if removed:
        writes.append(run.memory.delete(removed))
    carrier = summary_carrier(history) if removed else None
    if carrier is None or carrier.id not in removed:
        return run.write(event, *writes, *after)

    def written(history: Sequence[Msg]) -> Flow[Event]:
        # (memory chooses the heir: it may be far behind the part of a database that is read)
        heir = summary_carrier(history)
        new_of = {message.id: message for message in (*replaced, *([] if heir is None else [heir]))}
        told = event.replace(replaced=tuple(new_of.values()))
        run.unemitted.append(told)
        return just(told)

    run.writes += 1
    return shield(concat(*writes, *after).pipe(then(run.history), concat_map(written)))
