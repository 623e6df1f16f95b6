"""What the file tools write is not run by a command that runs no programs: git's settings and hooks, files in HOME."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError, WorkspaceError
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.tools.files import FileTools
from agentscope_rx.tools.process.supervised import interpreter
from agentscope_rx.tools.shell import PythonTool, Rule, ShellTool
from tests.tools.calling import use

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its programs are scripts of a shell")

GIT = (
    "status", "diff", "diff HEAD", "log", "log -p", "show", "add f.txt", "commit -m x", "checkout -- f.txt", "stash",
    "blame f.txt", "ls-files", "fetch", "branch -a", "st", "grep hi", "submodule status", "submodule update --init",
    "worktree list", "describe --always", "archive HEAD", "clean -n", "gc", "reset --hard", "tag -s x -m x",
)  # fmt: skip


class Place:
    """A workspace, a folder for what programs leave when they are run, and both kinds of tools."""

    def __init__(self, folder: Path) -> None:
        self.root, self.ran = folder / "root", folder / "ran"
        self.root.mkdir()
        self.ran.mkdir()
        self.files = FileTools(self.root)

    def program(self, name: str) -> str:
        """A command that leaves a trace, and hands on its input."""
        return f"touch {self.ran}/{name}; cat"

    def write(self, path: str, text: str) -> None:
        """As the file tools do it, but also where they know a git folder by now and refuse."""
        try:
            self.files.write_file(path, text)
        except WorkspaceError as error:
            if error.reason != "repository":
                raise
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def bare(self, folder: str) -> None:
        """What git takes for a repository, with every setting that names a program."""
        prefix = f"{folder}/" if folder else ""
        self.write(f"{prefix}HEAD", "ref: refs/heads/main\n")
        self.write(f"{prefix}objects/info/x", "")
        self.write(f"{prefix}refs/heads/x", "")
        self.write(
            f"{prefix}config",
            "[core]\n repositoryformatversion = 0\n bare = false\n"
            f" worktree = {self.root / folder}\n"
            f' fsmonitor = "{self.program("fsmonitor")}"\n hooksPath = {self.root}/hooks\n'
            f' pager = "{self.program("pager")}"\n editor = "{self.program("editor")}"\n'
            f' sshCommand = "{self.program("ssh")}"\n'
            f'[filter "x"]\n clean = "{self.program("clean")}"\n smudge = "{self.program("smudge")}"\n'
            f'[diff "x"]\n textconv = "{self.program("textconv")}"\n command = "{self.program("command")}"\n'
            f'[diff]\n external = "{self.program("external")}"\n'
            f'[alias]\n st = "!{self.program("alias")}"\n'
            f'[gpg]\n program = "{self.program("gpg")}"\n'
            f'[remote "origin"]\n url = "ext::{self.program("ext")}"\n'
            "[user]\n name = a\n email = a@example.com\n",
        )
        self.write(f"{prefix}f.txt", "hi\n")
        self.write(f"{prefix}.gitattributes", "*.txt filter=x diff=x\n")

    def git(self, *words: str, cwd: Path | None = None) -> None:
        """By the owner of the workspace, with settings of their own."""
        names = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *words],
            cwd=cwd or self.root,
            env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "HOME": "/nonexistent", **names},
            check=True,
            capture_output=True,
        )

    def run(self, command: str, cwd: str = ".", **options: object) -> ToolResultBlock:
        toolkit = Toolkit([ShellTool(self.root, [Rule(command, paths=False)], **options)])
        return toolkit.call(use("run_command", command=command, cwd=cwd)).run()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# --- git --------------------------------------------------------------------------------------------------------------


def test_a_planted_repository_is_none(place: Place) -> None:
    """`git status`, allowed by itself, ran what `core.fsmonitor` of files that a tool had written said."""
    place.bare("")
    result = place.run("git status")
    assert result.metadata["exit_code"] == 128 and "fatal" in result.text
    assert not os.listdir(place.ran)


@pytest.mark.parametrize("folder", [".bare", "sub/git"])
def test_a_git_folder_under_another_name_is_git_s_to_write(place: Place, folder: str) -> None:
    """`git status` runs the filters that its `config` names, as in any repository of the owner's."""
    (place.root / folder).parent.mkdir(exist_ok=True)
    place.git("init", "-q", "-b", "main", "--separate-git-dir", folder, ".")
    config = place.root / folder / "config"
    before = config.read_text()
    file = place.root / "other.txt"
    file.write_text("[core]\n")
    for change in (
        lambda: place.files.write_file(f"{folder}/config", "[core]\n"),
        lambda: place.files.write_file(f"{folder}/hooks/pre-commit", "#!/bin/sh\n"),
        lambda: place.files.edit_file(f"{folder}/config", "[core]", "[core]\n fsmonitor = x"),
        lambda: place.files.move_file("other.txt", f"{folder}/info/attributes"),
        lambda: place.files.move_file(f"{folder}/config", "config"),
        lambda: place.files.delete_file(f"{folder}/config"),
    ):
        with pytest.raises(WorkspaceError, match="folder of git's own") as caught:
            change()
        assert caught.value.reason == "repository"
    assert config.read_text() == before and file.exists()
    place.files.write_file("HEAD", "no repository by itself\n")
    place.files.write_file("objects/a.txt", "nor with this\n")


