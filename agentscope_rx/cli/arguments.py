"""The command line's grammar: its commands and flags, and the values that they take."""

from __future__ import annotations

import argparse
import math
from textwrap import fill

from agentscope_rx import __version__
from agentscope_rx.cli.exit_codes import DEBUG, PROGRAM
from agentscope_rx.models.registry import REGISTRY

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = "A ReAct agent on the command line: it reasons, calls tools and answers, and shows how."
EPILOG = f"""\
Providers: {{providers}}.

Without --model the environment decides: OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL; without them the embedded
model is used, which needs no key. It is a toy: 135 million parameters, and hand-written rules choose its tools and the
lines that it quotes. Of twenty questions that it was not tuned on it answers 5, the rules without any model 5; of the
others it says that it cannot answer them.

Exit status: 0 answered, 1 the run failed, 2 it could not begin (arguments, key, model name, connection), 3 calls wait
for an approval, 124 --timeout passed, 130 Ctrl-C. {DEBUG}=1 adds tracebacks.
"""


_ASK = """\
Answer one question. What is piped in joins it: cat notes.txt | agentscope-rx ask "Summarise". Calls that need approval
are shown and asked for; without a terminal ask ends with status 3 and says what waits."""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    providers = fill(", ".join(REGISTRY.providers), 118, initial_indent=" " * 11).strip()
    epilog = EPILOG.format(providers=providers)
    whole = argparse.ArgumentParser(
        PROGRAM, description=DESCRIPTION, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    agent = _agent_flags()
    raw = argparse.RawDescriptionHelpFormatter
    ask = commands.add_parser(
        "ask", parents=[agent], help="answer one question", description=_ASK, epilog=epilog, formatter_class=raw
    )
    ask.add_argument(
        "question", nargs="*", help="the question; what is piped in joins it, in the place of '-' or behind it"
    )
    commands.add_parser(
        "chat",
        parents=[agent],
        help="talk in the terminal",
        description="Talk in the terminal. Ctrl-C clears a half-typed line, or interrupts an answer and keeps the "
        "conversation; a second one leaves, as does Ctrl-D. /help lists the commands.",
        epilog=epilog,
        formatter_class=raw,
    )
    commands.add_parser(
        "setup-local",
        help="install the embedded model",
        description="Install the weights of the embedded model, and verify them.",
    )
    completion = commands.add_parser(
        "completion", help="print a completion script for a shell", description="Print a completion script for a shell."
    )
    completion.add_argument("shell", choices=SHELLS)
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
    flags.add_argument("--no-builtin-tools", action="store_true", help="leave out the tools for files and time")
    flags.add_argument("--max-iters", metavar="N", type=_count, help="rounds of one answer at most (10)")
    flags.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="stop an answer that takes longer")
    flags.add_argument(
        "--mcp",
        metavar="COMMAND|URL",
        action="append",
        default=[],
        help="the tools of an MCP server (repeatable); those that it does not call read-only ask before they run",
    )
    flags.add_argument(
        "--agent", metavar="MODULE:ATTR", help="an agent of yours, or a function that makes one, with its own model"
    )
    flags.add_argument(
        "--approve",
        metavar="TOOL",
        action="append",
        default=[],
        help="run calls of this tool without asking (repeatable)",
    )
    kept = flags.add_mutually_exclusive_group()
    kept.add_argument("--session", metavar="NAME", help="go on with this saved conversation, or begin it")
    kept.add_argument(
        "-c", "--continue", dest="go_on", action="store_true", help="go on with the conversation that was saved last"
    )
    shown = flags.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print each event as a line of JSON, and nothing else")
    shown.add_argument("-q", "--quiet", action="store_true", help="print the answer, and nothing else")
    return flags


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
