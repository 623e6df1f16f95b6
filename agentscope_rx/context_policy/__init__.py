"""The context policy: long conversations are made smaller before a model request, and memory keeps the originals."""

from __future__ import annotations

from agentscope_rx.context_policy.compaction_hook import CompactionHook
from agentscope_rx.context_policy.evict import DropOldResults, EvictLargeResults
from agentscope_rx.context_policy.eviction_hook import ToolResultEvictionHook
from agentscope_rx.context_policy.policy import ContextPolicy
from agentscope_rx.context_policy.read_back import read_result
from agentscope_rx.context_policy.rounds import Round
from agentscope_rx.context_policy.shorten import DropPictures, ShortenArguments, ShortenResults
from agentscope_rx.context_policy.strategy import Strategy, StrategyContext
from agentscope_rx.context_policy.summarize import Summarize
from agentscope_rx.context_policy.summary import Summary

__all__ = [
    "CompactionHook",
    "ContextPolicy",
    "DropOldResults",
    "DropPictures",
    "EvictLargeResults",
    "Round",
    "ShortenArguments",
    "ShortenResults",
    "Strategy",
    "StrategyContext",
    "Summarize",
    "Summary",
    "ToolResultEvictionHook",
    "read_result",
]
