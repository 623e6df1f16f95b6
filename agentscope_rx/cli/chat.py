"""A conversation in the terminal: one agent, which remembers.

| at the prompt       | does                     | during an answer | does                                       |
|---------------------|--------------------------|------------------|--------------------------------------------|
| a line              | asks it                  | Ctrl-C           | interrupts it, the conversation stays      |
| Ctrl-C, Ctrl-D      | leaves                   | Ctrl-C again     | leaves; a third time, without any clean-up |

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


def chat(session: Session, *, prompt_apart: bool = False) -> int:
    """Ask line after line, until there are no more; the exit status. `prompt_apart` keeps the prompt off stdout."""
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        note(GREETING)
    for line in _typed(prompt_apart or not sys.stdout.isatty()) if at_terminal else sys.stdin:
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


def _typed(prompt_apart: bool) -> Iterator[str]:
    """The lines that are typed, until Ctrl-D."""
    with contextlib.suppress(ImportError):
        # gives input() line editing and history
        import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]
    while True:
        if prompt_apart:
            # input() would write it among the answers
            print(PROMPT, end="", file=sys.stderr, flush=True)
        try:
            yield input("" if prompt_apart else PROMPT)
        except EOFError:
            print(file=sys.stderr)
            return
