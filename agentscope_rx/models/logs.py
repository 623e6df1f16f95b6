"""What models log, under the name `agentscope_rx.models`: retries, fallbacks, circuits, waits for limits.

| level   | record                                                                                      |
|---------|---------------------------------------------------------------------------------------------|
| WARNING | a circuit opens                                                                             |
| INFO    | an attempt is made again, by another model, too, or raced; a circuit closes; a wait is over |
| DEBUG   | a request begins to wait for a limit                                                        |

The fields of a record (`model`, `attempt`, `delay`, `error_type`, ...) are attributes of it, for JSON logs. Texts of
errors are without secrets. Nothing is logged for an attempt that succeeds.
"""

from __future__ import annotations

import logging

from agentscope_rx.messages.redaction import error_text

LOG = logging.getLogger("agentscope_rx.models")


def log_retry(model: str, attempt: int, delay: float, error: BaseException) -> None:
    """An attempt failed, and another follows."""
    LOG.info(
        "model %s: attempt %d failed, the next begins in %.1f s: %s",
        model,
        attempt,
        delay,
        error_text(error),
        extra={"model": model, "attempt": attempt, "delay": delay, "error_type": type(error).__name__},
    )


def log_hedge(model: str, after: float) -> None:
    """A second attempt races a silent one."""
    LOG.info("model %s: silent for %.1f s, a second attempt begins", model, after, extra={"model": model})


def log_fallback(model: str, following: str, error: BaseException) -> None:
    """A model failed, and the next one is asked."""
    extra = {"model": model, "next_model": following, "error_type": type(error).__name__}
    LOG.info("model %s failed, %s is asked instead: %s", model, following, error_text(error), extra=extra)


def log_circuit(model: str, failures: int, reset: float | None) -> None:
    """A circuit opens for `reset` seconds; None: it closes."""
    if reset is None:
        LOG.info("model %s: the circuit is closed again", model, extra={"model": model})
    else:
        extra = {"model": model, "failures": failures, "delay": reset}
        LOG.warning("model %s: the circuit is open for %.1f s after %d failures", model, reset, failures, extra=extra)


def log_wait(model: str, seconds: float | None) -> None:
    """A request waits for a limit; with `seconds`, it has waited."""
    if seconds is None:
        LOG.debug("model %s: a request waits for its rate limit", model, extra={"model": model})
    else:
        LOG.info(
            "model %s: waited %.1f s for its rate limit", model, seconds, extra={"model": model, "queued": seconds}
        )
