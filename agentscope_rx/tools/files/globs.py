"""`Glob`: a pattern over paths. `*`, `?`, `[...]` stay within a name, `**` is any number of folders, `{a,b}` is either.

| pattern          | matches                                   |
|------------------|-------------------------------------------|
| `*.py`           | Python files of the folder itself         |
| `**/*.py`        | Python files at any depth                 |
| `src/**`         | everything below `src`                    |
| `*.{js,ts}`      | both                                      |

Matching takes time in proportion to pattern and path: no pattern can stall it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from agentscope_rx.errors import ToolError
from agentscope_rx.tools.files.paths import folded

MAX_PATTERN = 500
MAX_CHOICES = 64

_BRACES = re.compile(r"\{([^{}]*)\}")


class Glob:
    """One pattern, compiled; `ToolError` for one that leads outside or is too large."""

    __slots__ = ("_choices", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        if len(pattern) > MAX_PATTERN:
            raise ToolError(f"The glob pattern is longer than {MAX_PATTERN} characters. Give a shorter one.")
        if pattern.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", pattern):
            raise ToolError(f"{pattern!r:.120} is absolute. Give a pattern such as '**/*.py', relative to the folder.")
        self._choices = [_compiled(each) for each in _expanded(pattern)]

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether the path with these parts fits."""
        return any(_fits(choice, parts) for choice in self._choices)


class DenyList:
    """Patterns of what is out of bounds, with all that is below. One without a slash is meant at any depth.

    Neither case nor how a name is written in Unicode counts: no file system is to take another name for a denied one.
    """

    __slots__ = ("_anywhere", "_globs", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        # of a single name at any depth, and of a path from the root
        self._anywhere: list[tuple[str, re.Pattern[str]]] = []
        self._globs: list[tuple[str, Glob]] = []
        for pattern in self.patterns:
            plain = folded(pattern.rstrip("/"))
            if "/" in plain:
                self._globs.append((pattern, Glob(plain.lstrip("/"))))
            else:
                self._anywhere += [(pattern, re.compile(fnmatch.translate(each))) for each in _expanded(plain)]

    def denies(self, parts: Sequence[str]) -> str | None:
        """The pattern that denies this path, or None."""
        plain = [folded(each) for each in parts]
        for pattern, test in self._anywhere:
            if any(test.match(part) for part in plain):
                return pattern
        for pattern, glob in self._globs:
            if any(glob.matches(plain[:end]) for end in range(1, len(plain) + 1)):
                return pattern
        return None

    def below(self, parts: Sequence[str]) -> Callable[[str], str | None]:
        """Like `denies`, for names in a folder that is not denied itself: the folder is looked at once, for all."""
        above = [folded(each) for each in parts]

        def denies(name: str) -> str | None:
            plain = folded(name)
            for pattern, test in self._anywhere:
                if test.match(plain):
                    return pattern
            path = [*above, plain] if self._globs else above
            return next((pattern for pattern, glob in self._globs if glob.matches(path)), None)

        return denies


def _expanded(pattern: str) -> list[str]:
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


def _compiled(pattern: str) -> list[re.Pattern[str] | None]:
    """A test for each part; None for `**`."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ToolError(f"{pattern!r:.120} has '..' in it. Nothing outside the working directory can be reached.")
    if not parts:
        raise ToolError("The glob pattern is empty. Give one such as '**/*.py'.")
    return [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]


def _fits(tests: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    # where in the pattern one may stand after each part: a set of places, so that nothing is tried twice
    places = _onward({0}, tests)
    for part in parts:
        stepped: set[int] = set()
        for place in places:
            if place == len(tests):
                continue
            test = tests[place]
            if test is None:
                stepped.add(place)
            elif test.match(part):
                stepped.add(place + 1)
        places = _onward(stepped, tests)
        if not places:
            return False
    return len(tests) in places and bool(parts)


def _onward(places: set[int], tests: Sequence[re.Pattern[str] | None]) -> set[int]:
    """With the places behind each `**`, which may stand for no folder at all."""
    reached = set(places)
    for place in sorted(places):
        while place < len(tests) and tests[place] is None:
            place += 1
            reached.add(place)
    return reached
