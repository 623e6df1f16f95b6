"""`UserAgent`: a person as an agent, and the sources of their answers."""

from agentscope_rx.agent.user.answer import Question, UserInput
from agentscope_rx.agent.user.terminal import TerminalInput
from agentscope_rx.agent.user.user_agent import UserAgent

__all__ = ["Question", "TerminalInput", "UserAgent", "UserInput"]
