"""`LiveOutput`: answers as Markdown on a terminal while they come, and a spinner during pauses. Needs `rich`.

    printed once          complete lines, and complete blocks of an answer
    -----------------     ------------------------------------------------------------
    redrawn               the block that is being written (its end, if it is longer than the screen), or the last line
    (`rich.live`)         while it is incomplete, or the spinner

Nothing is left out: HTML and link definitions stay as text, an address follows its link, and line breaks are kept.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType
from typing import Self, TextIO

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from agentscope_rx.console.output import STYLES
from agentscope_rx.console.transcript import Piece, TextStyle
from agentscope_rx.errors.text import encodable_in

REFRESHES = 10
"""Redraws per second."""
PAUSE = 0.3
"""Seconds without new text after which the spinner is shown."""


class LiveConsole(RichConsole):
    """A console that shows one thing at a time: `with console` holds its lock, and so does each print.

    Redrawing erases as many lines as were drawn last. `rich` counts these lines and erases them under different locks,
    so that a redraw by another thread in between leaves old lines on the screen, or erases printed ones. `Live` has a
    lock of its own, which is always taken after this one.
    """

    def __init__(self, file: TextIO) -> None:
        super().__init__(file=file, force_terminal=True, no_color=False)
        self._turn = threading.RLock()

    def __enter__(self) -> Self:
        self._turn.acquire()
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._turn.release()


class _Refresher(threading.Thread):
    """Redraws until its end: the thread of `Live` would take its lock before the console's."""

    def __init__(self, console: LiveConsole, live: Live) -> None:
        super().__init__(name="agentscope-rx-console", daemon=True)
        self._console = console
        self._live = live
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(1 / REFRESHES):
            try:
                with self._console:
                    if self._live.is_started:
                        self._live.refresh()
            except (OSError, ValueError):
                # the file is closed: the next write raises the error to the caller
                return

    def end(self) -> None:
        """Stop, and wait for a redraw under way. The caller does not hold the console."""
        self._done.set()
        self.join()


class LiveOutput:
    """Incomplete text is in `_answer` (of an answer) or in `_line` (of other text), never in both."""

    def __init__(self, file: TextIO) -> None:
        self._rich = LiveConsole(file)
        self._file = file
        self._answer = ""
        self._line = Piece(TextStyle.NOTE, "")
        self._blocks = 0
        self._last = 0.0
        self._spinner = Spinner("dots" if encodable_in("\u280b", file) == "\u280b" else "line", style="dim")
        self._live: Live | None = None
        self._refresher: _Refresher | None = None

    def begin(self) -> None:
        """Start to redraw. Idempotent."""
        if self._live is not None:
            return
        self._last = time.monotonic()
        ours = self._file is sys.stdout
        live = Live(
            console=self._rich,
            get_renderable=self._redrawn,
            # see `LiveConsole`
            auto_refresh=False,
            transient=True,
            vertical_overflow="visible",
            # output of tools goes above the redrawn part
            redirect_stdout=ours,
            redirect_stderr=ours and sys.stderr.isatty(),
        )
        with self._rich:
            live.start()
        self._live = live
        self._refresher = _Refresher(self._rich, live)
        self._refresher.start()

    def write(self, pieces: Sequence[Piece]) -> None:
        """Show pieces of text."""
        self.begin()
        with self._rich:
            for piece in pieces:
                text = encodable_in(piece.text, self._file)
                if piece.style is TextStyle.TEXT:
                    self._add_to_answer(text)
                else:
                    self._add_to_line(piece.style, text)
            self._last = time.monotonic()

    def end(self) -> None:
        """Print incomplete text, and stop redrawing."""
        refresher, self._refresher = self._refresher, None
        try:
            with self._rich:
                live, self._live = self._live, None
                self._end_answer()
                self._add_to_line(self._line.style, "\n" if self._line.text else "")
                if live is not None:
                    live.stop()
        finally:
            if refresher is not None:
                refresher.end()

    def _add_to_answer(self, text: str) -> None:
        """Add text of an answer, and print the blocks that are now complete."""
        if self._line.text:
            # end the line before the answer
            self._add_to_line(self._line.style, "\n")
            text = text.removeprefix("\n")
        self._answer += text
        if "\n" not in text:
            return
        *whole, self._answer = _blocks(self._answer)
        self._print(whole)

    def _print(self, blocks: Sequence[str]) -> None:
        for block in blocks:
            if block.strip():
                if self._blocks:
                    self._rich.print()
                self._rich.print(_Block(markdown(block)), end="")
                self._blocks += 1

    def _end_answer(self) -> None:
        answer, self._answer = self._answer, ""
        self._print(_blocks(answer))
        self._blocks = 0

    def _add_to_line(self, style: TextStyle, text: str) -> None:
        """Add other text, and print the lines that are now complete."""
        if self._answer or self._blocks:
            self._end_answer()
        head, end, rest = (self._line.text + text).rpartition("\n")
        self._line = Piece(style, rest)
        if end:
            self._rich.out(f"{head}\n", style=STYLES[style], highlight=False, end="")

    def _redrawn(self) -> RenderableType:
        """The redrawn part: nothing once output has ended, so that no spinner stays."""
        if self._answer.strip():
            between = [Text("")] if self._blocks else []
            return Group(*between, _Block(markdown(self._answer), tail=True))
        if self._line.text:
            return _Block(Text(self._line.text, style=STYLES[self._line.style] or ""), tail=True)
        if self._live is not None and time.monotonic() - self._last >= PAUSE:
            return self._spinner
        return Group()


class _Block:
    """A block without blank lines around it; with `tail` only the end that fits the screen."""

    def __init__(self, whole: RenderableType, *, tail: bool = False) -> None:
        self._whole = whole
        self._tail = tail

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._whole, options, pad=False)
        filled = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
        lines = lines[filled[0] : filled[-1] + 1] if filled else []
        for line in lines[-max(1, options.size.height - 3) :] if self._tail else lines:
            yield from line
            yield Segment.line()


def markdown(text: str) -> Markdown:
    """The text as Markdown, with nothing left out."""
    shown = Markdown(text, hyperlinks=False)
    shown.parsed = _tokens(text)
    return shown


def _blocks(text: str) -> list[str]:
    """The blocks of a text, at least one; the last may be incomplete."""
    lines = text.split("\n")
    starts = [token.map[0] for token in _tokens(text) if token.level == 0 and token.map and token.nesting >= 0]
    bounds = [0, *starts[1:], len(lines)]
    return ["\n".join(lines[begin:end]) for begin, end in pairwise(bounds)]


def _tokens(text: str) -> list[Token]:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")
    tokens = parser.parse(text)
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return tokens
