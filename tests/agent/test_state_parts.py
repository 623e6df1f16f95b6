"""State of parts: subclasses, hooks, tools and others are saved and loaded with the conversation that is theirs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, tool
from agentscope_rx.agent.interruption import InterruptSource
from agentscope_rx.errors import ConfigurationError, SavedStateError, SessionValueError
from agentscope_rx.hooks import Hook
from agentscope_rx.memory import Memory
from agentscope_rx.parts import PartState
from agentscope_rx.reactive import throw
from agentscope_rx.session import InMemorySession, Session
from agentscope_rx.testing import ScriptedModel, collect_dropped, run_virtual
from agentscope_rx.testing.scripted_model import Delay
from agentscope_rx.tools import Toolkit
from tests.agent.parts import remembered


class Part:
    """A part of any kind: `value` is its state."""

    def __init__(self, value: Any = 0, version: int = 1, name: str | None = None) -> None:
        self.value = value
        self.state_version = version
        self.state_name = name
        self.taken: list[tuple[Any, int]] = []
        self.refuses = False

    def state(self) -> Any:
        return self.value

    def load_state(self, value: Any, version: int) -> None:
        if self.refuses:
            raise ValueError("not today")
        self.taken.append((value, version))
        self.value = value


class Counter(Hook):
    """Counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def on_pre_call(self, event: Any) -> None:
        self.calls += 1

    def state(self) -> object:
        return {"calls": self.calls}

    def load_state(self, value: Any, version: int) -> None:
        self.calls = value["calls"]


class Notes:
    """An object with two tools and one state."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    @tool
    def note(self, text: str) -> str:
        """Notes a text."""
        self.notes.append(text)
        return "noted"

    @tool
    def read(self) -> str:
        """The notes."""
        return " ".join(self.notes)

    def state(self) -> object:
        return self.notes

    def load_state(self, value: Any, version: int) -> None:
        self.notes = list(value)


class Moody(ReActAgent):
    """A subclass with an attribute, one that needs functions, and methods of a part."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.mood = "fine"
        self.seen = {"a"}
        self.rounds = 0
        self.register_state("mood")
        self.register_state("seen", to_json=sorted, from_json=set)

    def state(self) -> object:
        return self.rounds

    def load_state(self, value: Any, version: int) -> None:
        self.rounds = value


def friday(*turns: Any, kind: type[ReActAgent] = ReActAgent, **options: Any) -> Any:
    return kind("Friday", ScriptedModel(*(turns or ("ok",)), repeat=True), **options)


async def parts_in(session: Session, key: str = "s") -> dict[str, Any]:
    state: Any = await session.load(key, "state")
    return {name: each["state"] for name, each in state["parts"].items()}


def test_all_kinds_of_parts_come_back():
    async def main() -> None:
        session = InMemorySession()

        def make() -> Any:
            found = friday(kind=Moody, hooks=[Counter()], tools=[Notes()])
            found.part = Part()
            found.register_state("part", found.part)
            return found

        one, other = make(), make()
        await one.bind(session, "s")
        one.mood, one.seen, one.rounds, one.part.value = "glad", {"a", "b"}, 3, [1, {"x": None}]
        one.toolkit.get("note").__wrapped__("milk")
        await one.call("hi")
        assert await parts_in(session) == {
            "mood": "glad",
            "seen": ["a", "b"],
            "part": [1, {"x": None}],
            "agent": 3,
            "hook:Counter": {"calls": 1},
            "tool:Notes": ["milk"],
        }
        assert await other.load(session, "s")
        assert (other.mood, other.seen, other.rounds, other.part.value) == ("glad", {"a", "b"}, 3, [1, {"x": None}])
        assert other.hooks.all[0].calls == 1 and other.toolkit.get("read").__wrapped__() == "milk"
        # what was saved is a copy
        other.part.value.append(2)
        assert one.part.value == [1, {"x": None}]
        await other.save(session, "s")
        assert (await parts_in(session))["part"] == [1, {"x": None}, 2]

    run_virtual(main())


