"""Backends: what they are given and refuse, what they guarantee, the sandbox's files, and tools that run in them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError, ToolError, WorkspaceError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.tools.backends import (
    ISOLATION,
    SANDBOX_LIMITS,
    Backend,
    BubblewrapBackend,
    Guarantee,
    Limits,
    LocalBackend,
    ProcessResult,
    bubblewrap,
    local,
    mounts,
)
from agentscope_rx.tools.backends.masks import DeniedPath, denied_paths
from agentscope_rx.tools.files import DENIED, FileTools, Workspace
from agentscope_rx.tools.files.globs import DenyList
from agentscope_rx.tools.shell import PythonTool, ShellTool
from tests.tools.calling import use

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes of Linux")
ROOT = Path(__file__).parents[3]


def sandbox(root: Path | Workspace, **options: object) -> BubblewrapBackend:
    try:
        return BubblewrapBackend(root, **options)
    except ConfigurationError as error:
        if "bwrap" in str(error):
            pytest.skip(str(error))
        raise


def free(root: Path | Workspace, command: str, /, cwd: str = ".", **options: object) -> ToolResultBlock:
    """A command in a free shell in a sandbox."""
    toolkit = Toolkit([ShellTool(backend=sandbox(root, **options), allow_any=True)])
    return toolkit.call(use("run_command", command=command, cwd=cwd)).run()


# --- the tools --------------------------------------------------------------------------------------------------------


def test_a_folder_is_a_local_backend(tmp_path: Path) -> None:
    shell = ShellTool(tmp_path, ["ls"], namespace=False)
    assert isinstance(shell.backend, LocalBackend)
    assert shell.workspace is shell.backend.workspace
    assert (shell.timeout, shell.max_output) == (60.0, 30_000)
    place = Workspace(tmp_path)
    assert PythonTool(place, allow=True).workspace is place
    assert FileTools(place).workspace is place


def test_tools_in_a_backend(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path, namespace=False, limits=Limits(time=7, output=500, memory=1 << 30))
    shell = ShellTool(backend=backend, allow=["ls *"])
    assert (shell.timeout, shell.max_output, shell.backend) == (7, 500, backend)
    code = PythonTool(backend=backend, allow=True, timeout=3)
    assert (code.timeout, code.max_output) == (3, 500)
    assert FileTools(backend=backend).workspace is backend.workspace is shell.workspace
    toolkit = Toolkit([shell, code, FileTools(backend=backend)])
    toolkit.call(use("write_file", path="a.txt", content="x")).run()
    assert toolkit.call(use("run_command", command="ls -1")).run().text == "a.txt\n(exit code 0)"


def test_a_folder_and_a_backend_are_one_too_many(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path, namespace=False)
    for make in (
        lambda: ShellTool(tmp_path, ["ls"], backend=backend),
        lambda: ShellTool(allow=["ls"]),
        lambda: ShellTool(backend=backend, allow=["ls"], namespace=False),
        lambda: ShellTool(backend=str(tmp_path), allow=["ls"]),  # type: ignore[arg-type]
        lambda: PythonTool(tmp_path, allow=True, backend=backend),
        lambda: PythonTool(allow=True),
        lambda: FileTools(tmp_path, backend=backend),
        lambda: FileTools(),
        lambda: LocalBackend(tmp_path, limits=5),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigurationError):
            make()


def test_any_command_needs_a_backend_that_isolates(tmp_path: Path) -> None:
    for backend in (None, LocalBackend(tmp_path, namespace=False)):
        with pytest.raises(ConfigurationError, match=r"does not guarantee: .*writes"):
            ShellTool(tmp_path if backend is None else None, backend=backend, allow_any=True)
    with pytest.raises(ConfigurationError, match="leave out allow"):
        ShellTool(backend=sandbox(tmp_path), allow_any=True, allow=["ls"])


@ON_LINUX
def test_any_command(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    shell = ShellTool(backend=sandbox(tmp_path), allow_any=True)
    assert repr(shell) == "<ShellTool run_command: any command>"
    toolkit = Toolkit([shell])
    (tool,) = toolkit.schemas()
    assert "There is no network" in tool.description and "Allowed" not in tool.description
    call = use("run_command", command='for x in a b; do echo $x; done | tac > out && cat out; cd ..; pwd; exit "3"')
    assert not toolkit.needs_approval(call)
    assert toolkit.call(call).run().text == f"b\na\n{tmp_path.parent}\n(exit code 3)"
    assert free(tmp_path, "pwd; touch x", cwd="sub").text == f"{tmp_path}/sub\n(exit code 0)"
    assert (tmp_path / "sub" / "x").stat().st_uid == os.geteuid()
    for command in ("echo \0", "echo \ud800"):
        with pytest.raises(ToolError, match="NUL or a lone surrogate"):
            asyncio.run(shell.run_command(command))
    assert free(tmp_path, "x" * 200_000).kind is ToolResultKind.FAILED


@ON_LINUX
def test_rules_in_a_sandbox(tmp_path: Path) -> None:
    shell = ShellTool(backend=sandbox(tmp_path), allow=["ls *"], ask=["id"])
    toolkit = Toolkit([shell])
    (tool,) = toolkit.schemas()
    assert "no shell" in tool.description and "runs in a sandbox" in tool.description
    assert toolkit.call(use("run_command", command="ls -d .")).run().text == ".\n(exit code 0)"
    assert toolkit.call(use("run_command", command="ls; id")).run().kind is ToolResultKind.REJECTED
    assert toolkit.needs_approval(use("run_command", command="id"))


@ON_LINUX
def test_python_in_a_sandbox_stays_explicit(tmp_path: Path) -> None:
    backend = sandbox(tmp_path)
    with pytest.raises(ConfigurationError, match="allow=True"):
        PythonTool(backend=backend)
    toolkit = Toolkit([PythonTool(backend=backend, allow=True)])
    assert toolkit.needs_approval(use("run_python", code="1"))
    (tool,) = toolkit.schemas()
    assert "runs in a sandbox" in tool.description
    code = "import sys, pydantic; open('x', 'w').write('1'); print(sys.prefix)"
    result = toolkit.call(use("run_python", code=code)).run()
    assert (tmp_path / "x").read_text() == "1"
    assert sys.prefix in result.text or "ModuleNotFoundError" in result.text


class Elsewhere(Backend):
    """Runs nothing here: a container's, say."""

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        return ISOLATION

    @property
    def python(self) -> str | None:
        return None

    def find(self, program: str, path: str) -> str | None:
        return f"/there/{program}"

    async def run(
        self, words: object, *, env: Mapping[str, str], cwd: str = ".", limits: Limits | None = None, **_: object
    ) -> ProcessResult:
        return ProcessResult(0, False, f"{words} in {cwd} within {(limits or self.limits).time} s", 1, 0)


