"""One call of one tool, from the model's request to exactly one result.

    look up -> malformed JSON? -> validate -> wait -> [ inject -> run -> timeout ] -> retry -> total timeout -> result
       |             |               |       limits             per attempt                       |
    not_found   invalid_arguments  invalid_arguments                                timeout | failed | suspended

    ..begun--chunk--chunk--X(retry)--chunk--result|

The last value that a tool emits is its result. A value that was shown as a chunk is not shown again as the result: see
`tools.calls.shown_values`.

Each failure of a tool becomes a result that the model sees. Only a cancellation from outside passes as an error. A
`ToolSuspend` is no failure: its result is the placeholder of a call that waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from reactivex import Observable
from tenacity import RetryCallState

from agentscope_rx.errors import ToolSuspend
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.messages.redaction import error_text
from agentscope_rx.models.options import UNSET, ExecutionConfig
from agentscope_rx.reactive import (
    Attempt,
    Flow,
    OneShotEvent,
    RetryPolicy,
    SourceCancelledError,
    admitted,
    catch,
    concat_map_type,
    defer,
    retry,
    then,
    throw,
    timeout,
)
from agentscope_rx.reactive.kernel.deadline import Deadline
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.limiter import Limiter
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.calls.failure import ToolTimeoutError, failure, malformed, suspended
from agentscope_rx.tools.calls.progress import BEAT, emitting
from agentscope_rx.tools.calls.signals import ToolBegun, ToolChunk, ToolEvent, ToolNested, ToolNotice, ToolRetry
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.function_tool import FunctionTool
from agentscope_rx.tools.limits import UNLIMITED, ToolLimits
from agentscope_rx.tools.results.convert import result_of
from agentscope_rx.tools.results.evictor import evicted
from agentscope_rx.tools.results.join import Joined
from agentscope_rx.tools.results.postprocess import postprocessed
from agentscope_rx.tools.results.result_limit import ResultLimit, cut
from agentscope_rx.tools.wrapper import called, overruled

_log = logging.getLogger("agentscope_rx")
_SIGNALS: frozenset[type] = frozenset((ToolBegun, ToolChunk, ToolNested, ToolNotice, ToolRetry))


class Plan:
    """A compiled config: only the operators that a call needs."""

    __slots__ = ("alone", "deadlines", "late", "overall", "policy")

    def __init__(self, config: ExecutionConfig, name: str) -> None:
        first, idle = config.limit("first_chunk_timeout"), config.limit("idle_timeout")
        total = config.limit("timeout")

        def late(which: str, limit: float) -> Exception:
            return ToolTimeoutError(which, limit, f"Tool {name!r}")

        self.late: Callable[[str, float], Exception] = late
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
        self.alone: float | None = total if once and first is None and idle is None and whole is None else None
        """The deadline of a single attempt, if that is all there is to the plan: the call keeps it itself."""


def _policy(config: ExecutionConfig) -> RetryPolicy:
    policy = config.policy()

    def again(state: RetryCallState) -> bool:
        # a cancelled call is to end; a suspended one is answered outside the run
        final = state.outcome is not None and isinstance(state.outcome.exception(), (SourceCancelledError, ToolSuspend))
        return not final and policy.retry(state)

    return replace(policy, retry=again, discards=True)


class NotBegunError(Exception):
    """A call that was not begun: what was to be done before it has failed for this `reason`."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class PreparedCall:
    """One call made ready: its tool looked up, its config compiled, its limits known; once, for all that follow.

    `tool` has the `tool_arguments` of the run in it. `result_limit` bounds the result. A `limited` call may have to
    wait. The call begins once the flow of `before` has ended; an error of that is the error of the call's flow.
    """

    __slots__ = ("before", "call", "executor", "limited", "limits", "plan", "result_limit", "thaws", "tool")

    def __init__(
        self,
        call: ToolUseBlock,
        tool: Tool,
        plan: Plan,
        limits: ToolLimits = UNLIMITED,
        executor: Executor | None = None,
        result_limit: ResultLimit | None = None,
        limited: bool = False,
    ) -> None:
        self.call: ToolUseBlock = call
        self.tool: Tool = tool
        self.plan: Plan = plan
        self.limits: ToolLimits = limits
        self.executor: Executor | None = executor
        self.result_limit: ResultLimit | None = result_limit
        self.limited: bool = limited
        self.before: Callable[[], Flow[None]] | None = None
        # a tool may change its arguments; a function's schema copies what the function gets
        self.thaws: bool = type(tool).validate is not FunctionTool.validate  # pyright: ignore[reportUnknownMemberType]


