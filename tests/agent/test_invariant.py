"""The invariant of a run: however it ends, memory is whole, the agent free, nothing left, and the next call works.

One eventful scenario is ended in every way at every moment: by the clock, and from inside every single event.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import GenerateReason, Hook, InMemoryMemory, Msg, Toolkit, fold, tool
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.events import Event, PostCallEvent
from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.reactive import defer, from_callable, then, throw, timer
from agentscope_rx.testing import collect_dropped, run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel, call
from tests.agent.parts import agent, assert_whole, events_of, remembered

cleaned: list[str] = []


@tool
async def careful(seconds: float, name: str = "") -> str:
    """Takes time, and takes half a second more to clean up."""
    try:
        await asyncio.sleep(seconds)
        return f"{name} done"
    finally:
        await asyncio.sleep(0.5)
        cleaned.append(name)


@tool
async def steps(upto: int):
    """Counts."""
    for number in range(upto):
        await asyncio.sleep(1)
        yield number


class Sleepy(Hook):
    """Takes a quarter of a second for every event that is not a chunk."""

    async def _wait(self) -> None:
        await asyncio.sleep(0.25)

    def on_event(self, event: Event):
        return None if "chunk" in event.type or event.type == "error" else self._wait()


def eventful(*, parallel: bool, hooks=(Sleepy(),), memory=None):
    """Thinking, text, fragmented arguments, three tools at once or in turn, a second round, a summary: about 20 s."""
    model = ScriptedModel(
        [
            Delay(1), ThinkingBlock("hm"), Delay(1), "I will ", "look.", Delay(1),
            ToolUseDelta(0, "a", "careful", '{"seconds": 2, '), Delay(1), ToolUseDelta(0, arguments='"name": "a"}'),
            call("steps", upto=3), call("careful", seconds=1, name="c"),
        ],
        [Delay(1), "More. ", call("careful", seconds=1, name="d"), Delay(1)],
        [Delay(1), "In ", Delay(1), "short."],
    )  # fmt: skip
    options = {} if memory is None else {"memory": memory}
    toolkit = Toolkit([careful, steps], parallel=parallel)
    return agent(model, tools=None, toolkit=toolkit, max_iters=2, hooks=hooks, **options)


async def check_after(friday) -> None:
    """What holds after any end."""
    await asyncio.wait_for(_first(friday.idle()), 120)
    assert not friday.running
    assert_whole(friday)
    friday.model = ScriptedModel("and on")
    reply = await friday.call("next")
    assert reply.text == "and on"
    assert_whole(friday)


async def _first(flow):
    return await flow


MOMENTS = [step * 0.25 for step in range(84)]


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("way", ["dispose", "cancel", "interrupt", "interrupt_with", "leave", "deadline"])
def test_ended_by_the_clock(way: str, parallel: bool):
    ended = {"early": 0, "by itself": 0}

    async def main(moment: float) -> None:
        friday = eventful(parallel=parallel)
        seen: list[Event] = []
        failed: list[Exception] = []
        done = asyncio.get_running_loop().create_future()
        if way == "cancel":
            task = friday.call("go").as_task()
            await asyncio.sleep(moment)
            task.cancel()
            try:
                await task
                ended["by itself"] += 1
            except asyncio.CancelledError:
                ended["early"] += 1
        elif way == "leave":
            start = asyncio.get_running_loop().time()
            async with friday.stream("go") as events:
                async for event in events:
                    seen.append(event)
                    if asyncio.get_running_loop().time() - start >= moment:
                        break
        elif way == "deadline":
            try:
                async with asyncio.timeout(moment):
                    await friday.call("go")
                ended["by itself"] += 1
            except TimeoutError:
                ended["early"] += 1
        else:
            running = friday.stream("go").subscribe(seen.append, failed.append, lambda: done.set_result(None))
            await asyncio.sleep(moment)
            if way == "dispose":
                running.dispose()
                heard = len(seen)
                await asyncio.sleep(3)
                assert len(seen) == heard, "a signal after dispose"
            else:
                friday.interrupt(Msg.user("stop it") if way == "interrupt_with" else None)
                await done
                assert not failed
                reply = seen[-1].message
                assert isinstance(seen[-1], PostCallEvent) and fold(seen).message == reply == remembered(friday)[-1]
                assert fold(seen).history == tuple(remembered(friday))
                if reply.generate_reason is GenerateReason.INTERRUPTED:
                    ended["early"] += 1
                    assert way == "interrupt" or reply.text == "stop it"
                else:
                    ended["by itself"] += 1
        await check_after(friday)

    for moment in MOMENTS:
        run_virtual(main(moment))
    if way in ("cancel", "interrupt", "interrupt_with", "deadline"):
        assert ended["early"] > 40 and ended["by itself"] > 0, ended


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("way", ["dispose", "raise", "interrupt", "take"])
def test_ended_from_inside_every_event(way: str, parallel: bool):
    total = len(run_virtual(events_of(eventful(parallel=parallel), "go")))
    assert total > 30

    async def main(index: int) -> None:
        friday = eventful(parallel=parallel)
        seen: list[Event] = []
        over = asyncio.Event()
        holder = []

        def act(event: Event) -> None:
            assert len(seen) <= index or way == "interrupt", "a signal after the end"
            seen.append(event)
            if len(seen) == index + 1:
                over.set()
                if way == "raise":
                    raise RuntimeError("a subscriber's own")
                if way == "interrupt":
                    friday.interrupt()
                if way == "dispose":
                    holder[0].dispose()

        flow = friday.stream("go")
        if way == "take":
            flow = flow.pipe(ops.take(index + 1))
        ended = asyncio.Event()
        holder.append(flow.subscribe(act, lambda error: ended.set(), ended.set))
        await over.wait()
        if way == "interrupt":
            await ended.wait()
            assert seen[-1].message == remembered(friday)[-1]
            assert fold(seen).history == tuple(remembered(friday))
        with collect_dropped() as dropped:
            await check_after(friday)
            assert not dropped

    for index in range(total):
        if way == "raise":
            with collect_dropped() as dropped:
                run_virtual(main(index))
            assert [str(error) for error in dropped] == ["a subscriber's own"]
        else:
            run_virtual(main(index))


class Failing(Hook):
    """Fails at the n-th event it sees."""

    def __init__(self, index: int, later: bool) -> None:
        self.index = index
        self.later = later
        self.count = 0
        self.types: list[str] = []

    async def _fail(self) -> None:
        await asyncio.sleep(0.1)
        raise RuntimeError("hook")

    def on_event(self, event: Event):
        if event.type == "error":
            self.types.append("error")
            return None
        self.count += 1
        if self.count == self.index + 1:
            self.types.append(event.type)
            if self.later:
                return self._fail()
            raise RuntimeError("hook")
        return None


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("parallel", [True, False])
def test_failed_by_a_hook_at_every_event(parallel: bool, later: bool):
    total = len(run_virtual(events_of(eventful(parallel=parallel, hooks=()), "go")))

    async def main(index: int) -> None:
        failing = Failing(index, later)
        friday = eventful(parallel=parallel, hooks=(failing,))
        seen: list[Event] = []
        with pytest.raises(RuntimeError, match="hook"):
            await friday.stream("go").pipe(ops.do_action(seen.append))
        assert seen[-1].type == "error" and failing.types[-1] == "error"
        assert not friday.running
        assert fold(seen).history == tuple(remembered(friday)) or failing.types[0] in ("pre_call", "post_call")
        await check_after(friday)

    for index in range(total):
        run_virtual(main(index))


class Brittle(InMemoryMemory):
    """Fails at its n-th write, as a remote store may."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.left = index

    def add(self, messages):
        self.left -= 1
        if self.left == -1:
            return throw(ConnectionError("store"))
        return super().add(messages)


