"""Conversations that go on in another process: `--session NAME`, and `-c` for the one that was saved last."""

from __future__ import annotations

from agentscope_rx.agent import Agent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.session import JsonSession
from agentscope_rx.session.manifest import file_name

ROOT = "~/.agentscope_rx/conversations"


def latest(root: str = ROOT) -> str:
    """The name of the conversation that was saved last."""
    session = JsonSession(root)
    folder = session.root.expanduser()
    saved: list[tuple[float, str]] = []
    for key in session.keys().run():
        try:
            saved.append(((folder / file_name(key) / "manifest.json").stat().st_mtime, key))
        except OSError:
            # damaged, or gone in this moment
            continue
    if not saved:
        raise ConfigurationError("There is no saved conversation to go on with: begin one with --session NAME.")
    return max(saved)[1]


def bind(agent: Agent, name: str, root: str = ROOT) -> bool:
    """Load the conversation, if there is one of this name, and save it from now on."""
    return agent.bind(JsonSession(root), name).run()
