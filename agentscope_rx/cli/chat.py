"""`chat`: a conversation in the terminal with one agent, which remembers it.

| at the prompt       | does                     | during an answer | does                                       |
|---------------------|--------------------------|------------------|--------------------------------------------|
| a line, a paste     | asks the agent           | Ctrl-C           | interrupts it; the conversation stays      |
| `/help`, ...        | see `run_command`        | Ctrl-C again     | leaves; a third time, without clean-up     |
| Ctrl-C, line begun  | clears the line          |                  |                                            |
| Ctrl-C, Ctrl-D      | leaves                   |                  |                                            |

A run that fails is reported, and the conversation goes on. With lines from a pipe it ends there, with its status.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum, auto
from types import FrameType

from agentscope_rx.agent import Agent, ReActAgent
from agentscope_rx.cli.exit_codes import ANSWERED, note, report
from agentscope_rx.cli.models import model_of
from agentscope_rx.cli.session import ChatSession
from agentscope_rx.cli.terminal import Terminal
from agentscope_rx.console.wording import clean, context_line, counted, one_line

GREETING = "Ctrl-C interrupts an answer, a second one leaves; so does Ctrl-D. /help lists the commands."


def chat(session: ChatSession) -> int:
    """Ask turn after turn until the input ends; returns the exit status."""
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
    if session.has_pending():
        note("calls of an earlier run wait: /approve asks about them, another question skips them")
    while True:
        try:
            line = terminal.turn().strip()
        except EOFError:
            terminal.say("\n")
            return ANSWERED
        if not line:
            continue
        try:
            step, text = run_command(line, session)
            if text:
                terminal.say(f"{text}\n")
            if step is NextStep.LEAVE:
                return ANSWERED
            if step is not NextStep.PROMPT:
                _answer(session, line if step is NextStep.ASK else None)
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
        # Ctrl-C at the question of an approval
        note("not approved; /approve asks again, another question skips the calls")


@contextmanager
def interrupting(agent: Agent) -> Generator[None]:
    """Inside, the first Ctrl-C interrupts the agent's run; later ones raise KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        # only the main thread has signal handlers
        yield
        return
    presses = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses == 1 and agent.interrupt():
            return
        if presses == 2:
            note("leaving when the run has stopped (Ctrl-C again: now)")
        raise KeyboardInterrupt

    before: Callable[[int, FrameType | None], object] | int | None = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


HELP = """\
/tools               the tools that the model may call
/model               the model that answers; /model PROVIDER:NAME takes another one
/cost                the tokens so far
/compact             makes the conversation smaller, if the agent has a hook for it
/approve             asks again about calls that wait
/exit                leaves, as Ctrl-D does
Ctrl-C clears a half-typed line; it interrupts an answer, and a second one leaves.
Several lines that are pasted at once are one question."""
_UNKNOWN = re.compile(r"/[a-z]+")


class NextStep(Enum):
    """The step after a line that was typed."""

    ASK = auto()
    """The line is a question."""
    PROMPT = auto()
    APPROVE = auto()
    LEAVE = auto()


def run_command(line: str, session: ChatSession) -> tuple[NextStep, str]:
    """Run a command such as `/help`: the next step, and the text to show before it.

    A line is a command if its first word is one of them, so that `/etc/hosts says what?` is a question.
    """
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    match word:
        case "/help" | "/?" if not rest:
            return NextStep.PROMPT, HELP
        case "/exit" | "/quit" if not rest:
            return NextStep.LEAVE, ""
        case "/tools" if not rest:
            return NextStep.PROMPT, _tools(session)
        case "/model":
            return NextStep.PROMPT, _model(session, rest)
        case "/cost" if not rest:
            return NextStep.PROMPT, _cost(session)
        case "/compact" if not rest:
            return NextStep.PROMPT, _compact(session)
        case "/approve" if not rest:
            return (NextStep.APPROVE, "") if session.has_pending() else (NextStep.PROMPT, "no call waits")
        case _ if _UNKNOWN.fullmatch(line):
            return NextStep.PROMPT, f"there is no command {line}; /help lists all"
        case _:
            return NextStep.ASK, ""


def _tools(session: ChatSession) -> str:
    agent = session.agent
    tools = list(agent.toolkit) if isinstance(agent, ReActAgent) else []
    if not tools:
        return "no tools"
    asks = {True: " (asks first)", False: ""}
    return "\n".join(
        f"{clean(tool.name)}{asks[bool(tool.requires_approval)]}: {one_line(tool.description, 100)}" for tool in tools
    )


def _model(session: ChatSession, spec: str) -> str:
    agent = session.agent
    if not isinstance(agent, ReActAgent):
        return f"{agent.name} has no model of its own"
    if spec:
        agent.model = model_of(spec, None, os.environ)
    return f"{agent.model.provider}:{agent.model.model_name}"


def _compact(session: ChatSession) -> str:
    agent = session.agent
    if not isinstance(agent, ReActAgent) or not agent.hooks.compiled.compacting:
        return f"{clean(agent.name)} has no hook that makes the conversation smaller"
    with interrupting(agent):
        done = agent.compact().run()
    return "\n".join(map(context_line, done.events)) or "the conversation is small enough"


def _cost(session: ChatSession) -> str:
    usage = session.usage
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    runs = counted(session.questions, "run")
    tokens = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"
    return f"{runs}: {tokens}; prices are not known here"
