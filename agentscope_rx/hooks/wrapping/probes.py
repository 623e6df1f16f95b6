"""`Probes`: the probes of tracers around the calls, stages and tool calls of an agent's runs.

    Tracer.probe_call       the whole run, its wait for its turn and its clean-up included
    Tracer.probe_stage      a stage
    Tracer.probe_tool       a tool call, its wait for limits included
    Tracer.probe_attempt    an attempt of a model call, wherever it is made within the run (see `models.probing`)

An operator (`around`) may change what it stands around, so it is checked, and costs accordingly. A probe cannot change
anything: it needs no checks, and stands outside of all operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial, reduce
from typing import TypeVar, cast

from agentscope_rx.hooks.base import Hook, Tracer
from agentscope_rx.hooks.wrapping.requests import CallRequest, Request, StageRequest, ToolRequest
from agentscope_rx.models.probing import AttemptProbe, with_attempt_probes
from agentscope_rx.reactive import Flow, Probe, Scope, probed
from agentscope_rx.tools.calls.signals import ToolEvent

T = TypeVar("T")
R = TypeVar("R", bound=Request)


class Probes:
    """The probes of some tracers, the first one outermost."""

    __slots__ = ("_attempt", "_call", "_stage", "_tool", "stages")

    def __init__(self, tracers: Sequence[Tracer]) -> None:
        self._call = [each.probe_call for each in tracers if type(each).probe_call is not Tracer.probe_call]
        self._stage = [each.probe_stage for each in tracers if type(each).probe_stage is not Tracer.probe_stage]
        self._tool = [each.probe_tool for each in tracers if type(each).probe_tool is not Tracer.probe_tool]
        attempt = [each.probe_attempt for each in tracers if type(each).probe_attempt is not Tracer.probe_attempt]
        self._attempt: Sequence[AttemptProbe] | None = attempt or None
        if any(each.alone and type(each).probe_attempt is Tracer.probe_attempt for each in tracers):
            # not those of the run around this one either
            self._attempt = ()
        self.stages: bool = bool(self._stage)
        """True if there are probes around stages."""

    def call(self, source: Flow[T], request: CallRequest) -> Flow[T]:
        """The events of a run, with the probes around them."""
        if self._attempt is not None:
            source = cast("Flow[T]", probed(partial(_within, self._attempt))(source))
        return _around(source, self._call, request)

    def stage(self, source: Flow[T], request: StageRequest) -> Flow[T]:
        """The items of a stage, with the probes around them."""
        return _around(source, self._stage, request)

    def tool(self, source: Flow[ToolEvent], request: ToolRequest) -> Flow[ToolEvent]:
        """The events of a tool call, with the probes around them."""
        return _around(source, self._tool, request)


def probes_of(own: Sequence[Hook], process_wide: Sequence[Tracer]) -> Probes | None:
    """The probes of an agent with these hooks; None if it has none, so that they cost nothing.

    Tracers of the process come first, and not at all for an agent with a tracer that stands `alone`.
    """
    tracers = [hook for hook in own if isinstance(hook, Tracer)]
    if not any(each.alone for each in tracers):
        tracers = [*(each for each in process_wide if each not in tracers), *tracers]
    probing = [each for each in tracers if each.alone or _probes(each)]
    return Probes(probing) if probing else None


def _probes(tracer: Tracer) -> bool:
    kind = type(tracer)
    return any(
        getattr(kind, name) is not getattr(Tracer, name)
        for name in ("probe_call", "probe_stage", "probe_tool", "probe_attempt")
    )


class _AttemptsWithin(Probe[object]):
    """Not a probe: sets those of the attempts in the context of the run."""

    __slots__ = ("_probes",)

    def __init__(self, probes: Sequence[AttemptProbe]) -> None:
        self._probes = probes

    def begin(self, scope: Scope) -> Context:
        return with_attempt_probes(scope.context, *self._probes)


def _within(probes: Sequence[AttemptProbe]) -> Probe[object]:
    return _AttemptsWithin(probes)


def _around(source: Flow[T], probes: Sequence[Callable[[R], Probe[T] | None]], request: R) -> Flow[T]:
    return reduce(lambda flow, probe: probed(partial(probe, request))(flow), reversed(probes), source)
