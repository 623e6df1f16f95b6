"""Shared by the stores on disk: attempts at a change on worker threads, repeated while another writer is at work.

A writer that finds the store locked does not block its thread: the attempt ends, and the next one begins after a pause
on the loop's clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from agentscope_rx.errors import ConfigurationError, SessionLockedError
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    RetryPolicy,
    concat_map,
    just,
    on_worker,
    retry,
    shield,
    using,
)

T = TypeVar("T")

LOCK_SECONDS = 30.0
"""How long a change waits for the lock of the store."""
PAUSE, LONGEST_PAUSE = 0.002, 0.05
"""Seconds between two attempts: the pause grows by the first number each time, up to the second."""


class HeldError(Exception):
    """Another writer holds the lock: try again later."""


class Attempt:
    """One attempt at a change; `left` is True once its subscriber has left."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: bool = False

    def leave(self) -> None:
        """Note that the subscriber has left."""
        self.left = True


def lock_policy(lock_timeout: float) -> RetryPolicy:
    """Attempts for that many seconds; `ConfigurationError` if that is no such number."""
    if not lock_timeout >= 0:
        raise ConfigurationError(f"lock_timeout must be 0 or more seconds, not {lock_timeout!r}.")
    return RetryPolicy(
        stop=lambda state: (state.seconds_since_start or 0.0) >= lock_timeout,
        # jitter needs no secure random numbers
        wait=lambda state: min(LONGEST_PAUSE, PAUSE * state.attempt_number) * random.uniform(0.5, 1.0),  # noqa: S311
        retry=lambda state: isinstance(state.outcome and state.outcome.exception(), SessionLockedError),
    )


def begun_to_end(work: Callable[[Attempt], T]) -> Flow[T]:
    """Run a change on a worker. Cancels: a change that has not begun; one that has begun runs to its end.

    An error after the subscriber has left is reported as dropped.
    """
    return using(
        lambda: just(Attempt()),
        lambda attempt: shield(on_worker(lambda: work(attempt), ENGINE_WORKERS)),
        lambda attempt, ending: None,
        on_dispose=Attempt.leave,
    )


def until_free(attempt: Flow[T | HeldError], key: str | None, lock: Callable[[], str], policy: RetryPolicy) -> Flow[T]:
    """Subscribe again while another writer holds the lock; `lock` names its file for the `SessionLockedError`."""

    def unless_held(result: T | HeldError) -> T:
        if isinstance(result, HeldError):
            raise SessionLockedError(key, lock())
        return result

    return attempt.pipe(concat_map(unless_held), retry(policy))
