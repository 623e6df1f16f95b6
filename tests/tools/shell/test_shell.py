"""Commands as real processes: what is allowed, how they end, and that nothing of them is left. Python code likewise."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from agentscope_rx import ReActAgent, Toolkit
from agentscope_rx.errors import CommandDeniedError, ConfigurationError, ToolError
from agentscope_rx.events import ActingChunkEvent
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.tools import ToolChunk
from agentscope_rx.tools.files import FileTools, Workspace
from agentscope_rx.tools.process import run as process
from agentscope_rx.tools.process.limits import Limits
from agentscope_rx.tools.process.run import Output
from agentscope_rx.tools.shell import PythonTool, Rule, ShellTool
from agentscope_rx.tools.shell.shell_words import split_command
from tests.tools.calling import all_of, text_of, use
from tests.tools.fence import SECRET, Fence

PYTHON = Rule(f"{sys.executable} *", paths=False)
WAITS = "import signal, sys, time; print(1, flush=True); time.sleep(600)"


def quoted(code: str) -> str:
    assert "'" not in code
    return f"{sys.executable} -c '{code}'"


def shell(root: Path, **options: object) -> Toolkit:
    # (the numbers of processes that a command tells are to be those that are seen here)
    return Toolkit([ShellTool(root, [PYTHON], namespace=False, **options)])


def run(toolkit: Toolkit, command: str, **input: object) -> ToolResultBlock:
    return toolkit.call(use("run_command", command=command, **input)).run()


def gone(pid: int, seconds: float = 30.0) -> bool:
    """True if a process has ended; a zombie counts as ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        threading.Event().wait(0.005)
    return False


# --- what is allowed --------------------------------------------------------------------------------------------------


def test_it_is_off_until_allowed(tmp_path: Path):
    for allow in ((), []):
        with pytest.raises(ConfigurationError, match="needs the commands that it may run"):
            ShellTool(tmp_path, allow)
    with pytest.raises(ConfigurationError, match="no sandbox"):
        PythonTool(tmp_path)


@pytest.mark.parametrize("rule", ["", "*", "* x", "g?t status", "./run.sh *", "bin/x", "'unclosed", "''"])
def test_rules_that_allow_too_much_are_not_made(tmp_path: Path, rule: str):
    with pytest.raises(ConfigurationError):
        ShellTool(tmp_path, [rule])


def test_settings_that_cannot_work(tmp_path: Path):
    for options in (
        {"timeout": 0},
        {"timeout": float("inf")},
        {"max_output": 5},
        {"path": ["."]},
        {"path": "/bin"},
        {"env": {"A=": "x"}},
    ):
        with pytest.raises(ConfigurationError):
            ShellTool(tmp_path, ["ls"], **options)
    with pytest.raises(ConfigurationError, match="a list of rules"):
        ShellTool(tmp_path, "ls *")
    with pytest.raises(ConfigurationError, match="takes a tuple"):
        Rule("ls *", options="-l")


@pytest.mark.parametrize(
    ("rule", "command", "allowed"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git log *", "git log", True),
        ("git log *", "git log --oneline -n 3", True),
        ("git log *", "git -c x=y log", False),
        ("git log *", "git logs", False),
        ("git show * --stat", "git show HEAD --stat", True),
        ("git show * --stat", "git show --stat", False),
        ("git show * --stat", "git show a b --stat", False),
        ("pytest tests/*.py", "pytest tests/a.py", True),
        ("pytest tests/*.py", "pytest tests/a/b.py", False),
        ("pytest tests/*.py", "pytest tests/../b.py", False),
        ("echo 'two words'", "echo two words", False),
        ("echo 'two words'", "echo 'two words'", True),
        (Rule("ls *", options=("-l", "-a")), "ls -la docs", True),
        (Rule("ls *", options=("-l", "-a")), "ls -lR", False),
        (Rule("ls *", options=("-l",)), "ls --color=auto", False),
        (Rule("ls *", options=("--color",)), "ls --color=auto", True),
        (Rule("git log *", options=("-[0-9]",)), "git log -5", True),
        (Rule("git log *", options=()), "git log HEAD -- x", True),
        (Rule("find *", deny=("-exec*", "-delete", "-ok*")), "find . -name x", True),
        (Rule("find *", deny=("-exec*", "-delete", "-ok*")), "find . -execdir id", False),
        (Rule("find *", deny=("-exec*", "-delete", "-ok*")), "find . -delete", False),
        (Rule("ls *", paths=False), "ls /", True),
        ("ls *", "ls https://host.example/x", True),
        ("ls *", "ls --url=https://host.example/x", True),
        ("ls *", "ls HEAD~3 main..topic a@b x:y 50%", True),
    ],
)
def test_rules(tmp_path: Path, rule: Rule | str, command: str, allowed: bool):
    checked = ShellTool(tmp_path, [rule])._checked
    if allowed:
        assert checked(command, ".") == split_command(command)
    else:
        with pytest.raises(CommandDeniedError):
            checked(command, ".")