def test_a_part_comes_back_as_it_was_at_a_checkpoint():
    async def main() -> None:
        session, counter = InMemorySession(), Counter()
        one = friday(hooks=[counter])
        await one.bind(session, "s")
        for text in "abc":
            await one.call(text)
        await one.load(session, "s", at=2)
        assert counter.calls == 2
        await session.fork("s", at=1, to="t")
        await one.load(session, "t")
        assert counter.calls == 1

    run_virtual(main())


def test_nothing_of_one_conversation_stays_in_another():
    """Also what the session knows nothing of: it was saved before there was such a part."""

    async def main() -> None:
        session, part = InMemorySession(), Part({"plan": None})
        plain = friday()
        await plain.save(session, "old")
        one = friday()
        one.register_state("part", part)
        await one.load(session, "old")
        assert part.value == {"plan": None}
        part.value["plan"] = "ann's"
        await one.save(session, "ann")
        await one.load(session, "old")
        assert part.value == {"plan": None}
        await one.load(session, "ann")
        assert part.value == {"plan": "ann's"}
        # no session: nothing is changed
        assert not await one.load(session, "nobody")
        assert part.value == {"plan": "ann's"}

    run_virtual(main())


def test_parts_belong_to_the_agents_own_conversation():
    async def main() -> None:
        session, part, bob = InMemorySession(), Part(1), InMemoryMemory()
        one = friday()
        one.register_state("part", part)
        one.conversation(bob).parts.swap("plan", None, PartState(2, {"of": "bob"}))
        await one.save(session, "ann")
        await one.save(session, "bob", memory=bob)
        assert await parts_in(session, "ann") == {"part": 1}
        assert await parts_in(session, "bob") == {"plan": {"of": "bob"}}
        part.value = 2
        await one.load(session, "ann", memory=InMemoryMemory())
        assert part.value == 2
        again = InMemoryMemory()
        await one.load(session, "bob", memory=again)
        found = one.conversation(again).parts.get("plan")
        assert (found.version, found.state) == (2, {"of": "bob"})
        assert one.conversation().parts.get("plan") is None

    run_virtual(main())


def test_what_no_part_knows_survives():
    async def main() -> None:
        session, one = InMemorySession(), friday(hooks=[Counter()])
        one.register_state("gone", Part([1], version=7))
        await one.bind(session, "s")
        await one.call("a")
        before: Any = await session.load("s", "state")
        other = friday()
        await other.bind(session, "s")
        await other.call("b")
        after: Any = await session.load("s", "state")
        assert after["parts"] == before["parts"] and after["parts"]["gone"] == {"version": 7, "state": [1]}
        third = friday(hooks=[Counter()])
        part = Part(version=8)
        third.register_state("gone", part)
        await third.load(session, "s")
        assert part.taken == [([1], 7)], "an older version is the part's to read"
        assert third.hooks.all[0].calls == 1

    run_virtual(main())


def test_sub_agents_keep_theirs_by_conversation():
    async def main() -> None:
        session = InMemorySession()

        class Remembers(Hook):
            def on_pre_call(self, event: Any) -> None:
                (run,) = helper.runs
                before = run.conversation.parts.get("seen")
                count = 1 if before is None else before.state + 1
                run.conversation.parts.swap("seen", before, PartState(1, count))

        helper = ReActAgent("Helper", ScriptedModel("yes", repeat=True), hooks=[Remembers(), Counter()])

        def boss(*turns: Any) -> Any:
            return friday(*turns, tools=[helper.as_tool()])

        from agentscope_rx.messages import ToolUseBlock

        one = boss([ToolUseBlock("c", "call_helper", {"message": "hi"})], "done")
        await one.bind(session, "s")
        await one.call("go")
        state: Any = await session.load("s", "state")
        (child,) = state["children"]
        assert child["state"]["parts"] == {"seen": {"version": 1, "state": 1}}
        again = ToolUseBlock("d", "call_helper", {"message": "hi", "conversation_id": child["id"]})
        other = boss([again], "done")
        await other.bind(session, "s")
        await other.call("go")
        state = await session.load("s", "state")
        assert state["children"][0]["state"]["parts"] == {"seen": {"version": 1, "state": 2}}

    run_virtual(main())


