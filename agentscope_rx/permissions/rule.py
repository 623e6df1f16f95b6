"""`PermissionRule`: the calls that a rule is about, by tool, and by a path, a command or all arguments."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Self, cast

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import freeze, thaw
from agentscope_rx.permissions.subject import Subject
from agentscope_rx.tools.files.globs import DenyList, Glob
from agentscope_rx.tools.shell.allowlist import Rule

COMMAND_TOOLS = ("run_command", "bash", "shell", "run_shell_command", "execute_command")
"""The tools whose rules are about commands, unless `path:` says otherwise."""

_TEXT = re.compile(r"(?P<tool>[^()\s]+)(?:\((?P<about>.*)\))?", re.DOTALL)
_KINDS = ("path", "command", "arguments")
_KEYS = ("tool", *_KINDS)
_NAME = re.compile(r"[\w.*?\[\]!:/-]+")


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """The calls of `tool`, a name or a pattern of names; at most one of `path`, `command` and `arguments` narrows them.

    A rule as text is about these calls:

    - `write_file`: all of this tool
    - `mcp_*`, `*`: all of the tools whose names match
    - `write_file(src/**)`: those whose paths match: `*` within a name, `**` folders at any depth, `{a,b}` either
    - `run_command(git log *)`: those whose command matches, word by word; also for `bash` and `shell`
    - `my_shell(command: git log *)`, `bash(path: src/**)`: the same with another kind than the tool's name stands for
    - `fetch(arguments: {"url": "x"})`: those for which the model sends exactly these arguments

    A rule that allows is read narrowly, one that asks or denies widely. An argument that cannot be judged, such as
    `$HOME` or a command for a shell, is never allowed by such a rule, and asks if a rule of `deny` or `ask` is about
    such tools.

    - **A path in `allow`**: all paths of the call, as they are written and as links lead. In `ask` and `deny`: one path
      of the call in any spelling (case, Unicode form, `..`, links, `\\`, `%2e`, `file://`, quotes), everything below
      it, and without a slash at any depth.
    - **A search or a move** is also about what its folder may contain, unless the tool's own `Workspace(deny=...)`
      leaves it out.
    - **A command in `allow`**: plain words of one command, in the order of the pattern, with no path out of the
      workspace. In `ask` and `deny`: the program wherever it stands, after `;` or `env`, in `sh -c '...'`, by its full
      path, and every path that a word names.
    - **A renamed tool** is meant in `allow` by its new name, in `ask` and `deny` by both.
    """

    tool: str
    path: str | None = None
    command: str | None = None
    arguments: Mapping[str, object] | None = None
    _narrow: Glob | None = field(init=False, repr=False, compare=False, default=None)
    _wide: DenyList | None = field(init=False, repr=False, compare=False, default=None)
    _command: Rule | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.tool, str) or not _NAME.fullmatch(self.tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"A permission rule begins with a tool, as in 'write_file(src/**)' or 'mcp_*', not {self.tool!r:.60}."
            )
        given = [name for name in _KINDS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigurationError(
                f"The permission rule for {self.tool!r} has {' and '.join(given)}: give one of them, in a rule each."
            )
        put = object.__setattr__
        for name in ("path", "command"):
            value = cast("object", getattr(self, name))
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise ConfigurationError(f"{name} of the rule for {self.tool!r} is a pattern, not {value!r:.60}.")
        if self.path is not None:
            put(self, "_narrow", self._globbed(self.path))
            put(self, "_wide", DenyList([self.path]))
        if self.command is not None:
            put(self, "_command", self._commanded(self.command))
        if self.arguments is not None:
            if not isinstance(self.arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"arguments of the rule for {self.tool!r} are a dict: {self.arguments!r:.60}.")
            put(self, "arguments", freeze(self.arguments, "PermissionRule.arguments"))

    def _globbed(self, path: str) -> Glob:
        try:
            return Glob(path)
        except ToolError as error:
            raise ConfigurationError(f"The permission rule for {self.tool!r} cannot be used: {error}") from None

    def _commanded(self, command: str) -> Rule:
        _check_one_command(self.tool, command)
        try:
            return Rule(command)
        except ConfigurationError as error:
            hint = f" To mean every command, write {self.tool!r} alone." if command.strip() == "*" else ""
            raise ConfigurationError(f"The permission rule for {self.tool!r} cannot be used: {error}{hint}") from None

    # --- forms ----------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, rule: object) -> Self:
        """The rule itself, or the rule that a text or a dict of its fields describes; `ConfigurationError`."""
        if isinstance(rule, cls):
            return rule
        if isinstance(rule, str):
            return cls.parse(rule)
        if isinstance(rule, Mapping):
            fields = cast("Mapping[str, object]", rule)
            for name in fields:
                if name not in _KEYS:
                    raise ConfigurationError(f"A permission rule has no {name!r:.60}.{_meant(name, _KEYS)}")
            return cls(**fields)  # pyright: ignore[reportArgumentType]
        raise ConfigurationError(f"A permission rule is text such as 'write_file(src/**)', not {rule!r:.60}.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The rule that a text describes; `ConfigurationError` names the part that cannot be read."""
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise ConfigurationError(
                f"The permission rule {text!r:.120} cannot be read. Write a tool, or a tool and a pattern in "
                "parentheses, as in 'write_file(src/**)' or 'run_command(git log *)'."
            )
        tool, about = found["tool"], found["about"]
        if about is None:
            return cls(tool)
        kind, pattern = _kind_of(tool, about.strip())
        if kind != "arguments":
            _check_kind_word(text, pattern)
        if not pattern:
            raise ConfigurationError(
                f"The permission rule {text!r:.120} has nothing in its parentheses: leave them out."
            )
        if kind == "arguments":
            return cls(tool, arguments=_arguments(text, pattern))
        return cls(tool, path=pattern) if kind == "path" else cls(tool, command=pattern)

    def __str__(self) -> str:
        if self.arguments is not None:
            return f"{self.tool}(arguments: {json.dumps(thaw(self.arguments), ensure_ascii=False, sort_keys=True)})"
        for kind, pattern in (("path", self.path), ("command", self.command)):
            if pattern is not None:
                plain = _kind_of(self.tool, pattern.strip()) == (kind, pattern)
                return f"{self.tool}({pattern})" if plain else f"{self.tool}({kind}: {pattern})"
        return self.tool

    def to_json(self) -> object:
        """The rule as text, or as a dict of its fields if the text would not be read as the same rule."""
        text = str(self)
        try:
            same = type(self).parse(text) == self
        except ConfigurationError:
            same = False
        fields = {"path": self.path, "command": self.command}
        if same:
            return text
        about: dict[str, object] = {name: value for name, value in fields.items() if value is not None}
        if self.arguments is not None:
            about["arguments"] = thaw(self.arguments)
        return {"tool": self.tool, **about}

    # --- matching -------------------------------------------------------------------------------------------------

    def names(self, tools: Iterable[str]) -> bool:
        """True if the rule is about a tool of one of these names."""
        return any(fnmatchcase(each, self.tool) for each in tools)

    @property
    def runs_any(self) -> str | None:
        """The known reason why this rule in `allow` lets a model run any program; None if no reason is known."""
        return None if self._command is None else self._command.runs_any

    def allows(self, subject: Subject) -> bool:
        """True if the rule, in `allow`, certainly covers the call."""
        if not self.names((subject.name,)):
            return False
        if self._narrow is not None:
            return subject.paths_are(self._narrow)
        if self._command is not None:
            return subject.command_is(self._command)
        return self.arguments is None or self.arguments == subject.call.input

    def covers(self, subject: Subject) -> bool | None:
        """True if the rule, in `ask` or `deny`, covers the call; None if that cannot be decided."""
        if not self.names(subject.names):
            return False
        if self._wide is not None:
            return subject.paths_touch(self._wide)
        if self._command is not None:
            return subject.command_runs(self._command)
        return self.arguments is None or self.arguments == subject.call.input


