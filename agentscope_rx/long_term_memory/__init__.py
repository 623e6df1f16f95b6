"""What outlasts a conversation: the port, the hook and the tools that connect it to an agent, and implementations."""

from agentscope_rx.long_term_memory.memory_tools import long_term_memory_tools
from agentscope_rx.long_term_memory.note import MemoryScope, Note, NoteSource
from agentscope_rx.long_term_memory.port import LongTermMemory
from agentscope_rx.long_term_memory.sqlite.facts import Fact
from agentscope_rx.long_term_memory.sqlite.memory import SqliteLongTermMemory
from agentscope_rx.long_term_memory.static_hook import StaticLongTermMemory

__all__ = [
    "Fact",
    "LongTermMemory",
    "MemoryScope",
    "Note",
    "NoteSource",
    "SqliteLongTermMemory",
    "StaticLongTermMemory",
    "long_term_memory_tools",
]