def test_a_backend_of_another_place(tmp_path: Path) -> None:
    backend = Elsewhere(tmp_path, Limits(time=5))
    toolkit = Toolkit([ShellTool(backend=backend, allow_any=True), PythonTool(backend=backend, allow=True)])
    text = toolkit.call(use("run_command", command="a | b", cwd="x")).run().text
    assert text == "('/there/bash', '-c', 'a | b') in x within 5 s\n(exit code 0)"
    assert "No Python interpreter" in toolkit.call(use("run_python", code="1")).run().text


# --- guarantees -------------------------------------------------------------------------------------------------------

COLUMNS = ("Windows", "macOS", "Linux", "namespace", "bubblewrap")


def guaranteed(column: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> frozenset[Guarantee]:
    """What a backend with all limits guarantees there, to a user who is not root."""
    every = Limits(memory=1 << 30, processes=10, file_size=1 << 20)
    if column == "bubblewrap":
        return sandbox(root, limits=every).guarantees
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if column == "namespace":
        monkeypatch.setattr(local, "namespace_on", lambda path: ("bwrap",))
    if column in ("macOS", "Windows"):
        monkeypatch.setattr(local, "can_supervise", lambda: False)
    if column == "Windows":
        monkeypatch.setattr(local, "POSIX", False)
    return LocalBackend(root, namespace=column == "namespace", limits=every).guarantees


@ON_LINUX
@pytest.mark.parametrize("column", COLUMNS)
def test_the_table_of_guarantees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    """The docs' table is what the backends say of themselves."""
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| guarantee \| local.*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    index = next(at for at, name in enumerate(head) if column in name)
    told = {row[0].strip("`").lower(): row[index] for row in rows}
    assert set(told) == {each.value for each in Guarantee}
    assert {name for name, cell in told.items() if cell.startswith("yes")} == set(
        guaranteed(column, tmp_path, monkeypatch)
    )


def test_guarantees_of_limits_that_are_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    unlimited = LocalBackend(tmp_path, namespace=False).guarantees
    assert not unlimited & {Guarantee.MEMORY, Guarantee.PROCESSES, Guarantee.FILE_SIZE, Guarantee.TOTAL_MEMORY}
    assert {Guarantee.TIME, Guarantee.OUTPUT, Guarantee.ENVIRONMENT} <= unlimited


@ON_LINUX
def test_root_may_lift_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    every = Limits(memory=1 << 30, processes=10, file_size=1 << 20)
    assert Guarantee.MEMORY not in LocalBackend(tmp_path, namespace=False, limits=every).guarantees


@ON_LINUX
def test_a_backend_says_what_it_guarantees(tmp_path: Path) -> None:
    backend = sandbox(tmp_path)
    assert backend.limits is SANDBOX_LIMITS
    assert backend.guarantees >= ISOLATION and Guarantee.NETWORK in backend.guarantees
    assert repr(backend).startswith(f"<BubblewrapBackend '{tmp_path}', guarantees: time, output,")
    assert "The network is there" in sandbox(tmp_path, network=True).notice


# --- what is refused --------------------------------------------------------------------------------------------------


@ON_LINUX
def test_settings_that_cannot_be(tmp_path: Path) -> None:
    sandbox(tmp_path)
    for options in (
        {"read": str(tmp_path)},
        {"read": ["relative"]},
        {"read": [tmp_path / "nothing"]},
        {"read": ["/"]},
        {"read": ["/proc"]},
        {"readable": ".git"},
        {"scratch": 10},
        {"scratch": None},
        {"limits": None},
        {"network": "no"},
        {"network": None},
    ):
        with pytest.raises(ConfigurationError):
            BubblewrapBackend(tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="namespace must be True or False"):
        LocalBackend(tmp_path, namespace="no")  # type: ignore[arg-type]
    for root in ("/", "/usr", "/etc", "/proc/self", "/sys"):
        with pytest.raises(ConfigurationError, match="files of the system"):
            BubblewrapBackend(root)


@ON_LINUX
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "apt-get install bubblewrap"),
        ("echo 'No permissions to create new namespace' >&2; exit 1", "No permissions .* user namespaces"),
        ("exec cat", "cannot make a sandbox here"),
        ("echo 1234", "cannot make a sandbox here: 1234"),
    ],
)
def test_a_sandbox_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    """An error that says what to do, and no other backend in its place."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "root").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    if text is not None:
        (tmp_path / "bin" / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / "bwrap").chmod(0o755)
    with pytest.raises(ConfigurationError, match=message):
        BubblewrapBackend(tmp_path / "root")


def test_elsewhere_there_is_no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "can_supervise", lambda: False)
    with pytest.raises(ConfigurationError, match="on Linux only"):
        BubblewrapBackend(tmp_path)


@ON_LINUX
def test_a_sandbox_that_fails_later(tmp_path: Path) -> None:
    """The file that it was tried with is gone: nothing runs."""
    (tmp_path / "extra").mkdir()
    (tmp_path / "root").mkdir()
    backend = sandbox(tmp_path / "root", read=[tmp_path / "extra"])
    (tmp_path / "extra").rmdir()
    with pytest.raises(ToolError, match=r"sandbox could not be started: bwrap: .*extra"):
        asyncio.run(backend.run(("/bin/sh", "-c", "touch x"), env={}))
    assert not (tmp_path / "root" / "x").exists()


@ON_LINUX
def test_a_program_that_is_not_in_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "bin" / "mine").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "bin" / "mine").chmod(0o755)
    words = (str(tmp_path / "bin" / "mine"),)
    with pytest.raises(ToolError, match=r"'mine' could not be started: .*No such file"):
        asyncio.run(sandbox(tmp_path / "root").run(words, env={}))
    shown = sandbox(tmp_path / "root", read=[tmp_path / "bin"])
    assert asyncio.run(shown.run(words, env={})).text == "mine\n"


@ON_LINUX
def test_a_workspace_that_was_replaced(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    backend = sandbox(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "old")
    (tmp_path / "root").mkdir()
    with pytest.raises(WorkspaceError, match="replaced"):
        asyncio.run(backend.run(("/bin/sh", "-c", "touch x"), env={}))
    (tmp_path / "root").rmdir()
    (tmp_path / "root").symlink_to("/")
    with pytest.raises(WorkspaceError):
        asyncio.run(backend.run(("/bin/sh", "-c", "touch x"), env={}))


@ON_LINUX
@pytest.mark.parametrize("by_descriptor", [True, False])
def test_a_workspace_replaced_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_descriptor: bool
) -> None:
    """Between the check and the start: the command runs in the folder that was checked, or not at all."""
    (tmp_path / "root" / "docs").mkdir(parents=True)
    (tmp_path / "other" / "docs").mkdir(parents=True)
    backend = sandbox(tmp_path / "root")
    backend._by_descriptor = backend._by_descriptor and by_descriptor

    def swap(root: str, deny: DenyList) -> list[DeniedPath]:
        (tmp_path / "root").rename(tmp_path / "old")
        (tmp_path / "root").symlink_to(tmp_path / "other")
        return []

    monkeypatch.setattr(bubblewrap, "denied_paths", swap)
    with contextlib.suppress(ToolError):
        asyncio.run(backend.run(("/bin/sh", "-c", "touch x"), env={}, cwd="docs"))
    assert not (tmp_path / "other" / "docs" / "x").exists()


# --- the files of a sandbox -------------------------------------------------------------------------------------------


@ON_LINUX
def test_git_in_a_sandbox(tmp_path: Path) -> None:
    """The repository is read, and not written: its hooks and settings run programs outside."""
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@x")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    (tmp_path / "new.txt").write_text("x")
    assert "first" in free(tmp_path, "git log --oneline").text
    assert "new.txt" in free(tmp_path, "git status --short").text
    refused = free(tmp_path, "git add new.txt; git config core.pager id; echo x > .git/hooks/pre-commit")
    assert refused.text.count("Read-only file system") >= 2
    hidden = free(tmp_path, "git log", readable=[])
    assert "first" not in hidden.text and hidden.metadata["exit_code"] != 0
    place = Workspace(tmp_path, deny=[each for each in DENIED if each != ".git"])
    assert free(place, "git add new.txt && git status --short").text == "A  new.txt\n(exit code 0)"


@ON_LINUX
@pytest.mark.parametrize("by_descriptor", [True, False])
def test_readable_paths(tmp_path: Path, by_descriptor: bool) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a").write_text("folder")
    (tmp_path / "notes.txt").write_text("file")
    (tmp_path / "notes.key").write_text("key")
    backend = sandbox(Workspace(tmp_path, deny=["notes*"]), readable=["notes", "*.txt"])
    backend._by_descriptor = backend._by_descriptor and by_descriptor
    code = "cat notes/a notes.txt; cat notes.key; echo x >> notes/a; echo x >> notes.txt"
    ended = asyncio.run(backend.run(("/bin/sh", "-c", code), env={"PATH": os.defpath}))
    assert ended.text.startswith("folderfile")
    assert ended.text.count("ermission denied") + ended.text.count("Read-only file system") == 3


@ON_LINUX
def test_added_paths_are_read_only(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "data" / "a").write_text("data\n")
    result = free(tmp_path / "root", f"cat {tmp_path}/data/a; echo x > {tmp_path}/data/a", read=[tmp_path / "data"])
    assert result.text.startswith("data\n") and "Read-only" in result.text
    assert (tmp_path / "data" / "a").read_text() == "data\n"


@ON_LINUX
def test_the_librarys_own_folder_is_there_to_be_covered(tmp_path: Path) -> None:
    place = Workspace(tmp_path, deny=[*DENIED, ".agentscope"])
    assert "ead-only file system" in free(place, "echo x > .agentscope/permissions.json").text
    assert list((tmp_path / ".agentscope").iterdir()) == []
    other = tmp_path / "other"
    other.mkdir()
    free(Workspace(other, deny=DENIED and [".env"]), "true")
    assert list(other.iterdir()) == []


@ON_LINUX
def test_what_is_made_is_the_users(tmp_path: Path) -> None:
    free(tmp_path, "mkdir -p a/b && echo x > a/b/c && ln -s c a/b/l && chmod 750 a/b/c")
    made = tmp_path / "a" / "b" / "c"
    assert (made.stat().st_uid, made.stat().st_mode & 0o777) == (os.geteuid(), 0o750)


@ON_LINUX
def test_a_library_is_loaded_in_the_sandbox_only(tmp_path: Path) -> None:
    """A folder for libraries may be in the workspace; bwrap itself, outside, must not load them."""
    result = Toolkit([ShellTool(backend=sandbox(tmp_path), allow_any=True, env={"LD_PRELOAD": "./x.so", "A": "b c"})])
    text = result.call(use("run_command", command="echo $A $LD_PRELOAD; exit 4")).run().text
    # (said by `env`'s successor, the shell, alone)
    assert text.count("cannot be preloaded") == 1 and text.endswith("b c ./x.so\n(exit code 4)")


def test_folders_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "store" / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "store" / "bin")
    monkeypatch.setattr(mounts, "STORES", (str(tmp_path / "store"),))
    assert mounts.visible_folder(str(tmp_path / "bin"), ()) is None
    assert mounts.visible_folder(str(tmp_path / "bin"), (str(tmp_path),)) == str(tmp_path / "bin")
    assert mounts.visible_folder(str(tmp_path / "link"), ()) == str(tmp_path / "store" / "bin")


@ON_LINUX
def test_temporary_files_are_not_kept(tmp_path: Path) -> None:
    name = f"agentscope-rx-{os.getpid()}"
    command = f"echo x > /tmp/{name}; echo x > ~/{name}; cat /tmp/{name} ~/{name}"
    assert free(tmp_path, command).text == "x\nx\n(exit code 0)"
    assert free(tmp_path, f"cat /tmp/{name} ~/{name}").metadata["exit_code"] == 1
    assert not Path("/tmp", name).exists()


@ON_LINUX
def test_a_workspace_in_the_virtual_environments_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in the workspace is not written: this program runs from it."""
    (tmp_path / "venv" / "lib").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    result = free(tmp_path, "echo x > venv/lib/evil.pth; touch beside")
    assert "Read-only file system" in result.text and (tmp_path / "beside").exists()