class Remote(InMemoryMemory):
    """Takes its time for everything, as a store elsewhere does; a write that is cut off is half done."""

    begun = whole = 0

    def get(self):
        return timer(0.1).pipe(then(super().get))

    def add(self, messages):
        async def write() -> None:
            for message in messages:
                await InMemoryMemory.add(self, [message])
                await asyncio.sleep(0.2)
            self.whole += 1

        def begin():
            self.begun += 1
            return from_callable(write)

        return defer(begin)


@pytest.mark.parametrize("way", ["dispose", "cancel", "interrupt"])
def test_ended_at_every_moment_with_a_slow_memory(way: str):
    async def main(moment: float) -> None:
        memory = Remote()
        friday = eventful(parallel=True, hooks=(), memory=memory)
        if way == "dispose":
            running = friday.stream("go").subscribe(lambda event: None)
            await asyncio.sleep(moment)
            running.dispose()
        else:
            task = friday.call("go").as_task()
            await asyncio.sleep(moment)
            if way == "cancel":
                task.cancel()
            else:
                friday.interrupt()
            await asyncio.wait([task])
        await friday.idle()
        assert memory.whole == memory.begun, "a write was torn"
        await check_after(friday)

    for moment in [step * 0.1 for step in range(170)]:
        run_virtual(main(moment))


