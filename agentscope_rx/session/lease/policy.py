"""`LeasePolicy`, and when the holder of a lease counts as dead.

| the holder counts as dead                                                                   | known        |
|---------------------------------------------------------------------------------------------|--------------|
| of this machine: its process has ended, or its event loop was closed                        | at once      |
| of this machine: its last beat is older than its `ttl`, by the machine's uptime             | at a look    |
| of another one: the beat has not changed for its `ttl`, by the clock of the loop that looks | at two looks |
| of another one: the time of the beat is older than its `ttl` and `skew`, by the clocks      | at a look    |
"""

from __future__ import annotations

import asyncio
from typing import Literal, get_args

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.session.lease.machine import THIS_MACHINE, Machine
from agentscope_rx.session.lease.record import LeaseRecord

WhenHeld = Literal["error", "queue"]
"""The effect of an acquisition while another holder is alive: it fails ("error"), or waits ("queue")."""

TTL_SECONDS = 30.0
SKEW_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """The rules of a lease: the effect of a call while another process holds it, and when a holder counts as dead.

    A lease allows several processes to serve one conversation: `agent.bind(session, key, lease="queue")`. Each run
    holds it from its beginning to its last save, and begins with the state that the others have saved.

    `when_held` is the effect of a call during a run of another process:

    - `"error"`: fails at once with `ConversationLeasedError`, which names the process
    - `"queue"`: waits; it looks after 0.05 s, then less often, up to once a second. No order is promised among
      processes

    The holder gives a sign of life (a beat) every `ttl` / 3 seconds. It counts as dead:

    - on this machine, if its process has ended or its event loop was closed: at once (on Linux)
    - on this machine, if its process stands still: `ttl` after its last beat, by the machine's uptime
    - on another machine: when its beat has not changed for `ttl`, by the clock of the process that waits; at the
      first look, if the beat is older than `ttl` + `skew` by the clocks of both

    Consequences:

    - A holder that was replaced cannot save: the takeover has changed the version that its save expects. So a wrong
      clock or a network that was cut may make two processes believe that they hold a lease, but only the later one
      saves.
    - A run that loses its lease, or cannot reach the store for `ttl` seconds, ends with `LeaseLostError`. Its round is
      in memory and is not saved. Effects of its tools remain, and a process that was stopped may begin further ones
      until it notices the loss.
    - Changes that only memory has are never replaced by what others have saved: the next call fails with
      `SessionConflictError`. `load`, or `save(..., overwrite=True)`, decides.
    - A wait ends with an interruption, a shutdown, the deadline of the call or its disposal.
      `run.stats().waiting_for_lease` names the process waited for.
    - It costs one more write for each run, and one for each beat.
    - `save` between runs needs no lease. An agent that is bound without a lease is not kept out: one of the two saves
      then conflicts. An agent with `check_running=False` or `state_persistence=` cannot have one.

    `machine` is for tests.
    """

    when_held: WhenHeld = "error"
    ttl: float = TTL_SECONDS
    skew: float = SKEW_SECONDS
    machine: Machine = THIS_MACHINE

    def __post_init__(self) -> None:
        if self.when_held not in get_args(WhenHeld):
            raise ConfigurationError(f"A lease (its when_held) is 'error' or 'queue', not {self.when_held!r:.60}.")
        for name, value, least in (("ttl", self.ttl, 0.0), ("skew", self.skew, -1.0)):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
            if not number or not least < value < float("inf"):
                raise ConfigurationError(f"{name} must be a number of seconds above 0, not {value!r:.60}.")

    @classmethod
    def of(cls, lease: LeasePolicy | WhenHeld) -> LeasePolicy:
        """Returns the policy, or makes one from its `when_held` alone."""
        return lease if isinstance(lease, LeasePolicy) else cls(lease)


ACQUIRED: dict[str, asyncio.AbstractEventLoop] = {}
"""The acquisitions of this process that are in use, with the loop of each."""


def has_ended(record: LeaseRecord, policy: LeasePolicy) -> bool:
    """True if one look is enough to see that the holder is dead."""
    holder, machine = record.holder, policy.machine
    if holder is None:
        return False
    own = machine.process()
    if holder.process == own and ((loop := ACQUIRED.get(holder.id)) is None or loop.is_closed()):
        return True
    if holder.boot is None or holder.boot != own.boot:
        return (machine.now() - record.at).total_seconds() > record.ttl + policy.skew
    return machine.has_ended(holder.process) or machine.uptime() - record.uptime > record.ttl


def check_free(key: str, record: LeaseRecord | None, policy: LeasePolicy | None = None) -> None:
    """`ConversationLeasedError` if another holder is alive, as far as one look tells."""
    if record is not None and record.holder is not None and not has_ended(record, policy or LeasePolicy()):
        raise record.refusal(key)
