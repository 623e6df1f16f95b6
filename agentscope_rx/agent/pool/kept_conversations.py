"""`KeptConversations`: the conversations that a pool keeps, which of them are in use, and which are evicted next.

    take -> in use --leave--> idle      saved: evicted by count (the least recently used first) or by age
                          --> unsaved   the session does not hold all of it: kept until it is saved

All methods may be called from any thread. A use whose loop was closed before its end counts no longer. In a forked
child nothing is kept, because the conversations are the parent's.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from typing import NamedTuple
from weakref import ref

from agentscope_rx.agent.agent import Agent
from agentscope_rx.memory import Memory
from agentscope_rx.reactive import Semaphore
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_rlock
from agentscope_rx.reactive.kernel.runtime import running_loop
from agentscope_rx.reactive.limiter import EPSILON, ByClock

Pair = tuple[str, str]
"""A user and a session id."""


class ConversationPoolStatistics(NamedTuple):
    """Counts of a pool: conversations in memory (`kept`), and those with a call, a lease or a load (`in_use`).

    `unsaved` are idle ones with changes that the session does not have; the pool keeps them. `overshoot` is the most by
    which `kept` has exceeded `max_kept`. `loads` and `evictions` count since the pool was made.
    """

    kept: int
    max_kept: int
    in_use: int
    unsaved: int
    loads: int
    evictions: int
    overshoot: int


class KeptConversation:
    """The agent and the memory of one conversation; both are set once it is loaded."""

    __slots__ = ("_clock", "agent", "failure", "key", "loops", "memory", "pair", "turn", "used_at", "uses")

    def __init__(self, pair: Pair, key: str) -> None:
        self.pair: Pair = pair
        self.key: str = key
        self.agent: Agent | None = None
        self.memory: Memory | None = None
        self.failure: Exception | None = None
        """The error of the load, for all calls that have waited for it."""
        self.turn: Semaphore = Semaphore(1)
        """Held while it is loaded: calls that come meanwhile wait."""
        self.loops: list[asyncio.AbstractEventLoop] = []
        """The loops of its uses."""
        self.uses: int = 0
        """The number of its uses so far."""
        self.used_at: float = 0.0
        self._clock: object = None

    @property
    def in_use(self) -> bool:
        """True while there is a use, a run that was begun without the pool, or work in the background."""
        return self.is_called or self.has_jobs

    @property
    def is_called(self) -> bool:
        """True while there is a use, or a run that was begun without the pool."""
        return any(not loop.is_closed() for loop in self.loops) or self.has_runs

    @property
    def has_jobs(self) -> bool:
        """True while work in the background is in progress."""
        if self.agent is None or self.memory is None:
            return False
        return bool(self.agent.background(memory=self.memory).in_progress_within)

    @property
    def has_runs(self) -> bool:
        """True while the agent has a run in this memory."""
        if self.agent is None or self.memory is None:
            return False
        conversation = self.agent.conversation(self.memory)
        return bool(conversation.runs or conversation.entered)

    def age(self, clock: object, now: float) -> float:
        """The seconds since its last use. It begins anew on a loop with another clock."""
        if clock is not self._clock:
            self.touch(clock, now)
        return now - self.used_at

    def touch(self, clock: object, now: float) -> None:
        """Note the time of a use."""
        self._clock, self.used_at = clock, now


class KeptConversations:
    """Conversations by pair, at most `max_kept` of them idle, none idle for longer than `max_idle` seconds."""

    __slots__ = (
        "__weakref__",
        "_all",
        "_by_key",
        "_clocks",
        "_evictions",
        "_idle",
        "_loads",
        "_lock",
        "_max_idle",
        "_max_kept",
        "_most",
        "_timer",
        "_waiting",
    )

    def __init__(self, max_kept: int, max_idle: float | None) -> None:
        self._max_kept = max_kept
        self._max_idle = max_idle
        # re-entrant: the end of a memory may run code of the caller's
        self._lock = new_rlock()
        self._all: dict[Pair, KeptConversation] = {}
        self._by_key: dict[str, Pair] = {}
        # idle and saved, the least recently used first
        self._idle: OrderedDict[Pair, KeptConversation] = OrderedDict()
        self._clocks: ByClock[object] = ByClock(object)
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None
        self._waiting: list[Future[None]] = []
        self._loads = self._evictions = self._most = 0
        call_after_fork(self)

    def __del__(self) -> None:
        if self._timer is not None:
            _cancel(*self._timer)

    def after_fork(self) -> None:
        """The conversations and the timer belong to the parent."""
        self._all, self._by_key, self._idle = {}, {}, OrderedDict()
        self._timer = None
        self._waiting = []

    # --- uses -----------------------------------------------------------------------------------------------------

    def take(self, pair: Pair, key: Callable[[], str], loop: asyncio.AbstractEventLoop) -> KeptConversation:
        """The conversation of this pair, new if none is kept, in use until `leave`. `LookupError` if its key is taken.

        `key` is called for a new one, under the lock.
        """
        with self._lock:
            kept = self._all.get(pair)
            if kept is None:
                name = key()
                if self._by_key.setdefault(name, pair) != pair:
                    raise LookupError(name)
                kept = self._all[pair] = KeptConversation(pair, name)
            self._idle.pop(pair, None)
            kept.loops = [*(each for each in kept.loops if not each.is_closed()), loop]
            kept.uses += 1
            self._evict(loop)
            self._most = max(self._most, len(self._all))
            return kept

    def find(self, pair: Pair) -> KeptConversation | None:
        """The conversation, if it is kept."""
        with self._lock:
            return self._all.get(pair)

    def is_last(self, kept: KeptConversation, loop: asyncio.AbstractEventLoop) -> bool:
        """True if this is the only use: it goes on. Else it is over."""
        with self._lock:
            if sum(not each.is_closed() for each in kept.loops) > 1:
                kept.loops.remove(loop)
                return False
            return True

    def leave(
        self, kept: KeptConversation, loop: asyncio.AbstractEventLoop, *, saved: bool = False, uses: int | None = None
    ) -> bool:
        """A use is over. If it was the last one, and all of the conversation is `saved`, it may be evicted now.

        With `uses`, False if it goes on: it is the last one, and others have begun since there were so many, so that it
        is not known if all is saved.
        """
        with self._lock:
            last = sum(not each.is_closed() for each in kept.loops) == 1
            if last and uses is not None and kept.uses != uses:
                return False
            kept.loops.remove(loop)
            current = self._all.get(kept.pair) is kept
            if current and kept.agent is None and not kept.in_use:
                # not loaded: there is nothing to keep
                self._remove(kept)
            elif current and saved and not kept.is_called:
                # work in the background saves the conversation when it has ended
                clock, token = self._clock(loop)
                kept.touch(token, clock())
                self._idle[kept.pair] = kept
            self._evict(loop)
            waiting = self._unused()
        _wake(waiting)
        return True

    def loaded(self, kept: KeptConversation, agent: Agent, memory: Memory) -> None:
        """Keep what was loaded."""
        with self._lock:
            kept.agent, kept.memory = agent, memory
            self._loads += 1

    def failed(self, kept: KeptConversation, error: Exception) -> None:
        """The load has failed: the next call begins another one."""
        with self._lock:
            kept.failure = error
            if self._all.get(kept.pair) is kept:
                self._remove(kept)

    # --- eviction -------------------------------------------------------------------------------------------------

    def evict(self, kept: KeptConversation) -> bool:
        """Drop this conversation, saved or not; False if it is in use, or gone."""
        with self._lock:
            if self._all.get(kept.pair) is not kept or kept.in_use:
                return False
            self._remove(kept)
            self._evictions += 1
            self._arm(None)
            return True

    def is_saved(self, kept: KeptConversation) -> bool:
        """True if it is idle, and the session holds all of it."""
        with self._lock:
            return self._idle.get(kept.pair) is kept

    def unsaved(self) -> list[KeptConversation]:
        """The idle conversations that the session does not hold entirely."""
        with self._lock:
            return [kept for kept in self._all.values() if kept.pair not in self._idle and not kept.in_use]

    def clear(self) -> None:
        """Drop the saved conversations, and stop the timer."""
        with self._lock:
            for kept in tuple(self._idle.values()):
                self._remove(kept)
            self._arm(None)

    def when_unused(self) -> Future[None] | None:
        """A future that is done when no conversation is in use; None if that is so now."""
        with self._lock:
            if not self._in_use():
                return None
            self._waiting = [*(each for each in self._waiting if not each.done()), Future()]
            return self._waiting[-1]

    def statistics(self) -> ConversationPoolStatistics:
        """The counts of this moment."""
        with self._lock:
            in_use = self._in_use()
            return ConversationPoolStatistics(
                kept=len(self._all),
                max_kept=self._max_kept,
                in_use=in_use,
                unsaved=len(self._all) - in_use - sum(not kept.has_runs for kept in self._idle.values()),
                loads=self._loads,
                evictions=self._evictions,
                overshoot=max(0, self._most - self._max_kept),
            )

    # --- under the lock -------------------------------------------------------------------------------------------

    def _in_use(self) -> int:
        return sum(kept.in_use for kept in self._all.values())

    def _unused(self) -> list[Future[None]]:
        if not self._waiting or self._in_use():
            return []
        waiting, self._waiting = self._waiting, []
        return waiting

    def _remove(self, kept: KeptConversation) -> None:
        del self._all[kept.pair]
        self._idle.pop(kept.pair, None)
        del self._by_key[kept.key]

    def _evict(self, loop: asyncio.AbstractEventLoop) -> None:
        """Evict what is too much or too old; then arm the timer for what is left."""
        clock, token = self._clock(loop)
        now = clock()
        for kept in tuple(self._overdue(token, now)):
            if kept.in_use:
                # a run was begun without the pool
                kept.touch(token, now)
                self._idle.move_to_end(kept.pair)
            else:
                self._remove(kept)
                self._evictions += 1
        self._arm(loop)

    def _overdue(self, clock: object, now: float) -> list[KeptConversation]:
        """The conversations to evict, in order."""
        too_many = len(self._all) - self._max_kept
        found: list[KeptConversation] = []
        for kept in self._idle.values():
            # the timer may come early by a rounding error: no time would pass until the next one
            old = self._max_idle is not None and kept.age(clock, now) >= self._max_idle - EPSILON
            if not old and len(found) >= too_many:
                break
            found.append(kept)
        return found

    def _clock(self, loop: asyncio.AbstractEventLoop) -> tuple[Callable[[], float], object]:
        return self._clocks.of(loop)

    def _arm(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """One timer, for the conversation that is idle for longest; none if there is none."""
        if self._timer is not None:
            on, timer = self._timer
            if self._idle and on is loop and not timer.cancelled():
                # it comes too early at worst, and is armed again then
                return
            _cancel(on, timer)
            self._timer = None
        if loop is None or self._max_idle is None or not self._idle:
            return
        clock, token = self._clock(loop)
        first = next(iter(self._idle.values()))
        left = self._max_idle - first.age(token, clock())
        # weakly: the timer does not keep the pool alive
        pool: ref[KeptConversations] = ref(self)
        timer = loop.call_later(max(0.0, left), lambda: _expire(pool, loop), context=Context())
        self._timer = (loop, timer)

    def expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Evict what has become too old; called by the timer."""
        with self._lock:
            self._timer = None
            self._evict(loop)


def _expire(found: ref[KeptConversations], loop: asyncio.AbstractEventLoop) -> None:
    if (conversations := found()) is not None:
        conversations.expire(loop)


def _cancel(loop: asyncio.AbstractEventLoop, timer: asyncio.TimerHandle) -> None:
    if running_loop() is loop:
        timer.cancel()
        return
    try:
        loop.call_soon_threadsafe(timer.cancel)
    except RuntimeError:
        # the loop was closed, and its timers with it
        return


def _wake(waiting: list[Future[None]]) -> None:
    for each in waiting:
        if each.set_running_or_notify_cancel():
            each.set_result(None)