def test_no_command_runs_what_a_planted_repository_says(place: Place) -> None:
    for command in GIT:
        place.bare("")
        place.run(f"git {command}")
        assert not os.listdir(place.ran), command


def test_no_command_runs_what_a_nested_repository_says(place: Place) -> None:
    """In any folder of it, and in the empty one of a submodule."""
    module = place.root.parent / "module"
    place.git("init", "-q", "-b", "main", str(module))
    (module / "s").write_text("s")
    place.git("add", "-A", cwd=module)
    place.git("commit", "-qm", "s", cwd=module)
    place.git("init", "-q", "-b", "main", ".")
    place.git("submodule", "add", "-q", str(module), "sub")
    place.git("commit", "-qm", "r")
    place.git("submodule", "deinit", "-q", "-f", "sub")
    for command in GIT:
        for folder in ("sub", "other"):
            place.bare(folder)
        place.write("f.txt", "hi\n")
        place.write(".gitattributes", "*.txt filter=x diff=x merge=x\n")
        for cwd in (".", "sub", "other"):
            place.run(f"git {command}", cwd)
            assert not os.listdir(place.ran), (command, cwd)
    for line in (f'url = "ext::{place.program("url")}"', f'url = {module}\n update = "!{place.program("update")}"'):
        place.write(".gitmodules", f'[submodule "sub"]\n path = sub\n {line}\n')
        for command in ("submodule init", "submodule update --init", "submodule update --init --remote", "status"):
            place.run(f"git {command}")
            assert not os.listdir(place.ran), (command, line)


def test_hooks_and_monitors_of_the_repository_are_not_run(place: Place) -> None:
    """Nor those of the user or the system; a caller who wants them says so."""
    place.git("init", "-q", "-b", "main", ".")
    hook = place.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {place.ran}/hook\n")
    hook.chmod(0o755)
    place.git("config", "core.fsmonitor", place.program("fsmonitor"))
    place.write("f.txt", "hi\n")
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com"}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    assert place.run("git add f.txt", env=who).metadata["exit_code"] == 0
    assert place.run("git commit -m x", env=who).metadata["exit_code"] == 0
    assert not os.listdir(place.ran)
    wanted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": ".git/hooks"}
    assert place.run("git commit --allow-empty -m y", env={**who, **wanted}).metadata["exit_code"] == 0
    assert os.listdir(place.ran) == ["hook"]


