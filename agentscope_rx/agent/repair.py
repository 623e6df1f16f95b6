"""`repair`: makes memory whole when a run has ended: its open calls get results, and traces of an output are removed.

An error of memory is reported then, and does not replace the reason why the run ended. The next call closes the calls
that are left open (see `Conversation.lost_in`).
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run
from agentscope_rx.events import Event, MemoryEvent
from agentscope_rx.messages import Msg, ToolResultKind
from agentscope_rx.reactive import Flow, catch, concat, concat_map, defer, empty, just, timeout
from agentscope_rx.reactive.kernel.dropped import CleanUpTimeoutError, report_dropped
from agentscope_rx.reactive.operators._using import CLEAN_UP_SECONDS


def repair(agent: AgentCore, run: Run, kind: ToolResultKind = ToolResultKind.INTERRUPTED) -> Flow[Event]:
    """Close the run's open calls with results of this kind, and remove the traces of its output.

    Signals: the events of the changes; no error.
    Cancels: the parts that have not begun.
    """
    where = f"repairing the memory of agent {run.name}"

    def unread(error: Exception) -> Flow[Event]:
        # calls are closed although memory cannot be compared
        report_dropped(error, where)
        return empty()

    compared = defer(lambda: _compare(run)).pipe(catch(unread))
    return report_errors(concat(compared, run.close_open(kind), defer(lambda: agent.tidied(run))), where)


def _compare(run: Run) -> Flow[Event]:
    """Correct the open calls by the content of memory: a write that failed may have arrived, and a call may be gone.

    Emits the results that were found and that no event has reported.
    """

    def compare(history: Sequence[Msg]) -> Flow[Event]:
        open = run.calls.open
        missing, found = set(open), list[Msg]()
        for message in reversed(history):
            if not missing:
                break
            if any(result.id in open for result in message.tool_results):
                found.append(message)
            missing.difference_update(call.id for call in message.tool_calls)
        for id in missing:
            del open[id]
        if not found:
            return empty()
        added = tuple(reversed(found))
        run.record(added)
        return just(MemoryEvent(source=run.source, added=added))

    return run.history().pipe(concat_map(compare)) if run.calls.open and not run.calls.pending else empty()


def report_errors(flow: Flow[Event], where: str, fallback: Event | None = None) -> Flow[Event]:
    """The events, ended after a bounded time; an error is reported, and `fallback` emitted in its place."""

    def late(which: str, limit: float) -> Exception:
        return CleanUpTimeoutError(f"{where} took more than {limit:g} s")

    def failed(error: Exception) -> Flow[Event]:
        report_dropped(error, where)
        return empty() if fallback is None else just(fallback)

    return flow.pipe(timeout(total=CLEAN_UP_SECONDS, error=late), catch(failed))
