"""Tools for tests: models that play a script, virtual time, a verifier of streams, and kits for parts of your own.

| name                                     | is                                             |
|------------------------------------------|------------------------------------------------|
| `ScriptedModel`, `call`, `Delay`, `HANG` | a model that plays a script, and steps of it   |
| `RecordedModel`                          | a model that plays a recorded run              |
| `run_virtual`, `virtual_loop`            | run code on a loop whose delays take no time   |
| `verify`                                 | checks the signals of a stream, step by step   |
| `collect_dropped`                        | collects the errors that reached no subscriber |
| `check_chat_model`, `check_tool`, ...    | the kits: see `agentscope_rx.testing.kits`     |

For pytest put `pytest_plugins = ["agentscope_rx.testing.pytest_plugin"]` into the top-level `conftest.py`:

| name                   | gives                                                                                  |
|------------------------|----------------------------------------------------------------------------------------|
| `@pytest.mark.virtual` | an `async def` test, also a property test of hypothesis, runs in virtual time. It      |
|                        | takes `limit` and `patience`, as `run_virtual` does                                    |
| `virtual`              | a fixture: `virtual(flow_or_coroutine)` is `run_virtual(...)`                          |
| `dropped_errors`       | a fixture: the list of dropped errors; errors that the test leaves in it fail the test |

With another runner of async tests use `virtual_loop` as its loop factory.
"""

# (the kits are loaded on first use)

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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
