"""Names of tools that stand for members."""

from __future__ import annotations

from agentscope_rx.agent.sub_agent import agent_tool

_CALL = "call_"


def tool_name(verb: str, agent: str) -> str:
    """`<verb>_<agent>`, in the characters and the length that model providers accept, as for `agent.as_tool()`."""
    plain = agent_tool.tool_name(agent).removeprefix(_CALL)
    name = f"{verb}_{plain}"
    if len(name) <= agent_tool.MAX_NAME:
        return name
    # a name that was cut ends with digits that distinguish it
    tail = agent_tool.digits_of(agent)
    return f"{name[: agent_tool.MAX_NAME - len(tail) - 1].rstrip('_')}_{tail}"
