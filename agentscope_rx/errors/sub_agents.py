"""The error of a sub-agent's declaration in a file."""

from __future__ import annotations

from agentscope_rx.errors.base import InvalidInputError


class SubAgentFileError(InvalidInputError):
    """The file that declares a sub-agent cannot be used; `file` and `line` (None: the whole file) say where.

    `sub_agent` is its name, if known.
    """

    def __init__(self, file: str, problem: str, line: int | None = None, *, sub_agent: str | None = None) -> None:
        where = file if line is None else f"{file}, line {line}"
        super().__init__(f"{where}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem
        self.sub_agent = sub_agent
