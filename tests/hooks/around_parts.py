"""What the tests of hooks around a flow share: runs that are watched to their end, and what must hold then."""

from __future__ import annotations

import asyncio
from typing import Any

from agentscope_rx import ReActAgent, TextBlock
from agentscope_rx.events import Event, fold
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.testing import run_virtual
from tests.agent.parts import assert_whole, remembered


class Watched:
    """A run as its subscriber sees it: events with their times, and how it ended."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        self.error: Exception | None = None

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    @property
    def reply(self) -> str:
        message = fold(self.events).message
        assert message is not None
        return message.text

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if type(event) is kind]


async def watching(someone: ReActAgent, *args: Any, **options: Any) -> Watched:
    """Watch one run; afterwards memory is whole, equals the folded events, and the flag is free."""
    watched = Watched()
    before = len(remembered(someone))
    loop = asyncio.get_running_loop()
    try:
        async for event in someone.stream(*(args or ("hi",)), **options):
            watched.events.append(event)
            watched.times.append(loop.time())
    except Exception as error:
        watched.error = error
    assert not someone.running
    assert_whole(someone)
    assert list(fold(watched.events).history) == list(remembered(someone))[before:]
    if watched.error is None:
        assert watched.types[-1] == "post_call"
        assert [event.type for event in watched.events if event.depth == 0].count("post_call") == 1
    else:
        assert watched.types[-1] == "error"
    return watched


def watch(someone: ReActAgent, *args: Any, **options: Any) -> Watched:
    """`watching`, in virtual time."""
    return run_virtual(watching(someone, *args, **options))


def chunk(text: str) -> ChatResponse:
    """One piece of an answer."""
    return ChatResponse((TextBlock(text),))