def test_what_is_asked_for(tmp_path: Path):
    toolkit = Toolkit([ShellTool(tmp_path, ["git status", "ls *"], ask=["git *", "rm *"])])
    asked = {
        command: toolkit.needs_approval(use("run_command", command=command))
        for command in ("git status", "ls", "git commit -m x", "rm x", "rm ../x", "id", "rm x; id", "ls /etc")
    }
    assert [command for command, wanted in asked.items() if wanted] == ["git commit -m x", "rm x"]


def test_a_program_in_the_workspace_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What a model may have put there: neither by PATH, nor by the current folder."""
    tools = FileTools(tmp_path)
    tools.write_file("bin/mine", "#!/bin/sh\necho here\n")
    (tmp_path / "bin" / "mine").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:.::bin:{os.environ['PATH']}")
    toolkit = Toolkit([ShellTool(tmp_path, ["mine"])])
    assert "no program 'mine'" in run(toolkit, "mine").text
    trusted = Toolkit([ShellTool(tmp_path, ["mine"], path=[tmp_path / "bin"], env={"PATH": "/usr/bin:/bin"})])
    assert run(trusted, "mine").text == "here\n(exit code 0)"


def test_the_model_is_told_what_is_allowed(tmp_path: Path):
    (tool,) = Toolkit([ShellTool(tmp_path, ["git status", Rule("ls *", options=("-l",))])])
    assert "git status; ls * (options: -l)" in tool.description
    assert set(tool.parameters["properties"]) == {"command", "cwd", "timeout"}


# --- how they end -----------------------------------------------------------------------------------------------------


def test_output_and_exit_code(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    result = run(
        shell(tmp_path),
        quoted('import os, sys; print(os.getcwd()); print("err", file=sys.stderr); sys.exit(3)'),
        cwd="sub",
    )
    assert result.kind is None
    assert result.text == f"{tmp_path}/sub\nerr\n(exit code 3)"
    assert dict(result.metadata) == {
        "exit_code": 3,
        "timed_out": False,
        "output_bytes": result.metadata["output_bytes"],
    }
    assert run(shell(tmp_path), quoted("pass")).text == "(no output)\n(exit code 0)"
    killed = run(shell(tmp_path), quoted("import os; os.kill(os.getpid(), 9)"))
    assert killed.text == "(no output)\n(ended by signal 9)"
    stdin = run(shell(tmp_path), quoted("import sys; print(repr(sys.stdin.read()))"))
    assert stdin.text == "''\n(exit code 0)"


def test_progress_comes_before_the_result(tmp_path: Path):
    command = quoted('import time; print("one", flush=True); time.sleep(0.05); print("two", flush=True)')
    *chunks, result = all_of(shell(tmp_path).call(use("run_command", command=command))).run()
    assert "".join(text_of(each) for each in chunks) == "one\ntwo\n"
    assert result.text == "one\ntwo\n(exit code 0)"


def test_a_flood_is_bounded(tmp_path: Path):
    command = quoted('import sys; [sys.stdout.write("x" * 1000000 + chr(10)) for n in range(50)]; print("the end")')
    *chunks, result = all_of(shell(tmp_path, max_output=2000).call(use("run_command", command=command))).run()
    assert len(result.text) < 2_200
    assert result.text.endswith("the end\n(exit code 0)")
    assert "bytes left out" in result.text
    assert result.metadata["output_bytes"] == 50_000_058
    assert sum(len(text_of(each)) for each in chunks if isinstance(each, ToolChunk)) < 2_100


def test_binary_output_is_not_shown(tmp_path: Path):
    result = run(shell(tmp_path), quoted("import sys; sys.stdout.buffer.write(bytes(range(256)) * 40)"))
    assert result.text == "(binary output, 10,240 bytes, not shown)\n(exit code 0)"


def test_output_of_a_terminal_is_plain():
    output = Output(100)
    output.add(b"\x1b[31mred\x1b[0m\r\n50%\r100%\x1b]0;title\x07 caf\xc3")
    output.add(b"\xa9\xff")
    assert output.text() == "red\n50%\n100% café\ufffd"


@pytest.mark.parametrize("size", [0, 1, 49, 50, 51, 99, 100, 101, 1000])
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_what_is_kept_of_an_output(size: int, piece: int):
    """Laws: nothing is lost up to the bound; past it the beginning, the end and the number between are right."""
    data = "".join(chr(97 + n % 26) for n in range(size)).encode()
    shown: list[str] = []
    output = Output(100, shown.append)
    for at in range(0, size, piece):
        output.add(data[at : at + piece])
    assert output.total == size
    assert output.left_out == max(0, size - 100)
    if size <= 100:
        assert output.text() == data.decode()
    else:
        assert output.text() == f"{data[:50].decode()}\n... ({size - 100} bytes left out) ...\n{data[-50:].decode()}"
    assert "".join(shown).startswith(data[:99].decode())


# a grandchild in the group, one that left the group, one that left the session; each tells its number
FAMILY = """
import os, subprocess, sys, time
wait = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"]
kept = [subprocess.Popen(wait), subprocess.Popen(wait, process_group=0), subprocess.Popen(wait, start_new_session=True)]
# one write: the whole line is one piece of the output
os.write(1, " ".join(["pids", *map(str, [os.getpid(), *(each.pid for each in kept)])]).encode() + b"\\n")
"""


def family_of(text: str) -> list[int]:
    return [int(each) for line in text.split("\n") if line.startswith("pids") for each in line.split()[1:]]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the group is ended")
@pytest.mark.parametrize(
    "end", ["time.sleep(600)", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)", ""]
)
def test_nothing_is_left_of_a_command(tmp_path: Path, end: str):
    """Timeout and end in peace alike: the whole group, the session, and what has left it."""
    (tmp_path / "family.py").write_text(FAMILY + end)
    result = run(shell(tmp_path, timeout=1.5), f"{sys.executable} family.py")
    pids = family_of(result.text)
    assert len(pids) == 4
    assert all(gone(pid) for pid in pids)
    if end:
        assert result.kind is ToolResultKind.TIMEOUT
        assert "did not finish within 1.5 s" in result.text
        assert result.metadata["timed_out"] is True
    else:
        assert result.kind is None


def test_a_model_may_ask_for_less_time_and_not_for_more(tmp_path: Path):
    result = run(shell(tmp_path, timeout=0.3), quoted(WAITS), timeout=100)
    assert "within 0.3 s" in result.text
    result = run(shell(tmp_path), quoted(WAITS), timeout=0.3)
    assert "within 0.3 s" in result.text and result.kind is ToolResultKind.TIMEOUT


def test_disposal_ends_a_command(tmp_path: Path):
    (tmp_path / "family.py").write_text(FAMILY + "time.sleep(600)")
    told, pids = threading.Event(), list[int]()

    def seen(event: object) -> None:
        pids.extend(family_of(text_of(event)))
        told.set()

    flow = shell(tmp_path).call(use("run_command", command=f"{sys.executable} family.py"))
    subscription = flow.subscribe(on_next=seen)
    assert told.wait(20)
    subscription.dispose()
    assert len(pids) == 4
    assert all(gone(pid) for pid in pids)


def test_interruption_ends_a_command(tmp_path: Path):
    """A run that is interrupted while a command runs: it ends with a reply, and the command has ended."""
    (tmp_path / "family.py").write_text(FAMILY + "time.sleep(600)")
    call = use("run_command", command=f"{sys.executable} family.py")
    agent = ReActAgent("Friday", ScriptedModel([call]), toolkit=shell(tmp_path))
    pids: list[int] = []

    async def main() -> None:
        async for event in agent.stream("go"):
            if isinstance(event, ActingChunkEvent):
                pids.extend(family_of(event.chunk.text))
                agent.interrupt()

    asyncio.run(asyncio.wait_for(main(), 30))
    assert len(pids) == 4
    assert all(gone(pid) for pid in pids)


def test_a_loop_in_another_thread(tmp_path: Path):
    """Children are watched whichever thread the loop is on, and several at once."""
    results: list[ToolResultBlock] = []

    def work() -> None:
        toolkit = shell(tmp_path)
        calls = [use("run_command", str(n), command=quoted(f"print({n})")) for n in range(4)]

        async def main() -> None:
            async for event in toolkit.call_all(calls):
                if isinstance(event, ToolResultBlock):
                    results.append(event)

        asyncio.run(main())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.text for each in results) == sorted(f"{n}\n(exit code 0)" for n in range(4) for _ in range(2))


def test_a_program_that_does_not_start(tmp_path: Path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "broken").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "bin" / "broken").chmod(0o755)
    result = run(Toolkit([ShellTool(tmp_path, ["broken"], path=[tmp_path / "bin"])]), "broken")
    assert result.kind is ToolResultKind.FAILED
    assert "'broken' could not be started" in result.text


def test_a_command_starts_in_the_folder_that_was_checked(fence: Fence):
    """Between the check and the start the folder is replaced by a link: it is the folder that counts."""
    if sys.platform != "linux":
        pytest.skip("a path elsewhere")
    place = Workspace(fence.root)
    with place.folder("docs") as folder, folder.as_path() as path:
        (fence.root / "docs").rename(fence.root / "old")
        (fence.root / "docs").symlink_to(fence.outside)
        assert "index.md" in os.listdir(path)
        assert "secret.txt" not in os.listdir(path)


def test_by_hand(tmp_path: Path):
    tool = ShellTool(tmp_path, ["echo *"])
    assert asyncio.run(_by_hand(tool)).text == "hi\n(exit code 0)"
    with pytest.raises(CommandDeniedError) as caught:
        asyncio.run(tool.run_command("id; id"))
    assert caught.value.command == "id; id"
    with pytest.raises(ToolError):
        asyncio.run(tool.run_command("echo x", "nothing"))


async def _by_hand(tool: ShellTool) -> ToolResultBlock:
    return await tool.run_command("echo hi")


# --- Python -----------------------------------------------------------------------------------------------------------


def python(root: Path, code: str, **options: object) -> ToolResultBlock:
    toolkit = Toolkit([PythonTool(root, allow=True, **options)])
    assert toolkit.needs_approval(use("run_python", code=code))
    return toolkit.call(use("run_python", code=code)).run()


def test_python_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CANARY", SECRET)
    assert python(tmp_path, "print(1 + 1)").text == "2\n(exit code 0)"
    assert python(tmp_path, "print('é😀')\nprint(__name__)").text == "é😀\n__main__\n(exit code 0)"
    assert "ZeroDivisionError" in python(tmp_path, "1 / 0").text
    assert "SyntaxError" in python(tmp_path, "1 1").text
    assert SECRET not in python(tmp_path, "import os; print(os.environ)").text
    assert python(tmp_path, "import os; print(os.getcwd())").text.startswith(str(tmp_path))
    assert python(tmp_path, "input()").metadata["exit_code"] == 1
    assert python(tmp_path, "x = '" + "y" * 300_000 + "'; print(len(x))").text.startswith("300000")
    (tmp_path / "json.py").write_text("print('mine')")
    assert "mine" not in python(tmp_path, "import json").text


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_python_code_is_bounded(tmp_path: Path):
    assert "MemoryError" in python(tmp_path, "x = ' ' * (1 << 31)").text
    assert (
        "File too large"
        in python(Workspace(tmp_path, max_write=1000), "f = open('x', 'w'); f.write('y' * 5000); f.close()").text
    )
    assert python(tmp_path, "while True: pass", timeout=0.3).kind is ToolResultKind.TIMEOUT


LOOP_ENDS = pytest.param(
    0,
    marks=pytest.mark.filterwarnings(
        "ignore:Exception ignored in.*(FileIO|Transport|Popen):pytest.PytestUnraisableExceptionWarning"
    ),
)
"""Not cancelled: the loop ends, and asyncio leaves a pipe to the garbage collector, which warns."""


@pytest.mark.parametrize("turns", [3, 20, 60])
def test_cancelled_and_then_the_loop_ends(turns: int, tmp_path: Path) -> None:
    """The end of a loop cancels what is cleaned up; after it nothing would wait for the program."""

    async def main() -> None:
        running = asyncio.ensure_future(
            process.run(
                ["/bin/sh", "-c", "sleep 600"],
                cwd=str(tmp_path),
                env={"PATH": os.environ["PATH"]},
                limits=Limits(output=100),
                given=b"",
            )
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.1)  # noqa: ASYNC251 - a loop that is busy
        running.cancel()
        for _ in range(2):
            await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert [str(each.message) for each in caught] == []


@pytest.mark.parametrize("turns", range(1, 8))
@pytest.mark.parametrize("times", [LOOP_ENDS, 1, 2])
def test_cancelled_while_it_starts(turns: int, times: int, tmp_path: Path) -> None:
    """asyncio's own way would be to end the program alone, and to wait for those who hold its output."""
    script = "sleep 600 & echo $! > pids; sleep 600 & echo $! >> pids; wait"

    async def main() -> None:
        running = asyncio.ensure_future(
            process.run(
                ["/bin/sh", "-c", script],
                cwd=str(tmp_path),
                env={"PATH": os.environ["PATH"]},
                limits=Limits(output=100),
            )
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        # it runs while the loop does not
        time.sleep(0.3)  # noqa: ASYNC251 - a loop that is busy
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0)
        if not times:
            # the loop ends, and cancels all tasks
            return
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(main())
    gc.collect()
    pids = tmp_path / "pids"
    # (cancelled twice, it is not waited for: on a busy machine it ends a little later)
    for pid in pids.read_text().split() if pids.exists() else ():
        assert gone(int(pid))
