"""A small reactive kernel on reactivex that knows no agents: `Flow`, its sources and its operators."""

from agentscope_rx.reactive.background import on_library_loop, spawn_background
from agentscope_rx.reactive.channel import Buffering, ChannelStatistics, Overflow
from agentscope_rx.reactive.kernel.bridge import FlowIterator
from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.dropped import on_dropped
from agentscope_rx.reactive.kernel.flow import Flow, flow
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.runtime import SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.operators._admitted import admitted
from agentscope_rx.reactive.operators._append_if_missing import append_if_missing
from agentscope_rx.reactive.operators._catch import catch
from agentscope_rx.reactive.operators._concat import concat
from agentscope_rx.reactive.operators._flat_map import concat_map, concat_map_type, flat_map, onward
from agentscope_rx.reactive.operators._flat_map_iterable import flat_map_iterable
from agentscope_rx.reactive.operators._hedge import hedge
from agentscope_rx.reactive.operators._merge_ordered import merge_ordered
from agentscope_rx.reactive.operators._next_turn import next_turn
from agentscope_rx.reactive.operators._recurse import Tail, recurse, tail
from agentscope_rx.reactive.operators._retry import Attempt, RetryPolicy, jittered, retry
from agentscope_rx.reactive.operators._shield import shield
from agentscope_rx.reactive.operators._take_until import take_until
from agentscope_rx.reactive.operators._then import then
from agentscope_rx.reactive.operators._timeout import timeout
from agentscope_rx.reactive.operators._transform import transform_type
from agentscope_rx.reactive.operators._using import Outcome, using
from agentscope_rx.reactive.rate import Rate, Semaphore, SemaphoreStatistics
from agentscope_rx.reactive.sources.blocking import iterate_on_worker, on_worker, tallied
from agentscope_rx.reactive.sources.tasks import from_async_iterable, from_awaitable, from_callable
from agentscope_rx.reactive.sources.values import defer, empty, from_iterable, just, never, throw, timer
from agentscope_rx.reactive.workers import ENGINE_WORKERS, WORKERS, WorkerPool, WorkerStatistics

__all__ = [
    "ENGINE_WORKERS",
    "WORKERS",
    "Attempt",
    "Buffering",
    "ChannelStatistics",
    "Demand",
    "Flow",
    "FlowIterator",
    "OneShotEvent",
    "Outcome",
    "Overflow",
    "Rate",
    "RetryPolicy",
    "Scope",
    "Semaphore",
    "SemaphoreStatistics",
    "SourceCancelledError",
    "Tail",
    "WorkerPool",
    "WorkerStatistics",
    "admitted",
    "append_if_missing",
    "catch",
    "concat",
    "concat_map",
    "concat_map_type",
    "defer",
    "empty",
    "flat_map",
    "flat_map_iterable",
    "flow",
    "from_async_iterable",
    "from_awaitable",
    "from_callable",
    "from_iterable",
    "hedge",
    "iterate_on_worker",
    "jittered",
    "just",
    "merge_ordered",
    "never",
    "next_turn",
    "on_dropped",
    "on_library_loop",
    "on_worker",
    "onward",
    "recurse",
    "retry",
    "shield",
    "spawn_background",
    "tail",
    "take_until",
    "tallied",
    "then",
    "throw",
    "timeout",
    "timer",
    "transform_type",
    "using",
]
