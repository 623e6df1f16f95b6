"""`revise`: changes of memory that hooks ask for at the end of the run, however it has ended (see `Hook.revised`)."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.agent.run import Run
from agentscope_rx.errors import HookError
from agentscope_rx.events import Event, MemoryEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, concat_map, empty


def revise(run: Run) -> Flow[Event]:
    """Replace the messages that the hooks have revised; each hook sees the changes of those before it.

    Signals: one `MemoryEvent`, if there were any; the error of a hook or of memory.
    Cancels: the read; the writes, once begun, run to their end.
    """

    def ask(history: Sequence[Msg]) -> Flow[Event]:
        changed: dict[str, Msg] = {}
        for hook in run.hooks.revising:
            seen = [changed.get(message.id, message) for message in history] if changed else history
            known = {message.id: message for message in seen}
            for message in hook.revised(run.source, seen):
                _check(hook, known.get(message.id), message)
                changed[message.id] = message
        if not changed:
            return empty()
        replaced = tuple(changed.values())
        return run.write(
            MemoryEvent(source=run.source, replaced=replaced), *(run.memory.replace(message) for message in replaced)
        )

    return run.history().pipe(concat_map(ask))


def _check(hook: Hook, before: Msg | None, after: Msg) -> None:
    """`HookError` for a message that memory does not hold, and for one with other calls or results."""
    if before is None:
        problem = f"gave a message with the id {after.id!r}, which memory does not hold"
    elif before.role is not after.role or _pairs(before) != _pairs(after):
        problem = "must keep the role of a message, its calls and the ids of its results"
    else:
        return
    raise HookError(problem, hook=hook.name, event="revised")


def _pairs(message: Msg) -> tuple[object, object]:
    return message.tool_calls, [result.id for result in message.tool_results]
