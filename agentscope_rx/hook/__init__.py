"""Hooks: observe and change what a run says, in three forms; also as methods of an agent, and for a whole class."""

from agentscope_rx.hook.class_wide import ClassHooks
from agentscope_rx.hook.compose import CompiledHooks
from agentscope_rx.hook.hook import DROP, Hook, hook, hook_operator
from agentscope_rx.hook.hooks import Hooks
from agentscope_rx.hook.pending_recovery import PendingToolRecovery

__all__ = ["DROP", "ClassHooks", "CompiledHooks", "Hook", "Hooks", "PendingToolRecovery", "hook", "hook_operator"]
