"""`Options`: the options that a rule lists, compared with the words of a command as its program reads them.

| program reads         | admitted, if `-l`, `-a`, `--sort` are listed  | refused, though the program knows it     |
|-----------------------|-----------------------------------------------|------------------------------------------|
| letters (`ls`)        | `-l`, `-la`, `--sort`, `--sort=x`, `--`       | `-lR`, `--so`; `-R` behind `--`          |
| whole words (`find`)  | `-l`, `--sort`, `--sort=x`                    | `-la`, `--`                              |
| a first word (`tar`)  | `la x`, `-la x`                               | `lR x`                                   |
| every word (`ps`)     | `-l`, `-a`                                    | `la`, `x`                                |
| not known             | as whole words; `+x` and `@x` are options too | all of these                             |

No word is taken for the value of the option before it, and none is exempt behind `--`: only the program knows which
options take values (`grep -e -- -f x` has `-f` in it). A value or a file that begins with a dash is written as
`--name=-x` or `./-x`. What a listing cannot promise is a `ConfigurationError` when the rule is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.shell.programs import (
    BY_COMMAND,
    BY_OPERANDS,
    OPTIONS_FROM_FILES,
    SETTINGS,
    Syntax,
    command_of,
    named,
    runs_any,
    syntax_of,
    wild,
)

_ANY = re.compile(r"--?[*?].*|\*.*")
_LETTERS = re.compile(r"-\[[^\]]+\]\*?")
_VALUE_ONLY = re.compile(r"[^*?]*(?:=.*)?", re.DOTALL)


class Options:
    """The options of one rule; `ConfigurationError` if no list can promise anything there."""

    __slots__ = ("_long", "_short", "_syntax", "_tokens", "listed")

    def __init__(self, pattern: str, tokens: tuple[str, ...], listed: tuple[str, ...], *, is_open: bool) -> None:
        self.listed = listed
        self._tokens = tokens
        self._syntax = syntax_of(tokens)
        for each in listed:
            _check_option(pattern, each, self._syntax)
        if is_open:
            _check_program(pattern, tokens, listed)
        self._long = tuple(each for each in listed if each.startswith("--"))
        self._short = tuple(each for each in listed if not each.startswith("--"))

    def refused(self, words: tuple[str, ...]) -> str | None:
        """The first word of a command that is an option, or may be one, and is not listed."""
        for at, word in self._given(words):
            if not self._admits(word, at):
                return word
        return None

    def _given(self, words: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        """The words that the rule does not spell out itself."""
        for at, word in enumerate(words):
            spelled_out = at < len(self._tokens) and self._tokens[at] == word and not wild(word)
            if at and not spelled_out:
                yield at, word

    def _admits(self, word: str, at: int) -> bool:
        syntax = self._syntax
        if syntax.every_word:
            return any(fnmatchcase(word, each) for each in self.listed)
        if word in ("", "-") or word in syntax.operators:
            return True
        if word[0] in syntax.starts:
            return self._option(word)
        if syntax.bundle and at == 1:
            return all(map(self._letter, word))
        return True

    def _option(self, word: str) -> bool:
        if word in self.listed or (word == "--" and self._syntax.letters):
            return True
        if word.startswith("--"):
            name = word.partition("=")[0]
            return word != "--" and any(fnmatchcase(word, each) or fnmatchcase(name, each) for each in self._long)
        if not self._syntax.letters or word[0] != "-":
            return any(fnmatchcase(word, each) for each in self._short)
        for letter in word[1:]:
            if not self._letter(letter):
                return False
            if letter in self._syntax.values:
                return True
        return True

    def _letter(self, letter: str) -> bool:
        return any(fnmatchcase(f"-{letter}", each) for each in self._short)


def _check_option(pattern: str, option: str, syntax: Syntax) -> None:
    """`ConfigurationError` for an option that is none, or that would admit others than it names."""
    if not isinstance(option, str) or not option:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"options of the rule {pattern!r} are text such as '-l', not {option!r:.60}.")
    if syntax.every_word:
        if option.startswith("*"):
            raise ConfigurationError(f"The option {option!r} of the rule {pattern!r} admits every word. Name them.")
        return
    if _ANY.fullmatch(option):
        raise ConfigurationError(
            f"The option {option!r} of the rule {pattern!r} admits every option. Name those that may be used, or leave "
            "options out to allow all."
        )
    if option[0] not in {*syntax.starts, "-", *("/" if os.name == "nt" else "")}:
        raise ConfigurationError(
            f"options of the rule {pattern!r} has {option!r} in it, which does not begin like an option. Write them "
            "as they are given to the program, as in '-l'."
        )
    if option.startswith("--") or option[0] != "-" or not wild(option):
        return
    if syntax.letters and not _LETTERS.fullmatch(option):
        raise ConfigurationError(
            f"The option {option!r} of the rule {pattern!r} cannot be promised: the program reads what is behind one "
            "dash as letters, each an option. List the letters, as in '-n' or '-[0-9]'; values are words of their "
            "own then."
        )
    if not syntax.known and not _VALUE_ONLY.fullmatch(option):
        raise ConfigurationError(
            f"The option {option!r} of the rule {pattern!r} cannot be promised: this program is not known, and may "
            "read the rest of the word as further options. List each word, with '*' behind a '=' at most."
        )


def _check_program(pattern: str, tokens: tuple[str, ...], listed: tuple[str, ...]) -> None:
    """`ConfigurationError` where words that are no options do what options do elsewhere."""
    name, rest = named(tokens)
    cannot = f"options of the rule {pattern!r} cannot be promised: {runs_any(tokens)}"
    if name in BY_OPERANDS:
        raise ConfigurationError(
            f"{cannot}, whatever its options are. Write the words out without '*', or leave options out, which allows "
            "anything that it can run."
        )
    if name in BY_COMMAND:
        command = command_of(name, rest)
        if command is None:
            raise ConfigurationError(
                f"options of the rule {pattern!r} cannot be promised: which words are options depends on the command. "
                f"Name it, one rule for each, as in '{name} {_EXAMPLE.get(name, 'COMMAND')} *'."
            )
        if command in BY_COMMAND[name]:
            raise ConfigurationError(f"{cannot} by words that are no options. Write the words out without '*'.")
    if carried := [each for each in OPTIONS_FROM_FILES.get(name, ()) if any(fnmatchcase(each, one) for one in listed)]:
        raise ConfigurationError(
            f"options of the rule {pattern!r} cannot be promised with {min(carried)!r}, whose value holds further "
            "options. Leave it out."
        )
    if name in SETTINGS and not set(rest[:1]) & set(SETTINGS[name]):
        raise ConfigurationError(
            f"options of the rule {pattern!r} cannot be promised: {name} reads further ones from a file in HOME, which "
            f"a command may have written. Begin the rule with '{name} {SETTINGS[name][0]}'."
        )


_EXAMPLE = {"git": "log", "docker": "ps", "npm": "test", "cargo": "check", "go": "vet", "kubectl": "get"}
