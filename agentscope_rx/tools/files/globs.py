"""`Glob`: a pattern over paths. `*`, `?`, `[...]` stay within a name, `**` is any number of folders, `{a,b}` is either.

| pattern          | matches                                   |
|------------------|-------------------------------------------|
| `*.py`           | Python files of the folder itself         |
| `**/*.py`        | Python files at any depth                 |
| `src/**`         | everything below `src`                    |
| `*.{js,ts}`      | both                                      |

Models write these patterns, so they are translated for Rust's regex engine, whose time is linear in the path. Libraries
for globs use Python's `re`, which backtracks: pathspec 1.1 takes over 20 s for `*a*a*a*a*a*ab` and a name of 250
letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.errors.text import encodable
from agentscope_rx.tools.files.paths import folded
from agentscope_rx.tools.schemas.pattern import Pattern, PatternError

MAX_PATTERN = 500
MAX_CHOICES = 64

_BRACES = re.compile(r"\{([^{}]*)\}")
_TOKEN = re.compile(r"\*+|\?|\[(!?+)(\][^\]]*|[^\]]+)\]|.", re.DOTALL)
_RANGE = re.compile(r"(.)(?:-(.))?", re.DOTALL)


class Glob:
    """One pattern, compiled; `ToolError` for one that leads outside or is too large."""

    __slots__ = ("_regex", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern: str = pattern
        if len(pattern) > MAX_PATTERN:
            raise ToolError(f"The glob pattern is longer than {MAX_PATTERN} characters. Give a shorter one.")
        if pattern.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", pattern):
            raise ToolError(f"{pattern!r:.120} is absolute. Give a pattern such as '**/*.py', relative to the folder.")
        self._regex = _compiled(pattern, "^{}$")

    def matches(self, parts: Sequence[str]) -> bool:
        """True if the path with these parts matches."""
        return bool(parts) and self._regex.matches(_joined(parts))


class DenyList:
    """Patterns of denied paths, each with everything below it. A pattern without a slash is denied at any depth.

    Case and Unicode forms are ignored: some file systems take such spellings for the same name.
    """

    __slots__ = ("_rules", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns: tuple[str, ...] = tuple(patterns)
        self._rules = [(pattern, _denied(pattern)) for pattern in self.patterns]

    def denies(self, parts: Sequence[str]) -> str | None:
        """The pattern that denies this path, or None."""
        return self._denies(_joined(map(folded, parts))) if parts else None

    def below(self, parts: Sequence[str]) -> Callable[[str], str | None]:
        """`denies` for the names in one folder, whose own path is normalized only once."""
        above = _joined(map(folded, parts))
        return lambda name: self._denies(f"{above}/{folded(name)}")

    def _denies(self, path: str) -> str | None:
        return next((pattern for pattern, regex in self._rules if regex.matches(path)), None)


def _joined(parts: Iterable[str]) -> str:
    """A path for the engine, with a slash before each name."""
    return "".join([f"/{part}" for part in parts])


def _denied(pattern: str) -> Pattern:
    plain = folded(pattern.rstrip("/"))
    try:
        return _compiled(plain, "^{}(?:/|$)" if "/" in plain else "{}(?:/|$)")
    except ToolError as error:
        raise ConfigurationError(f"deny has a pattern that cannot be used: {error}") from None


def _compiled(pattern: str, frame: str) -> Pattern:
    choices = "|".join(map(_translated, _expanded(pattern)))
    try:
        return Pattern(encodable(frame.format(f"(?:{choices})")))
    except PatternError as error:
        raise ToolError(f"The glob pattern {pattern!r:.120} cannot be used: {error}. Give a simpler one.") from None


def _expanded(pattern: str) -> list[str]:
    """The patterns without braces that a pattern with braces stands for."""
    found = [pattern]
    while any(_BRACES.search(each) for each in found):
        more: list[str] = []
        for each in found:
            match = _BRACES.search(each)
            choices = match[1].split(",") if match else [""]
            before, after = (each[: match.start()], each[match.end() :]) if match else (each, "")
            more += [f"{before}{choice}{after}" for choice in choices]
            if len(more) > MAX_CHOICES:
                raise ToolError(f"The glob pattern stands for more than {MAX_CHOICES} patterns. Give a simpler one.")
        found = more
    return found


def _translated(pattern: str) -> str:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ToolError(f"{pattern!r:.120} has '..' in it. Nothing outside the working directory can be reached.")
    if not parts:
        raise ToolError("The glob pattern is empty. Give one such as '**/*.py'.")
    return "".join("(?:/[^/]+)*" if part == "**" else f"/{_TOKEN.sub(_token, part)}" for part in parts)


def _token(found: re.Match[str]) -> str:
    token = found[0]
    if token[0] == "*":
        return "[^/]*"
    if token == "?":
        return "[^/]"
    return re.escape(token) if found[2] is None else _class(found[2], bool(found[1]))


def _class(members: str, negated: bool) -> str:
    """A class of characters; a range that runs backwards has none, as in `fnmatch`."""
    ranges = [
        _escaped(first) if last is None else f"{_escaped(first)}-{_escaped(last)}"
        for first, last in (found.groups() for found in _RANGE.finditer(members))
        if last is None or first <= last
    ]
    if negated:
        return f"[^/{''.join(ranges)}]"
    return f"[{''.join(ranges)}]" if ranges else r"[^\s\S]"


def _escaped(character: str) -> str:
    return f"\\u{{{ord(character):X}}}"
