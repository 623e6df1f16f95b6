"""`BackgroundPolicy`: what an agent does with work in the background."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, cast, get_args

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.checks import check_count

Wait = Literal["wait", "leave", "stop"]
"""A run that would end while work is in progress waits for it, leaves it in progress, or stops it."""

MAX_JOBS = 100
"""How many jobs of one conversation may be in progress; further calls stay in the foreground."""


@dataclass(frozen=True, slots=True)
class BackgroundPolicy:
    """The policy of an agent. `after` holds for the tools in `tools` (None: all) that say nothing themselves."""

    after: float | None = None
    tools: frozenset[str] | None = None
    wait: Wait = "wait"
    max_jobs: int = MAX_JOBS

    def covers(self, tool: str) -> bool:
        """True if `after` holds for this tool."""
        return self.after is not None and (self.tools is None or tool in self.tools)


def policy_of(after: object, tools: Collection[str] | None, wait: Wait, max_jobs: object) -> BackgroundPolicy:
    """The checked policy; `ConfigurationError` names what is wrong."""
    is_number = isinstance(after, (int, float)) and not isinstance(after, bool) and 0 <= after < float("inf")
    if after is not None and not is_number:
        raise ConfigurationError(f"after must be a number of seconds of at least 0, or None, not {after!r:.60}.")
    if isinstance(tools, str):
        raise ConfigurationError(f"tools takes a list of names, as in tools=[{tools!r}].")
    if tools is not None and after is None:
        raise ConfigurationError("tools= names the tools that `after` holds for: give after=, too.")
    if wait not in get_args(Wait):
        raise ConfigurationError(f"wait must be 'wait', 'leave' or 'stop', not {wait!r:.60}.")
    check_count("max_jobs", max_jobs)
    names = None if tools is None else frozenset(tools)
    return BackgroundPolicy(cast("float | None", after), names, wait, cast("int", max_jobs))
