"""`attempt_probes`: the probes that see each attempt of each model call made in a context.

    context --ATTEMPT_PROBES--> chat_model.stream:  defer(do_stream) |> deadlines |> probed |> around |> retry

So a retry, a fallback and the two requests of a hedge are seen one by one, also where a tool or a hook asks a model by
itself. A process that sets no probes pays for the look at one flag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from functools import reduce

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, Probe, Scope, probed
from agentscope_rx.reactive.kernel.observer import Sink, attach


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRequest:
    """One attempt of a model call, with the options of the call over those of the model."""

    model_name: str
    provider: str
    messages: Sequence[Msg] = ()
    tools: Sequence[ToolSchema] = ()
    options: GenerateOptions
    address: tuple[str, int] | None = None
    """Host and port of the server, if the model is behind one."""


AttemptProbe = Callable[[AttemptRequest], Probe[ChatResponse] | None]

_PROBES: ContextVar[tuple[AttemptProbe, ...]] = ContextVar("agentscope_rx_attempt_probes", default=())


class _InUse:
    """`ever` is True once a context of this process has probes."""

    ever = False


IN_USE = _InUse()


def with_attempt_probes(context: Context, probes: Sequence[AttemptProbe], *, alone: bool) -> Context:
    """A copy of the context in which these probes see the attempts, each once: beside those before, or `alone`."""
    within = context.copy()
    before = () if alone else context.get(_PROBES, ())
    IN_USE.ever = True
    within.run(_PROBES.set, (*before, *(each for each in probes if each not in before)))
    return within


def seen_by_probes(attempt: Flow[ChatResponse], request: Callable[[], AttemptRequest]) -> Flow[ChatResponse]:
    """The attempt; each subscription is seen by the probes of its context.

    Signals: those of the attempt.
    Cancels: the attempt.
    """

    def connect(sink: Sink[ChatResponse], scope: Scope) -> None:
        probes = scope.context.get(_PROBES, ())
        if not probes:
            attach(attempt, sink, scope)
            return
        described = request()
        attach(
            reduce(lambda flow, probe: probed(lambda: probe(described))(flow), reversed(probes), attempt), sink, scope
        )

    return Flow(connect)
