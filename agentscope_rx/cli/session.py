"""`ChatSession`: an agent from the flags, and its conversation, which may be saved. Each question is a run, and so is
each round of approvals."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from agentscope_rx.agent import Agent
from agentscope_rx.agent.input import CallInput
from agentscope_rx.cli.agent_flags import made_agent
from agentscope_rx.cli.approval import ask_person, call_list, to_approve
from agentscope_rx.cli.exit_codes import OutOfTimeError, WaitingError, note
from agentscope_rx.cli.permissions import permissions_of, put_under
from agentscope_rx.cli.questions import ask_questions
from agentscope_rx.cli.render import View, view_of
from agentscope_rx.cli.search import citation_place
from agentscope_rx.cli.terminal import Terminal
from agentscope_rx.console.wording import clean
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PostCallEvent
from agentscope_rx.messages import ApprovalAnswer, Approve, ChatUsage, Msg, ToolUseBlock, citations_of
from agentscope_rx.models import ChatModel
from agentscope_rx.permissions import PermissionRules
from agentscope_rx.reactive import timeout
from agentscope_rx.session import JsonSession, Session, open_session
from agentscope_rx.session.urls import names_store
from agentscope_rx.tools import Toolkit
from agentscope_rx.tools.questions import UserQuestion, questions_of

if TYPE_CHECKING:
    from agentscope_rx.knowledge import KnowledgeBase

Around = Callable[[], AbstractContextManager[object]]


class ChatSession:
    """An agent, the view of its runs, and the terminal for approvals and questions."""

    def __init__(
        self,
        agent: Agent,
        view: View,
        seconds: float | None = None,
        *,
        terminal: Terminal | None = None,
        approved: Collection[str] = (),
        place: Place | None = None,
        toolkit: Toolkit | None = None,
        rules: PermissionRules | None = None,
        sources: bool = False,
        bases: Sequence[KnowledgeBase] = (),
    ) -> None:
        self.agent = agent
        self.terminal = terminal
        self.usage: ChatUsage = ChatUsage()
        self.questions: int = 0
        self._view = view
        self._seconds = seconds
        self._approved = frozenset(approved)
        self._place = place
        self._toolkit = toolkit
        self._rules = rules
        # the citations of a reply are printed below it
        self._sources = sources
        self._bases = bases

    @classmethod
    def of(cls, flags: argparse.Namespace, model: ChatModel | None = None) -> ChatSession:
        """The session of these flags; `model` replaces theirs. `ConfigurationError` if a flag cannot be used."""
        place = place_of(flags)
        rules = permissions_of(flags)
        agent, toolkit, bases = made_agent(flags, model)
        if rules is not None:
            put_under(agent, rules)
        session = cls(
            agent,
            view_of(sys.stdout, json_lines=flags.json, quiet=flags.quiet),
            flags.timeout,
            terminal=Terminal.found(prompt_apart=flags.json or flags.quiet),
            approved=flags.approve,
            place=place,
            toolkit=toolkit,
            rules=rules,
            sources=not (flags.json or flags.quiet),
            bases=bases,
        )
        if place is not None:
            found = agent.bind(place.store, place.name).run()
            note(f"session: {place.name} ({'goes on' if found else 'new'})")
        return session

    def ask(self, msgs: CallInput, around: Around = nullcontext) -> Msg:
        """Run one question to its end on this thread, with the approvals that it needs; raises the error of the run.

        A timeout or a KeyboardInterrupt disposes the run. `around` is a context entered for each run. `WaitingError` if
        calls wait for approval and there is no terminal, or its input has ended.
        """
        reply = self._run(msgs, around)
        while reply.pending_calls:
            calls, questions = to_approve(reply), questions_of(reply)
            if not calls and not questions:
                raise WaitingError(
                    f"{call_list(reply.pending_calls)} waits for a result from another program.{self._advice()}"
                )
            reply = self._run(self._answers(calls, questions) or None, around)
        return reply

    def _answers(
        self, calls: Sequence[ToolUseBlock], questions: Sequence[UserQuestion]
    ) -> Sequence[ApprovalAnswer | Msg]:
        """The person's answers; `WaitingError` if there is no terminal, or its input has ended."""
        granted = [Approve(call) for call in calls if call.name in self._approved]
        if granted:
            return granted
        if self.terminal is None:
            raise WaitingError(_waiting(calls, questions) + self._advice(calls[0].name if calls else ""))
        try:
            approvals = ask_person(self.terminal, self.agent, calls, self._rules)
            return [*approvals, *ask_questions(self.terminal, questions)]
        except EOFError:
            raise WaitingError(_waiting(calls, questions) + self._advice()) from None

    def has_pending(self) -> bool:
        """True if calls of an earlier run wait."""
        return bool(self.agent.pending_calls().run())

    def close(self) -> None:
        """Close the terminal and the connections of tools."""
        if self.terminal is not None:
            self.terminal.close()
        if self._toolkit is not None:
            self._toolkit.close().run()
        for base in self._bases:
            base.store.close().run()
        if self._place is not None:
            self._place.store.close().run()

    def _run(self, msgs: CallInput, around: Around) -> Msg:
        events = self.agent.stream(msgs)
        limited = events.pipe(timeout(total=self._seconds, error=_timeout_error))
        self.questions += 1
        try:
            with around():
                last = self._view.show(limited).run()
        finally:
            self._view.finish()
        if not isinstance(last, PostCallEvent):
            raise ConfigurationError(f"The agent {self.agent.name!r} ended its run without a reply.")
        self.usage += last.usage or ChatUsage()
        if self._sources and (cited := citations_of(last.message)):
            print("\n".join(f"[{each.number}] {citation_place(each)}" for each in cited))
        return last.message

    def _advice(self, tool: str = "") -> str:
        """How the user can go on."""
        if self._place is None:
            return (
                f" Approve beforehand with --approve {tool}, or save the conversation with --session NAME."
                if tool
                else ""
            )
        more = f" --approve {tool}" if tool else ""
        return f" Go on with: agentscope-rx ask {self._place.flags}{more}"


