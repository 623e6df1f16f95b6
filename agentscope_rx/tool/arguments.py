"""Arguments that a tool refuses, told so that a model can act on it: one line a problem, then what to do.

Invalid arguments for tool 'weather':
- city: is required and was not given
- days[0]: Input should be a valid integer, unable to parse string as an integer; given "two"
- unti: is not an argument of this tool; did you mean 'unit'?
Correct the arguments and call the tool again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json

from agentscope_rx.errors import ToolError

MAX_PROBLEMS = 10
MAX_GIVEN = 100


class InvalidArgumentsError(ToolError):
    """A tool cannot be called with these arguments; `problems` has one line each. A tool may raise it itself."""

    def __init__(self, tool: str, problems: Iterable[str]) -> None:
        self.tool = tool
        self.problems = tuple(problems)
        lines = [f"Invalid arguments for tool {tool!r}:", *(f"- {problem}" for problem in self.problems[:MAX_PROBLEMS])]
        if len(self.problems) > MAX_PROBLEMS:
            lines.append(f"- and {len(self.problems) - MAX_PROBLEMS} more problems")
        lines.append("Correct the arguments and call the tool again.")
        super().__init__("\n".join(lines))


def explain(
    error: ValidationError, tool: str, arguments: Mapping[str, object], known: Sequence[str]
) -> InvalidArgumentsError:
    """pydantic's findings as problems; `known` are the names that the tool takes."""
    return InvalidArgumentsError(
        tool, (_problem(each, arguments, known) for each in error.errors(include_url=False, include_context=False))
    )


def missing(name: str) -> str:
    """The problem of an argument that was left out."""
    return f"{name}: is required and was not given"


def unknown(name: str, known: Sequence[str]) -> str:
    """The problem of an argument that the tool does not take."""
    name = name if len(name) <= MAX_GIVEN else f"{name[: MAX_GIVEN - 3]}..."
    close = get_close_matches(name.rpartition(".")[2], known, 1)
    if close:
        return f"{name}: is not an argument of this tool; did you mean {close[0]!r}?"
    takes = f"it takes {', '.join(known)}" if known else "it takes none"
    return f"{name}: is not an argument of this tool; {takes}"


def _problem(error: ErrorDetails, arguments: Mapping[str, object], known: Sequence[str]) -> str:
    kind = error["type"]
    path = _path(error["loc"], arguments, kind)
    if kind == "missing":
        return missing(path)
    if kind == "extra_forbidden" and len(error["loc"]) == 1:
        return unknown(path, known)
    message = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind == "extra_forbidden":
        message = "is not a known field"
    return f"{path}: {message}; given {given_text(error['input'])}"


def _path(location: tuple[int | str, ...], arguments: Mapping[str, object], kind: str) -> str:
    """Where in the arguments the problem is; what pydantic adds for the branch of a union is left out."""
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
    text = to_json(value, fallback=repr, inf_nan_mode="strings").decode()
    return text if len(text) <= MAX_GIVEN else f"{text[: MAX_GIVEN - 3]}..."
