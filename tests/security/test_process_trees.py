"""Whatever a command starts ends with it: chains of forks, daemons, many at once; at each end that it can have."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from agentscope_rx import ReActAgent, Toolkit
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import ActingChunkEvent
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.tools.mcp import McpStdio
from agentscope_rx.tools.process.supervised import SUPERVISOR, Supervised, interpreter, namespace
from agentscope_rx.tools.shell import PythonTool, Rule, ShellTool
from tests.mcp.parts import FILE, STDIO
from tests.security.forking import KINDS, bwrap, can_unshare, forking, left, none_left
from tests.tools.calling import text_of, use

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process group is ended, as the docs say")

with tempfile.TemporaryDirectory() as _folder:
    HOLDERS = ("supervisor", "namespace") if can_unshare(Path(_folder)) else ("supervisor",)


@pytest.fixture(params=HOLDERS)
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """What `namespace` is to be."""
    if request.param == "supervisor":
        return False
    monkeypatch.setenv("PATH", bwrap(tmp_path_factory.mktemp("bin")))
    return True


@pytest.fixture
def marker():
    marker = secrets.token_hex(8)
    yield marker
    for pid in left(marker):
        os.kill(pid, signal.SIGKILL)


def shell(root: Path, held: bool, **options: object) -> Toolkit:
    return Toolkit([ShellTool(root, [Rule(f"{sys.executable} *", paths=False)], namespace=held, **options)])


def run(toolkit: Toolkit, command: str) -> ToolResultBlock:
    return toolkit.call(use("run_command", command=command)).run()


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize(("end", "count"), [("ends", 1), ("ends", 4), ("ends", 50), ("waits", 20)])
def test_forks_end_with_the_command(tmp_path: Path, held: bool, marker: str, how: str, end: str, count: int) -> None:
    """An end in peace, or at the timeout; the result does not wait for what is left."""
    timeout = 60.0 if end == "ends" else 1.0
    result = run(shell(tmp_path, held, timeout=timeout), f"{forking(tmp_path)} {how} {end} {count} {marker}")
    assert none_left(marker)
    # (twenty that do nothing but fork may keep it from saying so)
    assert "started" in result.text or (end, count) == ("waits", 20)
    assert result.kind is (None if end == "ends" else ToolResultKind.TIMEOUT)


@pytest.mark.parametrize(("end", "count"), [("waits", 1), ("stubborn", 4)])
def test_forks_end_at_the_timeout(tmp_path: Path, held: bool, marker: str, end: str, count: int) -> None:
    """In peace, or by force. Of all kinds at once, because each of them has to wait."""
    toolkit = shell(tmp_path, held, timeout=1.5)
    commands = [f"{forking(tmp_path)} {how} {end} {count} {marker}" for how in KINDS]

    async def main() -> list[ToolResultBlock]:
        return await asyncio.gather(*(toolkit.call(use("run_command", command=each)) for each in commands))

    results = asyncio.run(main())
    assert none_left(marker)
    assert all("started" in result.text for result in results)
    assert [result.kind for result in results] == [ToolResultKind.TIMEOUT] * len(KINDS)


@pytest.mark.parametrize("how", KINDS)
def test_forks_end_at_disposal(tmp_path: Path, held: bool, marker: str, how: str) -> None:
    told = threading.Event()

    def seen(event: object) -> None:
        if "started" in text_of(event):
            told.set()

    flow = shell(tmp_path, held).call(use("run_command", command=f"{forking(tmp_path)} {how} waits 4 {marker}"))
    subscription = flow.subscribe(on_next=seen)
    assert told.wait(20)
    subscription.dispose()
    assert none_left(marker)


@pytest.mark.parametrize("how", KINDS)
def test_forks_end_at_an_interruption(tmp_path: Path, held: bool, marker: str, how: str) -> None:
    call = use("run_command", command=f"{forking(tmp_path)} {how} waits 4 {marker}")
    agent = ReActAgent("Friday", ScriptedModel([call]), toolkit=shell(tmp_path, held))

    async def main() -> None:
        async for event in agent.stream("go"):
            if isinstance(event, ActingChunkEvent) and "started" in event.chunk.text:
                agent.interrupt()

    asyncio.run(asyncio.wait_for(main(), 30))
    assert none_left(marker)


@pytest.mark.parametrize("how", KINDS)
def test_forks_end_when_this_process_is_killed(tmp_path: Path, held: bool, marker: str, how: str) -> None:
    """SIGKILL to the program that has the agent in it: only the supervisor is left to clean up."""
    root = tmp_path / "root"
    root.mkdir()
    script = f"""