def _kind_of(tool: str, about: str) -> tuple[str, str]:
    """What the text in parentheses is about, and its pattern."""
    word, colon, rest = about.partition(":")
    if colon and word in _KINDS:
        return word, rest.strip()
    return ("command" if tool in COMMAND_TOOLS else "path"), about


def _check_kind_word(text: str, pattern: str) -> None:
    """`ConfigurationError` for a misspelt kind, which would be a path or a program that no call has."""
    word, colon, _ = pattern.partition(":")
    near = get_close_matches(word.casefold()[:100], _KINDS, 1, 0.8) if colon and word not in _KINDS else ()
    if near:
        raise ConfigurationError(f"The permission rule {text!r:.120} has no {word!r}. Did you mean '{near[0]}: '?")


def _check_one_command(tool: str, command: str) -> None:
    """`ConfigurationError` for a pattern that no command can match: words are compared, and nothing else."""
    # not as POSIX does it: words keep their quotes, so that a quoted sign is none
    reader = shlex.shlex(command, posix=False, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        words = list(reader)
    except ValueError:
        # an open quote, of which the rule itself says more
        return
    signs = [word for word in words if word and not word.strip("();<>|&")]
    if signs:
        raise ConfigurationError(
            f"The permission rule for {tool!r} has {signs[0]!r} in it: {command!r:.80}. A pattern is of the words of "
            "one command; write a rule for each program, or quotes around a sign that is part of a word."
        )
    if words and words[0].endswith(":*"):
        meant = f"{words[0][:-2]} *"
        raise ConfigurationError(
            f"The permission rule for {tool!r} names no program: {command!r:.80}. Did you mean {meant!r}?"
        )


def _arguments(text: str, pattern: str) -> Mapping[str, object]:
    try:
        value: object = json.loads(pattern)
    except ValueError as error:
        raise ConfigurationError(f"The arguments in the permission rule {text!r:.120} are no JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"The arguments in the permission rule {text!r:.120} must be an object, {{...}}.")
    return cast("Mapping[str, object]", value)


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name[:100], list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(known)}."
