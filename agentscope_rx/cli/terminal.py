"""`Terminal`: asks a person: writes questions and reads lines.

| input                         | result                                                                  |
|-------------------------------|-------------------------------------------------------------------------|
| a line                        | a turn                                                                  |
| several lines, pasted at once | one turn                                                                |
| Ctrl-C after some characters  | the line is cleared                                                     |
| Ctrl-C on an empty line       | `KeyboardInterrupt` (without GNU readline: the second one in a row)     |
| Ctrl-D                        | `EOFError`                                                              |

Lines are edited with readline if both stdin and stdout are the terminal. If stdin is a pipe, as in
`cat file | agentscope-rx ask ...`, the person is asked at the controlling terminal.
"""

from __future__ import annotations

import contextlib
import select
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import TextIO

PROMPT = "> "
CONTINUED = ". "
PASTE_SECONDS = 0.05
"""The time for the next line of a paste, at terminals that do not mark pastes."""


class Terminal:
    """Asks a person; `source` and `sink` are the terminal. With `edits` lines are edited with readline, on stdin."""

    def __init__(self, source: TextIO, sink: TextIO, *, edits: bool = False) -> None:
        self._source = source
        self._sink = sink
        self._readline = _readline() if edits else None
        self._edits = edits

    @classmethod
    def found(cls, *, prompt_apart: bool = False) -> Terminal | None:
        """The terminal of this process, None without one. `prompt_apart` keeps prompts out of stdout."""
        if sys.stdin.isatty():
            return cls(sys.stdin, sys.stderr, edits=not prompt_apart and sys.stdout.isatty())
        if not sys.stderr.isatty():
            # a question could not be seen
            return None
        try:
            return cls(open("/dev/tty", errors="replace"), sys.stderr)
        except OSError:
            return None

    def turn(self) -> str:
        """The next turn of the person: a line, or all lines of a paste."""
        lines: list[str] = []
        warned = False
        while True:
            with self._half_typed() as typed:
                try:
                    lines.append(self.line(CONTINUED if lines else PROMPT))
                    while self._more():
                        lines.append(self.line(CONTINUED))
                    return "\n".join(lines)
                except EOFError:
                    if not lines:
                        raise
                    return "\n".join(lines)
                except KeyboardInterrupt:
                    self.say("\n")
                    if not (lines or any(typed) or (self._readline is None and not warned)):
                        raise
                    # without readline it is unknown if the line had characters
                    warned = not (lines or any(typed))
                    lines.clear()

    def line(self, prompt: str, prefill: str = "") -> str:
        """One line without its end; with readline `prefill` can be edited. `EOFError` at the end of input."""
        if self._edits:
            return self._edited(prompt, prefill)
        self.say(prompt)
        line = self._source.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    @property
    def edits(self) -> bool:
        """True if a prefilled line can be edited."""
        return self._readline is not None

    def say(self, text: str) -> None:
        """Write text at once."""
        self._sink.write(text)
        self._sink.flush()

    def close(self) -> None:
        """Close the terminal if it was opened here."""
        if self._source is not sys.stdin:
            self._source.close()

    def discard_typed(self) -> None:
        """Discard text that was typed before the question was shown."""
        with contextlib.suppress(ImportError, OSError, ValueError):
            import termios

            termios.tcflush(self._source.fileno(), termios.TCIFLUSH)

    def _edited(self, prompt: str, prefill: str) -> str:
        if self._readline is None or not prefill:
            return input(prompt)
        readline = self._readline
        readline.set_startup_hook(lambda: readline.insert_text(prefill))
        try:
            return input(prompt)
        finally:
            readline.set_startup_hook(None)

    def _more(self) -> bool:
        try:
            ready, _, _ = select.select([self._source], [], [], PASTE_SECONDS)
        except (OSError, ValueError):
            return False
        return bool(ready)

    @contextmanager
    def _half_typed(self) -> Generator[list[str]]:
        """Inside, Ctrl-C notes the text of the line before it raises."""
        typed: list[str] = []
        if threading.current_thread() is not threading.main_thread():
            yield typed
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self._readline is not None:
                typed.append(self._readline.get_line_buffer())
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, note)
        try:
            yield typed
        finally:
            signal.signal(signal.SIGINT, before)


def _readline() -> ModuleType | None:
    """GNU readline or libedit, with bracketed paste, so that a paste is one piece; None without one."""
    try:
        import readline
    except ImportError:
        return None
    if "libedit" not in (readline.__doc__ or ""):
        # Python disables it for its own prompt
        readline.parse_and_bind("set enable-bracketed-paste on")
    return readline
