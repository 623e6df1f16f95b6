"""Sub-agents that a model starts by tools. They are declared in code or in files of a workspace.

    finder = SubAgent("finder", "Finds facts in the archive.", "You find facts.", tools=["search"])
    ReActAgent(..., tools=[search], hooks=[SubagentsHook(finder, "subagents")])

`agentscope_rx` does not import this package by itself. Reading files needs the extra `skills`.
"""

from __future__ import annotations

from agentscope_rx.sub_agents.catalog import AnySubAgents, SubAgentCatalog, SubAgents, usual_sub_agents
from agentscope_rx.sub_agents.declaration_file import sub_agent_of_text
from agentscope_rx.sub_agents.foreign import TextStream, text_agent
from agentscope_rx.sub_agents.limits import SubAgentLimits
from agentscope_rx.sub_agents.source import (
    FolderSubAgents,
    FoundSubAgent,
    GivenSubAgents,
    SubAgentScan,
    SubAgentSource,
    UserSubAgents,
    WorkspaceSubAgents,
)
from agentscope_rx.sub_agents.sub_agent import GENERAL_PURPOSE, SubAgent
from agentscope_rx.sub_agents.subagents_hook import SubagentsHook

__all__ = [
    "GENERAL_PURPOSE",
    "AnySubAgents",
    "FolderSubAgents",
    "FoundSubAgent",
    "GivenSubAgents",
    "SubAgent",
    "SubAgentCatalog",
    "SubAgentLimits",
    "SubAgentScan",
    "SubAgentSource",
    "SubAgents",
    "SubagentsHook",
    "TextStream",
    "UserSubAgents",
    "WorkspaceSubAgents",
    "sub_agent_of_text",
    "text_agent",
    "usual_sub_agents",
]
