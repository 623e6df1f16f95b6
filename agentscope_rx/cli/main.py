"""`agentscope-rx`: one function for each command. A failure is one line on stderr and a status."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing

from agentscope_rx.cli.arguments import parser, question_of
from agentscope_rx.cli.chat import chat
from agentscope_rx.cli.completion import print_completion
from agentscope_rx.cli.exit_codes import ANSWERED, OUTPUT_CLOSED, report
from agentscope_rx.cli.index import index
from agentscope_rx.cli.search import search
from agentscope_rx.cli.session import ChatSession
from agentscope_rx.cli.sessions import sessions
from agentscope_rx.cli.skills import skills
from agentscope_rx.cli.subagents import subagents
from agentscope_rx.cli.trace import trace
from agentscope_rx.cli.workspace import workspace
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import events_schema
from agentscope_rx.models import ChatModel

NO_QUESTION = 'There is no question. Give one, as in: agentscope-rx ask "What is in README.md?"'


def main(argv: Sequence[str] | None = None, *, model: ChatModel | None = None) -> int:
    """Run one command and return its exit status; `model` replaces the one that the flags name."""
    flags = parser().parse_args(argv)
    for stream in (sys.stdin, sys.stdout):
        # a character that the encoding does not have must not fail the run
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(io.UnsupportedOperation):
                stream.reconfigure(errors="replace" if stream is sys.stdin else "backslashreplace")
    try:
        status = _run(flags, model)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as error:
        print(file=sys.stderr)
        return report(error)
    except Exception as error:
        status = report(error)
        if status == OUTPUT_CLOSED:
            _discard_stdout()
        return status


def _run(flags: argparse.Namespace, model: ChatModel | None) -> int:
    match flags.command:
        case "ask":
            # before the session: without a question no model needs to be started
            question = question_of(flags.question)
            if question is None and not (flags.session or flags.go_on):
                raise InvalidInputError(NO_QUESTION)
            with closing(ChatSession.of(flags, model)) as session:
                _ask(session, question)
            return ANSWERED
        case "chat":
            with closing(ChatSession.of(flags, model)) as session:
                return chat(session)
        case "serve":
            return _serve(flags, model)
        case "index":
            return index(flags)
        case "search":
            return search(flags)
        case "sessions":
            return sessions(flags)
        case "skills":
            return skills(flags)
        case "subagents":
            return subagents(flags)
        case "workspace":
            return workspace(flags)
        case "trace":
            return trace(flags)
        case "setup-local":
            return _set_up_local()
        case "events-schema":
            print(json.dumps(events_schema(), indent=2))
            return ANSWERED
        case _:
            return print_completion(flags.shell)


def _ask(session: ChatSession, question: str | None) -> None:
    pending = session.has_pending()
    if question is None and not pending:
        raise InvalidInputError(NO_QUESTION)
    if pending and (question is None or session.terminal is not None):
        # calls of an earlier run that wait for approval come first
        session.ask(None)
    if question is not None:
        session.ask(question)


def _serve(flags: argparse.Namespace, model: ChatModel | None) -> int:
    # imported here: it needs the packages of an extra
    from agentscope_rx.cli.serving import serve

    return serve(flags, model)


def _set_up_local() -> int:
    # imported here: it needs the packages of an extra
    from agentscope_rx.models.local import install_weights

    install_weights(lambda line: print(line, flush=True))
    return ANSWERED


def _discard_stdout() -> None:
    """Redirect stdout to null: it is closed, so the interpreter would fail when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


if __name__ == "__main__":
    sys.exit(main())