# --- refused --------------------------------------------------------------------------------------------------------


def test_a_newer_version_of_a_part_is_refused():
    async def main() -> None:
        session, one, other = InMemorySession(), friday(), friday("hm")
        one.register_state("part", Part(1, version=3))
        await one.call("a")
        await one.save(session, "s")
        part = Part("old", version=2)
        other.register_state("part", part)
        with pytest.raises(SavedStateError, match="part 'part' was saved at version 3, and reads up to 2"):
            await other.load(session, "s")
        assert part.value == "old" and not list(remembered(other))

    run_virtual(main())


class Broken(InMemoryMemory):
    """Takes no messages."""

    def add(self, messages: Any) -> Any:
        return throw(RuntimeError("no room"))


@pytest.mark.parametrize("which", ["part", "memory"])
def test_a_load_that_fails_leaves_all_as_it_was(which: str):
    async def main() -> None:
        session, one = InMemorySession(), friday()
        for name in "abc":
            one.register_state(name, Part(f"saved {name}"))
        await one.call("hi")
        await one.save(session, "s")
        memory: Memory = Broken() if which == "memory" else InMemoryMemory([Msg.user("mine")])
        other = friday(memory=memory)
        parts = {name: Part(f"mine {name}") for name in "abc"}
        for name, part in parts.items():
            other.register_state(name, part)
        other.conversation().parts.swap("x", None, PartState(1, "x"))
        parts["b"].refuses = which == "part"
        wanted = (SavedStateError, "part 'b' does not take") if which == "part" else (RuntimeError, "no room")
        with collect_dropped() as dropped, pytest.raises(wanted[0], match=wanted[1]):
            await other.load(session, "s")
        assert {name: part.value for name, part in parts.items()} == {name: f"mine {name}" for name in "abc"}
        assert other.conversation().parts.get("x").state == "x" and other.conversation().parts.get("a") is None
        if which == "part":
            assert [message.text for message in remembered(other)] == ["mine"]
            # the part that has failed does not take back what it had, either
            assert [str(each) for each in dropped] == ["not today"]

    run_virtual(main())


class Unwilling(Part):
    """May give no state."""

    fails = False

    def state(self) -> Any:
        if self.fails:
            raise RuntimeError("not today")
        return super().state()


def test_a_part_that_gives_no_state_is_named():
    async def main() -> None:
        session, one = InMemorySession(), friday("1", "2")
        part, moody = Part("a"), Unwilling("b")
        one.register_state("part", part)
        one.register_state("moody", moody)
        await one.bind(session, "s")
        await one.call("hi")
        saved = await session.load_all("s")
        moody.fails = True
        with pytest.raises(
            SessionValueError, match=r"\$\.parts\['moody'\]\.state, state\(\) has failed: not today"
        ) as caught:
            await one.call("again")
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert await session.load_all("s") == saved
        # no load without the state that it is to have again if that fails
        part.value = "mine"
        with pytest.raises(SavedStateError, match="part 'moody' does not give the state that it has now"):
            await one.load(session, "s")
        assert (part.value, len(remembered(one))) == ("mine", 4)
        moody.fails = False
        await one.load(session, "s")
        assert (part.value, len(remembered(one))) == ("a", 2)

    run_virtual(main())


class Bag:
    """An object."""


@pytest.mark.parametrize(("value", "path"), [({"a": [Bag()]}, r"\.a\[0\]"), (float("nan"), ""), ({1, 2}, "")])
def test_a_state_without_json_is_named_by_its_part(value: Any, path: str):
    async def main() -> None:
        session, one, part = InMemorySession(), friday(), Part()
        with pytest.raises(ConfigurationError, match=rf"part 'p' has no JSON form: at \${path}"):
            one.register_state("p", Part(value))
        one.register_state("p", part)
        await one.bind(session, "s")
        part.value = value
        with pytest.raises(SessionValueError, match=rf"\$\.parts\['p'\]\.state{path}"):
            await one.call("a")
        part.value = 1
        one.conversation().parts.swap("q", None, PartState(1, value))
        with pytest.raises(SessionValueError, match=rf"\$\.parts\['q'\]\.state{path}"):
            await one.call("a")
        assert not await session.exists("s")

    run_virtual(main())