def test_settings_of_the_caller_come_after_those_here(place: Place) -> None:
    given = {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Friday",
        "GIT_CONFIG_KEY_1": "core.fsmonitor", "GIT_CONFIG_VALUE_1": "true",
    }  # fmt: skip
    listed = place.run("git config --list", env=given).text.splitlines()
    assert listed[:5] == [
        "safe.barerepository=explicit", f"core.hookspath={os.devnull}", "core.fsmonitor=false", "user.name=Friday",
        "core.fsmonitor=true",
    ]  # fmt: skip
    for wrong in (
        {"GIT_CONFIG_COUNT": "many"},
        {"GIT_CONFIG_COUNT": "1"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b"},
        {"GIT_CONFIG_COUNT": "9" * 9},
    ):
        with pytest.raises(ConfigurationError, match="GIT_CONFIG_COUNT"):
            ShellTool(place.root, ["git status"], env=wrong)


def test_git_does_not_wait_for_an_editor(place: Place) -> None:
    place.git("init", "-q", "-b", "main", ".")
    place.git("config", "core.editor", place.program("editor"))
    place.write("f.txt", "hi\n")
    place.git("add", "-A")
    who = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    result = place.run("git commit", env=who, timeout=20)
    assert result.metadata["exit_code"] == 1 and "empty commit message" in result.text
    assert not os.listdir(place.ran)


# --- HOME -------------------------------------------------------------------------------------------------------------


def test_files_that_programs_read_from_home(place: Place) -> None:
    """A shell's and a debugger's settings, a module that Python imports at each start."""
    python = interpreter()
    assert python is not None
    site = f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    for path in (".profile", ".bash_profile", ".bashrc", ".shrc"):
        place.write(path, f"touch {place.ran}/{path[1:]}\n")
    place.write(".gdbinit", f"shell touch {place.ran}/gdbinit\n")
    place.write(f"{site}/usercustomize.py", f"open({str(place.ran / 'usercustomize')!r}, 'w')\n")
    place.write(f"{site}/a.pth", f"import os; open({str(place.ran / 'pth')!r}, 'w')\n")
    shutil.copytree(place.root / ".local", place.root / "usercustomize")
    commands = ["sh -l -c true", f"{python} -c pass", *(["gdb -batch"] if shutil.which("gdb") else [])]
    for command in commands:
        assert place.run(command).metadata["exit_code"] == 0
    assert not os.listdir(place.ran)


def test_user_site_modules_are_not_imported_even_with_home(place: Place) -> None:
    site = f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    place.write(f"{site}/usercustomize.py", f"open({str(place.ran / 'usercustomize')!r}, 'w')\n")
    assert place.run(f"{interpreter()} -c pass", env={"HOME": str(place.root)}).metadata["exit_code"] == 0
    assert not os.listdir(place.ran)


LOOK = "import os, stat, sys; h = os.environ['HOME']; print(h, oct(stat.S_IMODE(os.stat(h).st_mode)), os.listdir(h))"


def _look(result: ToolResultBlock) -> tuple[Path, str, str]:
    home, mode, listed = result.text.splitlines()[0].split(" ", 2)
    return Path(home), mode, listed


def test_home_is_empty_private_and_gone_at_the_end(place: Place) -> None:
    place.write("look.py", f"{LOOK}\nos.makedirs(h + '/a/b'); open(h + '/a/b/c', 'w'); os.chmod(h + '/a', 0o500)\n")
    seen: set[Path] = set()
    for _ in range(2):
        home, mode, listed = _look(place.run(f"{sys.executable} look.py"))
        assert (mode, listed) == (oct(0o700), "[]")
        assert not home.is_relative_to(place.root) and not home.exists()
        seen.add(home)
    assert len(seen) == 2
    toolkit = Toolkit([PythonTool(place.root, allow=True, requires_approval=False)])
    home, mode, listed = _look(toolkit.call(use("run_python", code=LOOK)).run())
    assert (mode, listed) == (oct(0o700), "[]") and not home.exists()


def test_home_is_removed_however_the_command_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = place.root.parent / "homes"
    homes.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(homes))
    place.write("ends.py", "import os, shutil, sys, time\nh = os.environ['HOME']\nexec(sys.argv[1])\n")
    for code in (
        "open(h + '/x', 'w'); time.sleep(600)",
        "open(h + '/x', 'w'); os.kill(os.getpid(), 9)",
        "os.rmdir(h)",
        "os.rmdir(h); open(h, 'w')",
        "os.symlink('/', h + '/x')",
    ):
        place.run(f'{sys.executable} ends.py "{code}"', timeout=0.7)
        assert not [each for each in homes.iterdir() if each.is_dir()]
    assert place.run(f"{sys.executable} ends.py pass", env={"HOME": "/given"}).metadata["exit_code"] == 0
    assert "could not be started" in place.run("broken", path=[_broken(place.root.parent)]).text
    assert not [each for each in homes.iterdir() if each.is_dir()]


def _broken(folder: Path) -> Path:
    (folder / "bin").mkdir()
    (folder / "bin" / "broken").write_bytes(b"\x7fELF nonsense")
    (folder / "bin" / "broken").chmod(0o755)
    return folder / "bin"


def test_home_is_outside_wherever_the_workspace_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder for temporary files is the workspace, or in it; all there is, is the workspace."""
    monkeypatch.setattr(tempfile, "tempdir", str(place.root))
    place.write("look.py", LOOK)
    home, mode, _ = _look(place.run(f"{sys.executable} look.py"))
    assert not home.is_relative_to(place.root) and mode == oct(0o700)
    toolkit = Toolkit([ShellTool("/", ["env"], path=["/usr/bin", "/bin"])])
    assert f"HOME={os.devnull}\n" in toolkit.call(use("run_command", command="env")).run().text


def test_the_callers_home_stays(place: Place) -> None:
    given = place.root.parent / "home"
    given.mkdir(mode=0o755)
    place.write("look.py", f"{LOOK}\nopen(h + '/kept', 'w')\n")
    assert _look(place.run(f"{sys.executable} look.py", env={"HOME": str(given)}))[0] == given
    assert os.listdir(given) == ["kept"] and stat.S_IMODE(given.stat().st_mode) == 0o755
