"""Hooks: observe and change what a run says, in three forms."""

from agentscope_rx.hook.compose import Hooks
from agentscope_rx.hook.hook import DROP, Hook, hook, hook_operator

__all__ = ["DROP", "Hook", "Hooks", "hook", "hook_operator"]
