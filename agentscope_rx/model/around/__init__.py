"""Models around models: what production needs of any `ChatModel`, each a `ChatModel` itself, so that they compose."""

from agentscope_rx.model.around.fallback import FallbackModel

__all__ = ["FallbackModel"]
