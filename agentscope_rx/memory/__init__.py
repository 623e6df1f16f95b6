"""Memories: the port, and a memory in this process."""

from agentscope_rx.memory.in_memory import InMemoryMemory
from agentscope_rx.memory.memory import Memory

__all__ = ["InMemoryMemory", "Memory"]
