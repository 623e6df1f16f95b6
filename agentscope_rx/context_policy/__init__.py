"""Long conversations are made smaller before a model request, and memory keeps the originals.

A `CompactionHook` applies a `ContextPolicy`: strategies in order, such as `ShortenResults` and `Summarize`. A
compaction changes marks and metadata of messages: `memory.read()`, sessions and databases have every message whole.
Each step is a `ContextEvent` of the run. Going back to a checkpoint before a compaction undoes it.
"""

from __future__ import annotations

from agentscope_rx.context_policy.compaction_hook import CompactionHook
from agentscope_rx.context_policy.evict import DropOldResults, EvictLargeResults
from agentscope_rx.context_policy.eviction_hook import ToolResultEvictionHook
from agentscope_rx.context_policy.policy import ContextPolicy
from agentscope_rx.context_policy.read_back import read_result
from agentscope_rx.context_policy.rounds import Round
from agentscope_rx.context_policy.shorten import DropPictures, ShortenArguments, ShortenResults
from agentscope_rx.context_policy.strategy import Strategy, StrategyContext, oldest_first
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
    "oldest_first",
    "read_result",
]
