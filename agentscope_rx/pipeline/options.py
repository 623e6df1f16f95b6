"""`PipelineOptions`: the options that all kinds of pipelines have; `Pipeline` documents them."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Literal, TypedDict

from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.when_busy import WhenBusy
from agentscope_rx.context import ContextStore
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.memory import Memory
from agentscope_rx.session import LeasePolicy, Session, WhenHeld
from agentscope_rx.tools.base import InDoubt


class PipelineOptions(TypedDict, total=False):
    """The options that a subclass hands on: `def __init__(self, ..., **options: Unpack[PipelineOptions])`."""

    memory: Memory | None
    hooks: Iterable[Hook]
    limits: UsageLimits | None
    pending: Literal["recover", "error"]
    state_persistence: StatePersistence | None
    shutdown: GracefulShutdown | None
    check_running: bool
    when_busy: WhenBusy
    queue_limit: int
    interrupt_grace: float
    tracer: Tracer | None
    context_store: ContextStore | None
    session: Session | str | PathLike[str] | None
    session_key: str | None
    checkpoint: Literal["run", "stage"]
    lease: LeasePolicy | WhenHeld | None
    in_doubt: InDoubt
