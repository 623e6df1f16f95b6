"""Where pieces of text go: a file; on a terminal in colours, or live, if `rich` is there; else the same words plain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from agentscope_rx.console.transcript import Piece, Style
from agentscope_rx.errors.text import encodable_in

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


class Output(Protocol):
    """What a console writes to."""

    def begin(self) -> None:
        """Something is to come. May be called again, also after the end."""
        ...

    def write(self, pieces: Sequence[Piece]) -> None: ...

    def end(self) -> None:
        """Nothing follows. May be called again."""
        ...


def output_to(file: TextIO, color: bool | None, *, live: bool = False) -> Output:
    """The output for a file; `color` None asks the file and the environment, True wants colours if possible.

    `live` where there are colours: see `LiveOutput`.
    """
    wanted = _is_colorful(file) if color is None else color
    if wanted:
        try:
            from rich.console import Console as RichConsole
        except ImportError:
            return PlainOutput(file)
        rich = RichConsole(file=file, force_terminal=True, no_color=False)
        if live:
            from agentscope_rx.console.live import LiveOutput

            return LiveOutput(rich, file)
        return RichOutput(rich, file)
    return PlainOutput(file)


class PlainOutput:
    """The words alone."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, pieces: Sequence[Piece]) -> None:
        """Write and flush: what has come is to be seen."""
        self._file.write(encodable_in("".join(piece.text for piece in pieces), self._file))
        self._file.flush()

    def begin(self) -> None:
        """Nothing to do."""

    def end(self) -> None:
        """Nothing to do."""


class RichOutput:
    """The same words in colours: `rich` is asked for styles only, never for markup, highlighting or wrapping."""

    def __init__(self, rich: RichConsole, file: TextIO) -> None:
        self._rich = rich
        self._file = file

    def write(self, pieces: Sequence[Piece]) -> None:
        """Write and flush: what has come is to be seen."""
        for piece in pieces:
            self._rich.out(encodable_in(piece.text, self._file), style=STYLES[piece.style], highlight=False, end="")
        self._file.flush()

    def begin(self) -> None:
        """Nothing to do."""

    def end(self) -> None:
        """Nothing to do."""


STYLES = {
    Style.TEXT: None,
    Style.LABELLED: None,
    Style.THINKING: "dim italic",
    Style.CALL: "cyan",
    Style.PROGRESS: "dim cyan",
    Style.RESULT: "dim",
    Style.FAILURE: "red",
    Style.NOTE: "yellow",
    Style.ERROR: "bold red",
    Style.SUMMARY: "dim",
}


def _is_colorful(file: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return file.isatty()
