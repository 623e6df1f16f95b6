"""For tests of programs that use the library: a scripted model, virtual time, dropped errors."""

from agentscope_rx.testing.dropped import DroppedErrors, collect_dropped
from agentscope_rx.testing.scripted_model import HANG, Delay, Request, ScriptedModel, ScriptExhaustedError, call
from agentscope_rx.testing.virtual_time import VirtualLoop, run_virtual, virtual_loop

__all__ = [
    "HANG",
    "Delay",
    "DroppedErrors",
    "Request",
    "ScriptExhaustedError",
    "ScriptedModel",
    "VirtualLoop",
    "call",
    "collect_dropped",
    "run_virtual",
    "virtual_loop",
]
