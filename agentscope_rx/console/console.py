"""`Console`: an Observer that shows the events of a run on a terminal or in a file.

    agent.stream("hi").subscribe(Console())                  # while the program goes on
    reply = print_run(agent.stream("hi"))                    # a script: block, show, get the reply
    agent.stream("hi").pipe(Console().show, ...)             # as an operator, before other observers

Colours need the package `rich` and a terminal; without either the same text is plain. An event cannot fail the run by
its content: control characters are shown as escapes, and an event that cannot be shown is replaced by a note. Only a
file that cannot be written to (a closed pipe) is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TextIO, TypeVar

from reactivex import Observable, abc

from agentscope_rx.console.output import ConsoleOutput, output_to
from agentscope_rx.console.transcript import Piece, TextStyle, Transcript
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import Event, PostCallEvent
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, catch, concat, concat_map, defer, empty, throw

E = TypeVar("E", bound=Event)


class Console(abc.ObserverBase[Event]):
    """An observer that writes each event of a run as it comes. It may show many runs, in turn or at once.

    | option | meaning |
    |---|---|
    | `file` | where it writes; None: stdout |
    | `color` | None: colours on a terminal, unless NO_COLOR is set (needs `rich`, extra `cli`) |
    | `thinking` | False: without the model's reasoning |
    | `errors` | False: without the line with the error of a run |
    | `result_lines` | lines of a tool's result that are shown |
    | `live` | True: answers as Markdown and a spinner during pauses, if there are colours; call `finish` at the end |
    """

    def __init__(
        self,
        file: TextIO | None = None,
        *,
        color: bool | None = None,
        thinking: bool = True,
        errors: bool = True,
        result_lines: int = 6,
        live: bool = False,
    ) -> None:
        self._output: ConsoleOutput = output_to(file if file is not None else sys.stdout, color, live=live)
        self._transcript = Transcript(thinking=thinking, errors=errors, result_lines=result_lines)

    def on_next(self, value: Event) -> None:
        """Show one event."""
        self._show(lambda: self._transcript.feed(value), type(value).__name__)

    def on_error(self, error: Exception) -> None:
        """Show the error of the run, unless an event has shown it."""
        self._show(lambda: self._transcript.failed(error), type(error).__name__)
        self._output.end()

    def on_completed(self) -> None:
        """Finish."""
        self.finish()

    def finish(self) -> None:
        """End an incomplete line, such as that of a disposed run. Idempotent."""
        self._show(self._transcript.over, "the end")
        self._output.end()

    def show(self, events: Observable[E]) -> Flow[E]:
        """Show the events that pass through, as an operator: `stream.pipe(console.show)`.

        Signals: those of the source, each after it has been shown.
        Cancels: the source; a line that is not complete stays (see `finish`).
        """

        def begin() -> Flow[E]:
            self._output.begin()
            return empty()

        def write(event: E) -> E:
            self.on_next(event)
            return event

        def complete() -> Flow[E]:
            self.on_completed()
            return empty()

        def fail(error: Exception) -> Flow[E]:
            self.on_error(error)
            return throw(error)

        return concat(defer(begin), events.pipe(concat_map(write)), defer(complete)).pipe(catch(fail))

    def _show(self, render: Callable[[], Iterable[Piece]], what: str) -> None:
        try:
            pieces = list(render())
        except Exception as error:
            # an event with unusual values, from a hook, must not fail the run
            pieces = [Piece(TextStyle.NOTE, f"\n!! {what} could not be shown: {type(error).__name__}\n")]
        if pieces:
            self._output.write(pieces)


def print_run(events: Observable[Event], console: Console | None = None) -> Msg:
    """Run a stream to its end on this thread, show it, and return the reply; raises the error of the run.

    Ctrl-C disposes the run. Like `Flow.run`, it needs a thread without a running loop.
    """
    shown = console or Console()
    try:
        last = shown.show(events).run()
    finally:
        shown.finish()
    if not isinstance(last, PostCallEvent):
        raise InvalidInputError(
            "print_run takes the stream of a whole run: its last event is a PostCallEvent, "
            "which StreamOptions(kinds=...) must include."
        )
    return last.message
