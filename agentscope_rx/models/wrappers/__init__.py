"""Wrappers for any `ChatModel`: rate limits, fallbacks, hedging. Each is a `ChatModel` itself, so they compose."""

from agentscope_rx.models.wrappers.base import AttemptWrapper
from agentscope_rx.models.wrappers.circuit_breaker import CircuitBreaker
from agentscope_rx.models.wrappers.fallback import FallbackModel
from agentscope_rx.models.wrappers.hedged import HedgedModel
from agentscope_rx.models.wrappers.provider_limits import RemainingLimit
from agentscope_rx.models.wrappers.rate_limited import RateLimitedModel, RateLimitedStatistics

__all__ = [
    "AttemptWrapper",
    "CircuitBreaker",
    "FallbackModel",
    "HedgedModel",
    "RateLimitedModel",
    "RateLimitedStatistics",
    "RemainingLimit",
]
