"""A timeline on a terminal or in a file: in colours if `rich` is installed, plain otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from agentscope_rx.console.output import is_colorful
from agentscope_rx.console.timeline.drawing import ASCII, UNICODE, Glyphs, Line, Look, timeline_lines
from agentscope_rx.console.timeline.values import Timeline
from agentscope_rx.errors.text import encodable_in

if TYPE_CHECKING:
    from rich.text import Text


def print_timeline(
    timeline: Timeline,
    file: TextIO | None = None,
    *,
    width: int = 100,
    depth: int | None = None,
    color: bool | None = None,
) -> None:
    """Print a timeline on so many columns. With `color=None` there are colours on a terminal, unless NO_COLOR is set.

    On a terminal waits, retries and errors are lines of their own; in a file they end the row of their step.
    """
    to = sys.stdout if file is None else file
    look = Look(width=width, depth=depth, glyphs=glyphs_for(to), notes_below=to.isatty())
    write_lines(timeline_lines(timeline, look), to, is_colorful(to) if color is None else color)


def glyphs_for(file: TextIO) -> Glyphs:
    """The characters of bars that the file's encoding has."""
    whole = "".join(UNICODE)
    return UNICODE if encodable_in(whole, file) == whole else ASCII


def write_lines(lines: Iterable[Line], file: TextIO, color: bool) -> None:
    """Write lines, in colours if that is wanted and `rich` is installed."""
    if color:
        try:
            from rich.console import Console
        except ImportError:
            color = False
        else:
            console = Console(file=file, force_terminal=True, no_color=False)
            for line in lines:
                console.print(as_text(line, file), highlight=False, soft_wrap=True)
            return
    for line in lines:
        file.write(encodable_in(f"{''.join(cell.text for cell in line).rstrip()}\n", file))


def as_text(line: Line, file: TextIO) -> Text:
    """The line for `rich`."""
    from rich.text import Text

    text = Text(no_wrap=True)
    for cell in line:
        # not as markup: what is in brackets stays
        text.append(encodable_in(cell.text, file), cell.style or None)
    text.rstrip()
    return text
