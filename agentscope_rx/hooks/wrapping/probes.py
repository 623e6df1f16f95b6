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
from contextvars import Context, ContextVar
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

    __slots__ = ("_alone", "_attempt", "_call", "_stage", "_tool", "stages")

    def __init__(self, tracers: Sequence[Tracer]) -> None:
        self._call = [each.probe_call for each in tracers if type(each).probe_call is not Tracer.probe_call]
        self._stage = [each.probe_stage for each in tracers if type(each).probe_stage is not Tracer.probe_stage]
        self._tool = [each.probe_tool for each in tracers if type(each).probe_tool is not Tracer.probe_tool]
        self._attempt = [each.probe_attempt for each in tracers if type(each).probe_attempt is not Tracer.probe_attempt]
        # then not beside those of the run around this one either
        self._alone = any(each.alone for each in tracers)
        self.stages: bool = bool(self._stage)
        """True if there are probes around stages."""

    def call(self, source: Flow[T], request: CallRequest) -> Flow[T]:
        """The events of a run, with the probes around them."""
        return _around(cast("Flow[T]", probed(self._enter)(source)), self._call, request)

    def _enter(self) -> Probe[object]:
        return _Entering(self, self._attempt, self._alone)

    def stage(self, source: Flow[T], request: StageRequest) -> Flow[T]:
        """The items of a stage, with the probes around them."""
        return _around(source, self._stage, request)

    def tool(self, source: Flow[ToolEvent], request: ToolRequest) -> Flow[ToolEvent]:
        """The events of a tool call, with the probes around them."""
        return _around(source, self._tool, request)


def probes_of(own: Sequence[Hook], process_wide: Sequence[Tracer]) -> Probes | None:
    """The probes of an agent with these hooks; None if it has none, so that they cost nothing.

    Tracers of the process come first; for an agent with a tracer that stands `alone` only those that stand `beside`.
    """
    tracers = [hook for hook in own if isinstance(hook, Tracer)]
    alone = any(each.alone for each in tracers)
    others = (each for each in process_wide if each not in tracers and (each.beside or not alone))
    tracers = [*others, *tracers]
    probing = [each for each in tracers if each.alone or _probes(each)]
    return Probes(probing) if probing else None


def _probes(tracer: Tracer) -> bool:
    kind = type(tracer)
    return any(
        getattr(kind, name) is not getattr(Tracer, name)
        for name in ("probe_call", "probe_stage", "probe_tool", "probe_attempt")
    )


_INHERITED: ContextVar[Probes | None] = ContextVar("agentscope_rx_probes", default=None)


def inherited_probes(context: Context) -> Probes | None:
    """The probes of the run that this context belongs to: those of a sub-agent that has none of its own."""
    return context.get(_INHERITED)


class _Entering(Probe[object]):
    """Sees nothing: sets the probes of attempts and sub-agents in the context of the run."""

    __slots__ = ("_alone", "_attempt", "_probes")

    def __init__(self, probes: Probes, attempt: Sequence[AttemptProbe], alone: bool) -> None:
        self._probes = probes
        self._attempt = attempt
        self._alone = alone

    def begin(self, scope: Scope) -> Context:
        within = with_attempt_probes(scope.context, self._attempt, alone=self._alone)
        within.run(_INHERITED.set, self._probes)
        return within


def _around(source: Flow[T], probes: Sequence[Callable[[R], Probe[T] | None]], request: R) -> Flow[T]:
    return reduce(lambda flow, probe: probed(partial(probe, request))(flow), reversed(probes), source)
