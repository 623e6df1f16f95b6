"""Marble diagrams, in reactivex's syntax, as times and elements.

    --a-b-|          'a' after 2 frames, 'b' after 4, completion after 6
    -(a,b)-#         'a' and 'b' after 1 frame, an error after 7: a group advances by all of its characters
    -hello-          an element may have several characters; without '|' or '#' there is no end

Spaces do not count: they align diagrams.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast

from reactivex.notification import Notification, OnNext
from reactivex.observable.marbles import parse

from agentscope_rx.errors import ConfigurationError

_ELEMENT = re.compile(r"[^-,()#|]+")
_GROUP = re.compile(r"\([^()]*\)")


class Marble(NamedTuple):
    """An element or the end of a diagram, and its seconds after the beginning."""

    at: float
    kind: Literal["next", "error", "completed"]
    element: str = ""


def marbles_of(diagram: str, frame: float) -> list[Marble]:
    """The elements and the end of a diagram, in order; `ConfigurationError` if it is none."""
    if not isinstance(diagram, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"A marble diagram is text, such as '--a-b-|', not {diagram!r:.60}.")
    if not frame > 0:
        raise ConfigurationError(f"frame must be a number of seconds above 0, not {frame!r}.")
    text = "".join(diagram.split())
    if set("()") & set(_GROUP.sub("", text)):
        raise ConfigurationError(f"The marble diagram {diagram!r} has a bracket without its other half.")
    try:
        notes = cast("list[tuple[float, Notification[object]]]", parse(text, timespan=frame, raise_stopped=True))
    except ValueError as error:
        raise ConfigurationError(f"{diagram!r} is no marble diagram: {error}") from error
    # by their text: `parse` makes numbers of some
    elements = iter(_ELEMENT.findall(text))
    return [
        Marble(at, "next", next(elements))
        if isinstance(note, OnNext)
        else Marble(at, "completed" if note.kind == "C" else "error")
        for at, note in notes
    ]


def check_elements(diagram: str, marbles: list[Marble], known: set[str]) -> None:
    """`ConfigurationError` for an element that looks like several known ones written without commas."""
    for marble in marbles:
        element = marble.element
        if len(element) > 1 and element not in known and known and set(element) <= known:
            raise ConfigurationError(
                f"{element!r} in the marble diagram {diagram!r} is one element, and no value is given for it. "
                f"Separate several by commas in a group: '({','.join(element)})'."
            )
