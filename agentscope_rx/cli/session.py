"""One agent with the flags' model, tools and view; each question is one run, shown as it goes."""

from __future__ import annotations

import argparse
import os
import sys

from agentscope_rx.agent import ReActAgent
from agentscope_rx.cli.failure import OutOfTimeError, note
from agentscope_rx.cli.load import toolkit_of
from agentscope_rx.cli.models import choose, make
from agentscope_rx.cli.tools import builtin_tools
from agentscope_rx.cli.view import View, view_of
from agentscope_rx.model import ChatModel
from agentscope_rx.reactive import timeout

SYSTEM_PROMPT = (
    "You are a helpful assistant at a command line. Use the tools whenever the answer depends on files, numbers or the "
    "time; paths are relative to the working directory. Answer in a few plain sentences, without Markdown."
)


class Session:
    """An agent and the way in which its runs are shown."""

    def __init__(self, agent: ReActAgent, view: View, seconds: float | None = None) -> None:
        self.agent = agent
        self._view = view
        self._seconds = seconds

    @classmethod
    def of(cls, flags: argparse.Namespace, model: ChatModel | None = None) -> Session:
        """The session that the flags ask for; `model` in place of theirs. Any `ConfigurationError` comes from here."""
        tools = toolkit_of(flags.tools, None if flags.no_builtin_tools else builtin_tools())
        if model is None:
            choice = choose(flags.model, flags.base_url, os.environ)
            if choice.why is not None:
                note(f"model: {choice} ({choice.why})")
            model = make(choice, os.environ)
        system = SYSTEM_PROMPT if flags.system is None else flags.system
        agent = ReActAgent("assistant", model, system, toolkit=tools, max_iters=flags.max_iters)
        return cls(agent, view_of(sys.stdout, json_lines=flags.json, quiet=flags.quiet), flags.timeout)

    def ask(self, question: str) -> None:
        """Run one question to its end on this thread, and show it; raises what it failed with.

        A run that takes too long is disposed of, and so is one that a KeyboardInterrupt ends.
        """
        events = self.agent.stream(question)
        in_time = events.pipe(timeout(total=self._seconds, error=_too_late))
        try:
            self._view.show(in_time).run()
        finally:
            self._view.finish()


def _too_late(which: str, limit: float) -> Exception:
    return OutOfTimeError(which, limit, "The run")
