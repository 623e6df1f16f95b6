"""Models around models: what production needs of any `ChatModel`, each a `ChatModel` itself, so that they compose."""

from agentscope_rx.model.around.fallback import FallbackModel
from agentscope_rx.model.around.limited import LimitedModel, LimitedStatistics

__all__ = ["FallbackModel", "LimitedModel", "LimitedStatistics"]
