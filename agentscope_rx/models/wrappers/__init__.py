"""Models around models: what production needs of any `ChatModel`, each a `ChatModel` itself, so that they compose."""

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