@pytest.mark.parametrize("index", range(8))
def test_failed_by_memory_at_every_write(index: int):
    async def main() -> None:
        friday = eventful(parallel=True, memory=Brittle(index))
        with pytest.raises(ConnectionError, match="store"):
            await friday.call("go")
        await check_after(friday)

    run_virtual(main())


TURN = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=3),
        st.builds(ThinkingBlock, st.text(min_size=1, max_size=3)),
        st.builds(Delay, st.sampled_from([0.1, 0.7])),
        st.builds(lambda s: call("careful", seconds=s, name="x"), st.sampled_from([0.2, 1.0])),
        st.builds(lambda n: call("steps", upto=n), st.integers(0, 2)),
        st.builds(lambda: call("unknown")),
        st.just(AgentScopeError("the model fails")),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150)
@given(turns=st.lists(TURN, max_size=3), parallel=st.booleans())
def test_call_is_the_last_event_is_the_fold_is_memory(turns, parallel):
    async def run(through_call: bool):
        toolkit = Toolkit([careful, steps], parallel=parallel)
        friday = agent(ScriptedModel(*turns, "the end"), tools=None, toolkit=toolkit, max_iters=3)
        seen: list[Event] = []
        try:
            if through_call:
                reply = await friday.call("go")
            else:
                await friday.stream("go").pipe(ops.do_action(seen.append))
                reply = fold(seen).message
                assert reply == seen[-1].message
                assert fold(seen).history == tuple(remembered(friday))
        except AgentScopeError as error:
            if seen:
                assert seen[-1].type == "error"
                assert fold(seen).history == tuple(remembered(friday))
            reply = type(error)
        assert_whole(friday)
        assert not friday.running
        return _shape(reply), [_shape(message) for message in remembered(friday)]

    assert run_virtual(run(True)) == run_virtual(run(False))


def _shape(message):
    if isinstance(message, type):
        return message.__name__
    return message.role, message.content, message.generate_reason


def test_a_call_waits_for_the_clean_up_of_the_one_before():
    async def main() -> None:
        friday = agent(ScriptedModel([call("careful", seconds=10, name="w")], "next"), tools=[careful])
        running = friday.stream("go").subscribe(lambda event: None)
        await asyncio.sleep(2)
        cleaned.clear()
        running.dispose()
        assert friday.running, "it is closing: the tool's finally block has not run"
        reply = await friday.call("again")
        assert cleaned == ["w"]
        assert reply.text == "next"
        assert [m.role.value for m in remembered(friday)] == ["user", "assistant", "tool", "user", "assistant"]
        assert remembered(friday)[2].tool_results[0].kind == "interrupted"

    run_virtual(main())
