"""Models around models: what production needs of any `ChatModel`, each a `ChatModel` itself, so that they compose."""

from agentscope_rx.model.around.base import AroundModel
from agentscope_rx.model.around.breaker import CircuitBreaker
from agentscope_rx.model.around.fallback import FallbackModel
from agentscope_rx.model.around.hedged import HedgedModel
from agentscope_rx.model.around.limited import LimitedModel, LimitedStatistics

__all__ = ["AroundModel", "CircuitBreaker", "FallbackModel", "HedgedModel", "LimitedModel", "LimitedStatistics"]
