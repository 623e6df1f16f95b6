"""The grammar of the command line, and the question of `ask`, which may be piped in:

| command line                   | stdin      | question                        |
|--------------------------------|------------|---------------------------------|
| `ask Summarise this`           | a terminal | the words                       |
| `cat f | ask Summarise this`   | a pipe     | the words, a blank line, `f`    |
| `cat f | ask Compare - to B`   | a pipe     | the words with `f` for the `-`  |
| `cat f | ask`, `ask -`         | anything   | `f`                             |
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
from collections.abc import Sequence
from textwrap import fill
from typing import get_args

from agentscope_rx import __version__
from agentscope_rx.cli.exit_codes import DEBUG, PROGRAM, note
from agentscope_rx.cli.index import add_index
from agentscope_rx.cli.knowledge import add_knowledge_flags
from agentscope_rx.cli.search import add_search
from agentscope_rx.cli.serve import add_serve
from agentscope_rx.cli.sessions import STORE, add_sessions
from agentscope_rx.cli.skills import add_skills, add_skills_flag
from agentscope_rx.cli.subagents import add_subagents, add_subagents_flag
from agentscope_rx.cli.trace import add_trace
from agentscope_rx.cli.workspace import add_workspace
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.models.registry import REGISTRY
from agentscope_rx.permissions import Mode

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = "A ReAct agent on the command line: it reasons, calls tools and answers, and shows how."
EPILOG = f"""\
Providers: {{providers}}.

Without --model the environment decides: OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL; without them the embedded
model is used, which needs no key. It is a toy: 135 million parameters, and hand-written rules choose its tools and the
lines that it quotes. Of twenty questions that it was not tuned on it answers 5, the rules without any model 5; of the
others it says that it cannot answer them.

