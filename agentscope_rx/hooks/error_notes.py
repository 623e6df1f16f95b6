"""What a hook raises keeps its type, and gets a note that names the hook, the event and the agent.

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


class _Blame(str):
    """A note of ours on an error."""

    __slots__ = ()


def blamed(error: Exception, hook: Hook, kind: type[Event], agent: str, *, unless_known: bool = False) -> Exception:
    """The error, with the note. `unless_known`: it may be that of a hook before this one, which has its note."""
    about = f" on {kind.type} of agent {agent or '(none)'}."
    # one exception object may be raised many times: it tells of the last one only
    notes: list[object] = getattr(error, "__notes__", [])
    ours = [note for note in notes if isinstance(note, _Blame) and note.endswith(about)]
    if ours and unless_known:
        return error
    for note in ours:
        notes.remove(note)
    # an exception that takes no attributes goes without
    with suppress(Exception):
        error.add_note(_Blame(f"Raised by hook {hook.name}{about}"))
    return error


def blaming(
    hook: Hook, kind: type[Event], agent: str, *, unless_known: bool = False
) -> Callable[[Observable[Event]], Flow[Event]]:
    """What a hook's Flow fails with gets the note.

    Signals: the source's.
    Cancels: the source.
    """
    return catch(lambda error: throw(blamed(error, hook, kind, agent, unless_known=unless_known)))
