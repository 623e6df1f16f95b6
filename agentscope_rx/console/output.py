"""The outputs of a console: plain text to a file; in colours or live on a terminal, if `rich` is installed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from agentscope_rx.console.transcript import Piece, TextStyle
from agentscope_rx.errors.text import encodable_in

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


class ConsoleOutput(Protocol):
    """The output of a console."""

    def begin(self) -> None:
        """Prepare for text. May be called again, also after `end`."""
        ...

    def write(self, pieces: Sequence[Piece]) -> None: ...

    def end(self) -> None:
        """No text follows. May be called again."""
        ...


def output_to(file: TextIO, color: bool | None, *, live: bool = False) -> ConsoleOutput:
    """The output for a file; `color` None decides by the file and the environment, True means colours if possible.

    `live` needs colours: see `LiveOutput`.
    """
    wanted = is_colorful(file) if color is None else color
    if wanted:
        try:
            from rich.console import Console as RichConsole
        except ImportError:
            return PlainOutput(file)
        if live:
            from agentscope_rx.console.live import LiveOutput

            return LiveOutput(file)
        return RichOutput(RichConsole(file=file, force_terminal=True, no_color=False), file)
    return PlainOutput(file)


class PlainOutput:
    """Plain text."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, pieces: Sequence[Piece]) -> None:
        """Write and flush."""
        self._file.write(encodable_in("".join(piece.text for piece in pieces), self._file))
        self._file.flush()

    def begin(self) -> None:
        """Nothing to do."""

    def end(self) -> None:
        """Nothing to do."""


class RichOutput:
    """The same text in colours: `rich` is used for styles only, not for markup, highlighting or wrapping."""

    def __init__(self, rich: RichConsole, file: TextIO) -> None:
        self._rich = rich
        self._file = file

    def write(self, pieces: Sequence[Piece]) -> None:
        """Write and flush."""
        for piece in pieces:
            self._rich.out(encodable_in(piece.text, self._file), style=STYLES[piece.style], highlight=False, end="")
        self._file.flush()

    def begin(self) -> None:
        """Nothing to do."""

    def end(self) -> None:
        """Nothing to do."""


STYLES = {
    TextStyle.TEXT: None,
    TextStyle.LABELLED: None,
    TextStyle.THINKING: "dim italic",
    TextStyle.CALL: "cyan",
    TextStyle.PROGRESS: "dim cyan",
    TextStyle.RESULT: "dim",
    TextStyle.FAILURE: "red",
    TextStyle.NOTE: "yellow",
    TextStyle.ERROR: "bold red",
    TextStyle.SUMMARY: "dim",
}


def is_colorful(file: TextIO) -> bool:
    """True for a terminal, unless the environment asks for no colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return file.isatty()
