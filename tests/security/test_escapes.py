"""Commands that try to leave the place where they run: in each backend, what it guarantees holds.

What must not be touched is real: files beside the workspace, a process, listening sockets, shared memory.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.tools.backends import (
    Backend,
    BubblewrapBackend,
    Guarantee,
    Limits,
    LocalBackend,
    ProcessResult,
)
from agentscope_rx.tools.files import DENIED, Workspace
from agentscope_rx.tools.process.environment import environment
from agentscope_rx.tools.shell import ShellTool
from tests.security.escapes import ATTEMPTS, PRELUDE, Attempt
from tests.security.forking import KINDS, forking, left, none_left
from tests.tools.calling import all_of, use
from tests.tools.fence import SECRET, Fence
from tests.tools.files.path_corpus import ABSOLUTE, LINKS, PARENT
from tests.tools.shell.command_corpus import COMMANDS, HARMLESS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="backends of Linux")

LIMITS = Limits(time=20, memory=512 << 20, processes=64, file_size=64 << 20)


def sandbox(place: Workspace, **options: object) -> BubblewrapBackend:
    try:
        return BubblewrapBackend(place, **{"limits": LIMITS, **options})
    except ConfigurationError as error:
        pytest.skip(str(error))


def in_namespace(place: Workspace) -> LocalBackend:
    try:
        return LocalBackend(place, namespace=True, limits=LIMITS)
    except ConfigurationError as error:
        pytest.skip(str(error))


MAKERS: dict[str, Callable[[Workspace], Backend]] = {
    "local": lambda place: LocalBackend(place, namespace=False, limits=LIMITS),
    "namespace": in_namespace,
    "bubblewrap": sandbox,
    "bubblewrap with network": lambda place: sandbox(place, network=True),
}


@dataclass
class Field:
    """A fence, and all that a command must not reach. `check` says that it did not."""

    fence: Fence
    place: Workspace
    names: dict[str, object]
    listeners: list[socket.socket]
    process: subprocess.Popen[bytes]

    def run(self, backend: Backend, code: str, limits: Limits | None = None) -> ProcessResult:
        return run(backend, PRELUDE + code, limits)

    def attempt(self, backend: Backend, attempt: Attempt) -> ProcessResult:
        return self.run(backend, attempt.code.format(**self.names, secret=SECRET))

    def check(self) -> None:
        self.fence.check()
        assert self.process.poll() is None
        for each in self.listeners:
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.recv(1) if each.type is socket.SOCK_DGRAM else each.accept()
        name = str(self.names["name"])
        for folder in ("/tmp", "/dev/shm", "/etc", "/usr", "/usr/bin", "/", str(Path.home()), "/home", "/var/tmp"):
            assert not Path(folder, name).exists()


@pytest.fixture
def field(fence: Fence, monkeypatch: pytest.MonkeyPatch) -> Iterator[Field]:
    monkeypatch.setenv("CANARY", SECRET)
    _fill(fence.root)
    outer = socket.socket(socket.AF_UNIX)
    outer.bind(str(fence.outside / "socket"))
    abstract = secrets.token_hex(8)
    hidden = socket.socket(socket.AF_UNIX)
    hidden.bind(f"\0{abstract}")
    stream = socket.socket()
    stream.bind(("0.0.0.0", 0))
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    for each in (outer, hidden, stream):
        each.listen()
    # (its socket is one of the files that must stay)
    fence._before = fence._snapshot()
    libc = ctypes.CDLL(None)
    shared = libc.shmget(0, 4096, 0o1666)
    words = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    listeners = [outer, hidden, stream, datagrams]
    names: dict[str, object] = {
        "outside": fence.outside,
        "root": fence.root,
        "port": stream.getsockname()[1],
        "udp": datagrams.getsockname()[1],
        "abstract": abstract,
        "shm": shared,
        "name": f"agentscope-rx-{secrets.token_hex(8)}",
    }
    place = Workspace(fence.root, deny=[*DENIED, ".agentscope"])
    with subprocess.Popen(words, env={"CANARY": SECRET}) as process:
        try:
            yield Field(fence, place, {**names, "pid": process.pid}, listeners, process)
        finally:
            process.kill()
            libc.shmctl(shared, 0, None)
            for each in listeners:
                each.close()


@pytest.fixture
def fence(tmp_path: Path) -> Fence:
    """A fence that is checked by `Field.check`."""
    return Fence(tmp_path)


def _fill(root: Path) -> None:
    """Denied paths with the secret in them."""
    (root / ".ssh").mkdir()
    for path in (".env", "docs/.env", ".ssh/id_rsa"):
        (root / path).write_text(SECRET)
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")


def run(backend: Backend, code: str, limits: Limits | None = None, cwd: str = ".") -> ProcessResult:
    """Run Python code in a backend."""
    assert backend.python is not None
    words = (backend.python, "-I", "-c", code)
    env = environment(backend.search_path(), None)
    return asyncio.run(backend.run(words, env=env, limits=limits, cwd=cwd))


HELD = [
    *(("bubblewrap", each) for each in ATTEMPTS),
    *(("namespace", each) for each in ATTEMPTS if each.guarantee in (Guarantee.HOST_PROCESSES, Guarantee.ENVIRONMENT)),
]


@pytest.mark.parametrize(("kind", "attempt"), HELD, ids=str)
def test_guarantees_hold(field: Field, kind: str, attempt: Attempt) -> None:
    """What a backend guarantees, none of the attempts breaks."""
    backend = MAKERS[kind](field.place)
    if attempt.guarantee not in backend.guarantees:
        assert kind == "namespace" and os.geteuid() == 0
        return
    ended = field.attempt(backend, attempt)
    private = attempt.name == "writes: private folders"
    assert private or "ESCAPED" not in ended.text, ended.text
    assert SECRET not in ended.text
    # it has failed by what the system has said, and not by a mistake in itself
    errors = [line.split(":")[0] for line in ended.text.splitlines() if "Error:" in line]
    assert set(errors) <= {"OSError", "FileNotFoundError", "PermissionError", "ProcessLookupError", *REFUSED}
    field.check()
    for path in (".env", "docs/.env", ".ssh/id_rsa"):
        moved = Path(field.fence.root, str(field.names["name"]), ".env")
        assert (field.fence.root / path).exists() or moved.exists()
    assert (field.fence.root / ".git" / "config").read_text() == "[core]\n"


REFUSED = ("ConnectionRefusedError", "ValueError", "socket.gaierror")


@pytest.mark.parametrize("attempt", [a for a in ATTEMPTS if a.guarantee is Guarantee.NETWORK and a.works], ids=str)
def test_the_network_is_there_when_it_is_asked_for(field: Field, attempt: Attempt) -> None:
    backend = MAKERS["bubblewrap with network"](field.place)
    assert Guarantee.NETWORK not in backend.guarantees
    assert "ESCAPED" in field.attempt(backend, attempt).text


@pytest.mark.parametrize("attempt", [each for each in ATTEMPTS if each.works], ids=str)
def test_attempts_work_where_nothing_is_guaranteed(field: Field, attempt: Attempt) -> None:
    """In a local backend without a namespace: an attempt that fails everywhere would show nothing."""
    backend = MAKERS["local"](field.place)
    assert attempt.guarantee not in backend.guarantees
    assert "ESCAPED" in field.attempt(backend, attempt).text


def test_the_environment_is_held_everywhere(field: Field) -> None:
    (attempt,) = [each for each in ATTEMPTS if each.guarantee is Guarantee.ENVIRONMENT]
    for make in (MAKERS["local"], MAKERS["bubblewrap"]):
        assert field.attempt(make(field.place), attempt).text == ""


def test_keys_of_the_caller_stay_outside(tmp_path: Path) -> None:
    """The kernel hands a session's keyring on to every child. In a process of its own, which gets such a keyring."""
    backend = sandbox(Workspace(tmp_path))
    numbers = {"x86_64": (248, 250)}.get(os.uname().machine, (217, 219))
    search = f"import ctypes; print(ctypes.CDLL(None).syscall({numbers[1]}, 10, -3, b'user', b'canary', 0) > 0)"
    script = f"""
import asyncio, ctypes, sys
from agentscope_rx.tools.backends import BubblewrapBackend, LocalBackend
call = ctypes.CDLL(None).syscall
if call({numbers[1]}, 1, None) < 0 or call({numbers[0]}, b"user", b"canary", b"x", 1, -3) < 0:
    sys.exit("no keyrings")
for backend in (LocalBackend(sys.argv[1], namespace=False), BubblewrapBackend(sys.argv[1])):
    print(asyncio.run(backend.run((backend.python, "-c", {search!r}), env={{}})).text, end="")
"""
    words = [sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert backend.python is not None
    assert ended.stdout == "True\nFalse\n" or ended.stderr == "no keyrings\n", ended.stderr


# --- the corpora of paths and commands --------------------------------------------------------------------------------


def test_paths_of_the_corpus(field: Field) -> None:
    """A command that opens, makes and removes whatever the path corpus names."""
    paths = [field.fence.fill(each) for each in (*ABSOLUTE, *PARENT, *LINKS) if "\0" not in each]
    code = (
        f"signal.alarm(15)\nfor path in {paths!r}:\n"
        "    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode): continue\n"
        "    each(read, path)\n"
        "    each(lambda p: open(p, 'a').write('x'), path)\n"
        "    each(os.unlink, path)\n"
        "print('through')\n"
    )
    ended = field.run(sandbox(field.place), code)
    assert ended.text == "through\n"
    field.check()


@pytest.mark.parametrize("part", range(8))
def test_commands_of_the_corpus(field: Field, part: int) -> None:
    """What the rules of `ShellTool` reject, in a free shell: in the sandbox it does no harm."""
    shell = ShellTool(backend=sandbox(field.place), allow_any=True, timeout=1.5)
    # (four at once: most of them only wait for a sandbox)
    toolkit = Toolkit([shell], max_concurrency=4)
    calls = [use("run_command", str(at), command=command) for at, (command, _) in enumerate(COMMANDS[part::8])]
    results = [each for each in all_of(toolkit.call_all(calls)).run() if isinstance(each, ToolResultBlock)]
    assert len(results) == len(calls)
    for result in results:
        assert result.kind in (None, ToolResultKind.TIMEOUT, ToolResultKind.FAILED), result.text
        assert SECRET not in result.text
    field.check()


def test_harmless_commands_of_the_corpus(field: Field) -> None:
    toolkit = Toolkit([ShellTool(backend=sandbox(field.place), allow_any=True)])
    for command, output in HARMLESS:
        result = toolkit.call(use("run_command", command=command)).run()
        assert result.kind is None and output in result.text and result.metadata["exit_code"] == 0


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def marker() -> Iterator[str]:
    marker = secrets.token_hex(8)
    yield marker
    assert not left(marker)


@pytest.mark.parametrize("end", ["ends", "waits", "stubborn"])
def test_daemons_end_with_the_sandbox(tmp_path: Path, marker: str, end: str) -> None:
    backend = sandbox(Workspace(tmp_path))
    limits = replace(LIMITS, time=20 if end == "ends" else 1, processes=None)

    async def main() -> list[ProcessResult]:
        # at once, because each of them has to wait
        words = [[str(backend.python), *forking(tmp_path).split()[1:], how, end, "4", marker] for how in KINDS]
        env = environment(backend.search_path(), None)
        return await asyncio.gather(*(backend.run(each, env=env, limits=limits) for each in words))

    ended = asyncio.run(main())
    assert none_left(marker)
    assert [each.timed_out for each in ended] == [end != "ends"] * len(KINDS)


@pytest.mark.parametrize("above", ["1", "2", "os.getppid()"])
def test_a_sandbox_without_its_supervisor_ends(tmp_path: Path, marker: str, above: str) -> None:
    """Process 1 is the supervisor, 2 the process in between: neither leaves anything behind."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        f"wait = [sys.executable, '-c', 'import time; time.sleep(60)', {marker!r}]\n"
        "subprocess.Popen(wait, start_new_session=True, env={})\n"
        f"for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP): os.kill({above}, number)\n"
        "time.sleep(60)"
    )
    ended = run(sandbox(Workspace(tmp_path)), code, replace(LIMITS, time=15))
    assert none_left(marker)
    assert not ended.timed_out and ended.exit_code == -9


def test_a_sandbox_ends_with_this_program(tmp_path: Path, marker: str) -> None:
    """SIGKILL to the program that has made it."""
    sandbox(Workspace(tmp_path))
    script = f"""
import asyncio, sys
from agentscope_rx.tools.backends import BubblewrapBackend
backend = BubblewrapBackend({str(tmp_path)!r})
code = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]])"
    "; print('started', flush=True); time.sleep(60)"
)
words = (backend.python, "-I", "-c", code, {marker!r})
asyncio.run(backend.run(words, env={{}}, show=lambda text: print(text, flush=True)))
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"started\n"
        assert left(marker)
        program.kill()
    assert none_left(marker)