# --- denied paths -----------------------------------------------------------------------------------------------------


def test_denied_paths(tmp_path: Path) -> None:
    for path in (".git/hooks", "sub/.git", "sub/deep/.ENV", "node_modules/x"):
        (tmp_path / path).mkdir(parents=True)
    for path in (".env", "sub/.env.local", "node_modules/x/.env", "sub/readme", ".git/.env"):
        (tmp_path / path).write_text("")
    (tmp_path / "link.env").symlink_to(".env")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "sub" / ".ssh").symlink_to("/etc")
    found = {("/".join(each.parts), each.folder) for each in denied_paths(str(tmp_path), DenyList(DENIED))}
    assert found == {
        (".git", True),
        ("sub/.git", True),
        ("sub/deep/.ENV", True),
        (".env", False),
        ("sub/.env.local", False),
        ("node_modules/x/.env", False),
    }
    assert denied_paths(str(tmp_path), DenyList(())) == []
    assert denied_paths(str(tmp_path / "nothing"), DenyList(DENIED)) == []


NAMES = st.sampled_from([".env", ".GIT", "a", "b", ".env.x", "env"])


@given(st.sets(st.lists(NAMES, min_size=1, max_size=4).map(tuple), max_size=12))
def test_each_denied_path_is_found_once(tmp_path_factory: pytest.TempPathFactory, files: set[tuple[str, ...]]) -> None:
    """The law: a path is found if it is denied, exists, and nothing above it is denied."""
    root = tmp_path_factory.mktemp("tree")
    deny = DenyList(DENIED)
    for parts in sorted(files):
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            root.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
            root.joinpath(*parts).touch()
    every = [path.relative_to(root).parts for path in root.rglob("*")]
    expected = [each for each in every if deny.denies(each) and not deny.denies(each[:-1])]
    assert sorted(each.parts for each in denied_paths(str(root), deny)) == sorted(expected)


def test_denied_paths_that_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no sandbox in which only some of them are covered."""
    for n in range(20):
        (tmp_path / f".env.{n}").write_text("")
    monkeypatch.setattr("agentscope_rx.tools.backends.masks.MAX_DENIED", 10)
    with pytest.raises(ToolError, match="more than 10 denied paths"):
        denied_paths(str(tmp_path), DenyList(DENIED))
    monkeypatch.setattr("agentscope_rx.tools.backends.masks.MAX_ENTRIES", 15)
    with pytest.raises(ToolError, match="more than 15 files"):
        denied_paths(str(tmp_path), DenyList([".env.1"]))


def test_a_folder_that_cannot_be_read_is_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may make it readable, and it may have denied paths in it."""
    (tmp_path / "closed").mkdir()
    real = os.open

    def refuse(path: str, *options: object, **more: object) -> int:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real(path, *options, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    assert denied_paths(str(tmp_path), DenyList(DENIED)) == [DeniedPath(("closed",), True)]
