"""`trace`: a recorded log of events as a timeline: lanes, waits, retries, tokens and costs.

| command                    | does                                                                           |
|----------------------------|--------------------------------------------------------------------------------|
| `trace FILE`               | prints the timeline; `-` reads standard input                                  |
| `trace --follow FILE`      | shows it while the file grows, until its runs have ended                       |
| `trace --events FILE`      | prints a line for each event instead                                           |
| `trace --json FILE`        | prints the timeline as JSON                                                    |
| `trace --svg OUT FILE`     | writes it as a picture, with the events as marbles; `-` is standard output     |

What can be read is shown, also if the log is cut off or has a line that is no event: that is reported behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pydantic import TypeAdapter, ValidationError

from agentscope_rx.agent import Price
from agentscope_rx.cli.event_log import CutOffError, EventFeed, Grown, follow, open_binary, read_pieces
from agentscope_rx.cli.exit_codes import ANSWERED, note
from agentscope_rx.console.output import is_colorful
from agentscope_rx.console.timeline import TimelineFold, timeline_svg
from agentscope_rx.console.timeline.drawing import Look, timeline_lines
from agentscope_rx.console.timeline.event_lines import event_line
from agentscope_rx.console.timeline.printing import as_text, glyphs_for, print_timeline
from agentscope_rx.console.wording import one_line
from agentscope_rx.errors import EventLineError, EventLogError, InvalidInputError
from agentscope_rx.errors.text import encodable_in
from agentscope_rx.events import Event
from agentscope_rx.reactive import concat_map

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from rich.live import Live
    from rich.progress import Progress, TaskID

WIDTH = 100
"""The columns of a file."""
PIXELS = 960
"""The width of a picture."""
LONG = 8 * 1024 * 1024
"""The bytes of a file of which the progress is shown."""
STDIN = "-"


def add_trace(commands: _SubParsersAction[argparse.ArgumentParser], count: Callable[[str], int]) -> None:
    """Add the command to a command line. `count` reads a whole number of at least 1."""
    text = (
        "Show a recorded log of events (of ask --json, record or the service) as a timeline: model and tool calls, "
        "sub-agents, waits, retries, tokens and costs."
    )
    trace = commands.add_parser("trace", help="show a recorded log of events as a timeline", description=text)
    trace.add_argument("log", metavar="FILE", help="a log of events; '-' is standard input")
    trace.add_argument("-f", "--follow", action="store_true", help="show what is written, until the runs have ended")
    trace.add_argument("--run", metavar="ID", help="only this run; the beginning of its id is enough")
    trace.add_argument(
        "--depth", metavar="N", type=count, help="1 shows runs, 2 their rounds, 3 calls, 4 sub-agents' runs, ... (all)"
    )
    trace.add_argument(
        "--width", metavar="N", type=count, help=f"the columns (those of the terminal, or {WIDTH}); pixels of an SVG"
    )
    trace.add_argument(
        "--prices",
        metavar="FILE",
        help='costs by this JSON, for a million tokens: {"gpt-5-mini": {"input": 0.25, "output": 2.0}}',
    )
    form = trace.add_mutually_exclusive_group()
    form.add_argument("--events", action="store_true", help="print a line for each event instead")
    form.add_argument("--json", action="store_true", help="print the timeline as JSON")
    form.add_argument("--svg", metavar="OUT", help="write the timeline as an SVG picture instead; '-' prints it")


def trace(flags: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    fold = TimelineFold(prices=_prices(flags.prices), run=flags.run)
    name: str = "standard input" if flags.log == STDIN else flags.log
    view = _view_of(flags, fold, sys.stdout)
    feed = EventFeed(name)
    failure: EventLogError | None = None
    try:
        try:
            if flags.log == STDIN:
                for data in read_pieces(sys.stdin.buffer, name):
                    view.take(feed.feed(data))
            elif flags.follow:
                _follow(flags.log, feed, view, fold)
            else:
                _read(flags.log, feed, view)
            view.take(feed.end())
        except CutOffError as error:
            note(f"{one_line(str(error))}.")
        except EventLineError as error:
            if not fold.events:
                raise InvalidInputError(f"{name} is not a log of events. {error}") from error
            failure = error
        except EventLogError as error:
            failure = error
        _check(fold, flags.run, name)
    finally:
        # also after Ctrl-C: what is known so far
        view.end()
    if failure is not None:
        raise failure
    return ANSWERED


def _check(fold: TimelineFold, run: str | None, name: str) -> None:
    """`InvalidInputError` if there is nothing to show."""
    if fold.events:
        return
    if run is None or not fold.runs:
        raise InvalidInputError(f"There are no events in {name}. With --follow, trace waits for them.")
    near = difflib.get_close_matches(run, fold.runs, 5, 0.3) or list(fold.runs)[:5]
    known = ", ".join(f"{one_line(each)} ({one_line(fold.runs[each])})" for each in near)
    raise InvalidInputError(f"There is no run {run!r} in {name}. It has {len(fold.runs)}, such as {known}.")


def _prices(path: str | None) -> Mapping[str, Price] | None:
    if path is None:
        return None
    try:
        return TypeAdapter(dict[str, Price]).validate_json(Path(path).read_bytes())
    except OSError as error:
        raise InvalidInputError(f"--prices {path} cannot be read: {error.strerror or error}.") from error
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise InvalidInputError(
            f'--prices {path} must have the form {{"model": {{"input": 0.25, "output": 2.0}}}}: '
            f"{f'{where}: ' if where else ''}{fault['msg']}."
        ) from error


# --- reading ----------------------------------------------------------------------------------------------------------


def _read(path: str, feed: EventFeed, view: _View) -> None:
    with open_binary(path) as file, _progress(os.fstat(file.fileno()).st_size) as advance:
        for data in read_pieces(file, path):
            view.take(feed.feed(data))
            advance(len(data))


@contextlib.contextmanager
def _progress(size: int) -> Generator[Callable[[int], None]]:
    """Shows on a terminal how much of a long file was read."""
    shown: tuple[Progress, TaskID] | None = None
    if size >= LONG and sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from rich.console import Console
            from rich.progress import Progress

            progress = Progress(console=Console(stderr=True), transient=True)
            shown = progress, progress.add_task("reading", total=size)
    if shown is None:
        yield lambda count: None
        return
    with shown[0]:
        yield lambda count: shown[0].advance(shown[1], count)


def _follow(path: str, feed: EventFeed, view: _View, fold: TimelineFold) -> None:
    def take(grown: Grown) -> Grown:
        if grown.note:
            cut_off = feed.begin_again()
            note(f"{grown.note}{', after a line that was cut off' if cut_off else ''}")
        view.take(feed.feed(grown.data))
        return grown

    follow(path, lambda: fold.ended).pipe(concat_map(take)).run()


# --- views ------------------------------------------------------------------------------------------------------------


def _view_of(flags: argparse.Namespace, fold: TimelineFold, file: TextIO) -> _View:
    if flags.svg is not None:
        if flags.svg != STDIN and _is_the_same(flags.svg, flags.log):
            raise InvalidInputError(f"--svg {flags.svg} would replace the log. Give the picture a name of its own.")
        return _Picture(fold, file, flags.svg, flags.width or PIXELS, flags.depth)
    width: int = flags.width or shutil.get_terminal_size((WIDTH, 24)).columns
    if flags.json:
        return _View(fold, file)
    if flags.events:
        return _EventLines(fold, file)
    if flags.follow:
        if is_colorful(file):
            with contextlib.suppress(ImportError):
                return _LiveTimeline(fold, file, width, flags.depth)
        return _EventLines(fold, file, _Timeline(fold, file, width, flags.depth))
    return _Timeline(fold, file, width, flags.depth)


def _is_the_same(one: str, other: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return False


class _View:
    """Prints the timeline as JSON at the end; the base of the others."""

    def __init__(self, fold: TimelineFold, file: TextIO) -> None:
        self._fold = fold
        self._file = file

    def take(self, events: Iterator[Event]) -> None:
        """Account for the next events."""
        for event in events:
            before = self._fold.events
            self._fold.add(event)
            if self._fold.events > before:
                self.show(event)
        self.refresh()

    def show(self, event: Event) -> None:
        """Show an event that is chosen."""

    def refresh(self) -> None:
        """Show what has come so far."""

    def end(self) -> None:
        """Show the outcome. Called once."""
        if self._fold.events:
            print(json.dumps(self._fold.timeline.to_dict(), indent=2), file=self._file)


class _Timeline(_View):
    def __init__(self, fold: TimelineFold, file: TextIO, width: int, depth: int | None) -> None:
        super().__init__(fold, file)
        self._width = width
        self._depth = depth

    def end(self) -> None:
        if self._fold.events:
            print_timeline(self._fold.timeline, self._file, width=self._width, depth=self._depth)


class _Picture(_View):
    """Writes the timeline as an SVG picture at the end."""

    def __init__(self, fold: TimelineFold, file: TextIO, path: str, width: int, depth: int | None) -> None:
        super().__init__(fold, file)
        if path != STDIN and not Path(path).absolute().parent.is_dir():
            raise InvalidInputError(f"--svg {path} cannot be written: there is no folder {Path(path).parent}.")
        # a wrong width is reported before the log is read
        timeline_svg(fold.timeline, width=width)
        self._path = path
        self._width = width
        self._depth = depth

    def end(self) -> None:
        if not self._fold.events:
            return
        picture = timeline_svg(self._fold.timeline, width=self._width, depth=self._depth)
        if self._path == STDIN:
            self._file.write(encodable_in(picture, self._file))
            return
        try:
            Path(self._path).write_text(picture, encoding="utf-8", newline="\n")
        except OSError as error:
            raise InvalidInputError(f"--svg {self._path} cannot be written: {error.strerror or error}.") from error


class _EventLines(_View):
    """Prints each event when it comes, and at the end what `then` prints."""

    def __init__(self, fold: TimelineFold, file: TextIO, then: _View | None = None) -> None:
        super().__init__(fold, file)
        self._began: float | None = None
        self._then = then

    def show(self, event: Event) -> None:
        if self._began is None:
            self._began = event.timestamp
        self._file.write(encodable_in(f"{event_line(event, self._began)}\n", self._file))

    def refresh(self) -> None:
        self._file.flush()

    def end(self) -> None:
        if self._then is not None and self._fold.events:
            print(file=self._file)
            self._then.end()


class _LiveTimeline(_Timeline):
    """Redraws the end of the timeline that fits the screen; the whole of it at the end. Needs `rich`."""

    def __init__(self, fold: TimelineFold, file: TextIO, width: int, depth: int | None) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(fold, file, width, depth)
        self._console = Console(file=file, force_terminal=True, no_color=False, width=width)
        # without a thread of its own: it redraws when something has come
        self._live: Live = Live(console=self._console, auto_refresh=False, transient=True)
        self._drawn = -1

    def refresh(self) -> None:
        from rich.console import Group

        if self._fold.events == self._drawn:
            return
        if self._drawn < 0:
            self._live.start()
        self._drawn = self._fold.events
        look = Look(width=self._width, depth=self._depth, glyphs=glyphs_for(self._file), notes_below=True)
        lines = list(timeline_lines(self._fold.timeline, look))[-(self._console.height - 1) :]
        self._live.update(Group(*(as_text(line, self._file) for line in lines)), refresh=True)

    def end(self) -> None:
        self._live.stop()
        super().end()
