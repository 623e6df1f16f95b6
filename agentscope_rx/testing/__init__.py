"""Tools for tests of programs that use the library: a scripted model, a verifier of flows, virtual time, kits.

For pytest: `pytest_plugins = ["agentscope_rx.testing.pytest_plugin"]`.
"""

from agentscope_rx.testing.kits import (
    KitReport,
    RuleBrokenError,
    check_chat_model,
    check_memory,
    check_operator,
    check_publisher,
    check_session,
    check_tool,
)
from agentscope_rx.testing.record import DroppedErrors, RecordedSignal, Recording, collect_dropped
from agentscope_rx.testing.scripted_model import HANG, Delay, ScriptedModel, ScriptedRequest, ScriptExhaustedError, call
from agentscope_rx.testing.verifier import Verification, Verifier, verify
from agentscope_rx.testing.virtual_time import VirtualLoop, run_virtual, virtual_loop

__all__ = [
    "HANG",
    "Delay",
    "DroppedErrors",
    "KitReport",
    "RecordedSignal",
    "Recording",
    "RuleBrokenError",
    "ScriptExhaustedError",
    "ScriptedModel",
    "ScriptedRequest",
    "Verification",
    "Verifier",
    "VirtualLoop",
    "call",
    "check_chat_model",
    "check_memory",
    "check_operator",
    "check_publisher",
    "check_session",
    "check_tool",
    "collect_dropped",
    "run_virtual",
    "verify",
    "virtual_loop",
]
