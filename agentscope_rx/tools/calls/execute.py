"""One call of one tool, from the model's request to exactly one result.

    look up -> malformed JSON? -> validate -> wait -> [ inject -> run -> timeout ] -> retry -> total timeout -> result
       |             |               |       limits             per attempt                       |
    not_found   invalid_arguments  invalid_arguments                                timeout | failed | suspended

    ..begun--chunk--chunk--X(retry)--chunk--result|

The last value that a tool gives is its result. What has been shown as a chunk is not shown again as the result: see
`tools.calls.shown_values`.

Whatever a tool does wrong becomes a result that the model sees. Only a cancellation from outside passes as an error.
A `ToolSuspend` is no failure: the result that it becomes is the placeholder of a call that waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import NamedTuple, cast

from reactivex import Observable
from tenacity import RetryCallState

from agentscope_rx.errors import ToolSuspend
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.models.options import UNSET, ExecutionConfig
from agentscope_rx.reactive import (
    Attempt,
    Flow,
    OneShotEvent,
    RetryPolicy,
    SourceCancelledError,
    admitted,
    concat,
    defer,
    just,
    retry,
    timeout,
)
from agentscope_rx.reactive.kernel.observer import Sink, Upstream, attach
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.limiter import Limiter
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.calls.failure import ToolTimeoutError, failure, malformed, suspended
from agentscope_rx.tools.calls.progress import BEAT, emitting
from agentscope_rx.tools.calls.signals import ToolBegun, ToolChunk, ToolEvent, ToolNested, ToolRetry
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.results.convert import result_of
from agentscope_rx.tools.results.join import Joined
from agentscope_rx.tools.results.postprocess import postprocessed
from agentscope_rx.tools.results.result_limit import ResultLimit, cut
from agentscope_rx.tools.wrapper import called, overruled

_log = logging.getLogger("agentscope_rx")


class Plan:
    """A config compiled: the operators that a call needs, and none that it does not."""

    __slots__ = ("deadlines", "overall", "policy")

    def __init__(self, config: ExecutionConfig, name: str) -> None:
        first, idle = config.limit("first_chunk_timeout"), config.limit("idle_timeout")
        total = config.limit("timeout")

        def late(which: str, limit: float) -> Exception:
            return ToolTimeoutError(which, limit, f"Tool {name!r}")

        bounded = first is not None or idle is not None or total is not None
        self.deadlines: Callable[[Observable[object]], Flow[object]] | None = (
            timeout(first=first, idle=idle, total=total, error=late) if bounded else None
        )
        whole = config.limit("total_timeout")
        self.overall: Callable[[Observable[object]], Flow[object]] | None = (
            None if whole is None else timeout(total=whole, error=lambda _, limit: late("overall", limit))
        )
        once = config.stop is UNSET and config.max_attempts in (UNSET, 1)
        self.policy: RetryPolicy | None = None if once else _policy(config)


def _policy(config: ExecutionConfig) -> RetryPolicy:
    policy = config.policy()

    def again(state: RetryCallState) -> bool:
        # cancelled from outside: whoever did it wants it to end; suspended: somebody else is to answer
        final = state.outcome is not None and isinstance(state.outcome.exception(), (SourceCancelledError, ToolSuspend))
        return not final and policy.retry(state)

    return replace(policy, retry=again, discards=True)


def run_tool(
    tool: Tool,
    call: ToolUseBlock,
    plan: Plan,
    executor: Executor | None = None,
    context: ToolContext | None = None,
    limits: Limits | None = None,
    limit: ResultLimit | None = None,
) -> Flow[ToolEvent]:
    """Runs one call and emits exactly one `ToolResultBlock`, last, cut to `limit`; each subscription is a new call.

    Signals: `ToolBegun` if there are `limits`, when they let it begin; chunks and retry notices as they come, the
    result, completion; `SourceCancelledError` if the loop is being shut down. No other error. Completion alone if one
    of the limits' `stop` signals fires before it has begun.
    Cancels: the wait, the attempt in progress or the wait for the next.
    """

    def connect(sink: Sink[ToolEvent], scope: Scope) -> None:
        running = _Running(sink, call, tool, limit)
        sink.on_subscribe(running)
        if running.disposed:
            return
        if call.input_error is not None:
            running.finish(malformed(call))
            return
        try:
            arguments = tool.validate(thaw(call.input))
        except Exception as error:
            running.on_error(error)
            return
        attempts = _Attempts(tool, call, arguments, executor, context)
        if limits is None:
            attach(attempts.flow(plan), running, scope)
            return
        running.waiting = True
        attach(limits.kept(call, attempts.flow(plan, limits.paces)), running, scope)

    events = Flow(connect)
    return events if tool.postprocess is None else postprocessed(events, call, tool.postprocess, plan.deadlines)


class Limits(NamedTuple):
    """What one call waits for before it begins: room in all gates at one moment. `paces` are for each attempt."""

    gates: Sequence[Limiter]
    paces: Sequence[Limiter] = ()
    stop: Sequence[OneShotEvent] = ()

    def kept(self, call: ToolUseBlock, source: Flow[object]) -> Flow[object]:
        """The source when its time has come, announced."""
        return admitted(self.gates, lambda queued: concat(just(ToolBegun(call, queued)), source), stop=self.stop)


class _Attempts:
    """The attempts of one call, each with arguments of its own: an attempt may have changed the ones before."""

    __slots__ = ("_call", "_context", "_executor", "_tool", "_validated")

    def __init__(
        self,
        tool: Tool,
        call: ToolUseBlock,
        validated: Mapping[str, object],
        executor: Executor | None,
        context: ToolContext | None,
    ) -> None:
        self._tool = tool
        self._call = call
        self._validated: Mapping[str, object] | None = validated
        self._executor = executor
        self._context = context

    def flow(self, plan: Plan, paces: Sequence[Limiter] = ()) -> Flow[object]:
        """Raw values and retry notices, with the operators of the plan."""
        source = defer(self._begin)
        if plan.deadlines is not None:
            source = plan.deadlines(source)
        if plan.policy is not None:
            if paces:
                source = self._paced(source, paces)
            source = retry(plan.policy, notice=self._notice)(source)
        return source if plan.overall is None else plan.overall(source)

    def _paced(self, attempt: Flow[object], paces: Sequence[Limiter]) -> Flow[object]:
        """Each attempt in its time; the first has waited for it already."""

        def begin() -> Flow[object]:
            # urgent: it has its permits already, and those who wait for them must not be before it here
            return attempt if self._validated is not None else admitted(paces, lambda queued: attempt, urgent=True)

        return defer(begin)

    def _begin(self) -> Flow[object]:
        arguments, self._validated = self._validated, None
        if arguments is None:
            arguments = self._tool.validate(thaw(self._call.input))
        tool = self._tool
        if tool.takes_context:
            return emitting(self._call, self._context, lambda context: called(tool, arguments, context, self._executor))
        return called(tool, arguments, None, self._executor)

    def _notice(self, attempt: Attempt) -> object:
        return ToolRetry(self._call, attempt.number, attempt.delay, attempt.error, attempt.discarded)


class _Nothing:
    """No value has come."""


class _Running:
    """Turns raw values into chunks and, at the end, the last of them into the result (or all, if they are joined)."""

    __slots__ = (
        "_call",
        "_held",
        "_joined",
        "_last",
        "_limit",
        "_sink",
        "_streams",
        "_tool",
        "_upstream",
        "disposed",
        "waiting",
    )

    def __init__(self, sink: Sink[ToolEvent], call: ToolUseBlock, tool: Tool, limit: ResultLimit | None) -> None:
        self._sink = sink
        self._call = call
        self._tool = tool
        self._limit = limit
        self._joined = Joined(limit) if tool.result == "joined" else None
        self._streams = tool.streams or self._joined is not None
        # a value of a tool that announces one only: progress, if another follows
        self._held: object = _Nothing
        self._last: ToolResultBlock | None = None
        self._upstream: Upstream | None = None
        self.disposed = False
        self.waiting = False

    def on_subscribe(self, upstream: Upstream) -> None:
        self._upstream = upstream
        if self.disposed:
            upstream.dispose()

    def on_next(self, value: object) -> None:
        kind = type(value)
        if kind is ToolChunk or kind is ToolRetry or kind is ToolBegun or kind is ToolNested:
            if kind is ToolRetry:
                self._show_held()
                self._held, self._last = _Nothing, None
                self._joined = None if self._joined is None else Joined(self._limit)
            elif kind is ToolBegun:
                self.waiting = False
            self._sink.on_next(cast("ToolEvent", value))
            return
        if value is BEAT:
            return
        if not self._streams:
            self._held, value = value, self._held
            if value is _Nothing:
                return
        try:
            self._last = result_of(self._call, value)
        except Exception as error:
            if self._upstream is not None:
                self._upstream.dispose()
            self.on_error(error)
            return
        if value is not None:
            if self._joined is not None:
                self._joined.add(self._last.output)
            self._sink.on_next(ToolChunk(self._call, self._last.output))

    def _show_held(self) -> None:
        """What a failure follows was progress, too."""
        value, self._held = self._held, _Nothing
        if value is _Nothing or value is None:
            return
        try:
            output = result_of(self._call, value).output
        except Exception:
            _log.debug("tool %s gave what cannot be shown", self._call.name, exc_info=True)
            return
        self._sink.on_next(ToolChunk(self._call, output))

    def on_completed(self) -> None:
        self._upstream = None
        if self.waiting:
            self._sink.on_completed()
            return
        if self._joined is not None:
            self.finish(self._joined.result(self._call, self._last))
            return
        value = self._held if self._held is not _Nothing else self._last
        try:
            result = result_of(self._call, value)
        except Exception as error:
            self.on_error(error)
            return
        self.finish(result)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        if isinstance(error, SourceCancelledError):
            self._sink.on_error(error)
            return
        self._show_held()
        if self.disposed:
            return
        if isinstance(error, ToolSuspend):
            self.finish(suspended(self._call, error, overruled(self._tool)))
            return
        # the model gets the text; whoever wrote the tool may want the traceback
        _log.debug("tool %s failed", self._call.name, exc_info=error)
        self.finish(failure(self._call, error))

    def finish(self, result: ToolResultBlock) -> None:
        """The result, no larger than it may be, and the end."""
        if self._limit is not None and not self._limit.holds(result):
            result = cut(result, self._limit)
        self._sink.on_next(result)
        if not self.disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self.disposed = True
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()
