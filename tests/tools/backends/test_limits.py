"""What one command may use: memory, processes, file sizes, CPU time, output; in each backend."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.tools.backends import Backend, BubblewrapBackend, Limits, LocalBackend, ProcessResult
from agentscope_rx.tools.process import run as process
from agentscope_rx.tools.process.limits import MIB
from agentscope_rx.tools.process.supervised import limited
from agentscope_rx.tools.process.watchdog import Watchdog, can_watch
from agentscope_rx.tools.shell import PythonTool, Rule, ShellTool
from tests.tools.calling import use

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")

MAKERS: dict[str, Callable[[Path], Backend]] = {
    "local": lambda root: LocalBackend(root, namespace=False),
    "namespace": lambda root: LocalBackend(root, namespace=True),
    "bubblewrap": BubblewrapBackend,
}


@pytest.fixture(params=MAKERS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    try:
        return MAKERS[request.param](tmp_path)
    except ConfigurationError as error:
        pytest.skip(str(error))


def run(backend: Backend, code: str, **limits: object) -> ProcessResult:
    # (a test that fails must not take the machine with it)
    bounded = Limits(**{"time": 30, "processes": 400, "memory": 1024 * MIB, "file_size": 100 * MIB, **limits})
    assert backend.python is not None
    words = (backend.python, "-I", "-S", "-c", code)
    return asyncio.run(backend.run(words, env={"PATH": os.defpath}, limits=bounded))


HOG = "import time\nx = bytearray({size})\nprint('has it', flush=True)\ntime.sleep(20)"


@ON_LINUX
def test_memory_of_one_process(backend: Backend) -> None:
    ended = run(backend, "x = bytearray(200_000_000)", memory=100 * MIB)
    assert "MemoryError" in ended.text and ended.exit_code == 1 and ended.exceeded is None


@ON_LINUX
def test_memory_of_all_processes_together(backend: Backend) -> None:
    """Each stays within the limit, and all of them do not."""
    code = f"import os\nfor _ in range(8): os.fork() or (exec({HOG.format(size=40_000_000)!r}), os._exit(0))\nos.wait()"
    ended = run(backend, code, memory=100 * MIB)
    assert ended.exceeded == "memory" and not ended.timed_out


@ON_LINUX
def test_memory_that_processes_share_counts_once(backend: Backend) -> None:
    """Their sum is above the limit, their proportional sizes are not."""
    code = (
        "import mmap, os, time\nx = mmap.mmap(-1, 40_000_000)\nfor at in range(0, 40_000_000, 4096): x[at] = 1\n"
        "for _ in range(6):\n    if not os.fork():\n        sum(x[::4096]); time.sleep(0.4); os._exit(0)\n"
        "for _ in range(6): os.wait()\nprint('through')"
    )
    ended = run(backend, code, memory=150 * MIB)
    assert ended.text == "through\n" and ended.exceeded is None


@ON_LINUX
def test_shared_memory_counts(backend: Backend) -> None:
    """The kernel's limit is for private memory."""
    code = "import mmap, time\nx = mmap.mmap(-1, 300_000_000)\nfor at in range(0, 300_000_000, 4096): x[at] = 1\n"
    ended = run(backend, f"{code}time.sleep(20)", memory=100 * MIB)
    assert ended.exceeded == "memory"


@ON_LINUX
@pytest.mark.parametrize("how", ["wide", "deep", "orphans", "bomb"])
def test_processes(backend: Backend, how: str) -> None:
    """A bomb of at most 256 processes, which end by themselves after some seconds, and a limit that is there before."""
    code = {
        "wide": "for _ in range(60): os.fork() or (time.sleep(8), os._exit(0))\ntime.sleep(8)",
        "deep": "for _ in range(60):\n    if os.fork(): time.sleep(8); os._exit(0)\ntime.sleep(8)",
        "orphans": "for _ in range(60):\n    if not os.fork():\n        os.fork() and os._exit(0)\n"
        "        os.setsid(), time.sleep(8), os._exit(0)\ntime.sleep(8)",
        "bomb": "for _ in range(8): os.fork()\ntime.sleep(8)",
    }[how]
    ended = run(backend, f"import os, time\n{code}", processes=30)
    # (RLIMIT_NPROC may have been first)
    refused = "BlockingIOError" in ended.text
    assert ended.exceeded == "processes" or refused
    assert not ended.timed_out


@ON_LINUX
def test_threads_count_as_processes(backend: Backend) -> None:
    code = "import threading, time\nfor _ in range(40): threading.Thread(target=time.sleep, args=(8,)).start()"
    ended = run(backend, code, processes=20)
    assert ended.exceeded == "processes" or "can't start new thread" in ended.text


@ON_LINUX
def test_a_command_within_its_limits(backend: Backend) -> None:
    """The processes that hold it do not count."""
    code = "import os, time\nfor _ in range(14): os.fork() or (time.sleep(0.5), os._exit(0))\ntime.sleep(0.5)"
    ended = run(backend, code, processes=16, memory=60 * MIB)
    assert ended.exceeded is None and ended.exit_code == 0


@ON_LINUX
def test_one_process_is_within_a_limit_of_one(backend: Backend) -> None:
    ended = run(backend, "import time; time.sleep(0.3); print('through')", processes=1)
    assert ended.text == "through\n" and ended.exceeded is None


@ON_LINUX
def test_the_size_of_a_file(backend: Backend, tmp_path: Path) -> None:
    code = "f = open('big', 'wb', 0)\nwhile True: f.write(b'x' * 100_000)"
    ended = run(backend, code, file_size=1_000_000)
    assert "File too large" in ended.text
    assert (tmp_path / "big").stat().st_size <= 1_000_000


