"""`ConversationPool`: the conversations of many users, loaded at their first call and evicted when they are idle.

    pool = ConversationPool(agent, JsonSession("conversations"), max_kept=1000, max_idle=600)
    reply = await pool.call("ann", "s1", "Hello")       # loaded if it is not kept, saved at the end of the run

    (user, session_id) --key--> the session's entries --bind--> a memory of its own --> agent.call(..., memory=...)

- A pair has at most one memory in a pool. Calls that come while it is loaded wait for that load, and share its failure.
- A conversation is in use during a call (also while it waits, or its clean-up runs) and a lease. It is not evicted
  then; the pool may exceed `max_kept` by these.
- A conversation is evicted only if the session holds all of it. If its last save has failed, it stays, and its next run
  or `flush()` saves it.
- A user reaches the conversations of that user only: memory, pending calls and approvals belong to the pair.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from os import PathLike
from types import TracebackType
from typing import Literal, Self, TypeVar
from uuid import uuid4

from reactivex import Observable, abc
from typing_extensions import Unpack

from agentscope_rx.agent.agent import Agent
from agentscope_rx.agent.handle.run_handle import KEPT_EVENTS, MAX_LOG_BYTES, RunHandle
from agentscope_rx.agent.input import CallInput, check_kind
from agentscope_rx.agent.interruption import InterruptSource
from agentscope_rx.agent.persistence import is_saved
from agentscope_rx.agent.pool.kept_conversations import (
    ConversationPoolStatistics,
    KeptConversation,
    KeptConversations,
    Pair,
)
from agentscope_rx.agent.pool.leased_conversation import (
    LeasedConversation,
    PoolCallOptions,
    check_pair,
    checked_options,
    conversation_key,
)
from agentscope_rx.agent.saved_copy import Binding
from agentscope_rx.agent.saving_agent import session_at
from agentscope_rx.agent.state_persistence import check_choice
from agentscope_rx.errors import AgentScopeError, ConfigurationError, PoolClosedError
from agentscope_rx.events import Event, EventStream, StreamOptions
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import Msg, ToolUseBlock
from agentscope_rx.messages.local_file import checked_root
from agentscope_rx.reactive import (
    Flow,
    Outcome,
    Scope,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    flow,
    from_awaitable,
    from_callable,
    just,
    never,
    next_turn,
    then,
    throw,
    using,
)
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.unbegun import Unbegun
from agentscope_rx.session import LeasePolicy, Session, WhenHeld
from agentscope_rx.session.entry import check_key

T = TypeVar("T")

AgentFactory = Callable[[str, str], Agent | Awaitable[Agent] | Observable[Agent]]
"""Makes the agent of a conversation from its user and session id, when it is loaded."""
MemoryFactory = Callable[[str, str], Memory]
"""Makes the memory of a conversation, which `bind` fills."""
KeyFunction = Callable[[str, str], str]
"""The session's key of a conversation: another one for each pair."""

MAX_KEPT = 1000
MAX_IDLE_SECONDS = 600.0
LOOK_SECONDS = 1.0
"""How often a pool that is being closed looks for uses that have ended without a sign."""


