"""What an agent of a script has besides its model: a memory elsewhere, and who watches."""

from __future__ import annotations

from typing import TypeVar

from agentscope_rx import InMemoryMemory, Msg
from agentscope_rx.agent import Tracer
from agentscope_rx.agent.run import Done
from agentscope_rx.reactive import Flow, and_then, map_flow, timer

T = TypeVar("T")


class Remote(InMemoryMemory):
    """Takes its time for everything, as a store elsewhere does."""

    def get(self):
        return timer(0.125).pipe(and_then(super().get))

    def add(self, messages):
        return timer(0.125).pipe(and_then(lambda: super(Remote, self).add(messages)))

    def replace(self, message):
        return timer(0.125).pipe(and_then(lambda: super(Remote, self).replace(message)))

    def delete(self, ids):
        return timer(0.125).pipe(and_then(lambda: super(Remote, self).delete(ids)))


class Ends(Tracer):
    """Sees to what end the stages of a run have come, whatever becomes of the run then."""

    def __init__(self, ends: dict[str, Msg]) -> None:
        self.ends = ends

    def trace_stage(self, flow: Flow[T], *, agent: str, run_id: str, stage: str, iteration: int) -> Flow[T]:
        def note(value: T) -> T:
            if isinstance(value, Done):
                self.ends[run_id] = value.message
            return value

        return flow.pipe(map_flow(note))