def run_tool(
    prepared: PreparedCall, context: ToolContext | None = None, admission: Admission | None = None
) -> Flow[ToolEvent]:
    """Runs one call and emits exactly one `ToolResultBlock`, last, within its limit; each subscription is a new call.

    Signals: `ToolBegun` if there is an `admission`, once it lets the call begin; chunks and retry notices as they come,
    the result, completion; `SourceCancelledError` if the loop is being shut down. No other error. Completion alone if
    one of the admission's `stop` signals fires before the call has begun.
    Cancels: the wait, the attempt in progress or the wait for the next.
    """
    call, tool, size = prepared.call, prepared.tool, prepared.result_limit
    postprocess = tool.postprocess
    # an evictor and `postprocess` get the whole result
    whole = size is not None and (size.evictor is not None or postprocess is not None)
    events: Flow[ToolEvent] = Producer(partial(_Running, context, admission, None if whole else size), prepared)
    if postprocess is not None:
        events = postprocessed(events, call, postprocess, prepared.plan.deadlines)
    return events.pipe(concat_map_type(ToolResultBlock, partial(evicted, size, call))) if size and whole else events


class Admission(NamedTuple):
    """The wait of one call before it begins: for room in all `gates` at one moment; each attempt waits for `rates`."""

    gates: Sequence[Limiter]
    rates: Sequence[Limiter] = ()
    stop: Sequence[OneShotEvent] = ()

    def then(self, call: ToolUseBlock, begin: Callable[[float], Flow[object]]) -> Flow[object]:
        """`ToolBegun` and the flow of `begin(queued)`, once the call is admitted."""
        return admitted(self.gates, begin, stop=self.stop, begun=partial(ToolBegun, call))


class _Nothing:
    """No value has come."""


