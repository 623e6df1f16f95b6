"""Recorded answers of real providers, replayed by a driver that is not part of this repository."""

from __future__ import annotations

import gc
import importlib.util
import threading
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve()
DRIVER = HERE.parents[2].parent / "shared" / "replay" / "run_replay.py"
ADAPTER = f"{HERE.parent / 'replay_adapter.py'}:adapter"

pytestmark = [
    pytest.mark.skipif(not DRIVER.exists(), reason="the recordings (../shared/replay) are not here"),
    # the driver leaves its server's loop to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def driver() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_replay", DRIVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("api", ["openai", "anthropic", "dashscope", "gemini", "ollama"])
@pytest.mark.parametrize("what", [["--modes", "all"], ["--modes", "bom,cr"], ["--faults"]])
def test_every_recording_is_read(
    driver: ModuleType, api: str, what: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    threads = set(threading.enumerate())
    failed = driver.main(["--adapter", ADAPTER, "--api", api, "--jobs", "4", *what])
    for thread in set(threading.enumerate()) - threads:
        thread.join(10)
    gc.collect()
    assert failed == 0, capsys.readouterr().out