import sys, threading
from agentscope_rx import Toolkit, ToolUseBlock
from agentscope_rx.tools.shell import Rule, ShellTool
toolkit = Toolkit([ShellTool({str(root)!r}, [Rule(f"{{sys.executable}} *", paths=False)], namespace={held})])
call = ToolUseBlock("1", "run_command", {{"command": sys.argv[1]}})
toolkit.call(call).subscribe(on_next=lambda each: print("started", flush=True))
threading.Event().wait()
"""
    command = f"{forking(root)} {how} waits 4 {marker}"
    # (nothing is left to remove the command's HOME, either)
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script, command], stdout=subprocess.PIPE, env=env) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"started\n"
        assert left(marker)
        program.kill()
    assert none_left(marker)


def test_forks_of_python_code(tmp_path: Path, held: bool, marker: str) -> None:
    command = [*forking(tmp_path).split(), "session", "ends", "4", marker]
    toolkit = Toolkit([PythonTool(tmp_path, allow=True, requires_approval=False, namespace=held)])
    result = toolkit.call(use("run_python", code=f"import subprocess; subprocess.run({command!r})")).run()
    assert none_left(marker)
    assert result.text == "started\n(exit code 0)"


def test_a_server_that_forks(tmp_path: Path, marker: str) -> None:
    """An MCP server's processes end when it is closed, whatever it has left behind."""
    words = [*forking(tmp_path).split(), "session", "ends", "4", marker]
    (tmp_path / "server.py").write_text(
        f"import runpy, subprocess, sys\nsubprocess.run({words!r}, stdout=subprocess.DEVNULL, cwd={str(tmp_path)!r})\n"
        f"runpy.run_path({FILE!r}, run_name='__main__')\n"
    )
    toolkit = Toolkit()
    toolkit.register_mcp(McpStdio(sys.executable, [str(tmp_path / "server.py")], env=STDIO.env), name="demo").run()
    assert toolkit.call(use("add", a=1, b=2)).run().text == "3"
    toolkit.close().run()
    assert none_left(marker)


@pytest.mark.parametrize("above", [1, 2])
def test_a_command_that_kills_what_is_above_it(tmp_path: Path, marker: str, above: int) -> None:
    """The process in between, the supervisor: what has kept the session or the mark is found all the same."""
    (tmp_path / "kills.py").write_text(
        "import os, signal, subprocess, sys, time\n"
        "wait = [sys.executable, '-c', 'import time; time.sleep(600)', sys.argv[1]]\n"
        "subprocess.Popen(wait), subprocess.Popen(wait, start_new_session=True)\n"
        "pid = os.getppid()\n"
        "if sys.argv[2] == '2':\n"
        "    pid = int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n"
        "os.kill(pid, signal.SIGKILL)\ntime.sleep(600)\n"
    )
    result = run(shell(tmp_path, False), f"{sys.executable} kills.py {marker} {above}")
    assert none_left(marker)
    assert "ended by signal 9" in result.text


def test_orphans_are_taken_off_the_table_of_processes(tmp_path: Path, held: bool) -> None:
    """While the command runs: a thousand that have ended are not a thousand that wait to be fetched."""
    (tmp_path / "orphans.py").write_text(
        "import os, sys\n"
        "for _ in range(300):\n"
        "    if not os.fork():\n"
        "        os.fork()\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "for _ in range(1000):\n"
        "    names = [each for each in os.listdir('/proc') if each.isdigit()]\n"
        "    def parent(name):\n"
        "        try:\n"
        "            return open(f'/proc/{name}/stat').read().rpartition(')')[2].split()[1]\n"
        "        except OSError:\n"
        "            return ''\n"
        "    if sum(parent(each) in (str(os.getppid()), parent(str(os.getppid()))) for each in names) <= 3:\n"
        "        print('alone')\n"
        "        break\n"
    )
    assert run(shell(tmp_path, held), f"{sys.executable} orphans.py").text == "alone\n(exit code 0)"


