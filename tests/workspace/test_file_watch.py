"""Files are read again when they have changed, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.dirfd import Folder
from agentscope_rx.tools.files.resolve import ResolvedPath
from agentscope_rx.workspace.file_watch import FileWatch
from tests.workspace.parts import Clock, write


class Reads:
    """The paths of the files that were opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        real = ResolvedPath.head

        def head(resolved: ResolvedPath, size: int) -> bytes:
            self.paths.append(resolved.path)
            return real(resolved, size)

        monkeypatch.setattr(ResolvedPath, "head", head)

    def taken(self) -> list[str]:
        taken, self.paths = self.paths, []
        return taken


def watch(root: Path, now: float | None = None, **options: int) -> FileWatch:
    return FileWatch(Workspace(root), clock=Clock() if now is None else Clock(now), **options)


def test_an_unchanged_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, "a.md", "one")
    reads, watched = Reads(monkeypatch), watch(tmp_path)
    first = watched.look(["a.md", "b.md"])
    assert first["a.md"].text == "one" and reads.taken() == ["a.md"]
    assert watched.look(["a.md", "b.md"])["a.md"] is first["a.md"] and reads.taken() == []


def test_every_kind_of_change_is_seen(tmp_path: Path):
    file, watched = write(tmp_path, "a.md", "one"), watch(tmp_path)
    assert watched.look(["a.md"])["a.md"].text == "one"
    file.write_text("two")
    assert watched.look(["a.md"])["a.md"].text == "two"
    # another file of the same size and time in its place
    status = file.stat()
    write(tmp_path, "new", "six").rename(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert watched.look(["a.md"])["a.md"].text == "six"
    file.unlink()
    assert watched.look(["a.md"]) == {}
    write(tmp_path, "a.md", "three")
    assert watched.look(["a.md"])["a.md"].text == "three"


def test_a_change_within_one_step_of_the_clock_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = write(tmp_path, "a.md", "one")
    frozen = file.stat()
    # the file system counts in steps, so that the second change leaves all times as they are
    real = os.stat_result

    def stat_of(resolved: ResolvedPath) -> os.stat_result:
        return frozen

    monkeypatch.setattr(ResolvedPath, "stat", stat_of)
    watched = watch(tmp_path, frozen.st_mtime)
    assert isinstance(frozen, real) and watched.look(["a.md"])["a.md"].text == "one"
    file.write_text("two")
    assert watched.look(["a.md"])["a.md"].text == "two"


def test_a_text_read_again_is_the_same_object_if_equal(tmp_path: Path):
    file, watched = write(tmp_path, "a.md", "one"), watch(tmp_path)
    first = watched.look(["a.md"])["a.md"]
    os.utime(file, (1, 1))
    assert watched.look(["a.md"])["a.md"] is first


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a\0b", "not a text file"),
        ("täxt".encode("latin-1"), "not UTF-8"),
        ("text".encode("utf-16"), "not UTF-8|not a text file"),
    ],
)
def test_a_file_that_is_no_text_is_a_problem(tmp_path: Path, data: bytes, problem: str):
    write(tmp_path, "a.md", data)
    found = watch(tmp_path).look(["a.md"])["a.md"]
    assert found.text == "" and any(each in found.problem for each in problem.split("|"))


def test_a_folder_a_pipe_and_a_link_are_problems(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    found = watch(tmp_path).look(["folder", "pipe", "link", "pipe/a"])
    assert {path: each.text for path, each in found.items()} == dict.fromkeys(("folder", "pipe", "link", "pipe/a"), "")
    assert all(each.problem for each in found.values())


def test_a_file_without_permission_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(folder: Folder, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        raise PermissionError(13, "Permission denied")

    # (a mode would not keep root, as which tests may run)
    monkeypatch.setattr(Folder, "open_file", refuse)
    write(tmp_path, "a.md", "one")
    assert "permission denied" in watch(tmp_path).look(["a.md"])["a.md"].problem


def test_a_denied_file_is_not_there(tmp_path: Path):
    write(tmp_path, ".env", "KEY=1")
    assert watch(tmp_path).look([".env"]) == {}


def test_a_large_file_is_read_up_to_a_line_end(tmp_path: Path):
    write(tmp_path, "a.md", "ä\n" * 1000)
    found = watch(tmp_path, limit=101).look(["a.md"])["a.md"]
    assert found.text == "ä\n" * 33 and found.more
    write(tmp_path, "b.md", "ä" * 1000)
    assert watch(tmp_path, limit=101).look(["b.md"])["b.md"].text == ""


def test_marks_and_line_ends_are_left_out(tmp_path: Path):
    write(tmp_path, "a.md", b"\xef\xbb\xbfone\r\ntwo\rthree")
    assert watch(tmp_path).look(["a.md"])["a.md"].text == "one\ntwo\nthree"


def test_names_are_listed_again_when_the_folder_changes(tmp_path: Path):
    write(tmp_path, "k/b.md", "")
    write(tmp_path, "k/a/c.md", "")
    (tmp_path / "k/link").symlink_to("b.md")
    watched = watch(tmp_path)
    first = watched.names("k")
    assert first == ("k/a/", "k/b.md") and watched.names("k") is first and watched.names("none") == ()
    write(tmp_path, "k/d.md", "")
    assert watched.names("k") == ("k/a/", "k/b.md", "k/d.md")
