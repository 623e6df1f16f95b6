"""`Job`: one tool call that may go on in the background, subscribed to once.

    the call     --a--b--c--d--e--result|
    foreground   --a--b--handle|              until it is promoted
    the run               --c--d--            its `feed`, while a run is in progress
    the model                  [b, c, d]      what it reads with a tool

The items are kept in a bounded log. A run with a slow reader slows the call; while no run is in progress, the log keeps
the last items. The loop holds a job until it has ended, as it holds a run that was started without a subscriber.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal
from uuid import uuid4

from agentscope_rx.events import EventSource
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow, OneShotEvent, Scope, SourceCancelledError, from_callable, just, on_loop, then
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.kernel.runtime import runtime
from agentscope_rx.reactive.log_readers import LogFollower
from agentscope_rx.reactive.replay_log import ReplayLog
from agentscope_rx.tools import Tool, ToolChunk, ToolEvent
from agentscope_rx.tools.calls.shown_values import Shown

KEPT_ITEMS = 256
"""How many items of a job are kept."""
KEPT_MAIL = 100
"""How many messages to a job are kept for its tool."""
KEPT_BYTES = 256 * 1024
"""The size of the items that are kept of a job."""

WorkState = Literal["running", "completed", "failed", "stopped", "in_doubt"]
"""How far a job is. "failed": its result is an error."""

STOPPED = "The work in the background was stopped before it had ended."
CANNOT_WAIT = (
    "This call waits for an approval or for a result from outside. In the background it cannot: call the tool again in "
    "the foreground, or do without."
)


class Job:
    """A tool call that may go on in the background. `state` is None while it is in the foreground."""

    __slots__ = (
        "__weakref__",
        "_on_end",
        "began",
        "call",
        "cut",
        "ended_at",
        "held",
        "host",
        "id",
        "log",
        "mail",
        "read_at",
        "result",
        "shown_to",
        "source",
        "state",
        "told",
        "values",
    )

    def __init__(
        self, call: ToolUseBlock, source: EventSource, began: float, id: str | None = None, tool: Tool | None = None
    ) -> None:
        self.id: str = uuid4().hex[:8] if id is None else id
        self.call: ToolUseBlock = call
        self.source: EventSource = source
        """The run that has begun it."""
        self.state: WorkState | None = None
        self.result: ToolResultBlock | None = None
        self.log: ReplayLog[ToolEvent] = ReplayLog(
            KEPT_ITEMS, size_of=_size, max_bytes=KEPT_BYTES, where=f"a call of {call.name!r}"
        )
        self.began: float = began
        self.ended_at: float | None = None
        self.shown_to: int = 0
        """The number of the first item that no run has taken up."""
        self.held: tuple[int, ...] = ()
        """The numbers of those before it that were in a chunk hook when the run ended: the next run shows them."""
        self.values: Shown = Shown(tool)
        """The values that have been shown, in the foreground and by runs."""
        self.read_at: int = 0
        """The number of the first item that the model has not read."""
        self.told: bool = False
        """True once a run has shown that it has ended."""
        self.mail: ReplayLog[str] | None = None
        """The messages to the call, if its tool reads them."""
        self.cut: OneShotEvent = OneShotEvent()
        """Ends the wait for the limits of the tool."""
        self._on_end: Callable[[Job], object] | None = None
        self.host: object = None
        """The run that has begun it in this process, until it ends."""

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.call.name} {self.call.id}, {self.state or 'in the foreground'}>"

    @property
    def running(self) -> bool:
        """True if it is in the background and has not ended."""
        return self.state == "running" and not self.log.scope.loop.is_closed()

    @property
    def has_more_to_show(self) -> bool:
        """True if it has an end, or items, that no run has shown."""
        return not self.told or bool(self.held) or self.shown_to < self.log.end

    @property
    def elapsed(self) -> float:
        """The seconds from its beginning to its end, or to now."""
        return (self.log.scope.loop.time() if self.ended_at is None else self.ended_at) - self.began

    def open(self, items: Flow[ToolEvent], scope: Scope) -> None:
        """Begin the call in the context of this scope. In the foreground it ends when its only reader leaves."""
        self.log.scope.context = scope.context.copy()
        self.log.on_readers = self._readers
        self.log.open(items)

    def detach(self, ended: Callable[[Job], object]) -> None:
        """It goes on in the background; `ended` is called at its end."""
        self.state = "running"
        self.log.on_readers = None
        self._on_end = ended
        runtime().keep(self)
        self.log.ended.listen(self._ended)

    def stop(self) -> None:
        """Stop it, from any thread: its state is `stopped` at once, its clean-up follows. Idempotent."""
        scope = self.log.scope
        if scope.is_here():
            self._stop()
        else:
            scope.call_from_thread(self._stop)

    def idle(self) -> Flow[None]:
        """One None when it has ended and is cleaned up."""
        work = from_callable(self.log.idle).pipe(then(lambda: just(None)))
        return on_loop(work, self.log.scope.loop)

    @classmethod
    def ended(cls, call: ToolUseBlock, source: EventSource, began: float, id: str, state: WorkState) -> Job:
        """A job of an earlier process, which has ended. It has no output."""
        job = cls(call, source, began, id)
        job.state = state
        job.log.dispose()
        job.ended_at = job.log.scope.loop.time()
        return job

    def abandon(self) -> None:
        """Stop it without a result."""
        self._on_end = None
        self.stop()

    def _stop(self) -> None:
        if self.state == "running" and not self.log.ended.fired:
            self.state = "stopped"
            self.log.dispose()

    def _readers(self, count: int) -> None:
        if not count and not self.log.ended.fired:
            self.log.dispose()

    def _ended(self) -> None:
        log = self.log
        self.ended_at = log.scope.loop.time()
        last = log.values[-1] if log.values else None
        if isinstance(last, ToolResultBlock):
            self.result = last
        if self._is_cut_off:
            # the loop shuts down: it is saved as in progress, and the next run decides
            self._on_end, self.state = None, "stopped"
        else:
            self.state, self.result = self._outcome(self.result)
        # its clean-up may take longer: the loop holds it until then
        keeper = runtime()
        log.scope.work.when_idle(lambda: keeper.release(self))
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)

    @property
    def _is_cut_off(self) -> bool:
        error = None if self.result is not None or self.state == "stopped" else self.log.failure()
        return isinstance(error, SourceCancelledError) and error.__cause__ is None

    def _outcome(self, found: ToolResultBlock | None) -> tuple[WorkState, ToolResultBlock]:
        call = self.call
        if self.state == "stopped":
            return "stopped", ToolResultBlock.error(call, ToolResultKind.INTERRUPTED, STOPPED)
        if found is None:
            error = self.log.failure()
            text = STOPPED if error is None else f"{type(error).__name__}: {error}"
            return "failed", ToolResultBlock.error(call, ToolResultKind.FAILED, text)
        if found.kind is not None and found.kind.waits:
            # its text says what it waits for
            text = "\n".join(part for part in (CANNOT_WAIT, found.text) if part)
            return "failed", ToolResultBlock.error(call, ToolResultKind.FAILED, text)
        return ("completed" if found.kind is None else "failed"), found

    # --- what is sent to it -------------------------------------------------------------------------------------------

    def received(self) -> Flow[str]:
        """The messages sent to this job; see `ToolContext.received`."""
        mail = self.mail
        if mail is None:
            mail = self.mail = ReplayLog(KEPT_MAIL, where=f"messages to a call of {self.call.name!r}")
            self.log.ended.listen(mail.dispose)

        def follow(sink: Sink[str], scope: Scope) -> None:
            follower = LogFollower(mail, mail.first, sink, scope)
            sink.on_subscribe(follower)
            if not follower.disposed:
                mail.join(follower)
                follower.begin()

        return Flow(follow)

    def send(self, text: str) -> bool:
        """Send it a message; False if its tool reads none. From any thread."""
        mail = self.mail
        if mail is None or not self.running:
            return False
        return self.log.scope.call_from_thread(mail.add, text)

    # --- what it has shown ----------------------------------------------------------------------------------------

    @property
    def unread(self) -> bool:
        """True if there is output that the model has not read."""
        return any(isinstance(item, ToolChunk) for item in self._since(self.read_at))

    def read(self) -> tuple[ToolChunk, ...]:
        """The output since the last read, as far as it is kept."""
        found = tuple(item for item in self._since(self.read_at) if isinstance(item, ToolChunk))
        self.read_at = self.log.end
        return found

    def _since(self, number: int) -> list[ToolEvent]:
        log = self.log
        return list(log.values)[max(0, number - log.first) :]


def _size(item: ToolEvent) -> int:
    if not isinstance(item, (ToolChunk, ToolResultBlock)):
        return 256
    return 64 + sum(len(block.text) if isinstance(block, TextBlock) else 4096 for block in item.output)
