"""What the tests of a pool share: a model that answers each conversation for itself, and sessions that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agentscope_rx import ConversationPool, InMemoryMemory, InMemorySession, Memory, Msg
from agentscope_rx.errors import SessionStorageError
from agentscope_rx.models import GenerateOptions
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, concat, empty, from_callable, then, throw
from agentscope_rx.session import Saved
from agentscope_rx.testing import Delay, ScriptedModel


class Counting(ScriptedModel):
    """Replies with the number of user messages in the conversation and the last one's text."""

    def __init__(self, delay: float = 0.0) -> None:
        super().__init__("x")
        self.delay = delay

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        said = [message.text for message in messages if message.role == "user"]
        turn: list[Any] = [f"{len(said)}: {said[-1]}"]
        return ScriptedModel([Delay(self.delay), *turn] if self.delay else turn).do_stream(messages, tools, options)


class SlowSession(InMemorySession):
    """Takes a second for each load and save; `failing` names the methods that fail. Counts the loads."""

    def __init__(self, seconds: float = 1.0) -> None:
        super().__init__()
        self.seconds = seconds
        self.failing: set[str] = set()
        self.loads = 0
        self.saves = 0

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        self.loads += 1
        return self._slowly("load", key, super().load_all(key, names))

    def save_all(
        self,
        key: str,
        values: Mapping[str, object] | None = None,
        lists: Mapping[str, Sequence[object]] | None = None,
        **options: Any,
    ) -> Flow[str]:
        self.saves += 1
        return self._slowly("save", key, super().save_all(key, values or {}, lists or {}, **options))

    def _slowly(self, what: str, key: str, flow: Flow[Any]) -> Flow[Any]:
        async def wait() -> None:
            await asyncio.sleep(self.seconds)

        def act() -> Flow[Any]:
            return throw(SessionStorageError(key, "the disk", "full")) if what in self.failing else flow

        return concat(from_callable(wait) if self.seconds else empty()).pipe(then(act))


def said(memory: Memory) -> list[str]:
    assert isinstance(memory, InMemoryMemory)
    return [message.text for message in memory.messages]


async def stored(pool: ConversationPool, user: str, session_id: str) -> list[str]:
    """The texts of a conversation."""
    async with pool.conversation(user, session_id) as leased:
        return said(leased.memory)
