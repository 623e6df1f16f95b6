"""`Run`: one call, with all the state that belongs to it and to nothing else.

The agent object is configuration plus memory. Whatever changes during a call is here, so that two assembled calls can
never swap anything. A run lives on one loop's thread; `interrupt` may come from any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import uuid4

from agentscope_rx.event import EventSource, PostActingEvent
from agentscope_rx.memory import Memory
from agentscope_rx.message import ChatUsage, GenerateReason, Msg, ToolResultKind, ToolUseBlock, closing_results
from agentscope_rx.reactive import Flow, Scope, Signal, and_then, concat, defer, empty, just, map_flow, shielded


class InterruptSource(StrEnum):
    """Who asked for an interruption."""

    USER = "user"
    TOOL = "tool"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Done:
    """What the last stage of a run emits: the reply, remembered already."""

    message: Msg


class Run:
    """The state of one call.

    `open` are the calls in memory that have no result there yet, in call order; `pending` says that they are left so
    on purpose. `iteration` counts model rounds from 0.
    """

    __slots__ = (
        "goto_count",
        "id",
        "interrupt",
        "interrupt_message",
        "interrupt_source",
        "iteration",
        "memory",
        "model_calls",
        "name",
        "open",
        "pending",
        "scope",
        "seq",
        "source",
        "system_message",
        "tool_calls",
        "usage",
    )

    def __init__(self, name: str, memory: Memory, scope: Scope, system_message: Msg | None = None) -> None:
        self.id = uuid4().hex
        self.name = name
        self.memory = memory
        self.scope = scope
        self.source = EventSource(self.id, name, (self.id,))
        self.seq = 0
        self.system_message = system_message
        self.iteration = 0
        self.goto_count = 0
        self.model_calls = 0
        self.tool_calls = 0
        self.usage = ChatUsage()
        self.open: dict[str, ToolUseBlock] = {}
        self.pending = False
        self.interrupt = Signal()
        self.interrupt_message: Msg | None = None
        self.interrupt_source = InterruptSource.USER
        if (demand := scope.demand) is not None:
            # a consumer that has stalled does not keep the run from ending; after the others who listen have stopped
            self.interrupt.listen(lambda: scope.call_soon(demand.waive))

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked this run to end; it does so at its next check point."""
        return self.interrupt.fired

    def request_interrupt(self, message: Msg | None, source: InterruptSource) -> None:
        """Ask the run to end; from any thread. The first request counts."""

        def fire() -> None:
            if not self.interrupt.fired:
                self.interrupt_message = message
                self.interrupt_source = source
                self.interrupt.fire(later=self.scope.call_soon)

        if self.scope.is_here():
            fire()
        else:
            self.scope.call_from_thread(fire)

    def remember(self, messages: Sequence[Msg]) -> Flow[None]:
        """Write to memory, whole even if the run is disposed meanwhile; keeps the account of open calls."""
        if not messages:
            return just(None)

        def note(done: None) -> None:
            for message in messages:
                for call in message.tool_calls:
                    self.open[call.id] = call
                for result in message.tool_results:
                    self.open.pop(result.id, None)

        return shielded(self.memory.add(messages).pipe(map_flow(note)))

    def history(self) -> Flow[Sequence[Msg]]:
        """The conversation now."""
        return self.memory.get()

    def close_open(
        self, kind: ToolResultKind = ToolResultKind.INTERRUPTED, text: str | None = None
    ) -> Flow[PostActingEvent]:
        """Give every open call an error result of this kind, in memory; emits their events.

        Hooks are not asked: the results are the engine's own words, and a failing hook may be why this is needed.
        """

        def close() -> Flow[PostActingEvent]:
            calls = tuple(self.open.values())
            if not calls or self.pending:
                return empty()
            return concat(*(self._close(call, kind, text) for call in calls))

        return defer(close)

    def _close(self, call: ToolUseBlock, kind: ToolResultKind, text: str | None) -> Flow[PostActingEvent]:
        message = Msg.tool(closing_results((call,), kind, text), self.name)
        event = PostActingEvent(source=self.source, iteration=self.iteration, tool_use=call, message=message)
        return self.remember((message,)).pipe(and_then(lambda: just(event)))

    def final(self, message: Msg, reason: GenerateReason) -> Msg:
        """The message as the reply of this run: with its reason and what the whole run cost."""
        usage = self.usage if self.usage != ChatUsage() else message.usage
        if message.generate_reason is reason and message.usage == usage:
            return message
        return message.replace(generate_reason=reason, usage=usage)
