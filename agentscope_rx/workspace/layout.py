"""The layout of a workspace: which file has which place in the folder that agents work in, see `init_workspace`.

Models read and write these files by the tools of `tools.files`, but for `.agentscope/`.
"""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Final

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.session import Session, open_session
from agentscope_rx.session.urls import SQLITE_ENDINGS
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.workspace import OWN_FOLDER

AGENTS: Final = "AGENTS.md"
MEMORY: Final = "MEMORY.md"
DAILY: Final = "memory"
ARCHIVE: Final = "memory/archive"
NOTES: Final = "notes"
KNOWLEDGE: Final = "knowledge"
KNOWLEDGE_FILE: Final = "knowledge/KNOWLEDGE.md"
SKILLS: Final = "skills"
SUBAGENTS: Final = "subagents"
LIBRARY: Final = OWN_FOLDER
SESSIONS: Final = f"{LIBRARY}/sessions"

FOLDERS: Final = (DAILY, NOTES, KNOWLEDGE, SKILLS, SUBAGENTS, LIBRARY)
"""The folders that `init_workspace` makes."""

STARTING_AGENTS: Final = """\
# Instructions for agents

- What this folder is for: (one sentence)
- Ask before you change what you were not asked to change.
- Put drafts and notes of your own into `notes/`.
- `knowledge/` has what you should know, `MEMORY.md` and `memory/` what was noted in earlier conversations.
"""


def daily_file(day: date) -> str:
    """The path of the notes of this day."""
    return f"{DAILY}/{day.isoformat()}.md"


def as_workspace(workspace: Workspace | str | os.PathLike[str]) -> Workspace:
    """The workspace itself, or that of the folder with this path."""
    return workspace if isinstance(workspace, Workspace) else Workspace(workspace)


def own_workspace(workspace: Workspace) -> Workspace:
    """The same folder for the library's own files, which tools of models do not reach."""
    return Workspace(workspace.root, deny=(), hidden=True)


def init_workspace(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Make a folder a workspace: its folders, and a short AGENTS.md. What exists stays as it is.

        AGENTS.md                    instructions of the user; one in a sub-folder is for what is below it
        MEMORY.md                    notes of models, distilled
        memory/2026-11-23.md         notes of models on one day; memory/archive/ has old days, and old MEMORY.md
        knowledge/KNOWLEDGE.md       knowledge given by the user; other files in knowledge/ are listed
        notes/                       drafts and notes of the agent, for its own use
        skills/<name>/SKILL.md       skills
        subagents/<name>.md          declarations of sub-agents
        .agentscope/                 the library's own: sessions, permissions, the state of memory files

    All of it is optional. Returns the paths that were made, relative to the folder; none if all of them existed.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"init_workspace takes the path of a folder, such as '.', not {path!r:.60}.")
    root = Path(path)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r:.200} cannot be made a workspace: {error.strerror}.") from error
    workspace = Workspace(root, deny=())
    made: list[str] = []
    if not workspace.exists(AGENTS):
        workspace.write(AGENTS, STARTING_AGENTS.encode())
        made.append(AGENTS)
    for folder in FOLDERS:
        if not workspace.exists(folder):
            # (resolving a name in it makes the folder)
            with workspace.resolve(f"{folder}/x", make=True):
                made.append(f"{folder}/")
    return tuple(made)


def workspace_session(workspace: Workspace | str | os.PathLike[str], file: str | None = None) -> Session:
    """The store of conversations in `.agentscope/sessions`, or in this SQLite file of it, such as "chat.db".

    Nothing is made before the first save. `WorkspaceError` if the place is behind a link, which may lead out.
    """
    place = as_workspace(workspace)
    if file is not None and not _is_database(place, file):
        raise ConfigurationError(
            f"file is the name of a database in {SESSIONS}, such as 'chat.db' or 'chat.sqlite', not {file!r:.60}. "
            "Without it each conversation is a file of its own."
        )
    path = SESSIONS if file is None else f"{SESSIONS}/{file}"
    own_workspace(place).exists(path)
    if file is not None:
        with own_workspace(place).resolve(f"{SESSIONS}/x", make=True):
            pass
    return open_session(place.root / path)


def _is_database(workspace: Workspace, file: object) -> bool:
    return isinstance(file, str) and file.endswith(SQLITE_ENDINGS) and workspace.parts(file) == (file,)
