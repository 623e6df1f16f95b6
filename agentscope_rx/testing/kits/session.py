"""`check_session`: the laws of the `Session` port."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agentscope_rx.session import Session
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.rules import Kit, KitReport
from agentscope_rx.testing.kits.session_laws import LAWS


def check_session(make: Callable[[], Session], *, name: str | None = None, real_time: bool = False) -> KitReport:
    """Check the stores that `make` returns; each call of it makes a new and empty one."""
    kit = Kit(name or getattr(make, "__qualname__", repr(make)), real_time=real_time)
    for rule, law, check in LAWS:
        kit.check(rule, law, partial(check, make))
    apply_rules(
        kit, lambda: make().load_all("ann"), failing=lambda: make().load_all(""), ahead=None, prefix="load_all "
    )
    apply_rules(
        kit,
        lambda: make().save_all("ann", {"state": 1}),
        failing=lambda: make().save_all("ann", {"state": object()}),
        ahead=None,
        prefix="save_all ",
    )
    return kit.report()
