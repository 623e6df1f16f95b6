"""`Rule`: the commands that may run, recognized by their arguments one by one, never by their text as a whole.

| rule                         | allows                                                                     |
|------------------------------|----------------------------------------------------------------------------|
| `git status`                 | exactly this                                                               |
| `git log *`                  | this, and any arguments after it                                           |
| `git show * --stat`          | `*` in the middle is one argument                                          |
| `pytest tests/*.py`          | `*` within an argument is any text without a `/`                           |

Many programs run others: `git -c core.pager=... log`, `find -exec` and `tar --to-command` by an option, an interpreter
by anything (see `programs`). `options` admits the listed options, in the spellings that are safe, and no others. `deny`
knows only the spellings that it is given, and a program may accept more of them.

`options` are compared with the words of a command as its program reads them:

| program reads         | admitted, if `-l`, `-a`, `--sort` are listed  | refused, though the program knows it     |
|-----------------------|-----------------------------------------------|------------------------------------------|
| letters (`ls`)        | `-l`, `-la`, `--sort`, `--sort=x`, `--`       | `-lR`, `--so`; `-R` behind `--`          |
| whole words (`find`)  | `-l`, `--sort`, `--sort=x`                    | `-la`, `--`                              |
| a first word (`tar`)  | `la x`, `-la x`                               | `lR x`                                   |
| every word (`ps`)     | `-l`, `-a`                                    | `la`, `x`                                |
| not known             | as whole words; `+x` and `@x` are options too | all of these                             |

No word counts as the value of the option before it, and none is exempt behind `--`: only the program knows which
options take values (`grep -e -- -f x` has `-f` in it). Write a value or a file that begins with a dash as `--name=-x`
or `./-x`. A list that could promise nothing is a `ConfigurationError` when the rule is made.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import field
from fnmatch import fnmatchcase

from agentscope_rx.errors import ConfigurationError, WorkspaceError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.files.paths import MAX_NAME
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.shell.programs import (
    BY_COMMAND,
    BY_OPERANDS,
    BY_OPTIONS,
    OPTIONS_FROM_FILES,
    SETTINGS,
    Syntax,
    command_of,
    named,
    runs_any,
    syntax_of,
    wild,
)

MAX_PIECES = 1_000
"""How many parts of a command's arguments are looked up as paths."""

_URL = re.compile(r"(?:--?[\w-]+=)?https?://[^/]")
_GLUED = re.compile(r"--?[\w-]*([/\\~.].*)", re.DOTALL)
_CLUSTER = re.compile(r"-[^-]")
_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]")

