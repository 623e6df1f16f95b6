"""Agents: the life of a run, and the ReAct agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.agent.agent import Agent
from agentscope_rx.agent.approvals import ApprovalRule
from agentscope_rx.agent.background.hook import BackgroundHook
from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.handle.run_handle import HandleState, HandleStats, RunHandle
from agentscope_rx.agent.inbox import Inbox
from agentscope_rx.agent.interruption import InterruptSource, LastWords
from agentscope_rx.agent.limits import Price, UsageLimits
from agentscope_rx.agent.observe import as_observed
from agentscope_rx.agent.react.react_agent import ReActAgent
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.run_state import RunStats
from agentscope_rx.agent.shutdown import GracefulShutdown, ShutdownReport, ShutdownState
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.structured_output import StructuredOutput
from agentscope_rx.agent.sub_agent.agent_tool import AgentTool
from agentscope_rx.agent.when_busy import WhenBusy
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.lazy import import_lazily

if TYPE_CHECKING:
    from agentscope_rx.agent.pool.conversation_pool import ConversationPool
    from agentscope_rx.agent.pool.kept_conversations import ConversationPoolStatistics
    from agentscope_rx.agent.pool.leased_conversation import LeasedConversation, conversation_key

_LAZY = {
    "ConversationPool": "agentscope_rx.agent.pool.conversation_pool",
    "ConversationPoolStatistics": "agentscope_rx.agent.pool.kept_conversations",
    "LeasedConversation": "agentscope_rx.agent.pool.leased_conversation",
    "conversation_key": "agentscope_rx.agent.pool.leased_conversation",
}

__all__ = [
    "Agent",
    "AgentTool",
    "ApprovalRule",
    "BackgroundHook",
    "Conversation",
    "ConversationPool",
    "ConversationPoolStatistics",
    "GracefulShutdown",
    "HandleState",
    "HandleStats",
    "Inbox",
    "InterruptSource",
    "Job",
    "Jobs",
    "LastWords",
    "LeasedConversation",
    "Price",
    "ReActAgent",
    "Run",
    "RunHandle",
    "RunStats",
    "ShutdownReport",
    "ShutdownState",
    "StatePersistence",
    "StructuredOutput",
    "Tracer",
    "UsageLimits",
    "WhenBusy",
    "as_observed",
    "conversation_key",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
