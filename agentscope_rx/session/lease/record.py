"""The entry "lease" of a session: who may continue the conversation, and the token of that permission.

    {"version": 1, "token": 7, "ttl": 30.0, "beat": 2, "at": "...", "since": "...", "uptime": 5124.1,
     "holder": {"id": "...", "host": "...", "boot": "...", "space": "...", "pid": 4711, "start": "..."} | null}

| field    | means                                                                                      |
|----------|--------------------------------------------------------------------------------------------|
| `token`  | grows by one with every acquisition, as long as the session exists                         |
| `beat`   | grows with each sign of life of the holder, which comes every `ttl` / 3 seconds            |
| `at`     | the time of the last beat by the holder's clock; `uptime` the same by its machine's uptime |
| `since`  | the time of the acquisition                                                                |
| `holder` | null: the lease is free; `id` is another one for each acquisition                          |

The entry lies in the session that it protects. So a takeover replaces the session's version, and a late save of the
old holder, which expects the version before, conflicts: that is the fence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from functools import cache
from typing import Annotated, Literal, cast

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from agentscope_rx.errors import ConversationLeasedError, SavedStateError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.session.lease.machine import Machine, Process

LEASE = "lease"
"""The name of the entry."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The process that holds a lease. Each acquisition has its own `id`."""

    id: str
    host: str
    boot: str | None
    space: str | None
    pid: int
    start: str

    @classmethod
    def of(cls, id: str, process: Process) -> LeaseHolder:
        """This process as the holder, with this `id` of the acquisition."""
        return cls(id, **asdict(process))

    @property
    def process(self) -> Process:
        """The process, without the acquisition."""
        return Process(self.host, self.boot, self.space, self.pid, self.start)

    def __str__(self) -> str:
        return str(self.process)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of the entry at one moment."""

    token: Annotated[int, Field(ge=0)]
    ttl: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    beat: int
    at: AwareDatetime
    since: AwareDatetime
    uptime: Annotated[float, Field(allow_inf_nan=False)]
    holder: LeaseHolder | None
    version: Literal[1] = VERSION

    def beaten(self, machine: Machine) -> LeaseRecord:
        """The record with the next sign of life."""
        return replace(self, beat=self.beat + 1, at=machine.now(), uptime=machine.uptime())

    def freed(self, machine: Machine) -> LeaseRecord:
        """The record of the free lease, which keeps the token."""
        return replace(self, at=machine.now(), uptime=machine.uptime(), holder=None)

    def is_of(self, id: str) -> bool:
        """True while this acquisition holds the lease."""
        return self.holder is not None and self.holder.id == id

    def refusal(self, key: str) -> ConversationLeasedError:
        """The error of another that finds it held."""
        holder = self.holder
        if holder is None:
            raise ValueError("a free lease refuses nothing")
        return ConversationLeasedError(key, str(holder), host=holder.host, pid=holder.pid, since=_iso(self.since))

    def to_json(self) -> object:
        """The value of the entry."""
        return _adapter().dump_python(self, mode="json")


@cache
def _adapter() -> TypeAdapter[LeaseRecord]:
    # built on first use: it costs more than importing the module
    return TypeAdapter(LeaseRecord)


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def read_lease(key: str, values: Mapping[str, object]) -> LeaseRecord | None:
    """The lease among the values of a session, None if there never was one; `SavedStateError` for anything else."""
    value = values.get(LEASE)
    if value is None:
        return None
    version = cast("Mapping[str, object]", value).get("version") if isinstance(value, Mapping) else None
    if isinstance(version, int) and version > VERSION:
        raise SavedStateError(
            key, f"entry {LEASE!r} has version {version}, and this release reads {VERSION}. Update agentscope-rx."
        )
    try:
        return _adapter().validate_python(value)
    except ValidationError as error:
        raise SavedStateError(
            key, f"entry {LEASE!r} is not a lease; remove it if no process continues the conversation: {error}"
        ) from error
