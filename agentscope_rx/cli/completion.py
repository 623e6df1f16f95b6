"""`agentscope-rx completion SHELL`: the completion script of a shell, by shtab. Paths complete as paths."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import cast

from agentscope_rx.cli.arguments import parser
from agentscope_rx.cli.exit_codes import ANSWERED
from agentscope_rx.errors import MissingExtraError

FILES = ("FILE", "PATH", "STORE", "FROM", "TO")
FOLDERS = ("DIR", "FOLDER")


def print_completion(shell: str) -> int:
    """Print the script for this shell; `MissingExtraError` without shtab."""
    try:
        import shtab
    except ImportError:
        raise MissingExtraError("shtab", "cli") from None
    commands = parser()
    for action in _actions(commands):
        if action.metavar in FILES:
            setattr(action, "complete", shtab.FILE)  # noqa: B010 - argparse does not know shtab's attribute
        elif action.metavar in FOLDERS:
            setattr(action, "complete", shtab.DIRECTORY)  # noqa: B010
    print(shtab.complete(commands, shell=shell))
    return ANSWERED


def _actions(commands: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a command and of all below it."""
    for action in commands._actions:  # pyright: ignore[reportPrivateUsage]
        yield action
        if isinstance(action.choices, Mapping):
            for each in cast("Mapping[str, object]", action.choices).values():
                if isinstance(each, argparse.ArgumentParser):
                    yield from _actions(each)
