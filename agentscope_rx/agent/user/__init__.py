"""A person as an agent: `UserAgent`, and where their answers come from."""

from agentscope_rx.agent.user.question import Question, UserInput
from agentscope_rx.agent.user.terminal import TerminalInput
from agentscope_rx.agent.user.user_agent import UserAgent

__all__ = ["Question", "TerminalInput", "UserAgent", "UserInput"]
