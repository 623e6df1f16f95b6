"""Tools for tests of programs that use the library: a scripted model, a verifier of flows, virtual time, kits.

For pytest: `pytest_plugins = ["agentscope_rx.testing.pytest_plugin"]`.

The kits are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily
from agentscope_rx.testing.record import DroppedErrors, RecordedSignal, Recording, collect_dropped
from agentscope_rx.testing.recorded_answers import RecordedError
from agentscope_rx.testing.recorded_model import RecordedMismatchError, RecordedModel
from agentscope_rx.testing.scripted_model import HANG, Delay, ScriptedModel, ScriptedRequest, ScriptExhaustedError, call
from agentscope_rx.testing.verifier import Verification, Verifier, verify
from agentscope_rx.testing.virtual_time import VirtualLoop, run_virtual, virtual_loop

if TYPE_CHECKING:
    from agentscope_rx.testing.kits import (
        KitReport,
        RuleBrokenError,
        check_chat_model,
        check_chunk_store,
        check_chunker,
        check_hook,
        check_long_term_memory,
        check_memory,
        check_operator,
        check_publisher,
        check_session,
        check_tool,
    )

__all__ = [
    "HANG",
    "Delay",
    "DroppedErrors",
    "KitReport",
    "RecordedError",
    "RecordedMismatchError",
    "RecordedModel",
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
    "check_chunk_store",
    "check_chunker",
    "check_hook",
    "check_long_term_memory",
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


def __getattr__(name: str) -> object:
    # (the others are here already)
    return import_lazily(__name__, dict.fromkeys(__all__, "agentscope_rx.testing.kits"), name)
