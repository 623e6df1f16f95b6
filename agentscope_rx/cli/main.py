"""`agentscope-rx`: ask, chat, setup-local, completion. Whatever goes wrong is one line on stderr and an exit status."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import closing

from agentscope_rx.cli.arguments import parser
from agentscope_rx.cli.chat import chat
from agentscope_rx.cli.exit_codes import ANSWERED, UNREAD, report
from agentscope_rx.cli.question import question_of
from agentscope_rx.cli.session import ChatSession
from agentscope_rx.errors import InvalidInputError, MissingExtraError
from agentscope_rx.models import ChatModel

NO_QUESTION = 'There is no question. Give one, as in: agentscope-rx ask "What is in README.md?"'


def main(argv: Sequence[str] | None = None, *, model: ChatModel | None = None) -> int:
    """Run one command and return its exit status; `model` answers in place of the one that the flags name."""
    flags = parser().parse_args(argv)
    for stream in (sys.stdin, sys.stdout):
        # what is not of the encoding is no reason to fail
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
        if status == UNREAD:
            _forget_stdout()
        return status


def _run(flags: argparse.Namespace, model: ChatModel | None) -> int:
    match flags.command:
        case "ask":
            # the question first: without one no model need be started
            question = question_of(flags.question)
            if question is None and not (flags.session or flags.go_on):
                raise InvalidInputError(NO_QUESTION)
            with closing(ChatSession.of(flags, model)) as session:
                _ask(session, question)
            return ANSWERED
        case "chat":
            with closing(ChatSession.of(flags, model)) as session:
                return chat(session)
        case "setup-local":
            return _set_up_local()
        case _:
            return _print_completion(flags.shell)


def _ask(session: ChatSession, question: str | None) -> None:
    waits = session.waits()
    if question is None and not waits:
        raise InvalidInputError(NO_QUESTION)
    if waits and (question is None or session.terminal is not None):
        # what an earlier run has left to be approved comes first
        session.ask(None)
    if question is not None:
        session.ask(question)


def _set_up_local() -> int:
    # imported when wanted: it needs packages that only an extra brings
    from agentscope_rx.models.local import install_weights

    install_weights(lambda line: print(line, flush=True))
    return ANSWERED


def _print_completion(shell: str) -> int:
    try:
        import shtab
    except ImportError:
        raise MissingExtraError("shtab", "cli") from None
    print(shtab.complete(parser(), shell=shell))
    return ANSWERED


def _forget_stdout() -> None:
    """Let nothing more be written: the interpreter would, and fail, as it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
