"""One agent with the flags' model, tools and view; each question is a run, and another one for each approval."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext

from agentscope_rx.agent import Agent, ReActAgent
from agentscope_rx.agent.input import CallInput
from agentscope_rx.cli import saved
from agentscope_rx.cli.approval import ask_person, to_approve, told
from agentscope_rx.cli.exit_codes import OutOfTimeError, WaitingError, note
from agentscope_rx.cli.load import agent_of, toolkit_of
from agentscope_rx.cli.models import model_of
from agentscope_rx.cli.render import View, view_of
from agentscope_rx.cli.servers import add_servers
from agentscope_rx.cli.terminal import Terminal
from agentscope_rx.cli.tools import builtin_tools
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PostCallEvent
from agentscope_rx.messages import Approve, ChatUsage, Msg
from agentscope_rx.models import ChatModel
from agentscope_rx.reactive import timeout
from agentscope_rx.tools import Toolkit

SYSTEM_PROMPT = (
    "You are a helpful assistant at a command line. Use the tools whenever the answer depends on files or the time; "
    "paths are relative to the working directory. Answer in a few plain sentences."
)
MAX_ITERS = 10
_OF_AN_AGENT = ("model", "base_url", "system", "tools", "no_builtin_tools", "max_iters", "mcp")
"""The flags for what an agent of `--agent` brings itself."""

Around = Callable[[], AbstractContextManager[object]]


class ChatSession:
    """An agent, the way in which its runs are shown, and the person who is asked."""

    def __init__(
        self,
        agent: Agent,
        view: View,
        seconds: float | None = None,
        *,
        terminal: Terminal | None = None,
        approved: Collection[str] = (),
        name: str | None = None,
        toolkit: Toolkit | None = None,
    ) -> None:
        self.agent = agent
        self.terminal = terminal
        self.usage = ChatUsage()
        self.questions = 0
        self._view = view
        self._seconds = seconds
        self._approved = frozenset(approved)
        self._name = name
        self._toolkit = toolkit

    @classmethod
    def of(cls, flags: argparse.Namespace, model: ChatModel | None = None) -> ChatSession:
        """The session that the flags ask for; `model` in place of theirs. Any `ConfigurationError` comes from here."""
        toolkit = None
        name = saved.latest() if flags.go_on else flags.session
        if flags.agent is not None:
            agent = _own_agent(flags)
        else:
            toolkit = toolkit_of(flags.tools, None if flags.no_builtin_tools else builtin_tools())
            model = model if model is not None else model_of(flags.model, flags.base_url, os.environ)
            add_servers(toolkit, flags.mcp)
            system = SYSTEM_PROMPT if flags.system is None else flags.system
            rounds = MAX_ITERS if flags.max_iters is None else flags.max_iters
            agent = ReActAgent("assistant", model, system, toolkit=toolkit, max_iters=rounds)
        session = cls(
            agent,
            view_of(sys.stdout, json_lines=flags.json, quiet=flags.quiet),
            flags.timeout,
            terminal=Terminal.found(prompt_apart=flags.json or flags.quiet),
            approved=flags.approve,
            name=name,
            toolkit=toolkit,
        )
        if name is not None:
            found = saved.bind(agent, name)
            note(f"session: {name} ({'goes on' if found else 'new'})")
        return session

    def ask(self, msgs: CallInput, around: Around = nullcontext) -> Msg:
        """Run one question to its end on this thread, with the approvals that it needs; raises what it failed with.

        A run that takes too long is disposed of, and so is one that a KeyboardInterrupt ends. `around` is entered for
        each run. `WaitingError` if calls wait and the person cannot be asked, or cannot answer.
        """
        reply = self._run(msgs, around)
        while reply.pending_calls:
            calls = to_approve(reply)
            if not calls:
                raise WaitingError(f"{told(reply.pending_calls)} waits for a result from elsewhere.{self._later()}")
            granted = [Approve(call) for call in calls if call.name in self._approved]
            if not granted and self.terminal is None:
                raise WaitingError(f"{told(calls)} needs approval.{self._later(calls[0].name)}")
            try:
                answers = granted or (self.terminal and ask_person(self.terminal, self.agent, calls))
            except EOFError:
                raise WaitingError(f"{told(calls)} needs approval.{self._later()}") from None
            reply = self._run(answers or None, around)
        return reply

    def waits(self) -> bool:
        """Whether calls of an earlier run wait."""
        return bool(self.agent.pending_calls().run())

    def close(self) -> None:
        """Close the connections of tools, and the terminal."""
        if self.terminal is not None:
            self.terminal.close()
        if self._toolkit is not None:
            self._toolkit.close().run()

    def _run(self, msgs: CallInput, around: Around) -> Msg:
        events = self.agent.stream(msgs)
        in_time = events.pipe(timeout(total=self._seconds, error=_too_late))
        self.questions += 1
        try:
            with around():
                last = self._view.show(in_time).run()
        finally:
            self._view.finish()
        if not isinstance(last, PostCallEvent):
            raise ConfigurationError(f"The agent {self.agent.name!r} ended its run without a reply.")
        self.usage += last.usage or ChatUsage()
        return last.message

    def _later(self, tool: str = "") -> str:
        """How it can go on."""
        if self._name is None:
            return f" Approve beforehand with --approve {tool}, or keep it with --session NAME." if tool else ""
        more = f" --approve {tool}" if tool else ""
        return f" Go on with: agentscope-rx ask --session {self._name}{more}"


def _own_agent(flags: argparse.Namespace) -> Agent:
    given = [name for name in _OF_AN_AGENT if getattr(flags, name) not in (None, [], False)]
    if given:
        flag = given[0].replace("_", "-")
        raise ConfigurationError(f"--agent brings its own model and tools: leave --{flag} out.")
    return agent_of(flags.agent)


def _too_late(which: str, limit: float) -> Exception:
    return OutOfTimeError(which, limit, "The run")
