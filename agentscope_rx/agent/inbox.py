"""`Inbox`: the messages that a live run was given and has not remembered yet.

    put(.., "next_round")   due before the next model call of the run, however the run came there
    put(.., "idle")         due when the run would end normally, one input at a time: it goes on with another round

Input of the same kind is taken in the order of `put`. "next_round" passes "idle". An input leaves the inbox when memory
has it, so none is lost between the two: what a run could not take is in `unread`. A closed inbox refuses input.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.input import CallInput, enqueued_messages
from agentscope_rx.errors import InboxFullError, InvalidInputError, RunEndedError
from agentscope_rx.messages import Msg
from agentscope_rx.reactive.kernel.forking import new_lock

When = Literal["next_round", "idle"]
"""The moment at which a run takes an input: before its next model call, or instead of its normal end."""

MAX_INPUTS = 100
"""The number of inputs that may wait in one inbox."""

# one for all inboxes: each holds it for a few instructions
_LOCK = new_lock()


@dataclass(slots=True, eq=False)
class QueuedInput:
    """One input that waits; `due` once the next round takes it. `job`: it is the end of this work, as a message."""

    messages: tuple[Msg, ...]
    when: When
    due: bool
    job: Job | None = None


class Inbox:
    """The waiting input of one run. `put`, `unread` and `closed` may be used from any thread."""

    __slots__ = ("_agent", "_loop", "closed", "items", "on_put", "run_id")

    def __init__(self, agent: str, run_id: str, loop: AbstractEventLoop) -> None:
        self._agent = agent
        self.run_id: str = run_id
        self._loop = loop
        self.items: tuple[QueuedInput, ...] = ()
        """The inputs that wait, in order; replaced at each change."""
        self.closed: bool = False
        """True once the run takes no more input."""
        self.on_put: Callable[[], object] | None = None
        """Called with each new input, on the thread that gives it."""

    def put(self, messages: CallInput, when: When = "next_round") -> None:
        """Add an input: a str, a Msg, or a list of Msg.

        `InvalidInputError` for anything else, `RunEndedError` if the run has ended or is about to, `InboxFullError` if
        `MAX_INPUTS` wait already.
        """
        if cast("object", when) not in ("next_round", "idle"):
            raise InvalidInputError(f"when must be 'next_round' or 'idle', not {when!r:.60}.")
        queued = QueuedInput(enqueued_messages(messages), when, when == "next_round")
        with _LOCK:
            if self.closed or self._loop.is_closed():
                raise RunEndedError(self._agent, self.run_id)
            if sum(item.job is None for item in self.items) >= MAX_INPUTS:
                raise InboxFullError(self._agent, self.run_id, MAX_INPUTS)
            self.items = (*self.items, queued)
            on_put = self.on_put
        if on_put is not None:
            on_put()

    def put_end(self, job: Job) -> bool:
        """Add the end of work in the background, for the next round; False if the run takes no more input."""
        with _LOCK:
            if self.closed:
                return False
            self.items = (*self.items, QueuedInput((), "next_round", True, job))
            on_put = self.on_put
        if on_put is not None:
            on_put()
        return True

    @property
    def unread(self) -> tuple[Msg, ...]:
        """The messages that memory does not have, in order; after the end of the run the ones left over."""
        with _LOCK:
            return tuple(message for queued in self.items for message in queued.messages)

    # --- for the run ----------------------------------------------------------------------------------------------

    def due(self) -> tuple[QueuedInput, ...]:
        """The inputs that the next round takes, in order."""
        with _LOCK:
            return tuple(queued for queued in self.items if queued.due)

    def taken(self, queued: QueuedInput) -> None:
        """Memory has this input."""
        with _LOCK:
            self.items = tuple(item for item in self.items if item is not queued)

    def at_end(self) -> bool:
        """True if an input is due where the run would end; else the inbox is closed, in the same moment.

        Without input for the next round the first "idle" one is due now.
        """
        with _LOCK:
            if not self.items:
                self.closed = True
                return False
            if not any(queued.due for queued in self.items):
                self.items[0].due = True
            return True

    def close(self) -> None:
        """Refuse further input; what waits stays in `unread`."""
        with _LOCK:
            self.closed = True
