"""`SessionLease`: one holder of a session at a time, over all processes that use its store.

    free --acquire--> held --beat--> held --release--> free             each arrow is one save that expects the version
                       |                                                that was read before: of two that try, one wins
                       +--the holder is dead: another acquires, token + 1

`policy` says when a holder counts as dead. One that was wrongly taken for dead cannot save: the takeover has replaced
the version that its save expects, and before a save is repeated at another version, the lease in the session is
compared (`fence`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, TypeVar, cast
from uuid import uuid4

from agentscope_rx.errors import ConversationLeasedError, LeaseLostError, SessionConflictError
from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    Outcome,
    RetryPolicy,
    Scope,
    Semaphore,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    just,
    retry,
    shield,
    take_until,
    throw,
    using,
)
from agentscope_rx.reactive.kernel.deadlines import clock_of
from agentscope_rx.reactive.kernel.forking import call_after_fork
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.session.entry import check_key
from agentscope_rx.session.lease.heartbeat import Heartbeat
from agentscope_rx.session.lease.policy import ACQUIRED, LeasePolicy, WhenHeld, check_free, has_ended
from agentscope_rx.session.lease.record import LEASE, LeaseHolder, LeaseRecord, read_lease
from agentscope_rx.session.session import Saved, Session

T = TypeVar("T")

FIRST_LOOK, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two looks at a lease that is held: the pause doubles from the first number up to the second."""
_DELETED: Final = "It was deleted. Acknowledge that with load(); the next save stores the conversation again."
_TRIES: Final = 8
"""Attempts of one change while others keep changing the session."""


class _Held:
    """One acquisition."""

    __slots__ = ("heartbeat", "id", "lost", "record", "scope")

    def __init__(self, id: str, record: LeaseRecord, scope: Scope) -> None:
        self.id = id
        self.record = record
        self.scope = scope
        self.lost = OneShotEvent()
        self.heartbeat: Heartbeat | None = None

    @property
    def usable(self) -> bool:
        """False once its loop was closed: nothing gives signs of life any more."""
        return not self.scope.loop.is_closed()


class _Attempt:
    """One acquisition that is being tried."""

    __slots__ = ("beats", "clock", "held")

    def __init__(self, beats: Scope, clock: Callable[[], float]) -> None:
        self.beats = beats
        self.clock = clock
        self.held: _Held | None = None


