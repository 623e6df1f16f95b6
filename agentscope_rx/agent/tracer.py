"""The port to tracing: operators around a call, its stages, its model calls and its tool calls. By default nothing.

A tracer gets each part as the cold Flow that it is and gives it back, wrapped or not: it sees subscription, every
signal and disposal, without a side channel and without a global.
"""

from __future__ import annotations

from typing import TypeVar

from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.reactive import Flow

T = TypeVar("T")


class Tracer:
    """Passes everything through; override what you want to see."""

    def trace_call(self, flow: Flow[T], *, agent: str, run_id: str) -> Flow[T]:
        """Around a whole run."""
        return flow

    def trace_stage(self, flow: Flow[T], *, agent: str, run_id: str, stage: str, iteration: int) -> Flow[T]:
        """Around one stage: `reasoning`, `acting` or `summarizing`."""
        return flow

    def trace_model(self, flow: Flow[T], *, agent: str, run_id: str, model: str) -> Flow[T]:
        """Around one model call with its retries."""
        return flow

    def trace_tool(self, flow: Flow[T], *, agent: str, run_id: str, call: ToolUseBlock) -> Flow[T]:
        """Around one tool call with its retries."""
        return flow


NO_TRACER = Tracer()
