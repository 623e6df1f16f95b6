"""`Member`: one conversation in a hub: an agent, with its own memory or another one."""

from __future__ import annotations

from agentscope_rx.agent import Agent
from agentscope_rx.agent.hearing import Hearing
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow


class Member:
    """An agent in a hub. `present` is false from the moment when it leaves; what waits for it then is not heard."""

    __slots__ = ("agent", "hearing", "memory", "present")

    def __init__(self, agent: Agent, memory: Memory | None) -> None:
        conversation = agent.conversation(memory)
        if conversation.hearing is None:
            conversation.hearing = Hearing()
        self.agent: Agent = agent
        self.memory: Memory = memory if memory is not None else agent.memory
        self.hearing: Hearing = conversation.hearing
        self.present: bool = False

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self.agent.name

    def observe(self, messages: tuple[Msg, ...]) -> Flow[None]:
        """Let the agent observe the messages; signals and cancels as `Agent.observe`."""
        if self.memory is self.agent.memory:
            return self.agent.observe(messages)
        return self.agent.observe(messages, memory=self.memory)
