"""Checkpoints: each save is one, any of them can be gone back to, and nothing of the log is lost by that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import Approve, InMemoryMemory, Msg, ReActAgent, tool
from agentscope_rx.agent import StatePersistence
from agentscope_rx.errors import (
    CheckpointError,
    ConfigurationError,
    InvalidInputError,
    SavedStateError,
    SessionConflictError,
    SessionError,
)
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.reactive import then, throw
from agentscope_rx.session import Checkpoint, InMemorySession, JsonSession, Session
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.parts import agent, remembered


@pytest.fixture(params=["memory", "files"])
def session(request: Any, tmp_path: Path) -> Session:
    return InMemorySession() if request.param == "memory" else JsonSession(tmp_path)


def friday(*turns: Any, **options: Any) -> ReActAgent:
    return agent(ScriptedModel(*(turns or ("ok",)), repeat=True), **options)


def said(found: ReActAgent) -> list[str]:
    return [message.text for message in remembered(found)]


def shape(checkpoints: list[Checkpoint]) -> list[tuple[int, int | None, int]]:
    return [(each.id, each.parent, each.messages) for each in checkpoints]


def test_each_run_is_a_checkpoint(session: Session):
    async def main() -> None:
        one = friday("1", "2", "3")
        assert await session.history("s") == []
        await one.bind(session, "s")
        assert await session.history("s") == []
        for text in "abc":
            await one.call(text)
        found = await session.history("s")
        assert shape(found) == [(1, None, 2), (2, 1, 4), (3, 2, 6)]
        assert {each.stage for each in found} == {"run"} and len({each.run for each in found}) == 3
        assert found[0].at <= found[1].at <= found[2].at and found[0].at.tzinfo is not None
        # a save between runs is one, too, if there is something new
        await one.save(session, "s")
        assert len(await session.history("s")) == 3
        await one.memory.add([Msg.user("d")])
        await one.save(session, "s")
        last = (await session.history("s"))[-1]
        assert (last.id, last.parent, last.messages, last.stage, last.run) == (4, 3, 7, "save", None)

    run_virtual(main())


def test_one_can_go_back_go_on_and_go_forward_again(session: Session):
    async def main() -> None:
        one = friday("1", "2", "3", "4", "5")
        await one.bind(session, "s")
        for text in "abc":
            await one.call(text)
        first, second, third = await session.history("s")
        assert await one.load(session, "s", at=first)
        assert said(one) == ["a", "1"]
        # until the next save the session is as it was
        twin = friday()
        await twin.load(session, "s")
        assert said(twin) == ["a", "1", "b", "2", "c", "3"]
        await one.call("x")
        assert said(one) == ["a", "1", "x", "4"]
        assert shape(await session.history("s")) == [(1, None, 2), (2, 1, 4), (3, 2, 6), (4, 1, 4)]
        # the other way is still there
        await one.load(session, "s", at=third.id)
        assert said(one) == ["a", "1", "b", "2", "c", "3"]
        await one.call("y")
        assert said(one)[-2:] == ["y", "5"] and shape(await session.history("s"))[-1] == (5, 3, 8)
        await one.load(session, "s", at=4)
        assert said(one) == ["a", "1", "x", "4"]
        await one.load(session, "s", at=second)
        assert said(one) == ["a", "1", "b", "2"]
        await one.load(session, "s")
        assert said(one)[-2:] == ["y", "5"]

    run_virtual(main())


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


def test_pending_calls_and_rules_come_back(session: Session):
    async def main() -> None:
        call = ToolUseBlock("c", "delete", {"path": "x"})
        one = friday([call], "done", "more", tools=[delete])
        await one.bind(session, "s")
        await one.call("go")
        await one.call(Approve("c", remember="tool"))
        assert one.conversation().rules and await one.pending_calls() == ()
        await one.load(session, "s", at=1)
        assert [each.id for each in await one.pending_calls()] == ["c"] and not one.conversation().rules
        assert (await one.call(Approve("c"))).text == "more"
        await one.load(session, "s", at=2)
        assert one.conversation().rules

    run_virtual(main())


def test_conversations_of_sub_agents_come_back(session: Session):
    """Also one that was dropped, and whose place another one has taken."""

    async def main() -> None:
        def ask(id: str) -> list[ToolUseBlock]:
            return [ToolUseBlock(id, "call_helper", {"message": id})]

        def boss() -> ReActAgent:
            helper = ReActAgent("Helper", ScriptedModel("yes", repeat=True))
            tools = [helper.as_tool(max_conversations=1)]
            return agent(ScriptedModel(ask("1"), "ok", ask("2"), "ok", ask("3"), "ok"), tools=tools)

        async def inner() -> list[str]:
            found = boss()
            await found.load(session, "s", at=at)
            await found.save(session, f"copy {at}")
            return [m["content"][0]["text"] for m in (await session.load_all(f"copy {at}")).lists["child:0"]]

        one = boss()
        await one.bind(session, "s")
        for _ in range(3):
            await one.call("go")
            # another process: it does not know the lists that count no longer
            again = boss()
            await again.bind(session, "s")
            again.model = one.model
            one = again
        for at in (1, 2, 3):
            assert await inner() == [f"{at}", "yes"]

    run_virtual(main())


def test_a_branch_grows_apart(session: Session):
    async def main() -> None:
        one = friday("1", "2", "3")
        await one.bind(session, "s")
        for text in "abc":
            await one.call(text)
        before = await session.load_all("s")
        forked = await session.fork("s", at=2, to="t")
        assert (forked.id, forked.messages) == (2, 4)
        assert await session.load_all("s") == before
        other = friday("4")
        assert await other.bind(session, "t")
        assert said(other) == ["a", "1", "b", "2"]
        await other.call("d")
        assert shape(await session.history("t")) == [(1, None, 2), (2, 1, 4), (3, 2, 6)]
        await other.load(session, "t", at=1)
        assert said(other) == ["a", "1"]
        assert await session.load_all("s") == before
        assert (await session.fork("s", to="u")).id == 3
        assert (await session.load_all("u")).lists == before.lists
        with pytest.raises(SessionConflictError):
            await session.fork("s", at=1, to="t")
        with pytest.raises(InvalidInputError, match="another key"):
            session.fork("s", at=1, to="s")
        with pytest.raises(CheckpointError, match="has 1 to 3"):
            await session.fork("s", at=9, to="v")
        assert not await session.exists("v")

    run_virtual(main())


def test_pruned_checkpoints_are_named_as_gone(session: Session):
    async def main() -> None:
        one = friday()
        await one.bind(session, "s")
        for text in "abcd":
            await one.call(text)
        assert await session.prune("s", keep=2) == 2
        assert await session.prune("s", keep=2) == 0
        assert [each.id for each in await session.history("s")] == [3, 4]
        with pytest.raises(CheckpointError, match="has 3 to 4") as caught:
            await one.load(session, "s", at=2)
        assert (caught.value.at, caught.value.first, caught.value.last) == (2, 3, 4)
        assert len(said(one)) == 8, "nothing was changed"
        # the agent did not know of it, and goes on
        await one.call("e")
        assert shape(await session.history("s")) == [(3, 2, 6), (4, 3, 8), (5, 4, 10)]
        await one.load(session, "s", at=3)
        assert len(said(one)) == 6
        assert await session.prune("nobody", keep=1) == 0
        for wrong in (-1, True, "1"):
            with pytest.raises(InvalidInputError, match="keep"):
                session.prune("s", keep=wrong)  # type: ignore[arg-type]

    run_virtual(main())


def test_without_a_history_there_is_none_to_go_back_to(session: Session):
    async def main() -> None:
        one = friday()
        await one.bind(session, "s", history=False)
        await one.call("a")
        await one.save(session, "s")
        assert "history" not in (await session.load_all("s")).lists
        with pytest.raises(CheckpointError, match="it has no history"):
            await one.load(session, "s", at=1)
        with pytest.raises(CheckpointError, match="no checkpoint: it has no history"):
            await session.fork("s", to="t")
        # another one begins it, and one without drops it: it would not fit
        other = friday()
        await other.bind(session, "s")
        await other.call("b")
        assert shape(await session.history("s")) == [(1, None, 4)]
        third = friday()
        await third.bind(session, "s", history=False)
        await third.call("c")
        assert await session.history("s") == []
        await other.load(session, "s")
        await other.call("d")
        assert shape(await session.history("s")) == [(2, 1, 8)]
        with pytest.raises(ConfigurationError, match="history"):
            other.bind(session, "s", history="no")  # type: ignore[arg-type]

    run_virtual(main())


@pytest.mark.parametrize("part", [StatePersistence.memory_only(), StatePersistence(memory=False)])
def test_a_save_of_a_part_drops_what_does_not_fit(session: Session, part: StatePersistence):
    async def main() -> None:
        one = friday()
        await one.bind(session, "s")
        await one.call("a")
        other = friday(state_persistence=part)
        await other.load(session, "s")
        await other.call("b")
        await other.save(session, "s")
        assert await session.history("s") == []
        with pytest.raises(ConfigurationError, match="persistence"):
            await other.load(session, "s", at=1)

    run_virtual(main())


def test_what_replaces_a_conversation_is_a_checkpoint_of_it(session: Session):
    async def main() -> None:
        one, other = friday("1"), friday("2")
        await one.bind(session, "s")
        await one.call("a")
        await other.call("b")
        with pytest.raises(SessionConflictError):
            await other.save(session, "s")
        await other.save(session, "s", overwrite=True)
        assert shape(await session.history("s")) == [(1, None, 2), (2, None, 2)]
        await other.load(session, "s", at=1)
        assert said(other) == ["a", "1"]
        await other.load(session, "s", at=2)
        assert said(other) == ["b", "2"]

    run_virtual(main())


class Unsure(InMemorySession):
    """Keeps what it is given, and says that it could not."""

    unsure = False

    def save_all(self, key: Any, values: Any, lists: Any = None, **options: Any) -> Any:
        saving = super().save_all(key, values, lists, **options)
        return saving.pipe(then(lambda: throw(SessionError("gone", key=key)))) if self.unsure else saving


def test_a_save_whose_end_is_not_known_is_one_checkpoint():
    async def main() -> None:
        session = Unsure()
        one = friday("1", "2", "3")
        await one.bind(session, "s")
        await one.call("a")
        session.unsure = True
        with pytest.raises(SessionError, match="gone"):
            await one.call("b")
        session.unsure = False
        await one.save(session, "s")
        await one.call("c")
        assert shape(await session.history("s")) == [(1, None, 2), (2, 1, 4), (3, 2, 6)]

    run_virtual(main())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda lists: lists["memory"].pop(), "has 3: it was changed by other means"),
        (lambda lists: lists["history"].append({"id": 3}), "item 2 of entry 'history' is no record"),
        (lambda lists: lists["history"].append("what"), "item 2 of entry 'history' is no record"),
    ],
)
def test_a_history_that_does_not_fit_is_refused(session: Session, change: Any, text: str):
    async def main() -> None:
        one = friday()
        await one.bind(session, "s")
        await one.call("a")
        await one.call("b")
        saved = await session.load_all("s")
        change(saved.lists)
        await session.save_all("s", {}, saved.lists)
        with pytest.raises(SavedStateError, match=text):
            await one.load(session, "s", at=1)
        assert said(one) == ["a", "ok", "b", "ok"]
        # what is saved now can be loaded
        assert await one.load(session, "s")

    run_virtual(main())


@pytest.mark.parametrize("value", [["mine"], "mine", [{"id": 1}]])
def test_an_entry_of_that_name_is_not_replaced(session: Session, value: Any):
    async def main() -> None:
        saved = await save_under_version_3(session, value)
        one = friday()
        await one.bind(session, "s")
        with pytest.raises(ConfigurationError, match=r"'history' of session 's' is not the history.*history=False"):
            await one.call("a")
        assert await session.load_all("s") == saved
        await one.bind(session, "s", history=False)
        await one.call("b")
        after = await session.load_all("s")
        assert (after.lists.get("history") or after.values.get("history")) == value
        assert [each.text for each in remembered(one)] == ["b", "ok"]

    async def save_under_version_3(session: Session, value: Any) -> Any:
        state = {"version": 3, "agent": "Friday", "pending": [], "answers": [], "rules": [], "cut_off": None}
        lists = {"memory": [], **({"history": value} if isinstance(value, list) else {})}
        values = {"state": state, **({} if isinstance(value, list) else {"history": value})}
        await session.save_all("s", values, lists)
        return await session.load_all("s")

    run_virtual(main())


@pytest.mark.parametrize("at", ["1", 1.0, True])
def test_what_is_no_checkpoint_is_refused_at_once(at: Any):
    with pytest.raises(InvalidInputError, match="checkpoint"):
        friday().load(InMemorySession(), "s", at=at)


def test_a_load_of_the_present_does_not_read_the_history():
    read: list[object] = []

    class Noting(InMemorySession):
        def load_all(self, key: Any, names: Any = None) -> Any:
            read.append(names)
            return super().load_all(key, names)

    async def main() -> None:
        session = Noting()
        one = friday()
        await one.bind(session, "s")
        await one.call("a")
        await friday().load(session, "s")
        assert read and all("history" not in names for names in read)  # type: ignore[operator]

    run_virtual(main())


def test_a_growing_conversation_stores_no_message_twice():
    async def main() -> None:
        session = InMemorySession()
        one = friday()
        await one.bind(session, "s")
        for text in range(20):
            await one.call(f"question {text}")
        records = await session.load_list("s", "history")
        assert "question" not in json.dumps(records)
        # nor does a record grow with the conversation
        assert len(json.dumps(records[-1])) < len(json.dumps(records[1])) + 20

    run_virtual(main())


@pytest.mark.parametrize("version", [3])
def test_sessions_of_earlier_releases_go_on(version: int, session: Session):
    """The fixture was written by the release of that version: a rule, two pending calls, one of a sub-agent."""

    async def main() -> None:
        path = Path(__file__).parent / "saved" / f"version_{version}.json"
        saved = json.loads(path.read_text())
        await session.save_all("ann", saved["values"], saved["lists"])
        helper = ReActAgent("Helper", ScriptedModel("z is gone."), tools=[delete])
        one = agent(ScriptedModel("All gone."), tools=[delete, helper.as_tool()])
        assert await one.bind(session, "ann")
        assert len(remembered(one)) == 11 and len(one.conversation().rules) == 1
        pending = await one.pending_calls()
        assert [each.name for each in pending] == ["delete", "delete"]
        reply = await one.call([Approve(each.id) for each in pending])
        assert reply.text == "All gone."
        assert [(each.id, each.parent) for each in await session.history("ann")] == [(1, None)]
        assert await agent(ScriptedModel(), tools=[delete, helper.as_tool()]).load(session, "ann")

    run_virtual(main())


# --- the log against a model of it ----------------------------------------------------------------------------------

SAVES = st.sampled_from(["save", "save", "save", "load", "fork", "prune", "new", "overwrite"])
STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 3)),
    st.tuples(st.just("replace"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("clear"), st.just(0)),
    st.tuples(
        st.sampled_from(["save", "save", "save", "load", "fork", "prune", "new", "overwrite"]), st.integers(0, 9)
    ),
)


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=60)
def test_each_checkpoint_is_what_was_saved_at_it(done: list[tuple[str, int]]):
    async def main() -> None:
        session, key = InMemorySession(), "s0"
        one = friday(memory=InMemoryMemory())
        # the states by id, those that can be gone back to, and what is stored now
        states: dict[int, list[str]] = {}
        kept: list[int] = []

        def ids() -> list[str]:
            return [f"{message.id} {message.text}" for message in remembered(one)]

        for number, (step, which) in enumerate(done):
            messages = list(remembered(one))
            message = messages[which % len(messages)] if messages else None
            if step == "add":
                await one.memory.add([Msg.user(f"{number}") for _ in range(which)])
            elif step == "replace" and message is not None:
                await one.memory.replace(message.replace(content=f"{number}"))
            elif step == "delete" and message is not None:
                await one.memory.delete([message.id])
            elif step == "clear":
                await one.memory.clear()
            elif step in ("save", "overwrite"):
                last = max(states, default=0)
                await one.save(session, key, overwrite=step == "overwrite")
                if not states or ids() != states[last]:
                    states[last + 1] = ids()
                    kept.append(last + 1)
            elif step == "load" and kept:
                at = kept[which % len(kept)]
                assert await one.load(session, key, at=at)
                assert ids() == states[at]
            elif step == "fork" and kept:
                at = kept[which % len(kept)]
                await session.fork(key, at=at, to=f"s{number + 1}")
                key = f"s{number + 1}"
                states = {id: state for id, state in states.items() if id <= at}
                kept = [id for id in kept if id <= at]
                one = friday(memory=InMemoryMemory())
                assert await one.load(session, key)
                assert ids() == states[at]
            elif step == "prune":
                await session.prune(key, keep=which + 1)
                kept = kept[-which - 1 :]
            elif step == "new":
                one = friday(memory=InMemoryMemory())
                found = await one.load(session, key)
                assert found is bool(states)
                assert not found or ids() == states[max(states)]
            assert [each.id for each in await session.history(key)] == kept
        twin = friday(memory=InMemoryMemory())
        for at in kept:
            assert await twin.load(session, key, at=at)
            assert [f"{message.id} {message.text}" for message in remembered(twin)] == states[at]

    run_virtual(main())
