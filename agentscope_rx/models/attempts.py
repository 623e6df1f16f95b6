"""Deadlines and retries around an attempt, for models of every kind.

defer(attempt) |> timeout(first, idle, total) |> around |> retry(policy) |> timeout(total_timeout)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable

from agentscope_rx.errors import ModelError, ModelTimeoutError
from agentscope_rx.models.logs import log_retry
from agentscope_rx.models.options import MODEL_DEFAULTS, ExecutionConfig
from agentscope_rx.reactive import Attempt, Flow, catch, defer, retry, throw, timeout

T = TypeVar("T")


def timeout_error(model: str, provider: str) -> Callable[[str, float], Exception]:
    """The error factory of `timeout` for this model."""
    return lambda which, limit: ModelTimeoutError(which, limit, model=model, provider=provider)


def attempt_deadlines(config: ExecutionConfig, model: str, provider: str) -> Callable[[Observable[T]], Flow[T]]:
    """The deadlines of one attempt."""
    return timeout(
        first=config.limit("first_chunk_timeout"),
        idle=config.limit("idle_timeout"),
        total=config.limit("timeout"),
        error=timeout_error(model, provider),
    )


def overall_deadline(limit: float, model: str, provider: str) -> Callable[[Observable[T]], Flow[T]]:
    """The deadline of all attempts together."""
    error = timeout_error(model, provider)
    return timeout(total=limit, error=lambda _, seconds: error("overall", seconds))


def attempts(attempt: Callable[[], Flow[T]], config: ExecutionConfig | None, model: str, provider: str) -> Flow[T]:
    """Make an attempt with the deadlines and retries of the config, over `MODEL_DEFAULTS`: a cold Flow.

    Signals: those of the attempts; a `ModelError` has the names of the model and the provider.
    Cancels: the attempt in progress, or the wait before the next one.
    """
    merged = (config or ExecutionConfig()).over(MODEL_DEFAULTS)
    bounded = defer(attempt).pipe(attempt_deadlines(merged, model, provider))

    def failed(attempt: Attempt) -> None:
        log_retry(model, attempt.number, attempt.delay, attempt.error)

    tried = bounded.pipe(retry(merged.policy(), failed=failed)) if merged.retries else bounded
    limit = merged.limit("total_timeout")
    whole = tried if limit is None else tried.pipe(overall_deadline(limit, model, provider))

    def named(error: Exception) -> Flow[T]:
        if isinstance(error, ModelError):
            error.model, error.provider = error.model or model, error.provider or provider
        return throw(error)

    return whole.pipe(catch(named))
