"""Errors of front matter and of skills."""

from __future__ import annotations

from agentscope_rx.errors.base import InvalidInputError


class FrontMatterError(InvalidInputError):
    """The front matter of a Markdown file cannot be used; `file` and `line` (None: the whole file) say where."""

    def __init__(self, file: str, problem: str, line: int | None = None) -> None:
        where = file if line is None else f"{file}, line {line}"
        super().__init__(f"{where}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


class SkillError(InvalidInputError):
    """A skill cannot be read, saved or imported; `file` and `line` (None: the whole file) say where.

    `skill` is its name, if known.
    """

    def __init__(self, file: str, problem: str, line: int | None = None, *, skill: str | None = None) -> None:
        where = file if line is None else f"{file}, line {line}"
        super().__init__(f"{where}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem
        self.skill = skill
