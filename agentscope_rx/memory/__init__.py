"""Memories: the conversation of an agent, in this process or in a database, and the part of it that a request sends.

Three marks of messages have a meaning (`agentscope_rx.messages`):

| mark | in memory | in requests | in a session |
|---|---|---|---|
| `HIDDEN` | kept, and shown with the conversation | never sent | saved |
| `TRANSIENT` | until the run ends; of overlapping runs, until the last of them ends | sent | never saved |
| `COMPRESSED` | kept | the summary takes its place; without a summary, the message is sent | saved |

- A call and its results go together: if one of them is hidden or compressed, none is sent. As long as one call has no
  result, all of them are sent, because the call still has to be settled. A transient call stays until its result is
  transient, too.
- A message that is given to `call`, `stream`, `enqueue` or `observe` loses its `COMPRESSED` mark, its summary and its
  short forms, as it may come from a client. Only compactions, hooks and `agent.memory` set these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily, leave_out_missing
from agentscope_rx.memory.in_memory import InMemoryMemory
from agentscope_rx.memory.memory import Memory
from agentscope_rx.memory.short_forms import restored, shortened
from agentscope_rx.memory.views import sent
from agentscope_rx.memory.window import TokenWindow

if TYPE_CHECKING:
    from agentscope_rx.memory.sql import SqlMemory

# it needs the extra `sql`
_LAZY = {"SqlMemory": "agentscope_rx.memory.sql"}

__all__ = ["InMemoryMemory", "Memory", "SqlMemory", "TokenWindow", "restored", "sent", "shortened"]

leave_out_missing(__all__, {"SqlMemory": "sqlalchemy"})


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
