"""`when_busy`: the choice of a call whose conversation is in use by another run.

| choice      | the call                                                                                           |
|-------------|----------------------------------------------------------------------------------------------------|
| `"error"`   | is refused with `AgentBusyError`; only the clean-up of a disposed run is waited for                |
| `"queue"`   | waits for its turn, behind those that wait already; refused if `queue_limit` calls wait            |
| `"replace"` | interrupts the run in progress and the calls that wait, and begins when that run has ended         |
"""

from __future__ import annotations

from typing import Literal, cast, get_args

from agentscope_rx.errors import ConfigurationError

WhenBusy = Literal["error", "queue", "replace"]
"""The effect of a call while another run is in progress in its conversation.

"error": `AgentBusyError`; "queue": the call waits for its turn; "replace": the run is interrupted."""

_CHOICES: tuple[str, ...] = get_args(WhenBusy)

QUEUE_LIMIT = 100
"""The number of calls that may wait in one conversation, unless the agent sets another one."""


def check_when_busy(when_busy: WhenBusy, check_running: bool) -> WhenBusy:
    """The choice; `ConfigurationError` for another value, and for a wait where runs may overlap."""
    given = cast("object", when_busy)
    if not isinstance(given, str) or given not in _CHOICES:
        raise ConfigurationError(f"when_busy must be one of {', '.join(map(repr, _CHOICES))}, not {when_busy!r:.60}.")
    if when_busy != "error" and not check_running:
        raise ConfigurationError(
            f"when_busy={when_busy!r} has no effect with check_running=False: calls overlap, and none waits. Leave out "
            "one of the two."
        )
    return when_busy


def check_queue_limit(limit: int) -> int:
    """The limit; `ConfigurationError` unless it is a whole number of at least 1."""
    if type(limit) is not int or limit < 1:
        raise ConfigurationError(f"queue_limit must be a whole number of at least 1, not {limit!r:.60}.")
    return limit
