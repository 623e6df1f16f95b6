"""What the tests of the workspace share: a clock, agents, and what a request said."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentscope_rx import ReActAgent
from agentscope_rx.testing import ScriptedModel

LATER = datetime(2100, 3, 4, 12, 0, tzinfo=UTC).timestamp()
"""Long after every file of the tests was written, so that the times of the files tell all changes."""


class Clock:
    """A time in seconds since the epoch, which is moved by hand. (Threads and the library's loop read it, too.)"""

    def __init__(self, now: float = LATER) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def write(root: Path, path: str, text: str | bytes) -> Path:
    """A file, with the folders above it."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def agent(model: ScriptedModel, **options: Any) -> ReActAgent:
    """An agent named Friday."""
    return ReActAgent("Friday", model, "You are Friday.", **options)


def system_of(model: ScriptedModel, request: int = -1) -> str:
    """The text of the system message of a request."""
    return model.requests[request].messages[0].text
