"""Completion scripts for shells, made from the parser itself: a new flag completes without a word here."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import cast

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_agentscope_rx() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words="{top}"
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    [ "$COMP_CWORD" -eq 1 ] && words="{top}"
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _agentscope_rx {program}
"""
_ZSH = "#compdef {program}\nautoload -U +X bashcompinit && bashcompinit\n{bash}"


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script; it is to be sourced, or saved where the shell looks for completions."""
    words = _words(parser)
    if shell == "fish":
        return _fish(parser.prog, words)
    cases = "\n".join(f'        {name}) words="{" ".join(flags)}" ;;' for name, flags in words.items() if name)
    bash = _BASH.format(program=parser.prog, top=" ".join([*filter(None, words), *words[""]]), cases=cases)
    return _ZSH.format(program=parser.prog, bash=bash) if shell == "zsh" else bash


def _fish(program: str, words: Mapping[str, list[str]]) -> str:
    names = " ".join(filter(None, words))
    lines = [f"complete -c {program} -n __fish_use_subcommand -a '{names}'"]
    for name, flags in words.items():
        when = f"'__fish_seen_subcommand_from {name}'" if name else "__fish_use_subcommand"
        for flag in flags:
            given = (
                f"-l {flag[2:]}"
                if flag.startswith("--")
                else f"-s {flag[1:]}"
                if flag.startswith("-")
                else f"-a {flag}"
            )
            lines.append(f"complete -c {program} -n {when} {given}")
    return "\n".join(lines) + "\n"


def _words(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """What may stand behind each command, and under '' what may stand before one."""
    words: dict[str, list[str]] = {"": []}
    # argparse has no public way to its own actions
    for action in parser._actions:
        words[""] += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            commands = cast("Mapping[str, argparse.ArgumentParser]", action.choices)
            for name, command in commands.items():
                words[name] = [
                    word for each in command._actions for word in (each.option_strings or each.choices or ())
                ]
    return words
