"""What rules read in a call: the folder of a command, spellings of a path, names of arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentscope_rx.permissions import PermissionRules
from agentscope_rx.testing import call
from agentscope_rx.tools import ExternalTool, Toolkit, tool
from tests.permissions.parts import Desk


@pytest.mark.parametrize(
    ("command", "cwd"),
    [
        ("cat a", "secrets"), ("cat a", "./Secrets/"), ("cat ../secrets/a", "src"), ("cat in/a", "src"),
        ("cat a", "src/in"), ("tee permissions.json", ".agentscope"), ("tee ../.agentscope/x", "src"),
    ],
)  # fmt: skip
def test_a_command_is_read_in_its_folder(tmp_path: Path, command: str, cwd: str):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    (tmp_path / "src" / "in").symlink_to(tmp_path / "secrets")
    tools = Toolkit([_in_directory, _in_folders])
    assert desk.verdict("run_command", command=command, cwd=cwd) == "deny"
    for name, given in (("_in_directory", {"directory": cwd}), ("_in_folders", {"folders": ["notes", cwd]})):
        block = call(name, command=command, **given)
        assert desk.rules.decide(block, tools.get(name)).verdict == "deny"
    assert desk.verdict("run_command", command="cat a", cwd="src") == "allow"


@tool
def _in_directory(command: str, directory: str) -> str:
    """A shell with a folder under another name."""
    return command + directory


@tool
def _in_folders(command: str, folders: list[str]) -> str:
    """A shell with many folders."""
    return f"{command}{folders}"


@pytest.mark.parametrize("folder", ["/etc", "..", "away", "src/away"])
def test_a_command_in_a_folder_outside_is_not_allowed(tmp_path: Path, folder: str):
    (tmp_path / "p" / "src").mkdir(parents=True)
    for place in ("away", "src/away"):
        (tmp_path / "p" / place).symlink_to(tmp_path)
    rules = PermissionRules(workspace=tmp_path / "p", allow=["_in_directory(command: cat *)"])
    decide = lambda given: rules.decide(call("_in_directory", command="cat a", directory=given), _in_directory).verdict  # noqa: E731
    assert decide(folder) == "ask" and decide("src") == "allow"


def test_a_command_in_too_many_folders_is_asked_about(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    block = call("_in_folders", command="cat a", folders=[f"f{number}" for number in range(20)])
    assert desk.rules.decide(block, _in_folders).verdict == "ask"
    assert desk.verdict("run_command", command="cat a", cwd=7) == "ask"


@pytest.mark.parametrize(
    "path",
    [
        "file://localhost{root}/secrets/a", "file:secrets/a", "FILE:/{root}/secrets/a", " secrets/a", "'secrets/a'",
        "%2573ecrets/a", "%252e/secrets/a",
    ],
)  # fmt: skip
def test_what_a_tool_may_make_of_a_path_is_denied(tmp_path: Path, path: str):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    assert desk.verdict("copy", source=path.replace("{root}", str(tmp_path)), destination="src/a") == "deny"


def test_wildcards_that_a_tool_may_expand_are_asked_about(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    for path in ("s*/a", "secr?ts/a", "[s]ecrets/a", "{secrets,src}/a", "*"):
        assert desk.verdict("copy", source=path, destination="src/a") == "ask", path
    assert desk.verdict("copy", source="src/*.py", destination="src/[id].py") == "allow"
    assert desk.verdict("write_file", path="[id].py", content="") == "allow", "it expands nothing"


PATH_ARGUMENTS = [
    "path", "paths", "filePath", "file_path", "output_path", "notebook_path", "inputFile", "file_name", "filenames",
    "targetDirectory", "uri", "old_path", "dir", "FILE",
]  # fmt: skip


@pytest.mark.parametrize("argument", PATH_ARGUMENTS)
def test_arguments_are_paths_by_their_last_word(tmp_path: Path, argument: str):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["foreign(src/**)"])
    foreign = ExternalTool("foreign", "", {"type": "object", "properties": {argument: {"type": "string"}}})
    decide = lambda path: desk.rules.decide(call("foreign", **{argument: path}), foreign).verdict  # noqa: E731
    assert (decide("secrets/a"), decide("src/a"), decide("notes/a")) == ("deny", "allow", "ask")


def test_a_second_command_of_a_call_is_not_allowed_unread(tmp_path: Path):
    desk = Desk(tmp_path, allow=["two(command: git status)"])
    both = {"shell_command": {"type": "string"}, "post_command": {"type": "string"}}
    two = ExternalTool("two", "", {"type": "object", "properties": both})
    block = call("two", shell_command="git status", post_command="rm -rf x")
    assert desk.rules.decide(block, two).verdict == "ask"


def test_values_behind_a_letter_are_read(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    for command in ("cat -fsecrets/a", "cat -xfsecrets/a", "cat -f./secrets/a", "cat -fsecrets/../secrets/a"):
        assert desk.verdict("bash", command=command) == "deny", command
    assert desk.verdict("bash", command="cat -fsrc/a") == "allow"


PROCESS_LINKS = [
    "/proc/self/cwd/{path}", "//proc/self/cwd/./{path}", "/proc/1/../self/cwd/{path}", "/proc/thread-self/cwd/{path}",
    "/proc/17/task/18/cwd/{path}", "/proc/self/root{root}/{path}", "/proc/self/root/proc/self/root{root}/{path}",
]  # fmt: skip


@pytest.mark.parametrize("link", PROCESS_LINKS)
def test_the_links_of_a_process_lead_to_its_own_folder(tmp_path: Path, link: str):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    denied = link.format(path="secrets/a", root=tmp_path)
    assert desk.verdict("bash", command=f"cat {denied}") == "deny"
    assert desk.verdict("copy", source=denied, destination="src/a") == "deny"
    assert (
        desk.verdict("run_command", command=f"cat {link.format(path='a', root=tmp_path / 'secrets')}", cwd="secrets")
        == "deny"
    )
    assert desk.verdict("bash", command=f"cat {link.format(path='src/a', root=tmp_path)}") == "allow"