class _Running(OperatorSink):
    """One call: its attempts, whose raw values become chunks and, at the end, the last (or all, if joined) the result.

    Each attempt has arguments of its own: an earlier one may have changed its own.
    """

    __slots__ = (
        "_admission",
        "_call",
        "_context",
        "_deadline",
        "_held",
        "_joined",
        "_last",
        "_limit",
        "_prepared",
        "_scope",
        "_sink",
        "_streams",
        "_validated",
        "waiting",
    )
    _prepared: PreparedCall
    _call: ToolUseBlock
    _validated: Mapping[str, object] | None

    def __init__(
        self,
        context: ToolContext | None,
        admission: Admission | None,
        limit: ResultLimit | None,
        sink: Sink[ToolEvent],
        scope: Scope,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._context = context
        self._deadline: Deadline | None = None
        self._admission = admission
        self._limit = limit
        self._joined: Joined | None = None
        self._streams = False
        # the value of a tool that does not stream: it is progress if another follows
        self._held: object = _Nothing
        self._last: ToolResultBlock | None = None
        self.waiting = False

    # --- the attempts ---------------------------------------------------------------------------------------------

    def start(self, prepared: PreparedCall) -> None:
        """Validate the arguments and begin, at once or when the call is admitted."""
        call = self._call = prepared.call
        tool = prepared.tool
        self._prepared = prepared
        if tool.result == "joined":
            self._joined = Joined(self._limit)
        self._streams = tool.streams or self._joined is not None
        if call.input_error is not None:
            self.finish(malformed(call))
            return
        admission = self._admission
        try:
            self._validated = tool.validate(thaw(call.input) if prepared.thaws else call.input)
            attempts = self._attempts if prepared.before is None else partial(self._after, prepared.before)
            if admission is None and prepared.before is None and prepared.plan.alone is not None:
                source = self._begin()
                self._deadline = Deadline(self._scope, prepared.plan.alone, self._passed)
            elif admission is None:
                source = attempts(())
            else:
                self.waiting: bool = True
                source = admission.then(call, partial(attempts, admission.rates))
        except Exception as error:
            self.on_error(error)
            return
        if not self.disposed:
            # `attach`, without its call
            connect = getattr(source, "_attach", None)
            if connect is not None:
                connect(self, self._scope)
            else:
                attach(source, self, self._scope)

    def _passed(self) -> None:
        """The deadline of the only attempt has passed."""
        plan, upstream, self._upstream = self._prepared.plan, self._upstream, None
        if not self.disposed and upstream is not None and plan.alone is not None:
            upstream.dispose()
            self.on_error(plan.late("total", plan.alone))

    def dispose(self) -> None:
        super().dispose()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _after(self, before: Callable[[], Flow[None]], rates: Sequence[Limiter], queued: float = 0.0) -> Flow[object]:
        """The attempts, once the flow of `before` has ended."""

        def failed(error: Exception) -> Flow[None]:
            return throw(NotBegunError(error))

        return defer(before).pipe(catch(failed), then(lambda: self._attempts(rates)))

    def _attempts(self, rates: Sequence[Limiter], queued: float = 0.0) -> Flow[object]:
        """Raw values and retry notices, with the operators of the plan. Part of a subscription."""
        plan = self._prepared.plan
        if plan.alone is not None:
            source = self._begin()
            self._deadline = Deadline(self._scope, plan.alone, self._passed)
            return source
        # a single attempt begins now
        source = self._begin() if plan.policy is None else defer(self._begin)
        if plan.deadlines is not None:
            source = plan.deadlines(source)
        if plan.policy is not None:
            if rates:
                source = self._rated(source, rates)
            source = retry(plan.policy, notice=self._notice)(source)
        return source if plan.overall is None else plan.overall(source)

    def _rated(self, attempt: Flow[object], rates: Sequence[Limiter]) -> Flow[object]:
        """Each attempt when its rates allow it; the first has waited for them already."""

        def begin() -> Flow[object]:
            # urgent: this call has its permits, and calls that wait for these must not be before it here
            return attempt if self._validated is not None else admitted(rates, lambda queued: attempt, urgent=True)

        return defer(begin)

    def _begin(self) -> Flow[object]:
        prepared, arguments = self._prepared, self._validated
        tool, executor = prepared.tool, prepared.executor
        self._validated = None
        if arguments is None:
            arguments = tool.validate(thaw(self._call.input) if prepared.thaws else self._call.input)
        if tool.takes_context:
            return emitting(self._call, self._context, lambda context: called(tool, arguments, context, executor))
        return tool.call(arguments) if executor is None else called(tool, arguments, None, executor)

    def _notice(self, attempt: Attempt) -> object:
        call, error = self._call, attempt.error
        extra = {"tool": call.name, "call_id": call.id, "attempt": attempt.number, "delay": attempt.delay}
        _log.info(
            "tool %s: attempt %d failed, the next begins in %.1f s: %s",
            call.name,
            attempt.number,
            attempt.delay,
            error_text(error),
            extra=extra | {"error_type": type(error).__name__},
        )
        return ToolRetry(call, attempt.number, attempt.delay, attempt.error, attempt.discarded)

    # --- their values ---------------------------------------------------------------------------------------------

    def on_next(self, value: object) -> None:
        kind = type(value)
        if kind in _SIGNALS:
            if kind is ToolRetry:
                self._show_held()
                self._held, self._last = _Nothing, None
                self._joined = None if self._joined is None else Joined(self._limit)
            elif kind is ToolBegun:
                self.waiting = False
            self._sink.on_next(value)  # pyright: ignore[reportArgumentType]
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
        """Show the held value: before a failure it was progress."""
        value, self._held = self._held, _Nothing
        if value is _Nothing or value is None:
            return
        try:
            output = result_of(self._call, value).output
        except Exception:
            _log.debug("tool %s emitted a value that cannot be shown", self._call.name, exc_info=True)
            return
        self._sink.on_next(ToolChunk(self._call, output))

    def on_completed(self) -> None:
        self._upstream = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
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
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if isinstance(error, NotBegunError):
            self._sink.on_error(error.reason)
            return
        if isinstance(error, SourceCancelledError):
            self._sink.on_error(error)
            return
        self._show_held()
        if self.disposed:
            return
        if isinstance(error, ToolSuspend):
            self.finish(suspended(self._call, error, overruled(self._prepared.tool)))
            return
        # the model gets the text; the log has the traceback
        _log.debug("tool %s failed", self._call.name, exc_info=error)
        self.finish(failure(self._call, error))

    def finish(self, result: ToolResultBlock) -> None:
        """Emit the result, within its limit, and complete."""
        if self._limit is not None and not self._limit.holds(result):
            result = cut(result, self._limit)
        self._sink.on_next(result)
        if not self.disposed:
            self._sink.on_completed()