_ANY = re.compile(r"--?[*?].*|\*.*")
_LETTERS = re.compile(r"-\[[^\]]+\]\*?")
_VALUE_ONLY = re.compile(r"[^*?]*(?:=.*)?", re.DOTALL)
_EXAMPLE = {"git": "log", "docker": "ps", "npm": "test", "cargo": "check", "go": "vet", "kubectl": "get"}


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows the commands whose arguments match `pattern`, word by word.

    | rule                | allows                                           |
    |---------------------|--------------------------------------------------|
    | `git status`        | exactly this                                     |
    | `git log *`         | this, and any arguments after it                 |
    | `git show * --stat` | `*` in the middle is one argument                |
    | `pytest tests/*.py` | `*` within an argument is any text without a `/` |

    With `options`, no other options may be given (`-l`, `--format`, `-[0-9]`). `deny` are patterns of arguments that
    may not be given; a program may have other spellings for them, so prefer `options`. `paths` refuses arguments that
    are paths out of the workspace, or denied in it.

    `options` are compared with the words of a command as its program reads them:

    | program reads        | admitted, if `-l`, `-a`, `--sort` are listed   | refused, though the program knows it |
    |----------------------|------------------------------------------------|--------------------------------------|
    | letters (`ls`)       | `-l`, `-la`, `--sort`, `--sort=x`, `--`        | `-lR`, `--so`; `-R` behind `--`      |
    | whole words (`find`) | `-l`, `--sort`, `--sort=x`                     | `-la`, `--`                          |
    | a first word (`tar`) | `la x`, `-la x`                                | `lR x`                               |
    | every word (`ps`)    | `-l`, `-a`                                     | `la`, `x`                            |
    | not known            | as whole words; `+x` and `@x` are options, too | all of these                         |

    No word counts as the value of the option before it, and none is exempt behind `--`: only the program knows which
    options take values. Write a value or a file that begins with a dash as `--name=-x` or `./-x`. A list that would
    promise nothing is a `ConfigurationError`.
    """

    pattern: str
    options: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    paths: bool = True
    _tokens: tuple[str, ...] = field(init=False, repr=False, default=())
    _open: bool = field(init=False, repr=False, default=False)
    _listed: Options | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A rule is text such as 'git status', or a Rule, not {self.pattern!r:.60}.")
        for name in ("options", "deny"):
            given: object = getattr(self, name)
            if isinstance(given, str):
                raise ConfigurationError(f"{name} of a Rule takes a tuple, as in {name}=({given!r},).")
            if given is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        try:
            tokens = tuple(shlex.split(self.pattern))
        except ValueError as error:
            raise ConfigurationError(f"The rule {self.pattern!r} cannot be read: {error}.") from None
        _check_program(self.pattern, tokens)
        object.__setattr__(self, "_open", tokens[-1] == "*")
        object.__setattr__(self, "_tokens", tokens[:-1] if tokens[-1] == "*" else tokens)
        if self.options is not None:
            listed = Options(self.pattern, self._tokens, self.options, is_open=self._is_open)
            object.__setattr__(self, "_listed", listed)

    @classmethod
    def of(cls, rule: Rule | str) -> Rule:
        """The rule itself, or the rule that a text describes."""
        return rule if isinstance(rule, Rule) else cls(rule)

    @property
    def runs_any(self) -> str | None:
        """The known reason why this rule lets a model run any program; None if no reason is known."""
        listed = self.options is not None and named(self._tokens)[0] in BY_OPTIONS
        return None if listed or not self._is_open else runs_any(self._tokens)

    @property
    def _is_open(self) -> bool:
        return self._open or any(map(wild, self._tokens))

    def fits(self, words: tuple[str, ...]) -> bool:
        """True if the program and the arguments match the pattern."""
        if len(words) < len(self._tokens) or (len(words) > len(self._tokens) and not self._open):
            return False
        pairs = list(zip(self._tokens, words, strict=False))
        # the program's name is compared as it stands; only arguments may be patterns
        return pairs[0][0] == pairs[0][1] and all(_same(token, word) for token, word in pairs[1:])

    def occurs_in(self, words: tuple[str, ...]) -> bool:
        """True if the words may call the rule's program in this way: for rules that deny.

        It reads widely: by the program's name alone, in any case, behind other programs (`env`, `sudo`, `xargs`), and
        with options, and their values, before the words of the pattern.
        """
        program, *rest = self._tokens
        name = _name_of(program)
        for at, word in enumerate(words):
            if _name_of(word) == name and _follows(rest, words[at + 1 :], is_open=self._open):
                return True
        return False

    def problem(self, words: tuple[str, ...], workspace: Workspace, cwd: str) -> str | None:
        """The reason why `options`, `deny` or `paths` refuse a matching command; None if it may run."""
        for word in words[1:]:
            if pattern := next((each for each in self.deny if fnmatchcase(word, each)), None):
                return f"The argument {word!r:.120} is denied (rule {pattern!r})"
        if self._listed is not None and (refused := self._listed.refused(words)) is not None:
            listed = ", ".join(self._listed.listed) or "none"
            return (
                f"{refused!r:.120} is, or may be, an option that is not among those allowed: {listed}. Write options "
                "out in full, values as words of their own, and a file whose name begins with '-' as './-name'"
            )
        return _outside(words, workspace, cwd) if self.paths else None

    def __str__(self) -> str:
        only = "" if self.options is None else f" (options: {' '.join(self.options) or 'none'})"
        return f"{self.pattern}{only}"


# --- options ----------------------------------------------------------------------------------------------------------


class Options:
    """The options of one rule; `ConfigurationError` if a list cannot promise anything for its program."""

    __slots__ = ("_long", "_short", "_syntax", "_tokens", "listed")

    def __init__(self, pattern: str, tokens: tuple[str, ...], listed: tuple[str, ...], *, is_open: bool) -> None:
        self.listed: tuple[str, ...] = listed
        self._tokens = tokens
        self._syntax = syntax_of(tokens)
        for each in listed:
            _check_option(pattern, each, self._syntax)
        if is_open:
            _check_listing(pattern, tokens, listed)
        self._long = tuple(each for each in listed if each.startswith("--"))
        self._short = tuple(each for each in listed if not each.startswith("--"))

    def refused(self, words: tuple[str, ...]) -> str | None:
        """The first word that is, or may be, an option and is not listed; None if there is none."""
        for at, word in self._given(words):
            if not self._admits(word, at):
                return word
        return None

    def _given(self, words: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        """The words, with their places, that the rule does not spell out."""
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
    """`ConfigurationError` for text that is no option, or that admits other options than it names."""
    if not isinstance(option, str) or not option:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"options of the rule {pattern!r} are text such as '-l', not {option!r:.60}.")
    if syntax.every_word:
        if option.startswith("*"):
            raise ConfigurationError(
                f"The option {option!r} of the rule {pattern!r} allows every word. List the allowed words."
            )
        return
    if _ANY.fullmatch(option):
        raise ConfigurationError(
            f"The option {option!r} of the rule {pattern!r} allows every option. List the allowed options, or leave "
            "options out to allow all."
        )
    if option[0] not in {*syntax.starts, "-", *("/" if os.name == "nt" else "")}:
        raise ConfigurationError(
            f"options of the rule {pattern!r} contain {option!r}, which does not begin like an option. Write them "
            "as the program takes them, as in '-l'."
        )
    if option.startswith("--") or option[0] != "-" or not wild(option):
        return
    if syntax.letters and not _LETTERS.fullmatch(option):
        raise ConfigurationError(
            f"The option {option!r} of the rule {pattern!r} cannot be enforced: the program reads the text behind "
            "one dash as letters, each an option. List the letters, as in '-n' or '-[0-9]'; their values are "
            "separate words then."
        )
    if not syntax.known and not _VALUE_ONLY.fullmatch(option):
        raise ConfigurationError(
            f"The option {option!r} of the rule {pattern!r} cannot be enforced: this program is not known, and may "
            "read the rest of the word as further options. List each word, with '*' behind a '=' at most."
        )


def _check_listing(pattern: str, tokens: tuple[str, ...], listed: tuple[str, ...]) -> None:
    """`ConfigurationError` for a program whose other words do what options do elsewhere."""
    name, rest = named(tokens)
    cannot = f"options of the rule {pattern!r} cannot be enforced: {runs_any(tokens)}"
    if name in BY_OPERANDS:
        raise ConfigurationError(
            f"{cannot}, whatever its options are. Write the words out without '*', or leave options out, which allows "
            "anything that it can run."
        )
    if name in BY_COMMAND:
        command = command_of(name, rest)
        if command is None:
            raise ConfigurationError(
                f"options of the rule {pattern!r} cannot be enforced: which words are options depends on the command. "
                f"Name it, one rule for each, as in '{name} {_EXAMPLE.get(name, 'COMMAND')} *'."
            )
        if command in BY_COMMAND[name]:
            raise ConfigurationError(f"{cannot} by words that are no options. Write the words out without '*'.")
    if carried := [each for each in OPTIONS_FROM_FILES.get(name, ()) if any(fnmatchcase(each, one) for one in listed)]:
        raise ConfigurationError(
            f"options of the rule {pattern!r} cannot be enforced with {min(carried)!r}, whose value holds further "
            "options. Leave it out."
        )
    if name in SETTINGS and not set(rest[:1]) & set(SETTINGS[name]):
        raise ConfigurationError(
            f"options of the rule {pattern!r} cannot be enforced: {name} reads further ones from a file in HOME, which "
            f"a command may have written. Begin the rule with '{name} {SETTINGS[name][0]}'."
        )


# --- rules ------------------------------------------------------------------------------------------------------------


def rules_of(rules: Iterable[Rule | str], name: str) -> tuple[Rule, ...]:
    """The rules of a parameter; `ConfigurationError` for a single text, which would be read letter by letter."""
    if isinstance(rules, str):
        raise ConfigurationError(f"{name} takes a list of rules, as in {name}=[{rules!r}].")
    return tuple(Rule.of(each) for each in rules)


def _check_program(pattern: str, tokens: tuple[str, ...]) -> None:
    if not tokens or not tokens[0]:
        raise ConfigurationError("A rule begins with the name of a program, as in 'git status'.")
    program = tokens[0]
    if wild(program):
        raise ConfigurationError(f"The rule {pattern!r} allows any program. Name the program, one rule for each.")
    if re.search(r"[/\\]", program) and not program.startswith("/") and not re.match(r"[A-Za-z]:", program):
        raise ConfigurationError(
            f"The program of rule {pattern!r} is a file of the workspace, which a model may be able to change. Name a "
            "program on the search path, or give its absolute path."
        )


def _same(token: str, word: str) -> bool:
    if token == "*":
        return True
    if not wild(token):
        return token == word
    mine, theirs = token.split("/"), word.split("/")
    return len(mine) == len(theirs) and all(fnmatchcase(b, a) for a, b in zip(mine, theirs, strict=True))


def _name_of(program: str) -> str:
    """The name by which a program is meant, wherever it lies."""
    return named((program,))[0] if program else ""


def _follows(tokens: list[str], words: tuple[str, ...], *, is_open: bool) -> bool:
    """True if the tokens come in this order, with nothing but options and their values before each."""
    places = {0}
    for token in tokens:
        places = {at + 1 for place in places for at in _behind_options(words, place) if _same(token, words[at])}
    return any(is_open or all(each.startswith("-") for each in words[end:]) for end in places)


def _behind_options(words: tuple[str, ...], place: int) -> Iterator[int]:
    """The places at which a word may stand that is neither an option nor the value of one."""
    may_be_value = False
    for at in range(place, len(words)):
        yield at
        if words[at].startswith("-"):
            may_be_value = True
        elif may_be_value:
            may_be_value = False
        else:
            return


def _outside(words: tuple[str, ...], workspace: Workspace, cwd: str) -> str | None:
    """Why an argument may be a path out of bounds; None if none is."""
    looked_up = 0
    for word in words[1:]:
        for piece in pieces_of(word):
            looked_up += 1
            if looked_up > MAX_PIECES:
                return f"It has more than {MAX_PIECES} words and parts of words that may be paths. Give fewer at once"
            if why := _out_of_bounds(piece, workspace, cwd):
                return f"The argument {word!r:.120} {why}"
    return None


def _out_of_bounds(piece: str, workspace: Workspace, cwd: str) -> str | None:
    if _ABSOLUTE.match(piece):
        return "is a path out of the working directory"
    if ".." in re.split(r"[/\\]", piece):
        return "has '..' in it, which may lead out of the working directory"
    try:
        workspace.kind(piece if cwd == "." else f"{cwd}/{piece}")
    except WorkspaceError as error:
        if error.reason in ("link", "denied"):
            return f"is out of bounds: {str(error).rstrip('.')}"
    return None


def pieces_of(word: str) -> Iterator[str]:
    """The parts of an argument that may be paths: all of it, parts behind `=:,@`, and values behind an option."""
    if _URL.match(word):
        # a URL, unless it is a path below a folder `https:`, or a path follows it
        head, *rest = word.split(",")
        yield from (each for each in (head if ".." in re.split(r"[/\\]", head) else "", *rest) if each)
        return
    for piece in {word, *re.split(r"[=:,@]", word)} - {""}:
        yield piece
        if glued := _GLUED.match(piece):
            yield glued[1]
        elif _CLUSTER.match(piece):
            # a value may begin behind any of the letters: `-tfolder`, `-rtfolder`
            yield from (piece[at:] for at in range(max(2, len(piece) - MAX_NAME), len(piece)))