def test_names_are_unique_and_clear():
    one = friday(hooks=[Counter()])
    one.register_state("a", Part())
    with pytest.raises(ConfigurationError, match="'a'"):
        one.register_state("a", Part())
    with pytest.raises(ConfigurationError, match="hook:Counter"):
        one.register_state("hook:Counter", Part())
    with pytest.raises(ConfigurationError, match=r"two parts .* named 'hook:Counter'.*state_name"):
        friday(hooks=[Counter(), Counter()])
    with pytest.raises(ConfigurationError, match="two parts"):
        one.hooks.add(Counter())
    assert len(one.hooks) == 1
    second = Counter()
    second.state_name = "second"  # type: ignore[attr-defined]
    one.hooks.add(second)
    with pytest.raises(ConfigurationError, match="two parts"):
        friday(toolkit=Toolkit([Notes().note, Notes().read]))
    for wrong in ("", "  ", 3):
        with pytest.raises(ConfigurationError, match="name"):
            one.register_state(wrong, Part())
    with pytest.raises(ConfigurationError, match="no attribute 'weather'"):
        one.register_state("weather")
    with pytest.raises(ConfigurationError, match="no attribute 5"):
        one.register_state(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="state\\(\\)"):
        one.register_state("bag", Bag())
    with pytest.raises(ConfigurationError, match="both"):
        one.register_state("name", to_json=str)
    with pytest.raises(ConfigurationError, match="leave"):
        one.register_state("b", Part(), to_json=str, from_json=str)
    for version in (0, True, "1"):
        with pytest.raises(ConfigurationError, match="state_version of part 'v'"):
            one.register_state("v", Part(version=version))  # type: ignore[arg-type]


def test_an_object_is_one_part_however_often_it_is_used():
    async def main() -> None:
        class Both(Counter):
            def tools(self) -> Any:
                return (Toolkit([self.calls_so_far]).get("calls_so_far"),)

            @tool
            def calls_so_far(self) -> str:
                """The number of calls."""
                return f"{self.calls}"

        session, one = InMemorySession(), friday(hooks=[Both()])
        await one.save(session, "s")
        assert await parts_in(session) == {"hook:Both": {"calls": 0}}

    run_virtual(main())


# --- the interrupted flag -------------------------------------------------------------------------------------------


def test_who_interrupted_is_known_after_a_load():
    async def main() -> None:
        session = InMemorySession()
        one = friday([Delay(10), "late"], "again")
        await one.bind(session, "s")
        assert one.interrupted is None
        running = one.call("b").as_task()
        await asyncio.sleep(1)
        one.interrupt(source=InterruptSource.SYSTEM)
        await running
        other = friday()
        await other.load(session, "s")
        assert one.interrupted is other.interrupted is InterruptSource.SYSTEM
        await one.call("c")
        await other.load(session, "s")
        assert one.interrupted is other.interrupted is None
        await other.load(session, "s", at=1)
        assert other.interrupted is InterruptSource.SYSTEM

    run_virtual(main())


def test_the_state_is_plain_json():
    async def main() -> None:
        session, one = InMemorySession(), friday()
        one.register_state("part", Part({"n": 1.5, "t": (1, 2)}))
        await one.save(session, "s")
        state: Any = await session.load("s", "state")
        assert state["parts"] == {"part": {"version": 1, "state": {"n": 1.5, "t": [1, 2]}}}
        assert json.loads(json.dumps(state)) == state
        version = (await session.load_all("s")).version
        await one.save(session, "s")
        assert (await session.load_all("s")).version == version, "nothing has changed"

    run_virtual(main())