def test_how_a_command_ends(tmp_path: Path, held: bool) -> None:
    """With a supervisor in between: its exit code, its signal, its folder, a SIGTERM that it may answer."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "ends.py").write_text(
        "import os, signal, sys, time\n"
        "if sys.argv[1] == 'asked':\n"
        "    signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('asked')))\n"
        "    time.sleep(600)\n"
        "print(os.getcwd())\n"
        "sys.exit(int(sys.argv[1])) if int(sys.argv[1]) >= 0 else os.kill(os.getpid(), -int(sys.argv[1]))\n"
    )
    toolkit = shell(tmp_path, held, timeout=0.5)
    assert run(toolkit, f"{sys.executable} ends.py 7").text == f"{tmp_path}\n(exit code 7)"
    assert run(toolkit, f"{sys.executable} ends.py -11").metadata["exit_code"] == -11
    asked = run(toolkit, f"{sys.executable} ends.py asked")
    assert asked.kind is ToolResultKind.TIMEOUT and "asked" in asked.text


def test_a_folder_that_has_been_replaced_is_not_used(tmp_path: Path) -> None:
    """A namespace's program goes to its folder by the path: that it is the same one is looked at again."""
    (tmp_path / "a").mkdir()
    held = Supervised(["/bin/sh", "-c", "touch here"], tmp_path / "a")
    try:
        subprocess.run(held.words, cwd=tmp_path, pass_fds=held.descriptors, check=True)
        problem = held.outcome(5)
    finally:
        held.close()
    assert isinstance(problem, OSError) and problem.errno == errno.ESTALE
    assert not (tmp_path / "here").exists()


# --- which way is taken -----------------------------------------------------------------------------------------------


def test_a_namespace_that_is_needed_and_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `bwrap`, one that does not work, one that pretends, one that a model may have written: none of them counts."""
    bin = tmp_path / "bin"
    bin.mkdir()
    monkeypatch.setenv("PATH", f"{bin}")
    (tmp_path / "root" / "bin").mkdir(parents=True)
    for text in (None, "exit 1", "exec cat", "while [ $1 != -- ]; do shift; done; shift; exec $@"):
        bin = tmp_path / f"bin-{hash(text)}"
        bin.mkdir()
        monkeypatch.setenv("PATH", str(bin))
        if text is not None:
            (bin / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
            (bin / "bwrap").chmod(0o755)
        assert namespace(str(bin)) is None
        for tool in (
            lambda: ShellTool(tmp_path / "root", ["true"], namespace=True),
            lambda: PythonTool(tmp_path / "root", allow=True, namespace=True),
        ):
            with pytest.raises(ConfigurationError, match="needs `bwrap`"):
                tool()
        ShellTool(tmp_path / "root", ["true"])
    planted = tmp_path / "root" / "bin" / "bwrap"
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/planted\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(planted.parent))
    ShellTool(tmp_path / "root", ["true"])
    assert not (tmp_path / "planted").exists()


def test_helpers_do_not_run_in_a_virtual_environment(tmp_path: Path) -> None:
    """Whose `pyvenv.cfg` says where the standard library is; the environment may lie in the workspace."""
    python = interpreter()
    assert python is not None
    told = subprocess.run(
        [python, "-I", "-S", "-c", "import sys; print(sys.prefix == sys.base_prefix)"], capture_output=True, check=True
    )
    assert told.stdout == b"True\n"


_INCOMPLETE = """
import os, runpy, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
program = runpy.run_path(%r)
child = os.fork() or time.sleep(600)
listed, missed = program["_children"], [1, 1, 1]
program["_end_all"].__globals__["_children"] = lambda: [] if missed and missed.pop() else listed()
program["_end_all"]()
try:
    os.kill(child, signal.SIGKILL)
except ProcessLookupError:
    print("ended")
"""


def test_a_list_that_leaves_out_a_child_keeps_none() -> None:
    """The kernel's list of children may leave one out while another one ends."""
    done = subprocess.run([sys.executable, "-c", _INCOMPLETE % str(SUPERVISOR)], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout == b"ended\n"
