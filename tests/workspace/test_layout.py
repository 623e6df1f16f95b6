"""The layout: a workspace is made without touching what exists; its sessions are inside of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentscope_rx import JsonSession, ReActAgent
from agentscope_rx.errors import ConfigurationError, WorkspaceError
from agentscope_rx.session import SqliteSession
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.workspace import init_workspace, workspace_session
from tests.workspace.parts import write


def test_a_new_workspace_has_folders_and_instructions(tmp_path: Path):
    made = init_workspace(tmp_path / "a" / "b")
    assert made == ("AGENTS.md", "memory/", "notes/", "knowledge/", "skills/", "subagents/", ".agentscope/")
    assert (tmp_path / "a/b/AGENTS.md").read_text().startswith("# Instructions for agents")
    assert sorted(each.name for each in (tmp_path / "a/b").iterdir()) == sorted(each.rstrip("/") for each in made)


def test_what_exists_stays_as_it_is(tmp_path: Path):
    write(tmp_path, "AGENTS.md", "mine")
    write(tmp_path, "memory/2026-01-01.md", "- a fact")
    assert "AGENTS.md" not in init_workspace(tmp_path) and (tmp_path / "AGENTS.md").read_text() == "mine"
    assert init_workspace(tmp_path) == ()


def test_a_place_that_cannot_be_a_workspace_is_refused(tmp_path: Path):
    write(tmp_path, "file", "")
    with pytest.raises(ConfigurationError, match="cannot be made a workspace"):
        init_workspace(tmp_path / "file")
    (tmp_path / "AGENTS.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError):
        init_workspace(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("file", [None, "chat.db"])
def test_sessions_are_kept_within_the_workspace(tmp_path: Path, file: str | None):
    async def talk(text: str) -> str:
        friday = ReActAgent("Friday", ScriptedModel(text))
        await friday.bind(workspace_session(tmp_path, file), "ann")
        await friday.call("hi")
        return " ".join(message.text for message in await friday.memory.get())

    assert asyncio.run(talk("one")) == "hi one"
    assert asyncio.run(talk("two")) == "hi one hi two"
    assert (tmp_path / ".agentscope/sessions").is_dir()
    assert isinstance(workspace_session(tmp_path, file), SqliteSession if file else JsonSession)


@pytest.mark.parametrize("file", ["", "../chat.db", "/tmp/chat.db", "a/chat.db", "."])
def test_a_file_of_sessions_is_a_plain_name(tmp_path: Path, file: str):
    with pytest.raises((ConfigurationError, WorkspaceError)):
        workspace_session(tmp_path, file)


@pytest.mark.parametrize("link", [".agentscope", ".agentscope/sessions"])
def test_sessions_behind_a_link_are_refused(tmp_path: Path, link: str):
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside)
    with pytest.raises(WorkspaceError):
        workspace_session(root)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("path", ["", None, 3])
def test_a_workspace_needs_a_path(path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="takes the path of a folder"):
        init_workspace(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["a.json", "chat", "a/b.db", 3])
def test_sessions_in_a_file_are_in_a_database(file, tmp_path: Path):
    with pytest.raises(ConfigurationError, match="name of a database"):
        workspace_session(tmp_path, file)
