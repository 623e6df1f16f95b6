"""The names of the tools that sub-agents have, at all levels: known as far as the agents are made."""

from __future__ import annotations

from agentscope_rx.agent.sub_agent.agent_tool import AgentTool
from agentscope_rx.tools import Toolkit
from agentscope_rx.tools.wrapper import innermost


def names_beneath(toolkit: Toolkit) -> frozenset[str] | None:
    """The names of all tools of the sub-agents in the toolkit, and of theirs; None if an agent is not made yet."""
    names: set[str] = set()
    seen: set[int] = set()
    waiting = [toolkit]
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        for each in here:
            tool = innermost(each)
            if not isinstance(tool, AgentTool):
                continue
            if tool.made is None:
                return None
            beneath = getattr(tool.made, "toolkit", None)
            if isinstance(beneath, Toolkit):
                names.update(beneath.names)
                waiting.append(beneath)
    return frozenset(names)
