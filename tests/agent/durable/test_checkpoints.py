"""Checkpoints within a run: what they hold, what a resume announces, and runs that end at one in another way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agentscope_rx import Msg, ReActAgent, UsageLimits, tool
from agentscope_rx.agent import Run
from agentscope_rx.errors import (
    ConfigurationError,
    RunDeadlineError,
    SavedStateError,
    SessionConflictError,
    SessionError,
    UsageLimitError,
)
from agentscope_rx.events import Event, PreCallEvent, ResumedRun, RunFold, event_from_json, fold
from agentscope_rx.messages import GenerateReason, ToolResultKind
from agentscope_rx.reactive import Flow, concat_map, then, throw, timer
from agentscope_rx.session.session import ANY_VERSION, Expected, Items
from agentscope_rx.testing import Delay, ScriptedModel, collect_dropped, run_virtual
from agentscope_rx.tools import ToolContext
from tests.agent.durable.crashes import NotingMemory, NotingSession, World, new_world
from tests.agent.durable.test_every_moment import acting, use


def agent(world: World, *turns: object, **options: Any) -> ReActAgent:
    tools = options.pop("tools", None) or acting(world)
    return ReActAgent("A", ScriptedModel(*turns), tools=tools, memory=NotingMemory(world), **options)


def left(world: World, where: str) -> World:
    """The world after a kill at the last such moment."""
    at = [moment for moment in world.moments if moment.where == where][-1]
    found = new_world(at.sessions, at.effects)
    found.recording = False
    return found


async def lost_run(*turns: object, **options: Any) -> tuple[World, list[Event]]:
    """A run that comes to its end, and can be killed before: its world and events."""
    world = new_world()
    first = agent(world, *turns, **options)
    await first.bind(world.session, "k", checkpoint="stage")
    return world, [event async for event in first.stream("go")]


def test_a_resume_is_announced_with_what_is_void():
    async def main() -> None:
        world, seen = await lost_run(["Let me ", use("c1", "a")], ["I am ", "done."])
        again = agent(left(world, "before a write to memory"), "Done again.")
        lost = left(world, "before a write to memory")
        again = agent(lost, "Done again.")
        await again.bind(lost.session, "k", checkpoint="stage")
        history = await again.memory.get()
        events = [event async for event in again.stream()]
        (first, *_) = events
        assert isinstance(first, PreCallEvent)
        assert first.resumes == ResumedRun(seen[0].run_id, 1, history[-1].id)
        assert first.run_id != seen[0].run_id and first.input == ()
        assert event_from_json(first.to_json()).resumes == first.resumes
        # a client that has seen the lost run drops what was not saved: the whole answer of its last round
        folded = fold([*seen, *events])
        assert folded.run_id == first.run_id and folded.message is not None
        assert [message.id for message in folded.history] == [message.id for message in await again.memory.get()]
        assert [message.text for message in folded.history][-1] == "Done again."

    run_virtual(main())


def test_a_fold_drops_the_text_that_was_being_streamed():
    async def main() -> None:
        world, seen = await lost_run(["Half", Delay(1), " an answer"])
        lost = left(world, "after save 1")
        again = agent(lost, "Another.")
        await again.bind(lost.session, "k", checkpoint="stage")
        fold = RunFold()
        for event in seen[:3]:
            fold.add(event)
        assert fold.state.partial is not None and fold.state.partial.text == "Half"
        events = [event async for event in again.stream()]
        fold.add(events[0])
        assert fold.state.partial is None and [message.text for message in fold.state.history] == ["go"]
        for event in events[1:]:
            fold.add(event)
        assert [message.text for message in fold.state.history] == ["go", "Another."]

    run_virtual(main())


def test_limits_go_on_over_a_resume():
    async def main() -> None:
        world, _ = await lost_run(use("c1", "a"), use("c2", "b"), "done")
        lost = left(world, "after b")
        again = agent(lost, "x", "y", in_doubt="fail", limits=UsageLimits(model_calls=2))
        await again.bind(lost.session, "k", checkpoint="stage")
        with pytest.raises(UsageLimitError, match="model_calls"):
            await again.call()
        lost = left(world, "after b")
        again = agent(lost, "x", in_doubt="fail", limits=UsageLimits(model_calls=3))
        await again.bind(lost.session, "k", checkpoint="stage")
        assert (await again.call()).text == "x"

    run_virtual(main())


def test_the_deadline_counts_the_time_of_both():
    async def main() -> None:
        world, _ = await lost_run([Delay(5), use("c1", "a")], "done")
        lost = left(world, "before a")
        again = agent(lost, [Delay(6), "x"], in_doubt="fail", limits=UsageLimits(deadline=10.0))
        await again.bind(lost.session, "k", checkpoint="stage")
        began = asyncio.get_running_loop().time()
        with pytest.raises(RunDeadlineError):
            await again.call()
        assert asyncio.get_running_loop().time() - began == pytest.approx(5.0)

    run_virtual(main())


def test_input_that_waits_in_the_inbox_is_not_lost():
    async def main() -> None:
        world = new_world()

        @tool
        async def steer(name: str) -> str:
            """Is steered while it runs."""
            first.enqueue("more", "idle")
            first.enqueue("now")
            return "steered"

        @tool
        async def act(name: str) -> str:
            """Have an effect."""
            return world.effect(name)

        first = agent(world, use("c1", "x", "steer"), use("c2", "a"), "never seen", "never", tools=[steer, act])
        await first.bind(world.session, "k", checkpoint="stage")
        await first.call("go")
        lost = left(world, "before a")
        again = agent(lost, "Well.", "Really.", in_doubt="fail")
        await again.bind(lost.session, "k", checkpoint="stage")
        assert (await again.call()).text == "Really."
        texts = [message.text for message in await again.memory.get() if message.role in ("user", "assistant")]
        assert texts == ["go", "", "now", "", "Well.", "more", "Really."]

    run_virtual(main())


def test_an_interruption_that_was_saved_is_followed():
    class Slow(ReActAgent):
        async def handle_interrupt(self, run: Run) -> Msg:
            world = self.memory._world
            world.note("reply")
            return run.interrupt_message or Msg.assistant("It was stopped.", "A")

    async def main() -> None:
        world = new_world()

        @tool
        async def act(name: str) -> str:
            """Interrupts its own run."""
            first.interrupt("Stop it.")
            await asyncio.sleep(1)
            return world.effect(name)

        first = Slow("A", ScriptedModel(use("c1", "a"), "never"), tools=[act], memory=NotingMemory(world))
        await first.bind(world.session, "k", checkpoint="stage")
        assert (await first.call("go")).text == "Stop it."
        lost = left(world, "reply")
        again = Slow("A", ScriptedModel("never"), tools=[act], memory=NotingMemory(lost))
        await again.bind(lost.session, "k", checkpoint="stage")
        reply = await again.call()
        assert reply.text == "Stop it." and reply.generate_reason is GenerateReason.INTERRUPTED
        results = [result.kind for message in await again.memory.get() for result in message.tool_results]
        assert results == [ToolResultKind.INTERRUPTED] and not lost.effects

    run_virtual(main())


def test_the_key_of_a_call_is_the_same_when_it_runs_again():
    keys: list[str] = []

    def tools(world: World) -> list[object]:
        @tool(idempotent=True)
        async def put(name: str, context: ToolContext) -> str:
            """Change it once."""
            keys.append(context.idempotency_key)
            return world.effect(name)

        return [put]

    async def main() -> None:
        world = new_world()
        first = agent(world, use("c1", "a", "put"), use("c2", "a", "put"), "done", tools=tools(world))
        await first.bind(world.session, "k", checkpoint="stage")
        await first.call("go")
        lost = left(world, "after a")
        again = agent(lost, "done", tools=tools(lost))
        await again.bind(lost.session, "k", checkpoint="stage")
        await again.call()
        one, two, repeated = keys
        assert one != two == repeated and len(two) == 32
        # the key of another session differs, and so does that of a run that is not saved
        other = agent(new_world(), use("c2", "a", "put"), "done", tools=tools(world))
        await other.call("go")
        assert keys[-1] not in keys[:-1]

    run_virtual(main())


class FailingSession(NotingSession):
    """Fails the n-th save, after it has arrived if `late`."""

    def __init__(self, number: int, *, late: bool) -> None:
        super().__init__()
        self._number = number
        self._late = late
        self._count = 0

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        self._count += 1
        saving = super().save_all(key, values, lists, expected=expected)
        if self._count != self._number:
            return saving
        failed: Flow[str | None] = throw(SessionError("the disk is full", key=key))
        return saving.pipe(then(lambda: failed)) if self._late else failed


@pytest.mark.parametrize("late", [False, True], ids=["not written", "written"])
@pytest.mark.parametrize("number", range(1, 9))
def test_a_save_that_fails_leaves_memory_whole(number: int, late: bool):
    async def main() -> None:
        world = new_world()
        world.session = FailingSession(number, late=late)
        first = agent(world, [use("c1", "a"), use("c2", "b")], "done", "again", "and again")
        await first.bind(world.session, "k", checkpoint="stage")
        with pytest.raises(SessionError, match="disk is full"):
            await first.call("go")
        assert not first.running
        history = await first.memory.get()
        calls = [call.id for message in history for call in message.tool_calls]
        results = [result for message in history for result in message.tool_results]
        assert sorted(calls) == sorted(result.id for result in results)
        # an effect whose end could not be stored has no result but an error: it is not run again
        assert len(set(world.effects)) == len(world.effects)
        for result in results:
            assert result.kind is not None or f"did {result.text[4:]}" == result.text
        # the next call is saved as if nothing had been
        await first.call("next")
        saved = await world.session.load_all("k")
        assert [item["id"] for item in saved.lists["memory"]] == [each.id for each in await first.memory.get()]
        assert not saved.lists.get("journal") and saved.values["state"]["run"] is None

    run_virtual(main())


class SlowSession(NotingSession):
    """Each save takes a second."""

    def save_all(self, *args: Any, **options: Any) -> Flow[str | None]:

        saving = super().save_all(*args, **options)
        return timer(1.0).pipe(concat_map(lambda _: saving))


@pytest.mark.parametrize("after", [step / 2 for step in range(1, 20)])
@pytest.mark.parametrize("how", ["dispose", "interrupt"])
def test_a_run_that_is_stopped_at_any_time_leaves_all_whole(after: float, how: str):
    async def main() -> None:
        world = new_world()
        world.session = SlowSession()
        first = agent(world, [use("c1", "a"), use("c2", "b"), use("c3", "c", "ask")], "done")
        await first.bind(world.session, "k", checkpoint="stage")
        task = asyncio.ensure_future(collect(first))
        await asyncio.sleep(after)
        if how == "dispose":
            task.cancel()
        else:
            first.interrupt("stop")
        await asyncio.gather(task, return_exceptions=True)
        await first.idle()
        history = await first.memory.get()
        saved = await world.session.load_all("k")
        assert [item["id"] for item in saved.lists.get("memory", [])] == [each.id for each in history]
        if saved.values:
            assert saved.values["state"]["run"] is None and not saved.lists.get("journal")
        results = [result.id for message in history for result in message.tool_results]
        calls = [call.id for message in history for call in message.tool_calls]
        pending = [call.id for call in await first.pending_calls()]
        assert sorted([*results, *pending]) == sorted(calls)
        assert len(set(world.effects)) == len(world.effects)

    run_virtual(main())


async def collect(first: ReActAgent) -> Msg:
    return await first.call("go")


def test_beginnings_that_wait_for_a_turn_are_stored_at_once():
    async def main() -> None:
        world = new_world()
        world.session = SlowSession()
        first = agent(world, [use(f"c{each}", f"n{each}") for each in range(8)], "done")
        await first.bind(world.session, "k", checkpoint="stage")
        await first.call("go")
        # input, acting, begin of the first, begin of the others, ends, reasoning, the end
        assert world.session.saves <= 9

    run_virtual(main())


def test_a_journal_that_is_none_is_refused():
    async def main() -> None:
        world, _ = await lost_run(use("c1", "a"), "done")
        lost = left(world, "after a")
        await lost.session.save_list("k", "journal", [{"call": 1}])
        with pytest.raises(SavedStateError, match="journal"):
            await agent(lost, "x").bind(lost.session, "k")

    run_virtual(main())


def test_another_process_that_has_resumed_fences_this_one():
    async def main() -> None:
        world = new_world()
        entered = asyncio.Event()
        go_on = asyncio.Event()

        @tool
        async def act(name: str) -> str:
            """Wait in the midst of its effect."""
            entered.set()
            await go_on.wait()
            return world.effect(name)

        first = agent(world, [use("c1", "a"), use("c2", "b", "next")], "done", tools=[act, following(world)])
        first.toolkit.parallel = False
        await first.bind(world.session, "k", checkpoint="stage")
        task = asyncio.ensure_future(collect(first))
        await entered.wait()
        other = agent(world, "Taken over.", in_doubt="fail", tools=[act, following(world)])
        await other.bind(world.session, "k", checkpoint="stage")
        reply = await other.call()
        assert reply.text == "Taken over."
        go_on.set()
        with collect_dropped() as dropped, pytest.raises(SessionConflictError):
            await task
        # its save at the end, too
        assert [type(error) for error in dropped] == [SessionConflictError]
        # the end of its call could not be stored, and the call behind it has not begun here
        assert world.effects == ["b", "a"]

    run_virtual(main())


def following(world: World) -> object:
    @tool(name="next")
    async def follow(name: str) -> str:
        """Have an effect."""
        return world.effect(name)

    return follow


def test_an_agent_with_a_session_goes_on_at_its_first_run():
    async def main() -> None:
        world = new_world()
        place = {"session": world.session, "session_key": "k", "checkpoint": "stage"}
        first = agent(world, use("c1", "a"), "never seen", **place)
        await first.call("go")
        lost = left(world, "before a")
        place["session"] = lost.session
        again = agent(lost, "Well.", in_doubt="fail", **place)
        events = [event async for event in again.stream("go")]
        assert events[0].resumes is not None and events[0].input == ()
        texts = [message.text for message in await again.memory.get() if message.role != "tool"]
        assert texts == ["go", "", "Well."] and not lost.effects
        with pytest.raises(ConfigurationError, match="needs a session"):
            agent(lost, "x", checkpoint="stage")

    run_virtual(main())


def test_checkpoints_of_a_run_are_in_the_history():
    async def main() -> None:
        world, _ = await lost_run(use("c1", "a"), "done")
        history = await world.session.history("k")
        assert [each.stage for each in history] == ["reasoning", "acting", "reasoning", "run"]
        assert len({each.run for each in history}) == 1
        # to go back into the midst of a run is to go on from there, with the calls not begun
        again = agent(world, "Done anew.")
        assert await again.load(world.session, "k", at=history[1])
        assert [call.in_doubt for call in await again.pending_calls()] == [False]
        assert (await again.call()).text == "Done anew." and world.effects == ["a", "a"]

    run_virtual(main())


def test_a_fork_of_a_lost_run_knows_what_is_in_doubt():
    async def main() -> None:
        world, _ = await lost_run(use("c1", "a"), "done")
        lost = left(world, "after a")
        await lost.session.fork("k", to="b")
        again = agent(lost, "Well.")
        await again.bind(lost.session, "b", checkpoint="stage")
        assert (await again.call()).pending_calls[0].in_doubt and lost.effects == ["a"]

    run_virtual(main())


def test_annotations_of_mcp_tools_are_flags():
    from mcp_types import Tool as Listed
    from mcp_types import ToolAnnotations

    from agentscope_rx.tools.mcp.tool import McpTool

    def flags(**hints: bool) -> tuple[bool, bool]:
        listed = Listed(name="x", input_schema={"type": "object"}, annotations=ToolAnnotations(**hints))
        made = McpTool(None, listed)
        return made.read_only, made.idempotent

    assert flags() == (False, False)
    assert flags(read_only_hint=True) == (True, False)
    assert flags(idempotent_hint=True, destructive_hint=True) == (False, True)
