"""The long-term memory of an agent: the hooks that its option stands for.

| mode     | installs                                                                    |
|----------|-----------------------------------------------------------------------------|
| "static" | a `StaticLongTermMemory`: notes for each call, a record of each call        |
| "agent"  | the tools `record_to_memory` and `retrieve_from_memory`                     |
| "both"   | both                                                                        |

For other options of the hook, give `hooks=[StaticLongTermMemory(memory, ...)]` instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.hooks import Hook
from agentscope_rx.tools import Tool

if TYPE_CHECKING:
    from agentscope_rx.agent.agent import Agent
    from agentscope_rx.long_term_memory import LongTermMemory

LongTermMemoryMode = Literal["static", "agent", "both"]
_MODES = get_args(LongTermMemoryMode)


class LongTermMemoryTools(Hook):
    """Brings the two tools of a long-term memory; it gets no event."""

    kinds: tuple[type[Event], ...] | None = ()

    def __init__(self, memory: LongTermMemory) -> None:
        from agentscope_rx.long_term_memory import long_term_memory_tools

        self._tools = long_term_memory_tools(memory)

    def tools(self) -> tuple[Tool, ...]:
        return self._tools


def with_long_term_memory(
    hooks: Iterable[Hook], memory: LongTermMemory | None, mode: LongTermMemoryMode
) -> Iterable[Hook]:
    """The hooks, and those for this long-term memory in this mode; the hooks as they are without one."""
    if mode not in _MODES:
        raise ConfigurationError(f"long_term_memory_mode must be 'static', 'agent' or 'both', not {mode!r:.60}.")
    if memory is None and mode != "both":
        raise ConfigurationError(
            f"long_term_memory_mode={mode!r} needs a memory: long_term_memory=SqliteLongTermMemory('notes.db')."
        )
    if memory is None or not isinstance(hooks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        # (the agent refuses what is no list of hooks)
        return hooks
    # few agents have one, so its room is imported for them alone
    from agentscope_rx.long_term_memory import LongTermMemory, StaticLongTermMemory

    if not isinstance(memory, LongTermMemory):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"long_term_memory must be a LongTermMemory, such as SqliteLongTermMemory('notes.db'), not {memory!r:.60}."
        )
    static = [] if mode == "agent" else [StaticLongTermMemory(memory)]
    tools = [] if mode == "static" else [LongTermMemoryTools(memory)]
    return (*hooks, *static, *tools)


def connect_long_term_memory(agent: Agent, hooks: Iterable[Hook]) -> None:
    """Connect those of the hooks that record with the agent's sessions and its shutdown."""
    hooks = tuple(hooks)
    if not hooks:
        return
    from agentscope_rx.long_term_memory import StaticLongTermMemory
    from agentscope_rx.long_term_memory.record_queue import RecordingHook

    for hook in hooks:
        if isinstance(hook, StaticLongTermMemory):
            hook.connect(agent)
        if agent.shutdown is not None and isinstance(hook, RecordingHook):
            agent.shutdown.drain(hook)
