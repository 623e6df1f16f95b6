"""The options that every team has: those of `ReActAgent` that concern its conversation and its runs."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Literal, TypedDict

from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.when_busy import WhenBusy
from agentscope_rx.context import ContextStore
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.session import LeasePolicy, Session, WhenHeld
from agentscope_rx.tools.base import InDoubt


class TeamOptions(TypedDict, total=False):
    """The options of a team besides its own; `ReActAgent` documents them."""

    hooks: Iterable[Hook]
    pending: Literal["recover", "error"]
    state_persistence: StatePersistence | None
    shutdown: GracefulShutdown | None
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


def check_count(name: str, value: object, least: int = 1) -> int:
    """The number; `ConfigurationError` if it is no whole number of at least `least`."""
    if type(value) is not int or value < least:
        raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {value!r:.60}.")
    return value
