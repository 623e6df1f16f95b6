"""A conversation in the terminal: one agent, which remembers.

| at the prompt       | does                     | during an answer | does                                       |
|---------------------|--------------------------|------------------|--------------------------------------------|
| a line, a paste     | asks it                  | Ctrl-C           | interrupts it, the conversation stays      |
| `/help`, ...        | see `commands`           | Ctrl-C again     | leaves; a third time, without any clean-up |
| Ctrl-C, half-typed  | clears the line          |                  |                                            |
| Ctrl-C, Ctrl-D      | leaves                   |                  |                                            |

An answer that fails is told, and the conversation goes on; with lines from a pipe it ends there, with its status.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from agentscope_rx.agent import Agent
from agentscope_rx.cli.commands import Next, obey
from agentscope_rx.cli.exit_codes import ANSWERED, note, report
from agentscope_rx.cli.session import ChatSession
from agentscope_rx.cli.terminal import Terminal

GREETING = "Ctrl-C interrupts an answer, a second one leaves; so does Ctrl-D. /help lists the commands."


def chat(session: ChatSession) -> int:
    """Ask turn after turn, until there are no more; the exit status."""
    if sys.stdin.isatty() and session.terminal is not None:
        return _talk(session, session.terminal)
    for line in sys.stdin:
        if line.strip():
            try:
                session.ask(line.strip(), lambda: interrupting(session.agent))
            except (KeyboardInterrupt, BrokenPipeError):
                raise
            except Exception as error:
                return report(error)
    return ANSWERED


def _talk(session: ChatSession, terminal: Terminal) -> int:
    note(GREETING)
    if session.waits():
        note("calls wait from before: /approve asks about them, another question passes them by")
    while True:
        try:
            line = terminal.turn().strip()
        except EOFError:
            terminal.say("\n")
            return ANSWERED
        if not line:
            continue
        try:
            what, told = obey(line, session)
            if told:
                terminal.say(f"{told}\n")
            if what is Next.LEAVE:
                return ANSWERED
            if what is not Next.PROMPT:
                _answer(session, line if what is Next.ASK else None)
        except BrokenPipeError:
            raise
        except Exception as error:
            report(error)


def _answer(session: ChatSession, question: str | None) -> None:
    running = False

    @contextmanager
    def around() -> Generator[None]:
        nonlocal running
        running = True
        with interrupting(session.agent):
            yield
        running = False

    try:
        session.ask(question, around)
    except KeyboardInterrupt:
        if running:
            raise
        # at the question whether a call may run
        note("not approved; /approve asks again, another question passes the calls by")


@contextmanager
def interrupting(agent: Agent) -> Generator[None]:
    """Inside, the first Ctrl-C interrupts the agent's run; from the second on they raise KeyboardInterrupt as ever."""
    if threading.current_thread() is not threading.main_thread():
        # signals, and their handlers, are the main thread's
        yield
        return
    presses = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses == 1 and agent.interrupt():
            return
        if presses == 2:
            note("leaving as soon as what runs has stopped (Ctrl-C again: now)")
        raise KeyboardInterrupt

    before: Callable[[int, FrameType | None], object] | int | None = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