class ConversationPool:
    """Finds, loads, saves and evicts the conversations of many users. Thread-safe, and bound to no loop.

    - `agent`: one agent for all conversations, or a function of user and session id that makes one for each, for
      example with the user's own tools.
    - `session`: a `Session`, or its path or URL.
    - `max_kept`, `max_idle`: the pool drops idle conversations beyond this number (0: it loads for each call), and
      after so many seconds (None: no limit).
    - `memory` makes the memory of a conversation, `key` its key in the session (default: `conversation_key`).
    - `file_root`, `lease` and `checkpoint` are for `Agent.bind`. With a lease several processes may serve the same
      conversations.

    How it works:

    - **A pair has at most one memory.** First calls that come together load it once, and share the error if that
      fails; the next call tries again. For a call during another one `when_busy` of the agent holds.
    - **In use** is a conversation during a call and its clean-up, in a block of `conversation`, and while it has work
      in the background. It is not evicted then, so the pool may exceed `max_kept`.
    - **Nothing said is lost.** The pool evicts only what the session holds entirely. If a save fails, its call gets the
      error, and the conversation stays until its next run, `evict`, `flush` or the end of the pool saves it.
    - **After a `SessionConflictError`** `evict(user, session_id, discard=True)` continues from what is stored. Do the
      same before you delete a conversation from the session.
    - **A user reaches that user's conversations only.** A context that names another user is refused. The pool does
      not authenticate: take the user from your authentication, not from the body of a request.

    `async with` closes the pool at the end: it refuses new calls (`PoolClosedError`), waits for those in progress, and
    saves what is left.
    """

    def __init__(
        self,
        agent: Agent | AgentFactory,
        session: Session | str | PathLike[str],
        *,
        max_kept: int = MAX_KEPT,
        max_idle: float | None = MAX_IDLE_SECONDS,
        memory: MemoryFactory | None = None,
        key: KeyFunction = conversation_key,
        file_root: str | PathLike[str] | None = None,
        lease: LeasePolicy | WhenHeld | None = None,
        checkpoint: Literal["run", "stage"] = "run",
    ) -> None:
        store = session_at(session)
        _check_bounds(max_kept, max_idle)
        check_choice(checkpoint)
        if isinstance(agent, Agent):
            _check_agent(agent)
        elif isinstance(agent, type) or not callable(agent):
            raise ConfigurationError(
                f"A ConversationPool takes an agent, or a function of user and session id that makes one, not "
                f"{agent!r:.60}."
            )
        self._agent = agent
        self._session = store
        self._memory: MemoryFactory = memory or _in_memory
        self._key = key
        self._file_root = checked_root(file_root)
        self._lease = None if lease is None else LeasePolicy.of(lease)
        self._checkpoint: Literal["run", "stage"] = checkpoint
        self._kept = KeptConversations(max_kept, max_idle)
        self._closed = False

    def __repr__(self) -> str:
        return f"<ConversationPool of {self.statistics().kept} conversations>"

    # --- calls ----------------------------------------------------------------------------------------------------

    def call(self, user: str, session_id: str, msgs: CallInput = None, **options: Unpack[PoolCallOptions]) -> Flow[Msg]:
        """Call the agent in this conversation; the pool loads it first if needed. Options as for `Agent.call`.

        Without a `context` the call gets one with `user_id` and `session_id`.

        Signals: as `Agent.call`; the error of a factory, and a `SessionError` if the conversation cannot be loaded;
        `PoolClosedError`.
        Cancels: the load, if no other call waits for it; the run.
        """
        given = checked_options(user, session_id, options)
        called = self._using(user, session_id, lambda agent, memory: agent.call(msgs, memory=memory, **given))
        return called.warning(Unbegun("A call of conversation", session_id, sys._getframe(1)))

    def stream(
        self,
        user: str,
        session_id: str,
        msgs: CallInput = None,
        stream_options: StreamOptions | None = None,
        **options: Unpack[PoolCallOptions],
    ) -> EventStream:
        """Like `call`, but emits the events of the run: see `Agent.stream`.

        Signals: the events, as `Agent.stream`; errors as `call`, without an `ErrorEvent` if no run has begun.
        Cancels: as `call`.
        """
        given = checked_options(user, session_id, options)

        def stream(agent: Agent, memory: Memory) -> EventStream:
            return agent.stream(msgs, stream_options, memory=memory, **given)

        connect = self._connect((user, session_id), stream)
        return EventStream(connect).warning(Unbegun("A stream of conversation", session_id, sys._getframe(1)))

    def start(
        self,
        user: str,
        session_id: str,
        msgs: CallInput = None,
        stream_options: StreamOptions | None = None,
        *,
        linger: float | None = None,
        capacity: int = KEPT_EVENTS,
        max_bytes: int = MAX_LOG_BYTES,
        **options: Unpack[PoolCallOptions],
    ) -> RunHandle:
        """Begin a shared run in this conversation; the pool loads it first if needed. See `Agent.start`.

        While the pool loads the conversation, the run takes input; to end it then, dispose of it.
        """
        given = checked_options(user, session_id, options)

        def stream(agent: Agent, memory: Memory) -> EventStream:
            handle.belongs_to(agent)
            return agent.stream(msgs, stream_options, memory=memory, **given)

        events: Flow[Event] = Flow(self._connect((user, session_id), stream))
        handle = RunHandle(events, id=uuid4().hex, linger=linger, capacity=capacity, max_bytes=max_bytes)
        return handle.begin()

    def interrupt(
        self,
        user: str,
        session_id: str,
        msg: Msg | str | None = None,
        source: InterruptSource = InterruptSource.USER,
        *,
        run_id: str | None = None,
    ) -> bool:
        """Ask the runs of this conversation to end normally: see `Agent.interrupt`.

        False if there is no run, also while the conversation is being loaded.
        """
        kept = self._kept.find(check_pair(user, session_id))
        if kept is None or kept.agent is None or kept.memory is None:
            return False
        return kept.agent.interrupt(msg, source, memory=kept.memory, run_id=run_id)

    def pending_calls(self, user: str, session_id: str) -> Flow[tuple[ToolUseBlock, ...]]:
        """The calls of this conversation that wait for an answer: see `Agent.pending_calls`. Loads it if needed.

        Signals: the calls; errors as `call`.
        Cancels: the load, if no other call waits for it.
        """
        return self._using(user, session_id, lambda agent, memory: agent.pending_calls(memory=memory))

    @asynccontextmanager
    async def conversation(self, user: str, session_id: str) -> AsyncGenerator[LeasedConversation]:
        """Hold the conversation during a block: to read its memory, to make several calls, or to resolve a conflict."""
        pair = check_pair(user, session_id)

        def lease(agent: Agent, memory: Memory) -> Flow[LeasedConversation]:
            leased = LeasedConversation(*pair, self._key(*pair), agent, memory, self._session, self._file_root)
            return concat(just(leased), never())

        async with self._using(user, session_id, lease).buffered(1) as leases:
            yield await anext(leases)

    # --- eviction and the end -------------------------------------------------------------------------------------

    def evict(self, user: str, session_id: str, *, discard: bool = False) -> Flow[bool]:
        """Save the changes of this conversation, and drop it from memory. The next call loads it again.

        `discard=True` drops it without saving: after a `SessionConflictError` the next call continues from the stored
        conversation.

        Signals: True if it was dropped, False if it is in use or not kept; a `SessionError` if it cannot be saved, in
        which case it stays.
        Cancels: the waiting; a save that has begun runs to its end.
        """
        pair = check_pair(user, session_id)

        def evict() -> Flow[bool]:
            kept = self._kept.find(pair)
            if kept is None or kept.in_use:
                return just(False)
            if discard or self._kept.is_saved(kept):
                return drop(kept)
            return self._save(kept).pipe(then(lambda: drop(kept)))

        def drop(kept: KeptConversation) -> Flow[bool]:
            # it may have been evicted by count as soon as it was saved
            return just(self._kept.evict(kept) or self._kept.find(pair) is not kept)

        return defer(evict)

    def flush(self) -> Flow[None]:
        """Save the idle conversations whose last save failed.

        Signals: one None when all are saved; the first error, when all were tried. These stay in the pool.
        Cancels: the saves that have not begun.
        """
        return from_callable(self._flush)

    async def _flush(self) -> None:
        failures: list[Exception] = []
        for kept in self._kept.unsaved():
            try:
                await self._save(kept)
            except AgentScopeError as error:
                failures.append(error)
        for error in failures[1:]:
            report_dropped(error, "saving the conversations of a pool")
        if failures:
            raise failures[0]

    async def aclose(self) -> None:
        """Refuse further calls, wait for those in progress, save all changes and drop the conversations.

        In a tool or hook of one of its runs this deadlocks. If a save fails, its error is raised, and the conversation
        stays in the pool: `flush()` tries again.
        """
        self._closed = True
        while (unused := self._kept.when_unused()) is not None:
            # a run that was begun without the pool, or a loop that was closed, does not tell of its end
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(unused), LOOK_SECONDS)
        try:
            await self.flush()
        finally:
            self._kept.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def statistics(self) -> ConversationPoolStatistics:
        """The numbers of conversations that are kept and in use, of loads and evictions."""
        return self._kept.statistics()

    # --- one use --------------------------------------------------------------------------------------------------

    def _using(self, user: str, session_id: str, use: Callable[[Agent, Memory], abc.ObservableBase[T]]) -> Flow[T]:
        return Flow(self._connect(check_pair(user, session_id), use))

    def _save(self, kept: KeptConversation) -> Flow[None]:
        def save(agent: Agent, memory: Memory) -> Flow[None]:
            return agent.save(self._session, kept.key, memory=memory)

        return Flow(self._connect(kept.pair, save, closed=True))

    def _connect(
        self, pair: Pair, use: Callable[[Agent, Memory], abc.ObservableBase[T]], *, closed: bool = False
    ) -> Callable[[Sink[T], Scope], None]:
        """What a subscription does: take the conversation, load it if needed, use it, leave it."""

        def connect(sink: Sink[T], scope: Scope) -> None:
            def take() -> Flow[KeptConversation]:
                try:
                    return just(self._take(pair, scope.loop, closed=closed))
                except Exception as error:
                    return next_turn(throw(error))

            def begin(kept: KeptConversation) -> abc.ObservableBase[T]:
                if kept.agent is not None and kept.memory is not None:
                    return use(kept.agent, kept.memory)
                # `then`: when the load has completed, it has released the running flag
                return self._load(kept).pipe(then(lambda: begin(kept)))

            def release(kept: KeptConversation, ending: Outcome) -> Flow[object] | None:
                return self._leave(kept, scope.loop)

            attach(using(lambda: defer(take), begin, release), sink, scope)

        return connect

    def _take(self, pair: Pair, loop: asyncio.AbstractEventLoop, *, closed: bool) -> KeptConversation:
        if self._closed and not closed:
            raise PoolClosedError(*pair)
        try:
            return self._kept.take(pair, lambda: check_key(self._key(*pair)), loop)
        except LookupError as error:
            raise ConfigurationError(
                f"key(user, session_id) has returned {error.args[0]!r} for two conversations. It must give each pair "
                "a key of its own: leave it out, or build it with conversation_key."
            ) from None

    def _leave(self, kept: KeptConversation, loop: asyncio.AbstractEventLoop) -> Flow[object] | None:
        agent, memory = kept.agent, kept.memory
        if agent is None or memory is None:
            self._kept.leave(kept, loop)
            return None
        return self._check(kept, agent, memory, loop) if self._kept.is_last(kept, loop) else None

    def _check(
        self, kept: KeptConversation, agent: Agent, memory: Memory, loop: asyncio.AbstractEventLoop
    ) -> Flow[object]:
        """End the last use, once it is known if the conversation is saved."""
        uses = kept.uses

        def unknown(error: Exception) -> Flow[bool]:
            report_dropped(error, f"comparing conversation {kept.key} with its saved state")
            return just(False)

        def leave(saved: bool) -> Flow[object]:
            left = self._kept.leave(kept, loop, saved=saved, uses=uses)
            return empty() if left else self._check(kept, agent, memory, loop)

        saved = is_saved(agent.conversation(memory), agent.name, memory, Binding(self._session, kept.key))
        return saved.pipe(catch(unknown), concat_map(leave))

    # --- loading --------------------------------------------------------------------------------------------------

    def _load(self, kept: KeptConversation) -> Flow[object]:
        """Load the conversation, one call at a time: the others find it loaded, or get the same error.

        Signals: completion when it is loaded; the error of the load.
        Cancels: the load; a call that waits begins it again.
        """

        def load() -> Flow[object]:
            if kept.failure is not None:
                return throw(kept.failure)
            if kept.agent is not None:
                return empty()
            loading = defer(lambda: self._agent_of(kept.pair).pipe(concat_map(lambda agent: self._bind(kept, agent))))
            return loading.pipe(catch(failed))

        def failed(error: Exception) -> Flow[object]:
            self._kept.failed(kept, error)
            return throw(error)

        return kept.turn.around(defer(load))

    def _bind(self, kept: KeptConversation, agent: Agent) -> Flow[object]:
        memory = self._memory(*kept.pair)
        check_kind("memory", memory, Memory, needed=True)
        elsewhere = agent.conversation(memory).saved_as
        if elsewhere is not None and elsewhere != kept.key:
            raise ConfigurationError(
                f"memory(user, session_id) has returned the memory of conversation {elsewhere!r} for {kept.key!r}. "
                "It must give each conversation a memory of its own."
            )

        def loaded() -> Flow[object]:
            self._kept.loaded(kept, agent, memory)
            return empty()

        bound = agent.bind(
            self._session,
            kept.key,
            memory=memory,
            file_root=self._file_root,
            lease=self._lease,
            checkpoint=self._checkpoint,
        )
        return bound.pipe(then(loaded))

    def _agent_of(self, pair: Pair) -> Flow[Agent]:
        if isinstance(self._agent, Agent):
            return just(self._agent)
        made = self._agent(*pair)
        if isinstance(made, abc.ObservableBase):
            return flow(made).pipe(concat_map(_check_agent))
        if inspect.isawaitable(made):
            return from_awaitable(made).pipe(concat_map(_check_agent))
        return just(_check_agent(made))


def _in_memory(user: str, session_id: str) -> Memory:
    return InMemoryMemory()


def _check_bounds(max_kept: object, max_idle: object) -> None:
    if not isinstance(max_kept, int) or isinstance(max_kept, bool) or max_kept < 0:
        raise ConfigurationError(f"max_kept must be a whole number of at least 0, not {max_kept!r:.60}.")
    if max_idle is None:
        return
    if not isinstance(max_idle, (int, float)) or isinstance(max_idle, bool) or not max_idle > 0:
        raise ConfigurationError(f"max_idle must be a number of seconds above 0, or None, not {max_idle!r:.60}.")


def _check_agent(agent: Agent) -> Agent:
    if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"The function of a ConversationPool must return an Agent, not {agent!r:.60}.")
    parts = agent.state_persistence
    if not (parts.memory and parts.pending):
        raise ConfigurationError(
            f"Agent {agent.name!r} saves only a part of a conversation: a ConversationPool would lose the rest at "
            "an eviction. Make it without state_persistence."
        )
    return agent
