"""Memories: the port, a memory in this process, and the part of a conversation that a request sends."""

from agentscope_rx.memory.in_memory import InMemoryMemory
from agentscope_rx.memory.memory import Memory
from agentscope_rx.memory.views import sent
from agentscope_rx.memory.window import TokenWindow

__all__ = ["InMemoryMemory", "Memory", "TokenWindow", "sent"]
