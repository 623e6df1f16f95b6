"""`Console`: shows a run on a terminal or in a file; it is an Observer that any stream of events can be given.

    agent.stream("hi").subscribe(Console())                  # beside a program that goes on
    reply = print_run(agent.stream("hi"))                    # a script: block, show, get the reply
    agent.stream("hi").pipe(Console().show, ...)             # as an operator: shown on its way to others

Colours need the package `rich` and a terminal; without either the same words come as plain text. What the run says can
never fail the run: control characters are shown, not obeyed, and what cannot be shown is said to be so. Only a file
that can no longer be written to (a closed pipe) is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TextIO, TypeVar

from reactivex import Observable, abc

from agentscope_rx.console.output import Output, output_to
from agentscope_rx.console.transcript import Piece, Style, Transcript
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import Event, PostCallEvent
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, catch, concat, concat_map, defer, empty, throw

E = TypeVar("E", bound=Event)


class Console(abc.ObserverBase[Event]):
    """Writes each event as it comes. One console may show many runs, one after the other or at once.

    `file` is stdout unless given. `color` None: if it is a terminal and NO_COLOR is not set. `thinking=False` leaves
    the model's reasoning out, `errors=False` the line about what a run failed with; `result_lines` bounds what is
    shown of a tool's result. `live=True` shows answers as Markdown, and a spinner while nothing comes, where there are
    colours; call `finish` at the end then.
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
        self._output: Output = output_to(file if file is not None else sys.stdout, color, live=live)
        self._transcript = Transcript(thinking=thinking, errors=errors, result_lines=result_lines)

    def on_next(self, value: Event) -> None:
        """Show one event."""
        self._show(lambda: self._transcript.feed(value), type(value).__name__)

    def on_error(self, error: Exception) -> None:
        """Show what the run failed with, if its events have not said so."""
        self._show(lambda: self._transcript.failed(error), type(error).__name__)
        self._output.end()

    def on_completed(self) -> None:
        """Nothing follows."""
        self.finish()

    def finish(self) -> None:
        """End a line that is half written, as a run that was disposed leaves it. Idempotent."""
        self._show(self._transcript.over, "the end")
        self._output.end()

    def show(self, events: Observable[E]) -> Flow[E]:
        """Shows what passes through, as an operator: `stream.pipe(console.show)`.

        Signals: those of the source, each after it has been shown.
        Cancels: the source; a half-written line stays (see `finish`).
        """

        def begun() -> Flow[E]:
            self._output.begin()
            return empty()

        def seen(event: E) -> E:
            self.on_next(event)
            return event

        def completed() -> Flow[E]:
            self.on_completed()
            return empty()

        def failed(error: Exception) -> Flow[E]:
            self.on_error(error)
            return throw(error)

        return concat(defer(begun), events.pipe(concat_map(seen)), defer(completed)).pipe(catch(failed))

    def _show(self, say: Callable[[], Iterable[Piece]], what: str) -> None:
        try:
            pieces = list(say())
        except Exception as error:
            # a hook's odd values: the run must not suffer from not being shown
            pieces = [Piece(Style.NOTE, f"\n!! {what} could not be shown: {type(error).__name__}\n")]
        if pieces:
            self._output.write(pieces)


def print_run(events: Observable[Event], console: Console | None = None) -> Msg:
    """Runs a stream to its end on this thread, shows it, and returns the reply; raises what the run failed with.

    Ctrl-C disposes the run. For threads without a running loop, as `Flow.run`.
    """
    shown = console or Console()
    try:
        last = shown.show(events).run()
    finally:
        shown.finish()
    if not isinstance(last, PostCallEvent):
        raise InvalidInputError(
            "print_run takes the stream of a whole run: its last event is a PostCallEvent, "
            "which StreamOptions(kinds=...) has to name."
        )
    return last.message