@ON_LINUX
def test_cpu_time(backend: Backend) -> None:
    ended = run(backend, "while True: pass", cpu=1, time=100)
    assert ended.exit_code in (-24, -9) and not ended.timed_out


@ON_LINUX
def test_no_core_is_dumped(backend: Backend, tmp_path: Path) -> None:
    ended = run(backend, "import os; os.abort()")
    assert ended.exit_code == -6
    assert [each for each in tmp_path.rglob("*") if not each.is_dir()] == []


def test_a_flood_is_bounded(backend: Backend) -> None:
    ended = run(backend, "import os\nfor _ in range(500): os.write(1, b'x' * 100_000)", output=1000)
    assert ended.total == 50_000_000 and len(ended.text) < 1200


def test_no_descriptor_is_inherited(backend: Backend) -> None:
    with open(os.devnull) as file:
        os.set_inheritable(file.fileno(), True)
        ended = run(backend, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    assert ended.text == "[0, 1, 2]\n"


@ON_LINUX
def test_memory_files_are_bounded_in_a_sandbox(tmp_path: Path) -> None:
    try:
        backend = BubblewrapBackend(tmp_path, scratch=4 * MIB)
    except ConfigurationError as error:
        pytest.skip(str(error))
    code = (
        "import os\nfor folder in ('/tmp', '/dev/shm', os.environ['HOME']):\n    try:\n"
        "        open(f'{folder}/big', 'wb', 0).write(b'x' * 20_000_000) == 20_000_000 and print('ESCAPED')\n"
        "    except OSError as error: print(error.strerror)"
    )
    ended = run(backend, code)
    assert "ESCAPED" not in ended.text


def test_limits_that_cannot_be() -> None:
    wrong: list[dict[str, object]] = [
        {"time": 0},
        {"time": float("inf")},
        {"time": True},
        {"output": 5},
        {"output": None},
        {"memory": 1000},
        {"memory": 1e9},
        {"processes": 0},
        {"processes": True},
        {"file_size": 0},
        {"cpu": -1},
    ]
    for options in wrong:
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            Limits(**options)  # type: ignore[arg-type]


def test_a_limit_without_a_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: the limits of the kernel, set before the program starts."""
    monkeypatch.setattr(process, "can_supervise", lambda: False)
    backend = LocalBackend(tmp_path, namespace=False)
    ended = run(backend, "open('big', 'wb', 0).write(b'x' * 2000)\nopen('big', 'ab', 0).write(b'x')", file_size=2000)
    assert "File too large" in ended.text
    assert limited(["/bin/x"], "-") == limited(["/bin/x"], Limits().rlimits()) == ("/bin/x",)


# --- what a model is told ---------------------------------------------------------------------------------------------


@ON_LINUX
def test_what_a_model_is_told(backend: Backend) -> None:
    object.__setattr__(backend, "limits", Limits(time=20, memory=80 * MIB, processes=30))
    shell = ShellTool(backend=backend, allow=[Rule(f"{sys.executable} *", paths=False)])
    toolkit = Toolkit([shell, PythonTool(backend=backend, allow=True, requires_approval=False, memory=90 * MIB)])
    forks = "import os, time; [os.fork() or (time.sleep(8), os._exit(0)) for _ in range(60)]; time.sleep(8)"
    result = toolkit.call(use("run_command", command=f"{sys.executable} -c '{forks}'")).run()
    if result.metadata.get("exceeded"):
        assert result.kind is ToolResultKind.FAILED
        assert "used more than 30 processes and was ended" in result.text
    shared = "import mmap, time\nx = mmap.mmap(-1, 300_000_000)\nfor at in range(0, 300_000_000, 4096): x[at] = 1\n"
    result = toolkit.call(use("run_python", code=f"{shared}time.sleep(20)")).run()
    assert result.metadata["exceeded"] == "memory"
    assert "used more than 94,371,840 bytes of memory" in result.text


# --- the watchdog -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not can_watch(), reason="the system does not show the children of a process")
def test_the_watchdog_and_a_process_that_is_gone() -> None:
    watchdog = Watchdog(2**22 - 1, 2, Limits(memory=16 * MIB, processes=1))
    assert watchdog.exceeded() is None


@pytest.mark.skipif(not can_watch(), reason="the system does not show the children of a process")
def test_a_watchdog_that_fails_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not go on without."""

    def fail(self: Watchdog) -> str | None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Watchdog, "exceeded", fail)
    with pytest.raises((OSError, ToolError), match="Too many"):
        run(LocalBackend(tmp_path, namespace=False), "import time; print(1, flush=True); time.sleep(600)")


@pytest.mark.skipif(not can_watch(), reason="the system does not show the children of a process")
def test_the_watchdog_and_disposal(backend: Backend) -> None:
    """Disposal at any time while it looks, which is on a thread."""

    async def main(after: float) -> None:
        seen = asyncio.Event()
        words = (str(backend.python), "-I", "-S", "-c", "import time; print(1, flush=True); time.sleep(600)")
        limits = Limits(memory=100 * MIB, processes=10)
        running = asyncio.ensure_future(backend.run(words, env={}, limits=limits, show=lambda _: seen.set()))
        await seen.wait()
        await asyncio.sleep(after)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    for after in (0.0, 0.05, 0.0505, 0.051):
        asyncio.run(asyncio.wait_for(main(after), 20))
