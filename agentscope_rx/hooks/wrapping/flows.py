"""`AroundEvents`, `AroundModel`, `AroundTool`: all operators around one flow, folded, outermost first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from agentscope_rx.errors import ConfigurationError, DeadlineError, HookError, ToolSuspend
from agentscope_rx.events import Event, RetryEvent
from agentscope_rx.hooks.base import Hook
from agentscope_rx.hooks.wrapping.around_hook import Step, steps_of
from agentscope_rx.hooks.wrapping.event_check import EventCheck
from agentscope_rx.hooks.wrapping.events_only import EventsOnly
from agentscope_rx.hooks.wrapping.model_check import ModelCheck
from agentscope_rx.hooks.wrapping.requests import CallRequest, ModelRequest, StageRequest, ToolRequest
from agentscope_rx.hooks.wrapping.tool_check import ToolCheck
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, catch, just, throw
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.tools.calls.failure import ToolTimeoutError, failure, suspended
from agentscope_rx.tools.calls.signals import ToolEvent


def places(hooks: Iterable[Hook]) -> dict[str, tuple[Step, ...]]:
    """The operators of sorted hooks around each flow, outermost first."""
    found: dict[str, list[Step]] = {}
    for hook in hooks:
        for place, step in steps_of(hook):
            if hook.observe_only:
                raise ConfigurationError(
                    f"{hook!r} cannot be observe_only: an operator makes the flow ({step.where}). Observe events, or "
                    "return the source as it is."
                )
            found.setdefault(place, []).append(step)
    return {place: tuple(steps) for place, steps in found.items()}


class AroundModel:
    """The operators around a model call."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    def over(self, source: Flow[ChatResponse], request: ModelRequest) -> Flow[ChatResponse]:
        """Put the operators around the responses of the model.

        Signals: those of the outermost operator; a `HookError`.
        Cancels: the operators, and with them the model call.
        """
        for step in reversed(self._steps):
            source = Producer(partial(ModelCheck, step, request), source)
        return source


class AroundTool:
    """The operators around a tool call."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    def over(self, source: Flow[ToolEvent], request: ToolRequest) -> Flow[ToolEvent]:
        """Put the operators around the events of the call. An error of theirs becomes the result, as one of the tool.

        Signals: those of the outermost operator, with one result; a `HookError`, `SourceCancelledError`.
        Cancels: the operators, and with them the call.
        """
        for step in reversed(self._steps):
            source = Producer(partial(ToolCheck, step, request), source)
        return source.pipe(catch(partial(_result_of, request.call)))


def _result_of(call: ToolUseBlock, error: Exception) -> Flow[ToolEvent]:
    if isinstance(error, HookError):
        return throw(error)
    if isinstance(error, ToolSuspend):
        return just(suspended(call, error))
    if isinstance(error, DeadlineError) and not isinstance(error, ToolTimeoutError):
        error = ToolTimeoutError(error.which, error.limit, f"Tool {call.name!r}")
    result: ToolResultBlock = failure(call, error)
    return just(result)


class AroundEvents:
    """The operators around a call or a stage. They see events: all else, such as the next stage, passes beside them."""

    __slots__ = ("_steps", "_watch")

    def __init__(self, steps: Sequence[Step], watch: Callable[[type[Event], Flow[Event]], Flow[Event]]) -> None:
        self._steps = steps
        self._watch = watch

    def over(
        self, source: Flow[object], request: CallRequest | StageRequest, wrote: Callable[[], bool]
    ) -> Flow[object]:
        """Put the operators around the events of the source. `wrote` is true once it has written to memory.

        Signals: those of the outermost operator, then the last item that is no event; a `HookError`.
        Cancels: the operators, and with them the source.
        """
        watched = partial(self._watch, RetryEvent)

        def around(events: Flow[Event]) -> Flow[Event]:
            for step in reversed(self._steps):
                events = Producer(partial(EventCheck, step, request, wrote, watched), events)
            return events

        return Producer(partial(EventsOnly, around, len(request.path)), source)
