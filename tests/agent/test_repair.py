"""Memory that fails when a run's calls are to get their results: the next call closes them, and events say all."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, fold, tool
from agentscope_rx.events import Event, MemoryEvent, PostActingEvent, PreCallEvent, event_from_json
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.reactive import defer, then, throw
from agentscope_rx.testing import ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import assert_whole, events_of, remembered
from tests.support.assertions import assert_prompts_are_whole

REPAIR = "repairing the memory of agent Friday"


class Brittle(InMemoryMemory):
    """Fails at these writes, counted from 1; `lies`: what has failed is there all the same."""

    def __init__(self, *writes: int, lies: bool = False) -> None:
        super().__init__()
        self.writes, self.lies, self.count = writes, lies, 0

    def add(self, messages):
        def begin():
            self.count += 1
            if self.count not in self.writes:
                return super(Brittle, self).add(messages)
            failed = throw(ConnectionError(f"write {self.count}"))
            return super(Brittle, self).add(messages).pipe(then(lambda: failed)) if self.lies else failed

        return defer(begin)


@tool
async def slow(name: str = "") -> str:
    """Takes a second."""
    await asyncio.sleep(1)
    return f"{name} done"


@tool(requires_approval=True)
async def risky() -> str:
    """Needs an approval."""
    return "done"


def friday(*turns, memory) -> ReActAgent:
    return ReActAgent("Friday", ScriptedModel(*turns), tools=[slow], memory=memory)


async def broken(agent: ReActAgent, way: str) -> list[Event]:
    """A run that ends with an open call: what it has told."""
    seen: list[Event] = []

    async def hear() -> None:
        async for event in agent.stream("go"):
            seen.append(event)

    with collect_dropped() as dropped:
        task = asyncio.create_task(hear())
        await asyncio.sleep(0.5)
        if way == "cancel":
            task.cancel()
        elif way == "interrupt":
            agent.interrupt()
        await asyncio.wait([task])
        await agent.idle()
    assert dropped.where == [REPAIR]
    if way != "cancel":
        assert isinstance(task.exception(), ConnectionError)
    return seen


@pytest.mark.parametrize(("way", "writes"), [("fail", (3, 4)), ("interrupt", (3, 4)), ("cancel", (3,))])
def test_the_next_call_closes_a_call_without_a_written_result(way: str, writes: tuple[int, ...]):
    """It stayed open for good, pending for no agent, and each prompt from then on said that its result was to come."""

    async def main() -> None:
        memory = Brittle(*writes)
        agent = friday([call("slow", name="a"), call("slow", name="b")], "Fine.", memory=memory)
        seen = await broken(agent, way)
        assert way == "cancel" or list(fold(seen).history) == memory.messages
        before = list(memory.messages)
        lost = before[-1].tool_calls if before[-1].tool_calls else before[-2].tool_calls[1:]
        assert lost and not await agent.pending_calls()

        events = await events_of(agent, "And now?")
        (begin,) = (each for each in events if isinstance(each, PreCallEvent))
        assert begin.lost == lost and begin.pending == () and event_from_json(begin.to_json()) == begin
        closed = [each for each in events if isinstance(each, PostActingEvent)]
        assert [each.tool_use for each in closed] == list(lost)
        assert all(each.result.kind is ToolResultKind.INTERRUPTED for each in closed)
        assert [message.text for message in memory.messages][-2:] == ["And now?", "Fine."]
        assert (*before, *fold(events).history) == tuple(memory.messages)
        assert_whole(agent)
        assert_prompts_are_whole(agent.model)

    run_virtual(main())


def test_a_repair_that_fails_is_repeated_by_the_call_after():
    async def main() -> None:
        memory = Brittle(3, 4, 5)
        agent = friday(call("slow"), "Fine.", memory=memory)
        await broken(agent, "fail")
        before = list(memory.messages)
        with pytest.raises(ConnectionError, match="write 5"):
            await agent.call("And now?")
        assert memory.messages == before
        assert (await agent.call("And now?")).text == "Fine."
        assert_whole(agent)

    run_virtual(main())


def test_it_is_closed_in_another_process_too():
    async def main() -> None:
        from agentscope_rx.session import InMemorySession

        session = InMemorySession()
        agent = friday(call("slow"), memory=Brittle(3, 4))
        await broken(agent, "fail")
        await agent.save(session, "s")
        other = friday("Fine.", memory=InMemoryMemory())
        assert await other.load(session, "s") and not await other.pending_calls()
        # without input it goes on from memory: what was begun once is not begun again
        assert (await other.call()).text == "Fine."
        assert_whole(other)

    run_virtual(main())


def test_a_result_stored_by_a_failed_write_is_not_written_again():
    async def main() -> None:
        agent = friday(call("slow", name="a"), "Fine.", memory=Brittle(3, lies=True))
        seen: list[Event] = []
        with pytest.raises(ConnectionError, match="write 3"):
            await agent.stream("go").pipe(ops.do_action(seen.append))
        (result,) = remembered(agent)[-1].tool_results
        assert result.text == "a done"
        (told,) = (event for event in seen if isinstance(event, MemoryEvent))
        assert told.added == (remembered(agent)[-1],)
        assert list(fold(seen).history) == remembered(agent)
        await agent.call("on")
        assert_whole(agent)

    run_virtual(main())


def test_the_next_call_closes_calls_stored_by_a_failed_write():
    async def main() -> None:
        agent = friday(call("slow"), "Fine.", memory=Brittle(2, lies=True))
        with pytest.raises(ConnectionError, match="write 2"):
            await agent.call("go")
        await agent.call("on")
        assert_whole(agent)
        assert_prompts_are_whole(agent.model)

    run_virtual(main())


@pytest.mark.parametrize("way", ["cancel", "fail"])
def test_a_call_that_has_left_memory_meanwhile_gets_no_result(way: str):
    async def main() -> None:
        memory = Brittle(3)
        agent = friday(call("slow"), "Fine.", memory=memory)
        task = agent.call("go").as_task()
        await asyncio.sleep(0.5)
        await memory.clear()
        if way == "cancel":
            task.cancel()
        await asyncio.wait([task])
        assert way == "cancel" or isinstance(task.exception(), ConnectionError)
        await agent.idle()
        assert memory.messages == []

    run_virtual(main())


def test_events_leave_out_an_input_that_memory_refuses():
    async def main() -> None:
        agent = friday("Fine.", memory=Brittle(1))
        seen: list[Event] = []
        with pytest.raises(ConnectionError, match="write 1"):
            await agent.stream(Msg.user("go")).pipe(ops.do_action(seen.append))
        assert [event.type for event in seen] == ["pre_call", "memory", "error"]
        assert fold(seen).history == () and not remembered(agent)
        assert (await agent.call("go")).text == "Fine."

    run_virtual(main())


def test_events_leave_out_the_input_when_closing_calls_fails():
    """Memory fails as a pending call is to get its result: the input, told of by then, was never written."""

    async def main() -> None:
        memory = Brittle(3)
        agent = ReActAgent("Friday", ScriptedModel(call("risky"), "Fine."), tools=[risky], memory=memory)
        await agent.call("go")
        before, seen = list(memory.messages), list[Event]()
        with pytest.raises(ConnectionError, match="write 3"):
            await agent.stream("never mind").pipe(ops.do_action(seen.append))
        assert [event.type for event in seen] == ["pre_call", "memory", "post_acting", "error"]
        assert (*before, *fold(seen).history) == tuple(memory.messages)
        assert (await agent.call("on")).text == "Fine."
        assert_whole(agent)

    run_virtual(main())


def test_what_cannot_be_read_is_closed_all_the_same():
    """A repair that could not look at the history first left its calls to the next one."""

    class Blind(Brittle):
        blind = False

        def get(self):
            return throw(ConnectionError("read")) if self.blind else super().get()

    async def main() -> None:
        memory = Blind()
        agent = friday(call("slow"), "Fine.", memory=memory)
        task = agent.call("go").as_task()
        await asyncio.sleep(0.5)
        memory.blind = True
        with collect_dropped() as dropped:
            task.cancel()
            await asyncio.wait([task])
            await agent.idle()
        assert [(str(error), where) for error, where in zip(dropped, dropped.where, strict=True)] == [("read", REPAIR)]
        memory.blind = False
        assert_whole(agent)

    run_virtual(main())
