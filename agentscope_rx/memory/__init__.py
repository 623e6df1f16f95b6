"""Memories: the port, one in this process, one in a database, and the part of a conversation that a request sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily, leave_out_missing
from agentscope_rx.memory.in_memory import InMemoryMemory
from agentscope_rx.memory.memory import Memory
from agentscope_rx.memory.views import sent
from agentscope_rx.memory.window import TokenWindow

if TYPE_CHECKING:
    from agentscope_rx.memory.sql import SqlMemory

# it needs the extra `sql`
_LAZY = {"SqlMemory": "agentscope_rx.memory.sql"}

__all__ = ["InMemoryMemory", "Memory", "SqlMemory", "TokenWindow", "sent"]

leave_out_missing(__all__, {"SqlMemory": "sqlalchemy"})


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)
