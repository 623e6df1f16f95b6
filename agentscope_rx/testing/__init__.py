"""For tests of programs that use the library: virtual time and dropped errors."""

from agentscope_rx.testing.dropped import DroppedErrors, collect_dropped
from agentscope_rx.testing.virtual_time import VirtualLoop, run_virtual, virtual_loop

__all__ = ["DroppedErrors", "VirtualLoop", "collect_dropped", "run_virtual", "virtual_loop"]
