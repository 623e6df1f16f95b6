"""Agents: the envelope of a run, and the ReAct agent."""

from agentscope_rx.agent.agent import Agent
from agentscope_rx.agent.react.react_agent import ReActAgent
from agentscope_rx.agent.run import InterruptSource, Run
from agentscope_rx.agent.tracer import Tracer

__all__ = ["Agent", "InterruptSource", "ReActAgent", "Run", "Tracer"]
