"""A small reactive kernel on reactivex, without agents: `Flow`, its sources and its operators.

The look-up page "Which operator?" lists them by purpose. To write one, see the page "Write your own: operator".
"""

from agentscope_rx.reactive.background import on_library_loop, on_loop, spawn_background
from agentscope_rx.reactive.channel import Buffering, ChannelStatistics, Overflow, Overshoot
from agentscope_rx.reactive.kernel.bridge import FlowIterator
from agentscope_rx.reactive.kernel.demand import Demand
from agentscope_rx.reactive.kernel.dropped import on_dropped
from agentscope_rx.reactive.kernel.flow import Flow, flow
from agentscope_rx.reactive.kernel.one_shot_event import OneShotEvent
from agentscope_rx.reactive.kernel.runtime import SourceCancelledError, cancelled_alone
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.operators._admitted import admitted
from agentscope_rx.reactive.operators._append_if_missing import append_if_missing
from agentscope_rx.reactive.operators._catch import catch
from agentscope_rx.reactive.operators._concat import concat
from agentscope_rx.reactive.operators._conflate import conflate
from agentscope_rx.reactive.operators._flat_map import concat_map, concat_map_type, flat_map, onward
from agentscope_rx.reactive.operators._flat_map_iterable import flat_map_iterable
from agentscope_rx.reactive.operators._hedge import hedge
from agentscope_rx.reactive.operators._map_at_most import map_at_most
from agentscope_rx.reactive.operators._merge_ordered import merge_ordered
from agentscope_rx.reactive.operators._next_turn import next_turn
from agentscope_rx.reactive.operators._probed import Probe, probed
from agentscope_rx.reactive.operators._recurse import Tail, recurse, tail
from agentscope_rx.reactive.operators._retry import Attempt, RetryPolicy, jittered, retry
from agentscope_rx.reactive.operators._shield import shield
from agentscope_rx.reactive.operators._steps import steps
from agentscope_rx.reactive.operators._take_until import take_until
from agentscope_rx.reactive.operators._then import then
from agentscope_rx.reactive.operators._timeout import timeout
from agentscope_rx.reactive.operators._transform import transform_type
from agentscope_rx.reactive.operators._using import Outcome, using
from agentscope_rx.reactive.rate import Rate, Semaphore, SemaphoreStatistics
from agentscope_rx.reactive.sources.blocking import count_abandoned, iterate_on_worker, on_worker
from agentscope_rx.reactive.sources.tasks import from_async_iterable, from_awaitable, from_callable
from agentscope_rx.reactive.sources.values import defer, empty, from_iterable, just, never, throw, timer
from agentscope_rx.reactive.workers import ENGINE_WORKERS, WORKERS, WorkerPool, WorkerStatistics

__all__ = [  # noqa: RUF022 (sorted by purpose)
    # Flows and subscriptions
    "Flow",
    "FlowIterator",
    "Scope",
    "SourceCancelledError",
    "cancelled_alone",
    "flow",
    "next_turn",
    "on_dropped",
    # sources of values
    "defer",
    "empty",
    "from_iterable",
    "just",
    "never",
    "throw",
    "timer",
    # sources of awaitables
    "from_async_iterable",
    "from_awaitable",
    "from_callable",
    # one value becomes a flow
    "concat_map",
    "concat_map_type",
    "flat_map",
    "flat_map_iterable",
    "map_at_most",
    "onward",
    "transform_type",
    # tracing
    "Probe",
    "probed",
    # several flows
    "Tail",
    "concat",
    "hedge",
    "merge_ordered",
    "recurse",
    "steps",
    "tail",
    "then",
    # errors, deadlines and ends
    "Attempt",
    "OneShotEvent",
    "Outcome",
    "RetryPolicy",
    "append_if_missing",
    "catch",
    "jittered",
    "retry",
    "shield",
    "take_until",
    "timeout",
    "using",
    # limits
    "Rate",
    "Semaphore",
    "SemaphoreStatistics",
    "admitted",
    # back-pressure
    "Buffering",
    "ChannelStatistics",
    "Demand",
    "Overflow",
    "Overshoot",
    "conflate",
    # threads and the library's loop
    "ENGINE_WORKERS",
    "WORKERS",
    "WorkerPool",
    "WorkerStatistics",
    "count_abandoned",
    "iterate_on_worker",
    "on_library_loop",
    "on_loop",
    "on_worker",
    "spawn_background",
]
