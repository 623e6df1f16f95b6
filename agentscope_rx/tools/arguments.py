"""The error for arguments that a tool refuses, in words that a model can act on: one line a problem, then what to do.

Invalid arguments for tool 'weather':
- city: is required and was not given
- days[0]: Input should be a valid integer, unable to parse string as an integer; given "two"
- unti: is not an argument of this tool; did you mean 'unit'?
Correct the arguments and call the tool again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from heapq import nsmallest
from itertools import islice
from typing import cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json

from agentscope_rx.errors import ToolError

MAX_PROBLEMS = 10
"""Problems in the text; the others are counted."""
MAX_FOUND = 50
"""Problems that an error holds."""
MAX_GIVEN = 100
MAX_NAME = 100
"""Characters of a name that a problem quotes."""
MAX_MESSAGE = 1000
"""Characters of a validator's own message."""
MAX_KNOWN = 50
"""Names of arguments that a problem lists."""
MAX_NEAR = 32
"""The longest name for which similar names are searched, among `MAX_CANDIDATES`."""
MAX_CANDIDATES = 20


class InvalidArgumentsError(ToolError):
    """A tool cannot be called with these arguments; `problems` has one line each. A tool may raise it itself.

    `count` is the number of problems, if there are more than those given.
    """

    def __init__(self, tool: str, problems: Iterable[str], *, count: int = 0) -> None:
        self.tool = tool
        self.problems: tuple[str, ...] = tuple(problems)
        lines = [f"Invalid arguments for tool {tool!r}:", *(f"- {problem}" for problem in self.problems[:MAX_PROBLEMS])]
        if (more := max(count, len(self.problems)) - MAX_PROBLEMS) > 0:
            lines.append(f"- and {more} more problems")
        lines.append("Correct the arguments and call the tool again.")
        super().__init__("\n".join(lines))


def explain(
    error: ValidationError, tool: str, arguments: Mapping[str, object], known: Sequence[str]
) -> InvalidArgumentsError:
    """pydantic's errors as problems, the first `MAX_FOUND`; `known` are the names that the tool takes."""
    found = error.errors(include_url=False, include_context=False)
    problems = [_problem(each, arguments, known, index < MAX_PROBLEMS) for index, each in enumerate(found[:MAX_FOUND])]
    return InvalidArgumentsError(tool, problems, count=len(found))


def missing(name: str) -> str:
    """The problem of a missing argument."""
    return f"{cut(name)}: is required and was not given"


def unknown(name: str, known: Sequence[str], *, suggest: bool = True) -> str:
    """The problem of an argument that the tool does not take; with `suggest`, it names a similar one."""
    close = _near(name.rpartition(".")[2], known) if suggest else None
    name = cut(name)
    if close is not None:
        return f"{name}: is not an argument of this tool; did you mean {close!r}?"
    listed = ", ".join(cut(each) for each in known[:MAX_KNOWN])
    more = f" and {len(known) - MAX_KNOWN} more" if len(known) > MAX_KNOWN else ""
    takes = f"it takes {listed}{more}" if known else "it takes none"
    return f"{name}: is not an argument of this tool; {takes}"


def unknowns(names: Iterable[str], known: Sequence[str], *, suggest: bool = True) -> list[str]:
    """The problems of several such arguments, the first `MAX_FOUND`."""
    several = enumerate(islice(names, MAX_FOUND))
    return [unknown(name, known, suggest=suggest and index < MAX_PROBLEMS) for index, name in several]


def _near(name: str, known: Sequence[str]) -> str | None:
    # a comparison takes quadratic time: only short names are compared, with those of about the same length
    if len(name) > MAX_NEAR:
        return None
    candidates = nsmallest(MAX_CANDIDATES, known, key=lambda each: abs(len(each) - len(name)))
    close = get_close_matches(name, [each for each in candidates if len(each) <= MAX_NEAR], 1)
    return close[0] if close else None


def _problem(error: ErrorDetails, arguments: Mapping[str, object], known: Sequence[str], suggest: bool) -> str:
    kind = error["type"]
    path = _path(error["loc"], arguments, kind)
    if kind == "missing":
        return missing(path)
    if kind == "extra_forbidden" and len(error["loc"]) == 1:
        return unknown(path, known, suggest=suggest)
    message = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind == "extra_forbidden":
        message = "is not a known field"
    return f"{cut(path)}: {message[:MAX_MESSAGE]}; given {given_text(error['input'])}"


def _path(location: tuple[int | str, ...], arguments: Mapping[str, object], kind: str) -> str:
    """The place of the problem in the arguments, without what pydantic adds for the branch of a union."""
    path = ""
    here: object = arguments
    for position, step in enumerate(location):
        if isinstance(here, Mapping):
            fields = cast("Mapping[object, object]", here)
            if step in fields or (kind == "missing" and position == len(location) - 1):
                path += f".{step}"
                here = fields.get(step)
        elif isinstance(step, int) and isinstance(here, (list, tuple)):
            items = cast("Sequence[object]", here)
            path += f"[{step}]"
            here = items[step] if step < len(items) else None
    return path.removeprefix(".") or "arguments"


def given_text(value: object) -> str:
    """A value as a problem quotes it: JSON, cut."""
    text = to_json(_Head().of(value), fallback=repr, inf_nan_mode="strings").decode()
    return text if len(text) <= MAX_GIVEN else f"{text[: MAX_GIVEN - 3]}..."


class _Head:
    """Copies the beginning of a value: each problem quotes its own, and often all of them the same large one."""

    def __init__(self) -> None:
        self._room = MAX_GIVEN

    def of(self, value: object) -> object:
        self._room -= 1
        if isinstance(value, str):
            return value[: MAX_GIVEN + 1] if type(value) is str else value
        if isinstance(value, Mapping):
            fields = cast("Mapping[object, object]", value).items()
            return {key: self.of(each) for key, each in islice(fields, MAX_GIVEN) if self._room > 0}
        if isinstance(value, (list, tuple)):
            return [self.of(each) for each in islice(cast("Sequence[object]", value), MAX_GIVEN) if self._room > 0]
        return value


def cut(name: str) -> str:
    """A name as a problem quotes it."""
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."
