"""Names of tools that stand for members, and a check that options of teams share."""

from __future__ import annotations

from agentscope_rx.agent.sub_agent import agent_tool
from agentscope_rx.errors import ConfigurationError

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


def check_count(name: str, value: object, least: int = 1) -> int:
    """The number; `ConfigurationError` if it is no whole number of at least `least`."""
    if type(value) is not int or value < least:
        raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {value!r:.60}.")
    return value
