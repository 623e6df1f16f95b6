"""A small language model on this machine, its server, and their installation."""

from agentscope_rx.models.local.model import LocalChatModel
from agentscope_rx.models.local.weights import MODEL_NAME, install_weights

__all__ = ["MODEL_NAME", "LocalChatModel", "install_weights"]
