"""Catch what would be logged: the errors that no subscriber could hear of any more."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from agentscope_rx.reactive.kernel import dropped


class DroppedErrors(list[BaseException]):
    """The errors, in order; `where` says for each in what it was dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.where: list[str] = []


@contextmanager
def collect_dropped() -> Generator[DroppedErrors]:
    """Gives the errors dropped inside the block, in place of whoever else would hear of them."""
    errors = DroppedErrors()

    def note(error: BaseException, where: str) -> None:
        errors.append(error)
        errors.where.append(where)

    before = dropped._handler
    dropped.on_dropped(note)
    try:
        yield errors
    finally:
        dropped.on_dropped(before)
