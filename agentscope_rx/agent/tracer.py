"""The port to tracing: operators around a call, its stages, its model calls and its tool calls. By default none.

A tracer gets each part as a cold Flow and returns it, wrapped or not. So it sees subscription, every signal and
disposal, without a side channel and without a global.
"""

from __future__ import annotations

from typing import TypeVar

from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.reactive import Flow

T = TypeVar("T")


# A tracer returns the Flow that it gets, or one that behaves the same: it emits the same items, and subscribes to the
# given Flow once for each subscription.


class Tracer:
    """Returns every Flow unchanged; override the methods of the parts to trace."""

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
