"""A child process may be in the hands of the document that it parses: what it says is checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentscope_rx.errors import DamagedDocumentError, SetupError
from agentscope_rx.knowledge import HtmlReader, Section
from agentscope_rx.knowledge.readers import parser_process
from tests.knowledge.readers.reading import read

READY = b'["ready"]'
FRAMES = {
    "not-json": b'{["',
    "no-frame": b"7",
    "picture": b'["part", "x", 1, [], "image", ""]',
    "deep": b"[" * 100_000,
    "large": b"x" * 2_000_000,
}


def read_from(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Section]:
    """What is read of a child that runs this program."""
    path = folder / "child.py"
    path.write_text(program)
    monkeypatch.setattr(parser_process, "_PROGRAM", path)
    return read(HtmlReader(), "a.html", b"<p>x")


def saying(*frames: bytes) -> str:
    data = b"".join(len(each).to_bytes(4, "little") + each for each in frames)
    return f"import sys\nsys.stdout.buffer.write({data!r})\nsys.stdout.flush()\nsys.stdin.buffer.read()"


@pytest.mark.parametrize("name", FRAMES)
def test_a_wrong_answer_is_a_damaged_document(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(DamagedDocumentError):
        read_from(saying(READY, FRAMES[name]), tmp_path, monkeypatch)


def test_halves_of_characters_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    part = json.dumps(["part", "a\ud800", 1, ["\ud800"], "text", ""]).encode()
    (found,) = read_from(saying(READY, part, b'["end"]'), tmp_path, monkeypatch)
    assert (found.text, found.headings) == ("a\ufffd", ("\ufffd",))


@pytest.mark.parametrize(
    ("program", "why"),
    [("raise SystemExit(3)", "has ended with exit code 3"), (saying(b"[]"), "gave a wrong answer")],
    ids=["ends", "other-answer"],
)
def test_a_child_that_does_not_start_is_no_document_error(
    program: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(SetupError, match=f"parser of html did not start: it {why}"):
        read_from(program, tmp_path, monkeypatch)


def test_a_child_that_never_starts_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parser_process, "START_SECONDS", 0.1)
    with pytest.raises(SetupError, match="took longer than"):
        read_from("import sys; sys.stdin.buffer.read()", tmp_path, monkeypatch)
