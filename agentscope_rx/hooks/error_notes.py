"""An error of a hook keeps its type, and gets a note that names the hook, the event and the agent.

ZeroDivisionError: division by zero
Raised by hook audit on post_reasoning of agent Friday.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from reactivex import Observable

from agentscope_rx.events import Event
from agentscope_rx.hooks.base import Hook
from agentscope_rx.reactive import Flow, catch, throw


class _Note(str):
    """A note that this module has added to an error."""

    __slots__ = ()


def add_note(
    error: Exception, hook: Hook, kind: type[Event] | str, agent: str, *, unless_noted: bool = False
) -> Exception:
    """The error with the note. `unless_noted`: an error that has the note of an earlier hook keeps it.

    `kind` is that of the event, or the name of what the hook stands around.
    """
    about = f" on {kind if isinstance(kind, str) else kind.type} of agent {agent or '(none)'}."
    # one exception object may be raised many times: only the last note stays
    notes: list[object] = getattr(error, "__notes__", [])
    ours = [note for note in notes if isinstance(note, _Note) and note.endswith(about)]
    if ours and unless_noted:
        return error
    for note in ours:
        notes.remove(note)
    # an exception without attributes gets no note
    with suppress(Exception):
        error.add_note(_Note(f"Raised by hook {hook.name}{about}"))
    return error


def noting(
    hook: Hook, kind: type[Event], agent: str, *, unless_noted: bool = False
) -> Callable[[Observable[Event]], Flow[Event]]:
    """Adds the note to the error of a hook's Flow.

    Signals: the source's.
    Cancels: the source.
    """
    return catch(lambda error: throw(add_note(error, hook, kind, agent, unless_noted=unless_noted)))
