"""Long-term memory: facts that outlast a conversation. The port, its implementations, the hook and the tools.

`ReActAgent(long_term_memory=...)` installs the hook and the tools, as `long_term_memory_mode` says: "static", "agent"
or "both".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily
from agentscope_rx.long_term_memory.memory_tools import long_term_memory_tools
from agentscope_rx.long_term_memory.note import MemoryScope, Note, NoteSource
from agentscope_rx.long_term_memory.port import LongTermMemory
from agentscope_rx.long_term_memory.static_hook import StaticLongTermMemory

if TYPE_CHECKING:
    from agentscope_rx.long_term_memory.mem0 import Mem0LongTermMemory
    from agentscope_rx.long_term_memory.sqlite.facts import Fact
    from agentscope_rx.long_term_memory.sqlite.memory import SqliteLongTermMemory

# (an agent needs the port alone: SQLite and HTTP are imported with what uses them)
_LAZY = {
    "Fact": "agentscope_rx.long_term_memory.sqlite.facts",
    "Mem0LongTermMemory": "agentscope_rx.long_term_memory.mem0",
    "SqliteLongTermMemory": "agentscope_rx.long_term_memory.sqlite.memory",
}

__all__ = [
    "Fact",
    "LongTermMemory",
    "Mem0LongTermMemory",
    "MemoryScope",
    "Note",
    "NoteSource",
    "SqliteLongTermMemory",
    "StaticLongTermMemory",
    "long_term_memory_tools",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
