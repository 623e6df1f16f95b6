"""`AgentHost`: the agents that the protocols serve, with the conversations and runs of their clients.

    POST ... --> protocol --> host.begin("assistant", input, user=..., session_id=...) --> LiveRun --> SSEResponse

A conversation is one of three:

| the request has            | the conversation                                                                    |
|----------------------------|-------------------------------------------------------------------------------------|
| a session id               | is stored: the pool of the agent loads it, runs it and saves it                     |
| its whole history          | is the request's own, in a memory that the protocol makes                           |
| neither                    | begins with the input, and is gone at the end of the run                            |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from os import PathLike
from types import TracebackType
from typing import Self
from urllib.parse import quote

from starlette.requests import Request
from typing_extensions import Unpack

from agentscope_rx.agent import Agent, ConversationPool, GracefulShutdown
from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.agent.input import CallInput
from agentscope_rx.agent.pool.leased_conversation import PoolCallOptions, conversation_key
from agentscope_rx.agent.saving_agent import session_at
from agentscope_rx.agent.shutdown import ShutdownReport
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event, StreamOptions
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.reactive import Flow
from agentscope_rx.service.failure import ServiceStoppingError, UnknownAgentError
from agentscope_rx.service.runs.conversations import ConversationRuns, RunFeed
from agentscope_rx.service.runs.finder import RunFinder
from agentscope_rx.service.runs.live_run import MAX_LOG_BYTES, LiveRun, OnDisconnect, OnDisconnectChoice, bounds_of
from agentscope_rx.service.runs.registry import Runs
from agentscope_rx.service.runs.relay import RunRelay
from agentscope_rx.service.runs.relayed_run import RelayedRun
from agentscope_rx.session import InMemorySession, LeasePolicy, Session, WhenHeld

ANYONE = "anyone"
"""The user of a service that does not tell its users apart."""


class AgentHost:
    """Agents by name, as protocols serve them. Use it as an async context manager: leaving it ends runs and pools.

    - `agents`: one agent, or agents by the name under which clients ask for them.
    - `sessions`: where conversations are stored, a `Session`, or its path or URL; by default in memory. `lease` lets
      several processes serve the same conversations; `file_root` is the folder of files that messages may name.
    - `user_of`: the user of a request, from its authentication. Without it all clients are one user.
    - `runs`: the runs of the application. `on_disconnect`, `log_capacity` and `max_log_bytes` are those of each run.
    - `shutdown`: how long runs may go on once `drain` was called, 30 seconds by default.
    - `relay`: lets clients follow, interrupt and stop runs of the other processes that have the same relay.
    """

    def __init__(
        self,
        agents: Agent | Mapping[str, Agent],
        *,
        sessions: Session | str | PathLike[str] | None = None,
        lease: LeasePolicy | WhenHeld | None = None,
        file_root: str | PathLike[str] | None = None,
        user_of: Callable[[Request], str] | None = None,
        runs: Runs | None = None,
        on_disconnect: OnDisconnectChoice = OnDisconnect.STOP,
        log_capacity: int | None = None,
        max_log_bytes: int = MAX_LOG_BYTES,
        shutdown: GracefulShutdown | None = None,
        relay: RunRelay | None = None,
    ) -> None:
        named = {agents.name: agents} if isinstance(agents, Agent) else dict(agents)
        if not named:
            raise ConfigurationError("An AgentHost needs at least one agent.")
        for name, agent in named.items():
            if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"The agent {name!r:.60} must be an Agent, not {agent!r:.60}.")
        bounds_of(on_disconnect, log_capacity, max_log_bytes)
        self.session: Session = InMemorySession() if sessions is None else session_at(sessions)
        self.stores: bool = sessions is not None
        """The conversations outlast the process, or belong to the application."""
        self.shared: bool = lease is not None
        """Other processes may serve the same conversations."""
        self.agents: Mapping[str, Agent] = named
        self.file_root = file_root
        self.runs: Runs = runs or Runs()
        self.shutdown: GracefulShutdown = shutdown or GracefulShutdown()
        for agent in named.values():
            self.shutdown.add(agent)
        self.relay: RunRelay | None = relay
        self.finder: RunFinder = RunFinder(self.runs, relay, shared=self.shared)
        self._user_of = user_of
        self._on_disconnect: OnDisconnectChoice = on_disconnect
        self._log_capacity = log_capacity
        self._max_log_bytes = max_log_bytes
        self._stack = AsyncExitStack()
        self._conversations = ConversationRuns()
        self._pools = {
            name: ConversationPool(
                agent,
                self.session,
                key=partial(self.key, name),
                file_root=file_root,
                lease=lease,
            )
            for name, agent in named.items()
        }

    def agent(self, name: str | None = None) -> Agent:
        """The agent of this name, or the only one; `UnknownAgentError` if there is none."""
        return self.agents[self.name_of(name)]

    def name_of(self, name: str | None) -> str:
        """The name of the agent that a request asks for; `UnknownAgentError` if there is none."""
        if name is None and len(self.agents) == 1:
            return next(iter(self.agents))
        if name is None or name not in self.agents:
            raise UnknownAgentError(name, tuple(self.agents))
        return name

    def pool(self, name: str | None = None) -> ConversationPool:
        """The stored conversations of an agent."""
        return self._pools[self.name_of(name)]

    def key(self, name: str, user: str, session_id: str) -> str:
        """The session's key of a conversation: another one for each agent, user and session id."""
        return f"{quote(name, safe='')}/{conversation_key(user, session_id)}"

    def user_of(self, request: Request) -> str:
        """The user of a request, who reaches the own conversations only."""
        return ANYONE if self._user_of is None else self._user_of(request)

    def begin(
        self,
        name: str | None,
        input: CallInput,
        *,
        user: str = ANYONE,
        session_id: str | None = None,
        memory: Memory | None = None,
        through: Callable[[Flow[Event]], Flow[Event]] | None = None,
        stream_options: StreamOptions | None = None,
        on_disconnect: OnDisconnectChoice | None = None,
        record: Callable[[Event], LoggedEvent] = LoggedEvent,
        **options: Unpack[PoolCallOptions],
    ) -> LiveRun:
        """A run of this agent, which begins when its first client follows it.

        With a `session_id` it is a run of the stored conversation of this user, else of the conversation in `memory`,
        by default a new one. `through` may do more with the events of the run; `record` is that of `Runs.add`;
        `on_disconnect` is that of the host unless given. Options as for `Agent.call`. `ServiceStoppingError` once
        `drain` was called.
        """
        if self.draining:
            raise ServiceStoppingError
        agent = self.agent(name)
        if session_id is not None:
            events: Flow[Event] = self.pool(name).stream(user, session_id, input, stream_options, **options)
        else:
            own = InMemoryMemory() if memory is None else memory
            events = agent.stream(input, stream_options, memory=own, **options)
        run = self.runs.add(
            events if through is None else through(events),
            on_disconnect=self._on_disconnect if on_disconnect is None else on_disconnect,
            capacity=self._log_capacity,
            max_bytes=self._max_log_bytes,
            agent=agent,
            record=record,
        )
        conversation = None if session_id is None else self.key(self.name_of(name), user, session_id)
        if conversation is not None:
            self._conversations.add(conversation, run)
        if self.relay is not None:
            self.relay.publish(run, conversation)
        return run

    async def find_live(self, name: str | None, user: str, session_id: str) -> LiveRun | RelayedRun | None:
        """The run of this stored conversation that is in progress here, or in another process of the `relay`."""
        here = self.live_run(name, user, session_id)
        return here or await self.finder.find_conversation(self.key(self.name_of(name), user, session_id))

    def live_run(self, name: str | None, user: str, session_id: str) -> LiveRun | None:
        """The run of this stored conversation that is in progress in this process, once it has begun."""
        return self._conversations.find(self.key(self.name_of(name), user, session_id))

    def feed(self, name: str | None, user: str, session_id: str) -> RunFeed:
        """A reader of this conversation's runs, one behind the other: see `ConversationRuns.feed`."""
        return self._conversations.feed(self.key(self.name_of(name), user, session_id))

    def pending_calls(self, name: str | None, user: str, session_id: str) -> Flow[tuple[ToolUseBlock, ...]]:
        """The calls of a stored conversation that wait for an answer.

        Signals and cancels: as `ConversationPool.pending_calls`.
        """
        return self.pool(name).pending_calls(user, session_id)

    @property
    def draining(self) -> bool:
        """True once `drain` was called: no further run begins."""
        return self.shutdown.refuses

    def drain(self) -> Flow[ShutdownReport]:
        """Refuse further runs, and wait for those in progress; after the time of `shutdown` they are cut off.

        The next run of a stored conversation goes on where one was cut off, in any process.

        Signals: the report, when all runs have ended.
        Cancels: the waiting; the shutdown continues.
        """
        return self.shutdown.begin()

    async def __aenter__(self) -> Self:
        stack = AsyncExitStack()
        for pool in self._pools.values():
            await stack.enter_async_context(pool)
        if self.relay is not None:
            await self.relay.sweep()
            stack.push_async_callback(self.relay.aclose)
        # left first: the pools and the relay wait for the runs
        await stack.enter_async_context(self.runs)
        self._stack = stack
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
