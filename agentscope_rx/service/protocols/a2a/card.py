"""The card by which clients find an agent."""

from __future__ import annotations

from collections.abc import Sequence

from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a.utils.constants import PROTOCOL_VERSION_1_0, TransportProtocol

from agentscope_rx.agent import Agent
from agentscope_rx.tools import Toolkit


def card_of(
    agent: Agent, name: str, url: str, *, description: str, version: str, skills: Sequence[AgentSkill] | None
) -> AgentCard:
    """The card of this agent at `url`. Its skills are its tools, unless they are given."""
    bindings = (TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON)
    words = description or f"The agent {name}."
    return AgentCard(
        name=name,
        description=words,
        version=version,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=each.value, protocol_version=PROTOCOL_VERSION_1_0)
            for each in bindings
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False, extended_agent_card=False),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json"],
        skills=list(skills) if skills is not None else _skills(agent, name, words),
    )


def _skills(agent: Agent, name: str, words: str) -> list[AgentSkill]:
    toolkit: object = getattr(agent, "toolkit", None)
    schemas = toolkit.schemas() if isinstance(toolkit, Toolkit) else ()
    made = [
        AgentSkill(id=each.name, name=each.name, description=each.description or each.name, tags=["tool"])
        for each in schemas
    ]
    return made or [AgentSkill(id=name, name=name, description=words, tags=["agent"])]