Exit status: 0 answered, 1 the run failed, 2 it could not begin (arguments, key, model name, connection), 3 calls wait
for approval, 124 --timeout passed, 130 Ctrl-C. {DEBUG}=1 adds tracebacks.
"""


_ASK = """\
Answer one question. Standard input is added to it: cat notes.txt | agentscope-rx ask "Summarise". Calls that need
approval are shown and asked about; without a terminal ask ends with status 3 and names them."""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    providers = fill(", ".join(REGISTRY.providers), 118, initial_indent=" " * 11).strip()
    epilog = EPILOG.format(providers=providers)
    whole = argparse.ArgumentParser(
        PROGRAM, description=DESCRIPTION, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    agent, asking = _agent_flags(), _asking_flags()
    raw = argparse.RawDescriptionHelpFormatter
    ask = commands.add_parser(
        "ask", parents=[agent, asking], help="answer one question", description=_ASK, epilog=epilog, formatter_class=raw
    )
    ask.add_argument(
        "question", nargs="*", help="the question; standard input is added to it, in place of '-' or at the end"
    )
    commands.add_parser(
        "chat",
        parents=[agent, asking],
        help="talk in the terminal",
        description="Talk in the terminal. Ctrl-C clears the line, or interrupts an answer and keeps the "
        "conversation; a second one leaves, as does Ctrl-D. /help lists the commands.",
        epilog=epilog,
        formatter_class=raw,
    )
    add_serve(commands, agent, _count, _seconds)
    add_index(commands)
    add_search(commands, _count)
    add_sessions(commands)
    add_skills(commands)
    add_subagents(commands)
    add_workspace(commands)
    add_trace(commands, _count)
    commands.add_parser(
        "setup-local",
        help="install the embedded model",
        description="Install the weights of the embedded model, and verify them.",
    )
    commands.add_parser(
        "events-schema",
        help="print the JSON Schema of events",
        description="Print the JSON Schema (draft 2020-12) of an event, as ask --json and the service write them.",
    )
    completion = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a completion script for a shell. In Bash: source <(agentscope-rx completion bash)",
    )
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    return whole


def _agent_flags() -> argparse.ArgumentParser:
    flags = argparse.ArgumentParser(add_help=False)
    flags.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        help="such as openai:gpt-5-mini (see below), or 'auto': a server on this machine",
    )
    flags.add_argument(
        "--base-url", metavar="URL", help="a server that speaks OpenAI's protocol, such as vLLM or Ollama"
    )
    flags.add_argument("--system", metavar="TEXT", help="the system prompt, in place of the default")
    flags.add_argument(
        "--tools",
        metavar="MODULE:ATTR",
        action="append",
        default=[],
        help="more tools: a function, a tool, a list of them, a Toolkit, or an object with @tool methods (repeatable)",
    )
    add_skills_flag(flags)
    add_subagents_flag(flags)
    add_knowledge_flags(flags)
    flags.add_argument("--no-builtin-tools", action="store_true", help="do not add the tools for files and time")
    flags.add_argument("--max-iters", metavar="N", type=_count, help="the most rounds of one answer (10)")
    flags.add_argument(
        "--mcp",
        metavar="COMMAND|URL",
        action="append",
        default=[],
        help="the tools of an MCP server (repeatable); tools not marked read-only ask before they run",
    )
    flags.add_argument(
        "--agent", metavar="MODULE:ATTR", help="your own agent, or a function that makes one, with its own model"
    )
    flags.add_argument(
        "--permissions", metavar="FILE", help="rules of what runs, asks or never runs; an answer 'always' adds to them"
    )
    flags.add_argument(
        "--mode", choices=get_args(Mode), help="what happens with calls that no rule is about (ask); plan: only reading"
    )
    return flags


def _asking_flags() -> argparse.ArgumentParser:
    """The flags of a person at a terminal."""
    flags = argparse.ArgumentParser(add_help=False)
    flags.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="stop an answer that takes longer")
    flags.add_argument(
        "--approve",
        metavar="TOOL",
        action="append",
        default=[],
        help="run calls of this tool without asking (repeatable)",
    )
    _conversation_flags(flags)
    format = flags.add_mutually_exclusive_group()
    format.add_argument("--json", action="store_true", help="print only the events, each as a line of JSON")
    format.add_argument("-q", "--quiet", action="store_true", help="print only the answer")
    return flags


def _conversation_flags(flags: argparse.ArgumentParser) -> None:
    conversation = flags.add_mutually_exclusive_group()
    conversation.add_argument(
        "--session",
        metavar="NAME",
        help="continue this saved conversation, or begin it; a .db file or a URL means the conversation 'main' in it",
    )
    conversation.add_argument(
        "-c", "--continue", dest="go_on", action="store_true", help="continue the conversation saved last"
    )
    flags.add_argument("--store", metavar="STORE", help=f"where conversations are saved: {STORE}")


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


MAX_CHARACTERS = 10_000_000
"""More than the context of any model."""
SLOW_INPUT_SECONDS = 2.0
"""Seconds after which a note says that standard input is being read."""


def question_of(words: Sequence[str]) -> str | None:
    """The question of these words and standard input; None if both are empty."""
    text = " ".join(words)
    if "-" in words:
        piped = _read()
        alone = len(words) == 1
        text = piped if alone else "\n".join(piped if word == "-" else word for word in _joined(words))
    elif not sys.stdin.isatty():
        piped = _read()
        text = f"{text}\n\n{piped}" if text.strip() and piped.strip() else text + piped
    return text.strip() or None


def _joined(words: Sequence[str]) -> list[str]:
    """The words between the dashes, joined, and the dashes."""
    found: list[list[str]] = [[]]
    for word in words:
        if word == "-":
            found += [["-"], []]
        else:
            found[-1].append(word)
    return [" ".join(each) for each in found if each]


def _read() -> str:
    notice = threading.Timer(SLOW_INPUT_SECONDS, note, ["reading standard input to its end (without any: < /dev/null)"])
    notice.daemon = True
    notice.start()
    try:
        text = sys.stdin.read(MAX_CHARACTERS + 1)
    finally:
        notice.cancel()
        notice.join()
    if len(text) > MAX_CHARACTERS:
        raise InvalidInputError(
            f"Standard input has more than {MAX_CHARACTERS:,} characters, more than a model can read."
        )
    return text.rstrip("\n")
