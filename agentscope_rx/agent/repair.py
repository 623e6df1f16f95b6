"""What makes memory whole when a run has ended: its calls get results there, and traces of an output leave it.

What memory refuses then is reported, and does not replace why the run ended; the next call sees to what is left over
(see `Conversation.lost_in`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentscope_rx.agent.run import Run
from agentscope_rx.events import Event, MemoryEvent
from agentscope_rx.messages import Msg, ToolResultKind
from agentscope_rx.reactive import Flow, catch, concat, concat_map, defer, empty, just, timeout
from agentscope_rx.reactive.kernel.dropped import CleanUpTimeoutError, report_dropped
from agentscope_rx.reactive.operators._using import CLEAN_UP_SECONDS

if TYPE_CHECKING:
    from agentscope_rx.agent.agent import Agent


def repaired(agent: Agent, run: Run, kind: ToolResultKind = ToolResultKind.INTERRUPTED) -> Flow[Event]:
    """The events of closing the run's open calls and of what is taken out of memory; never an error."""
    where = f"repairing the memory of agent {run.name}"

    def unread(error: Exception) -> Flow[Event]:
        # what cannot be compared is closed all the same
        report_dropped(error, where)
        return empty()

    recounted = defer(lambda: _recounted(run)).pipe(catch(unread))
    return reported(concat(recounted, run.close_open(kind), defer(lambda: agent.tidied(run))), where)


def _recounted(run: Run) -> Flow[Event]:
    """Leaves out of the open calls what memory says otherwise of: a write that failed may be there all the same, and a
    call that is gone needs no result. Emits what nothing has told of yet."""

    def compare(history: Sequence[Msg]) -> Flow[Event]:
        sought, found = set(run.open), list[Msg]()
        for message in reversed(history):
            if not sought:
                break
            if any(result.id in run.open for result in message.tool_results):
                found.append(message)
            sought.difference_update(call.id for call in message.tool_calls)
        for id in sought:
            del run.open[id]
        if not found:
            return empty()
        added = tuple(reversed(found))
        run.note(added)
        return just(MemoryEvent(source=run.source, added=added))

    return run.history().pipe(concat_map(compare)) if run.open and not run.pending else empty()


def reported(flow: Flow[Event], where: str, instead: Event | None = None) -> Flow[Event]:
    """What must not keep a run from its end, neither by failing nor by taking for ever; `instead` is said then."""

    def late(which: str, limit: float) -> Exception:
        return CleanUpTimeoutError(f"{where} took more than {limit:g} s")

    def failed(error: Exception) -> Flow[Event]:
        report_dropped(error, where)
        return empty() if instead is None else just(instead)

    return flow.pipe(timeout(total=CLEAN_UP_SECONDS, error=late), catch(failed))
