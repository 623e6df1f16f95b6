"""The research assistant over a folder of one's own, in a conversation that goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.test_examples import run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "bees.md").write_text("# Bees\n\nThe hives stand behind the barn. The honey is taken in August.\n")
    return folder


def lines(folder: Path, capfd: pytest.CaptureFixture[str], *questions: str) -> list[str]:
    session = folder.parent / "talk.db"
    run("research_assistant/assistant.py", "--folder", str(folder), "--session", str(session), *questions)
    return capfd.readouterr().out.splitlines()


def test_a_second_start_reads_what_has_changed(folder: Path, capfd: pytest.CaptureFixture[str]):
    assert "  read: 1, unchanged: 0, removed: 0" in lines(folder, capfd, "Where do the hives stand?")
    (folder / "cats.md").write_text("# Cats\n\nThe cats sleep in the barn.\n")
    assert "  read: 1, unchanged: 1, removed: 0" in lines(folder, capfd, "Where do the cats sleep?")


def test_a_follow_up_goes_on_from_the_session(folder: Path, capfd: pytest.CaptureFixture[str]):
    first = lines(folder, capfd, "Where do the hives stand?")
    assert "  The hives stand behind the barn. [1]" in first
    second = lines(folder, capfd, "And when is honey taken?")
    assert any("the model looks for 'Where do the hives stand? And when is honey taken?'" in line for line in second)
    assert "  The honey is taken in August. [1]" in second


def test_no_documents_and_a_wrong_model_are_a_line(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SystemExit, match=r"error: .*empty has no document that can be read"):
        run("research_assistant/assistant.py", "--folder", str(empty), "Why?")
    monkeypatch.setenv("AGENTSCOPE_RX_MODEL", "nonsense")
    with pytest.raises(SystemExit, match="error: A model is named provider:name"):
        run("research_assistant/assistant.py", "--folder", str(folder), "Why?")


def test_ctrl_c_at_the_prompt_ends_it_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def typed(prompt: str) -> str:
        # as the terminal does: in the main thread, while it waits for a line
        signal.raise_signal(signal.SIGINT)
        return "Is this asked?"

    monkeypatch.setattr("builtins.input", typed)
    with pytest.raises(SystemExit, match="stopped"):
        run("research_assistant/assistant.py", "--folder", str(folder))
