"""Hooks: observe and change the events of a run, as objects, functions, operators, or methods of an agent."""

from typing import TYPE_CHECKING

from agentscope_rx.hooks.base import DROP, Hook, hook, hook_operator
from agentscope_rx.hooks.class_hooks import ClassHooks
from agentscope_rx.hooks.collection import Hooks
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.hooks.compose import CompiledHooks
from agentscope_rx.hooks.notices import NoticeRequest
from agentscope_rx.hooks.wrapping.around_hook import AroundHook, around
from agentscope_rx.hooks.wrapping.requests import CallRequest, ModelRequest, StageRequest, ToolRequest
from agentscope_rx.lazy import import_lazily

if TYPE_CHECKING:
    from agentscope_rx.hooks.shipped.failure_reminder import FailureReminderHook
    from agentscope_rx.hooks.shipped.pending_recovery import PendingToolRecovery
    from agentscope_rx.hooks.shipped.runtime_state import RuntimeStateHook
    from agentscope_rx.hooks.shipped.tts import TTSHook

# an agent needs few of these, and they take time to import
_LAZY = {
    "FailureReminderHook": "agentscope_rx.hooks.shipped.failure_reminder",
    "PendingToolRecovery": "agentscope_rx.hooks.shipped.pending_recovery",
    "RuntimeStateHook": "agentscope_rx.hooks.shipped.runtime_state",
    "TTSHook": "agentscope_rx.hooks.shipped.tts",
}

__all__ = [
    "DROP",
    "AroundHook",
    "CallRequest",
    "ClassHooks",
    "Compaction",
    "CompactionRequest",
    "CompiledHooks",
    "FailureReminderHook",
    "Hook",
    "Hooks",
    "ModelRequest",
    "NoticeRequest",
    "PendingToolRecovery",
    "RuntimeStateHook",
    "StageRequest",
    "TTSHook",
    "ToolRequest",
    "around",
    "hook",
    "hook_operator",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
