"""`Rule`: commands that may run, told from others by their arguments, one by one; never by their text.

| rule                         | allows                                                                     |
|------------------------------|----------------------------------------------------------------------------|
| `git status`                 | exactly this                                                               |
| `git log *`                  | this, and any arguments after it                                           |
| `git show * --stat`          | `*` in the middle is one argument                                          |
| `pytest tests/*.py`          | `*` within an argument is any text without a `/`                           |

Many programs run others: `git -c core.pager=... log`, `find -exec` and `tar --to-command` by an option, an interpreter
by anything (see `programs`). `options` admits the options that it lists, in each spelling that is safe to admit, and no
others (see `options`). `deny` only knows the spellings that it is given: a program may know more of them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from agentscope_rx.errors import ConfigurationError, WorkspaceError
from agentscope_rx.tools.files.paths import MAX_NAME
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.shell.options import Options
from agentscope_rx.tools.shell.programs import BY_OPTIONS, named, runs_any, wild

MAX_PIECES = 1_000
"""How many pieces of a command's arguments, each of which may be a path, are looked up."""

_URL = re.compile(r"(?:--?[\w-]+=)?https?://[^/]")
_GLUED = re.compile(r"--?[\w-]*([/\\~.].*)", re.DOTALL)
_CLUSTER = re.compile(r"-[^-]")
_ELSEWHERE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows the commands whose arguments fit `pattern`.

    `options` are the only options that may be given then (`-l`, `--format`, `-[0-9]`); a `ConfigurationError` says so
    where that would promise nothing. `deny` are patterns of arguments that may not be given. `paths` denies arguments
    that are paths out of the workspace, or denied in it.
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
                raise ConfigurationError(f"{name} of a Rule takes several, as in {name}=({given!r},).")
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
        """The rule itself, or the one that a text is."""
        return rule if isinstance(rule, Rule) else cls(rule)

    @property
    def runs_any(self) -> str | None:
        """Why this rule lets a model run any program, as far as that is known; None is no promise that it cannot."""
        listed = self.options is not None and named(self._tokens)[0] in BY_OPTIONS
        return None if listed or not self._is_open else runs_any(self._tokens)

    @property
    def _is_open(self) -> bool:
        return self._open or any(map(wild, self._tokens))

    def fits(self, words: tuple[str, ...]) -> bool:
        """Whether the rule is about this command."""
        if len(words) < len(self._tokens) or (len(words) > len(self._tokens) and not self._open):
            return False
        pairs = list(zip(self._tokens, words, strict=False))
        # the program is named as it is in the rule; its arguments may fit a pattern
        return pairs[0][0] == pairs[0][1] and all(_same(token, word) for token, word in pairs[1:])

    def problem(self, words: tuple[str, ...], workspace: Workspace, cwd: str) -> str | None:
        """Why a command that fits may not run after all; None if it may."""
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


def rules_of(rules: Iterable[Rule | str], name: str) -> tuple[Rule, ...]:
    """The rules that a caller gave; `ConfigurationError` for one text, which would be taken for many."""
    if isinstance(rules, str):
        raise ConfigurationError(f"{name} takes several rules, as in {name}=[{rules!r}].")
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


def _outside(words: tuple[str, ...], workspace: Workspace, cwd: str) -> str | None:
    """Why an argument may be the path of something that is out of bounds."""
    looked_up = 0
    for word in words[1:]:
        for piece in _pieces(word):
            looked_up += 1
            if looked_up > MAX_PIECES:
                return f"It has more than {MAX_PIECES} words and parts of words that may be paths. Give fewer at once"
            if why := _elsewhere(piece, workspace, cwd):
                return f"The argument {word!r:.120} {why}"
    return None


def _elsewhere(piece: str, workspace: Workspace, cwd: str) -> str | None:
    if _ELSEWHERE.match(piece):
        return "is a path out of the working directory"
    if ".." in re.split(r"[/\\]", piece):
        return "has '..' in it, which may lead out of the working directory"
    try:
        workspace.kind(piece if cwd == "." else f"{cwd}/{piece}")
    except WorkspaceError as error:
        if error.reason in ("link", "denied"):
            return f"is out of bounds: {str(error).rstrip('.')}"
    return None


def _pieces(word: str) -> Iterator[str]:
    """What in an argument may be a path: all of it, what is behind `=`, `:`, `,` or `@`, or glued to an option."""
    if _URL.match(word):
        # an address, unless it is a path below a folder `https:`, or a path follows it
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