def _waiting(calls: Sequence[ToolUseBlock], questions: Sequence[UserQuestion]) -> str:
    if calls:
        return f"{call_list(calls)} needs approval."
    return f"The question {clean(questions[0].text)!r:.200} needs an answer."


def _timeout_error(which: str, limit: float) -> Exception:
    return OutOfTimeError(which, limit, "The run")


CONVERSATIONS = "~/.agentscope_rx/conversations"
MAIN = "main"
"""The conversation in a store that is given in place of a name."""


class Place(NamedTuple):
    """A conversation in a store; `flags` name it on a command line."""

    store: Session
    name: str
    flags: str


def place_of(flags: argparse.Namespace) -> Place | None:
    """The conversation that the flags name, None without one; `ConfigurationError` if there is none to go on with."""
    name, given = flags.session, flags.store
    if name is not None and names_store(name):
        if given is not None:
            raise ConfigurationError(f"--session {name} names a store, and so does --store: give a name to --session.")
        return Place(open_session(name), MAIN, f"--session {shlex.quote(name)}")
    if name is None and not flags.go_on:
        if given is not None:
            raise ConfigurationError("--store is where a conversation is saved: name one with --session NAME.")
        return None
    store = open_session(CONVERSATIONS if given is None else given)
    name = latest(store) if name is None else name
    words = ["--session", name] if given is None else ["--store", given, "--session", name]
    return Place(store, name, shlex.join(words))


def latest(store: Session) -> str:
    """The name of the conversation saved last, for `-c`."""
    # imported here: sqlite3 takes time to import
    from agentscope_rx.session import SqliteSession

    if not isinstance(store, (JsonSession, SqliteSession)):
        raise ConfigurationError(
            "-c finds the last conversation in a folder or a .db file only: name it with --session."
        )
    found = store.latest().run()
    if found is None:
        raise ConfigurationError("There is no saved conversation to go on with: begin one with --session NAME.")
    return found
