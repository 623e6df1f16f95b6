"""`StoredResponses`: the conversations that responses leave, by response id."""

from __future__ import annotations

from collections import OrderedDict
from secrets import token_urlsafe

from reactivex import operators as ops

from agentscope_rx.agent import Agent
from agentscope_rx.events import Event, PostCallEvent
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.reactive import Flow, concat, concat_map, defer, empty, flow
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.openai.answer import unanswerable
from agentscope_rx.service.protocols.openai.failures import UnknownResponseError

MAX_STORED = 1000
"""How many responses are kept when the host has no store of its own."""


class StoredResponses:
    """Each response has a conversation of its own, so that several may continue the same one.

    They are in the session of the host. Without one they are in memory: the last `limit` of them.
    """

    def __init__(self, host: AgentHost, limit: int = MAX_STORED) -> None:
        self._host = host
        self._limit = limit
        self._own: OrderedDict[str, str] = OrderedDict()

    def new_id(self) -> str:
        """The id of another response, which cannot be guessed."""
        return f"resp_{token_urlsafe(24)}"

    async def load(self, agent: Agent, name: str, user: str, id: str) -> InMemoryMemory:
        """The conversation as this response left it; `UnknownResponseError` if it is not stored."""
        memory = InMemoryMemory()
        if not await agent.load(self._host.session, self._key(name, user, id), memory=memory):
            raise UnknownResponseError(id)
        return memory

    def saving(
        self, events: Flow[Event], agent: Agent, name: str, user: str, id: str, memory: InMemoryMemory
    ) -> Flow[Event]:
        """The events of a run; the conversation is saved before they complete.

        One that waits for a person is not saved: its client could answer in the person's place.

        Signals: the events; the error of the save.
        Cancels: the run, or the save.
        """
        key = self._key(name, user, id)
        asking = False

        def look(event: Event) -> None:
            nonlocal asking
            if isinstance(event, PostCallEvent) and not event.depth:
                asking = unanswerable(event.message) is not None

        def save() -> Flow[Event]:
            if asking:
                return empty()
            return agent.save(self._host.session, key, memory=memory).pipe(concat_map(lambda _: self._kept(key)))

        return flow(concat(events.pipe(ops.do_action(look)), defer(save)))

    async def delete(self, name: str, user: str, id: str) -> bool:
        """Remove the conversation of this response; False if there was none."""
        key = self._key(name, user, id)
        self._own.pop(key, None)
        return await self._host.session.delete(key)

    def _kept(self, key: str) -> Flow[Event]:
        if self._host.stores:
            return empty()
        self._own[key] = key
        if len(self._own) <= self._limit:
            return empty()
        oldest, _ = self._own.popitem(last=False)
        return self._host.session.delete(oldest).pipe(concat_map(_nothing))

    def _key(self, name: str, user: str, id: str) -> str:
        return self._host.key(name, user, id)


def _nothing(_: bool) -> Flow[Event]:
    return empty()