class SessionLease:
    """The lease of one session: one holder at a time, over all processes that use its store.

        free --acquire--> held --beat--> held --release--> free        each arrow is a save that expects the version
                           |                                           that was read before: of two that try, one wins
                           +--the holder is dead: another acquires, token + 1

    Agents use it by themselves (`lease=`); use it for state of your own: `SessionLease(session, "ann",
    "queue").around(flow)` runs a flow while it holds the lease. One object holds it at most once at a time. A forked
    child does not hold the lease of its parent. The session has it as the entry "lease".
    """

    def __init__(self, session: Session, key: str, policy: LeasePolicy | WhenHeld = "error") -> None:
        self.session: Session = session
        self.key: str = check_key(key)
        self.policy: LeasePolicy = LeasePolicy.of(policy)
        self.turn: Semaphore = Semaphore(1)
        """Held by each write of the lease; shared with the other writes of its owner, which would conflict."""
        self.on_moved: Callable[[str | None, str | None], object] | None = None
        """Called with the versions before and after each write of the lease."""
        self.is_saved: Callable[[], bool] | None = None
        """Says if the session must exist, because the owner has read or saved it: else `acquire` may make it."""
        self.on_fork: Callable[[], object] | None = None
        self.waiting_for: LeaseHolder | None = None
        """The holder that an acquisition waits for."""
        self._held: _Held | None = None
        self._error: LeaseLostError | None = None
        self._closing = False
        # what the session held when it was last read or written; the record None: not known, or never leased
        self._version: str | None = None
        self._record: LeaseRecord | None = None
        self._seen: tuple[str, int, Callable[[], float], float] | None = None
        call_after_fork(self)

    def __repr__(self) -> str:
        return f"<SessionLease of {self.key!r}, {'held' if self.held else 'not held'}>"

    def after_fork(self) -> None:
        """Called in a forked child, which does not hold the lease of its parent."""
        if self._held is not None:
            self._held = None
            self._record = None
            if self.on_fork is not None:
                self.on_fork()
        ACQUIRED.clear()

    @property
    def held(self) -> bool:
        """True from the acquisition to the release, or until it is lost."""
        return self._held is not None and self._held.usable

    @property
    def token(self) -> int | None:
        """The token of the acquisition, larger than those of all before it; None if the lease is not held."""
        return self._held.record.token if self._held is not None else None

    @property
    def version(self) -> str | None:
        """The version of the session after the last write of the lease."""
        return self._version

    # --- use ------------------------------------------------------------------------------------------------------

    def around(self, source: Flow[T]) -> Flow[T]:
        """Acquire the lease, run the source, and release the lease when the source has ended.

        Signals: those of the source; `ConversationLeasedError` if another holder is alive, with "queue" once it is not;
        `LeaseLostError` as soon as the loss is noticed, with the source disposed; a `SessionError`.
        Cancels: the wait or the source; the release follows.
        """
        return using(self.acquire, lambda _: self.guard(source), lambda _, ending: self.release())

    def guard(self, source: Flow[T]) -> Flow[T]:
        """The source, ended by `LeaseLostError` when the lease is lost. Cancels: the source."""

        def guarded() -> Flow[T]:
            held = self._held
            if held is None:
                return throw(self._error or LeaseLostError(self.key, "it is not held"))
            kept = source.pipe(take_until(held.lost))
            return concat(kept, defer(lambda: throw(self._error) if held.lost.fired and self._error else empty()))

        return defer(guarded)

    def acquire(self, beats: Scope | None = None) -> Flow[int]:
        """Acquire the lease and keep it by a heartbeat, on the scope `beats` or the subscriber's, until `release`.

        Signals: the token; errors as `around`.
        Cancels: the wait; a lease that is acquired all the same is released.
        """

        def connect(sink: Sink[int], scope: Scope) -> None:
            attempt = _Attempt(beats or scope, clock_of(scope.loop))
            waiting = defer(lambda: self._look(attempt))
            if self.policy.when_held == "queue":
                waiting = waiting.pipe(retry(_UNTIL_FREE))

            def release(_: object, ending: Outcome) -> Flow[object] | None:
                self.waiting_for = None
                left = ending is Outcome.DISPOSED and self._held is not None and self._held is attempt.held
                return cast("Flow[object]", self.release()) if left else None

            attach(using(lambda: just(None), lambda _: waiting, release), sink, scope)

        return Flow(connect)

    def release(self) -> Flow[None]:
        """Free the lease, if it is held. The heartbeat ends also if that fails: then the lease ends by itself.

        Signals: one None; a `SessionError`, with which the lease counts as given up.
        Cancels: nothing: a write, once begun, runs to its end.
        """

        def free() -> Flow[None]:
            held = self._held
            if held is None:
                return just(None)
            self._stop(held)
            freed = held.record.freed(self.policy.machine)
            return self._write(held, freed).pipe(catch(failed))

        def failed(error: Exception) -> Flow[None]:
            # of another holder, or deleted: there is nothing to release
            return just(None) if isinstance(error, LeaseLostError) else throw(error)

        def end(_: object, ending: Outcome) -> None:
            self._forget()

        return using(lambda: just(None), lambda _: self.turn.around(shield(defer(free))), end)

    # --- the owner's saves ----------------------------------------------------------------------------------------

    def close_with_next_save(self) -> None:
        """Release the lease with the next save of the owner, which adds `closing_values()`."""
        self._closing = self.held

    def closing_values(self) -> dict[str, object]:
        """The entry that releases the lease, for the save that comes now; empty if it does not release it.

        `LeaseLostError` if the lease was lost during this use of it.
        """
        if self._error is not None:
            raise self._error
        held = self._held
        if held is None or not self._closing:
            return {}
        return {LEASE: held.record.freed(self.policy.machine).to_json()}

    def saved(self, before: str | None, after: str | None, values: dict[str, object]) -> None:
        """Note that the owner has saved with these `closing_values()`."""
        held = self._held
        if held is not None and values:
            self._stop(held)
            self._record = held.record.freed(self.policy.machine)
            self._forget()
        elif held is None and self._version != before:
            # not known: it was read before others may have changed it
            self._record = None
        self._version = after

    def fence(self, saved: Saved) -> None:
        """Refuse to repeat a save if another holder has changed the version.

        `LeaseLostError` if the lease was held by this object, else `ConversationLeasedError`.
        """
        record = read_lease(self.key, saved.values)
        held = self._held
        if held is not None:
            self._check_own(held, record)
        else:
            check_free(self.key, record, self.policy)

    def leave(self) -> None:
        """End this use of the lease, and forget its error."""
        self._error = None
        self._closing = False

    # --- acquiring ------------------------------------------------------------------------------------------------

    def _look(self, attempt: _Attempt, left: int = _TRIES) -> Flow[int]:
        """One look at the lease, and its acquisition if it is free."""

        def taken_by_another(error: Exception) -> Flow[int]:
            if isinstance(error, SessionConflictError) and left > 1:
                self._record = None
                return self._look(attempt, left - 1)
            return throw(error)

        def take(version: str | None, record: LeaseRecord | None) -> Flow[int]:
            return self._take(attempt, version, record).pipe(catch(taken_by_another))

        def look(saved: Saved) -> Flow[int]:
            if saved.version is None and self.is_saved is not None and self.is_saved():
                # not by the entry of a lease: a session that was deleted is not to exist again
                return throw(SessionConflictError(self.key, self._version, None, _DELETED))
            record = read_lease(self.key, saved.values)
            if record is not None and record.holder is not None and not self._is_dead(record, attempt.clock):
                self.waiting_for = record.holder
                return throw(record.refusal(self.key))
            return take(saved.version, record)

        known = self._record
        if known is not None and known.holder is None:
            # as this object has left it, in most cases: no look is needed
            return take(self._version, known)
        return self.session.load_all(self.key, [LEASE]).pipe(concat_map(look))

    def _is_dead(self, record: LeaseRecord, clock: Callable[[], float]) -> bool:
        if has_ended(record, self.policy):
            return True
        if record.holder is None or record.holder.boot == self.policy.machine.process().boot is not None:
            return False
        id, beat, now = record.holder.id, record.beat, clock()
        seen = self._seen
        if seen is None or seen[:3] != (id, beat, clock):
            self._seen = (id, beat, clock, now)
            return False
        return now - seen[3] >= record.ttl

    def _take(self, attempt: _Attempt, version: str | None, before: LeaseRecord | None) -> Flow[int]:
        machine, beats = self.policy.machine, attempt.beats
        id = uuid4().hex

        def write() -> Flow[int]:
            now, began = machine.now(), beats.loop.time()
            holder = LeaseHolder.of(id, machine.process())
            token = 1 if before is None else before.token + 1
            record = LeaseRecord(token, self.policy.ttl, 0, now, now, machine.uptime(), holder)
            ACQUIRED[id] = beats.loop

            def taken(after: str | None) -> int:
                self._moved(version, after, record)
                self._leave_lost()
                held = self._held = attempt.held = _Held(id, record, beats)
                self._error = None
                self.waiting_for = None
                held.heartbeat = Heartbeat(beats, lambda: self._beat(held), record.ttl, self._too_late(held))
                held.heartbeat.begin(began)
                return token

            saving = self.session.save_all(self.key, {LEASE: record.to_json()}, expected=version)
            return saving.pipe(concat_map(taken), catch(failed))

        def failed(error: Exception) -> Flow[int]:
            ACQUIRED.pop(id, None)
            return throw(error)

        return self.turn.around(shield(defer(write)))

    # --- holding --------------------------------------------------------------------------------------------------

    def _beat(self, held: _Held) -> Flow[None]:
        def beat() -> Flow[None]:
            return self._write(held, held.record.beaten(self.policy.machine)) if self._held is held else empty()

        # not shielded: a write that hangs must not keep the turn. What one that was cut off has written is read again
        return self.turn.around(defer(beat))

    def _write(self, held: _Held, record: LeaseRecord, left: int = _TRIES) -> Flow[None]:
        """Replace the record of this acquisition, with the turn held; `LeaseLostError` if it is not stored any more."""

        def written(version: str | None, after: str | None) -> None:
            self._moved(version, after, record)
            held.record = record

        def save(version: str | None) -> Flow[None]:
            saving = self.session.save_all(self.key, {LEASE: record.to_json()}, expected=version)
            return saving.pipe(concat_map(lambda after: written(version, after)))

        def conflict(error: Exception, left: int) -> Flow[None]:
            if not isinstance(error, SessionConflictError) or left == 0:
                return throw(error)
            return self.session.load_all(self.key, [LEASE]).pipe(concat_map(lambda saved: again(saved, left)))

        def again(saved: Saved, left: int) -> Flow[None]:
            # another entry of the session was changed, or the outcome of the last write was not known
            self._check_own(held, read_lease(self.key, saved.values))
            return save(saved.version).pipe(catch(lambda error: conflict(error, left - 1)))

        return defer(lambda: save(self._version)).pipe(catch(lambda error: conflict(error, left)))

    def _check_own(self, held: _Held, record: LeaseRecord | None) -> None:
        if record is not None and record.is_of(held.id):
            return
        if record is None:
            error = LeaseLostError(self.key, "the session was deleted")
        elif record.holder is None:
            error = LeaseLostError(self.key, f"another holder has taken it over and released it (token {record.token})")
        else:
            by = str(record.holder)
            error = LeaseLostError(self.key, f"{by} has taken it over (token {record.token})", by)
        self._lose(held, error)
        raise error

    def _too_late(self, held: _Held) -> Callable[[Exception, float], None]:
        def lost(cause: Exception, silent: float) -> None:
            if isinstance(cause, LeaseLostError):
                error = cause
            else:
                error = LeaseLostError(self.key, f"the store could not be reached for {silent:g} s ({cause})")
                error.__cause__ = cause
            self._lose(held, error)

        return lost

    def _lose(self, held: _Held, error: LeaseLostError) -> None:
        if self._held is held:
            self._error = error
            self._record = None
            self._forget()
            # through the loop: what has noticed it may be a beat, or a save in the stream that listens
            held.lost.fire(later=held.scope.call_soon)
            held.scope.call_soon(lambda: self._stop(held))

    def _leave_lost(self) -> None:
        """An acquisition whose loop was closed is over."""
        if self._held is not None:
            self._forget()

    def _stop(self, held: _Held) -> None:
        if held.heartbeat is not None:
            held.heartbeat.stop()

    def _forget(self) -> None:
        held, self._held = self._held, None
        self._closing = False
        if held is not None:
            ACQUIRED.pop(held.id, None)

    def _moved(self, before: str | None, after: str | None, record: LeaseRecord) -> None:
        self._version = after
        self._record = record
        if self.on_moved is not None:
            self.on_moved(before, after)


def _pause(number: int) -> float:
    # jitter needs no secure random numbers; without it all that wait would look at once
    return min(LONGEST_PAUSE, FIRST_LOOK * 2.0 ** min(number - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311


_UNTIL_FREE = RetryPolicy(
    stop=lambda state: False,
    wait=lambda state: _pause(state.attempt_number),
    retry=lambda state: isinstance(state.outcome and state.outcome.exception(), ConversationLeasedError),
)
