"""Compacted conversations in every store: the same view there, in copies, forks and exports, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agentscope_rx import InMemoryMemory, Msg, ReActAgent
from agentscope_rx.cli.main import main as command
from agentscope_rx.context_policy import CompactionHook, ShortenResults, Summarize
from agentscope_rx.context_policy.compacting import sent_view
from agentscope_rx.memory.short_forms import has_short_forms
from agentscope_rx.messages import COMPRESSED
from agentscope_rx.session import Session, copy_session, open_session
from agentscope_rx.testing import ScriptedModel
from tests.context_policy.parts import Summariser, conversation
from tests.support.servers import Server, postgres_url, redis_url

KEY = "a long talk"


@pytest.fixture(params=["files", "sessions.db", "postgres", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder, a SQLite file, or a server."""
    if request.param in ("files", "sessions.db"):
        yield str(tmp_path / request.param)
        return
    server: Server = request.getfixturevalue(request.param)
    url = postgres_url(server) if request.param == "postgres" else redis_url(server)
    yield url

    async def clean() -> None:
        session = open_session(url)
        for key in await session.keys():
            await session.delete(key)
        await session.close()

    asyncio.run(clean())


def friday(history: Sequence[Msg] = (), **options: object) -> ReActAgent:
    hook = CompactionHook(strategies=[ShortenResults(), Summarize(model=Summariser())], max_tokens=100_000)
    memory = InMemoryMemory(list(history))
    return ReActAgent("Friday", ScriptedModel("ok", repeat=True), memory=memory, hooks=[hook], **options)  # pyright: ignore[reportArgumentType]


def plain(messages: Sequence[Msg]) -> list[object]:
    return [each.to_dict() for each in messages]


async def loaded(session: Session, key: str = KEY, **options: object) -> tuple[list[object], list[object]]:
    """The messages of a session, and what a request sends of them."""
    agent = friday()
    assert await agent.load(session, key, **options)  # pyright: ignore[reportArgumentType]
    messages = await agent.memory.get()
    return plain(messages), plain(sent_view(messages))


async def compacted(session: Session) -> tuple[ReActAgent, list[object], list[object]]:
    """A bound agent that has compacted its conversation between two calls, and both as they were before."""
    agent = friday(conversation(30, words=1_500))
    await agent.bind(session, KEY)
    await agent.call("What was there?")
    before = await agent.memory.get()
    old = (plain(before), plain(sent_view(before)))
    assert old[0] == old[1] and (await agent.compact()).replaced
    await agent.call("And now?")
    messages = await agent.memory.get()
    assert any(map(has_short_forms, messages)) and any(COMPRESSED in each.marks for each in messages)
    return agent, *old


def test_each_store_keeps_the_view_and_the_way_back(place: str, tmp_path: Path) -> None:
    async def main() -> None:
        session = open_session(place)
        agent, old, old_sent = await compacted(session)
        messages = await agent.memory.get()
        now = (plain(messages), plain(sent_view(messages)))
        assert await loaded(session) == now
        checkpoints = await session.history(KEY)
        assert [each.stage for each in checkpoints] == ["run", "compact", "run"]
        assert await loaded(session, at=checkpoints[0]) == (old, old_sent)
        # copies
        await session.fork(KEY, to="fork")
        await session.fork(KEY, to="fork before", at=checkpoints[0])
        assert await loaded(session, "fork") == now
        assert await loaded(session, "fork before") == (old, old_sent)
        folder = open_session(str(tmp_path / "copies"))
        await copy_session(KEY, session, folder)
        assert await loaded(folder) == now
        assert await loaded(folder, at=(await folder.history(KEY))[0]) == (old, old_sent)
        await session.prune(KEY, keep=1)
        assert await loaded(session) == now
        assert len(await session.history(KEY)) == 1
        for each in (session, folder):
            await each.close()
        # by the command, there and back
        exported = str(tmp_path / "exported")
        assert await asyncio.to_thread(command, ["sessions", "export", place, exported, KEY]) == 0
        assert await asyncio.to_thread(command, ["sessions", "import", str(tmp_path / "back"), exported, KEY]) == 0
        back = open_session(str(tmp_path / "back"))
        assert await loaded(back) == now
        await back.close()

    asyncio.run(main())
