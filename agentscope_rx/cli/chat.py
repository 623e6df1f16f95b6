"""A conversation in the terminal: one agent, which remembers.

| at the prompt       | does                     | during an answer | does                                       |
|---------------------|--------------------------|------------------|--------------------------------------------|
| a line              | asks it                  | Ctrl-C           | interrupts it, the conversation stays      |
| Ctrl-C, Ctrl-D      | leaves                   | Ctrl-C again     | leaves                                     |

An answer that fails is told, and the conversation goes on; with lines from a pipe it ends there, with its status.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import FrameType

from agentscope_rx.agent import Agent
from agentscope_rx.cli.failure import ANSWERED, note, report
from agentscope_rx.cli.session import Session

PROMPT = "> "
GREETING = "Ctrl-C interrupts an answer, a second one leaves; so does Ctrl-D."


def chat(session: Session) -> int:
    """Ask line after line, until there are no more; the exit status."""
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        note(GREETING)
    for line in _lines(at_terminal):
        if not line.strip():
            continue
        try:
            with interrupting(session.agent):
                session.ask(line.strip())
        except (KeyboardInterrupt, BrokenPipeError):
            raise
        except Exception as error:
            status = report(error)
            if not at_terminal:
                return status
    return ANSWERED


@contextmanager
def interrupting(agent: Agent) -> Generator[None]:
    """Inside, the first Ctrl-C interrupts the agent's run; the next one raises KeyboardInterrupt as ever."""
    if threading.current_thread() is not threading.main_thread():
        # signals, and their handlers, are the main thread's
        yield
        return
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked or not agent.interrupt():
            raise KeyboardInterrupt
        asked = True

    before: Callable[[int, FrameType | None], object] | int | None = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _lines(at_terminal: bool) -> Iterator[str]:
    """The lines that are typed, or that come through a pipe."""
    if not at_terminal:
        yield from sys.stdin
        return
    with contextlib.suppress(ImportError):
        # gives input() line editing and history
        import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]
    while True:
        if not sys.stdout.isatty():
            # input() would write its prompt among the answers
            print(PROMPT, end="", file=sys.stderr, flush=True)
        try:
            yield input(PROMPT if sys.stdout.isatty() else "")
        except EOFError:
            print(file=sys.stderr)
            return
