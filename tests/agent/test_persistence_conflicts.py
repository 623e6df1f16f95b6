"""Two agents bound to one key: no round is ever lost without a word, and one that has lost the race can go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory
from agentscope_rx.agent import StatePersistence
from agentscope_rx.agent.interruption import InterruptSource
from agentscope_rx.errors import ConfigurationError, SessionConflictError, SessionError
from agentscope_rx.events import ErrorEvent
from agentscope_rx.reactive import then, throw
from agentscope_rx.session import InMemorySession, JsonSession, Session
from agentscope_rx.testing import collect_dropped, run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel
from tests.agent.parts import agent, assert_whole, remembered


@pytest.fixture(params=["memory", "files"])
def session(request, tmp_path: Path) -> Session:
    return InMemorySession() if request.param == "memory" else JsonSession(tmp_path)


def friday(*turns: object, **options: Any):
    return agent(ScriptedModel(*(turns or ("ok",)), repeat=True), **options)


def said(found: Any) -> list[str]:
    return [message.text for message in found]


async def stored(session: Session, key: str = "s") -> list[str]:
    twin = friday()
    await twin.load(session, key)
    return said(remembered(twin))


def test_the_second_of_two_agents_replaces_nothing(session: Session):
    async def main() -> None:
        one, other = friday("one"), friday("other")
        await one.bind(session, "s")
        await other.bind(session, "s")
        await one.call("a")
        with pytest.raises(SessionConflictError, match="Nothing was written") as caught:
            await other.call("b")
        assert caught.value.key == "s" and caught.value.expected is None
        assert caught.value.found == (await session.load_all("s")).version
        assert await stored(session) == ["a", "one"]
        assert said(remembered(other)) == ["b", "other"], "its reply is not lost"

        # read again, it goes on, still bound
        assert await other.load(session, "s")
        await other.call("c")
        assert await stored(session) == ["a", "one", "c", "other"]
        with pytest.raises(SessionConflictError) as caught:
            await one.call("d")
        assert None not in (caught.value.expected, caught.value.found)
        # or it keeps its own, by name
        await one.save(session, "s", overwrite=True)
        await one.call("e")
        assert await stored(session) == ["a", "one", "d", "one", "e", "one"]

    run_virtual(main())


def test_a_conflict_is_the_last_event_of_the_run():
    async def main() -> None:
        session, events = InMemorySession(), list[object]()
        one, other = friday(), friday("other")
        await one.bind(session, "s")
        await other.bind(session, "s")
        await one.call("a")
        with pytest.raises(SessionConflictError):
            await other.stream("b").pipe(ops.do_action(events.append))
        assert isinstance(events[-1], ErrorEvent) and events[-1].error_type == "SessionConflictError"
        assert not other.running
        assert_whole(other)

    run_virtual(main())


def test_what_was_never_loaded_is_replaced_by_name_only(session: Session):
    async def main() -> None:
        one, other = friday("one"), friday("other")
        await one.call("a")
        await one.save(session, "s")
        await one.call("b")
        await one.save(session, "s")
        await other.call("c")
        with pytest.raises(SessionConflictError, match="overwrite=True"):
            await other.save(session, "s")
        assert await stored(session) == ["a", "one", "b", "one"]
        await other.save(session, "another key")
        await other.save(session, "s", overwrite=True)
        await other.save(session, "s")
        assert await stored(session) == ["c", "other"]
        with pytest.raises(ConfigurationError, match="overwrite"):
            other.save(session, "s", overwrite=None)  # type: ignore[arg-type]

    run_virtual(main())


def test_what_was_left_aside_is_not_replaced(session: Session):
    """Only the pending state is read: a save of all would lose the messages."""

    async def main() -> None:
        one, other = friday("one"), friday("other")
        await one.call("a")
        await one.save(session, "s")
        await other.load(session, "s", persistence=StatePersistence(memory=False))
        await other.save(session, "s", persistence=StatePersistence(memory=False))
        with pytest.raises(SessionConflictError):
            await other.save(session, "s")
        assert await stored(session) == ["a", "one"]

    run_virtual(main())


def test_entries_of_others_under_the_same_key_are_no_conflict(session: Session):
    async def main() -> None:
        one = friday("one")
        await session.save("s", "title", "Mine")
        await one.bind(session, "s")
        await one.call("a")
        await session.save("s", "title", "Changed")
        await one.call("b")
        assert await stored(session) == ["a", "one", "b", "one"]
        assert await session.load("s", "title") == "Changed"
        # and before anything of it was read
        other = friday("other")
        await session.save("t", "title", "Mine")
        await other.call("c")
        await other.save(session, "t")
        assert await stored(session, "t") == ["c", "other"]

    run_virtual(main())


def test_another_object_of_the_same_folder_is_the_same_session(tmp_path: Path):
    async def main() -> None:
        one, other = friday("one"), friday("other")
        await one.call("a")
        await one.save(JsonSession(tmp_path), "s")
        await other.load(JsonSession(tmp_path), "s")
        await other.call("b")
        await other.save(JsonSession(tmp_path), "s")
        assert await stored(JsonSession(tmp_path)) == ["a", "one", "b", "other"]

    run_virtual(main())


class Unsure(InMemorySession):
    """Keeps what it is given, and says that it could not, as a store does whose answer is lost on its way."""

    unsure = False

    def save_all(self, key, values, lists=None, **options):
        saving = super().save_all(key, values, lists, **options)
        return saving.pipe(then(lambda: throw(SessionError("gone", key=key)))) if self.unsure else saving


def test_a_save_whose_end_is_not_known_is_no_conflict():
    async def main() -> None:
        session = Unsure()
        one, other = friday("one"), friday("other")
        await one.bind(session, "s")
        await one.call("a")
        session.unsure = True
        for text in ("b", "c"):
            with pytest.raises(SessionError, match="gone"):
                await one.call(text)
        session.unsure = False
        await one.call("d")
        assert await stored(session) == ["a", "one", "b", "one", "c", "one", "d", "one"]
        # but another's save in between is one
        session.unsure = True
        with pytest.raises(SessionError, match="gone"):
            await one.call("e")
        session.unsure = False
        await other.bind(session, "s")
        await other.call("f")
        with pytest.raises(SessionConflictError):
            await one.call("g")

    run_virtual(main())


def test_runs_that_overlap_in_one_conversation_do_not_conflict(session: Session):
    async def main() -> None:
        one = friday([Delay(1), "one"], check_running=False)
        await one.bind(session, "s")
        await asyncio.gather(*(one.call(f"{n}").as_task() for n in range(6)))
        assert sorted(await stored(session)) == sorted([*"012345", *["one"] * 6])
        assert await stored(session) == said(remembered(one))

    run_virtual(main())


def test_two_memories_of_one_agent_under_one_key_conflict(session: Session):
    async def main() -> None:
        one, left, right = friday("one"), InMemoryMemory(), InMemoryMemory()
        await one.bind(session, "s", memory=left)
        await one.bind(session, "s", memory=right)
        await one.call("a", memory=left)
        with pytest.raises(SessionConflictError):
            await one.call("b", memory=right)
        assert await stored(session) == ["a", "one"]

    run_virtual(main())


def test_a_conversation_that_was_deleted_is_not_brought_back(session: Session):
    async def main() -> None:
        one = friday("one")
        await one.bind(session, "s")
        await one.call("a")
        await session.delete("s")
        with pytest.raises(SessionConflictError) as caught:
            await one.call("b")
        assert caught.value.found is None and not await session.exists("s")
        assert await one.load(session, "s") is False
        await one.call("c")
        assert await stored(session) == ["a", "one", "b", "one", "c", "one"]

    run_virtual(main())


def test_who_has_interrupted_the_last_run_is_saved(session: Session):
    async def main() -> None:
        one = friday("one", [Delay(10), "late"], "again")
        await one.bind(session, "s")

        async def interrupted() -> InterruptSource | None:
            twin = friday()
            await twin.load(session, "s")
            assert twin.conversation().interrupted is one.conversation().interrupted
            return twin.conversation().interrupted

        await one.call("a")
        assert await interrupted() is None
        running = one.call("b").as_task()
        await asyncio.sleep(1)
        one.interrupt(source=InterruptSource.SYSTEM)
        await running
        assert await interrupted() is InterruptSource.SYSTEM
        await one.call("c")
        assert await interrupted() is None

    run_virtual(main())


# what an agent does: a round, a load, a save, a save of what it has in the place of anything, the end of its process
steps = st.lists(
    st.tuples(st.sampled_from(["call", "call", "call", "load", "save", "new"]), st.integers(0, 1)), max_size=16
)


@pytest.mark.parametrize("kind", ["memory", "files"])
@given(steps, st.booleans())
@settings(max_examples=30)
def test_no_round_is_lost_without_a_word(
    kind: str, tmp_path_factory: pytest.TempPathFactory, done: list[tuple[str, int]], bound: bool
):
    session: Session = InMemorySession() if kind == "memory" else JsonSession(tmp_path_factory.mktemp("s"))
    kept: list[str] = []

    async def main() -> None:
        agents = [friday(), friday()]
        mine: list[list[str]] = [[], []]

        async def begin(who: int) -> None:
            agents[who] = friday()
            await (agents[who].bind if bound else agents[who].load)(session, "s")
            mine[who] = [*kept]

        await begin(0)
        await begin(1)
        for number, (step, who) in enumerate(done):
            one = agents[who]
            try:
                if step == "call":
                    mine[who].append(f"{number}")
                    await one.call(f"{number}")
                elif step == "load":
                    found = await one.load(session, "s")
                    assert found or not kept
                    mine[who] = [*kept] if found else mine[who]
                elif step == "save":
                    await one.save(session, "s")
                else:
                    await begin(who)
            except SessionConflictError:
                pass
            else:
                if step == "save" or (step == "call" and bound):
                    assert mine[who][: len(kept)] == kept, "it has replaced rounds that it did not know"
                    kept[:] = mine[who]
            assert [text for text in await stored(session) if text != "ok"] == kept
            assert [text for text in said(remembered(agents[who])) if text != "ok"] == mine[who]

    with collect_dropped() as dropped:
        run_virtual(main())
    assert dropped == []
