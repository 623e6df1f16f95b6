"""The context policy: long conversations are made smaller before a model request, and memory keeps the originals."""

from __future__ import annotations

from agentscope_rx.context_policy.rounds import Round
from agentscope_rx.context_policy.strategy import Strategy, StrategyContext

__all__ = ["Round", "Strategy", "StrategyContext"]
