"""One agent, many conversations at once: each with its own memory, flag, pending calls and context; nothing is left."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Sequence
from typing import Any
from weakref import ref

import pytest

from agentscope_rx import (
    Approve,
    GenerateReason,
    Hook,
    InMemoryMemory,
    Msg,
    ReActAgent,
    RuntimeContext,
    ToolContext,
    tool,
)
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.errors import AgentBusyError
from agentscope_rx.events import Event, PostActingEvent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models import GenerateOptions
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent
from tests.support.assertions import results_in


class Answering(ScriptedModel):
    """Answers each conversation for itself: what its last user said is looked up with a tool, then repeated."""

    def __init__(self, delay: float = 1.0) -> None:
        super().__init__("x")
        self.delay = delay
        self.prompts: list[Sequence[Msg]] = []

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        self.prompts.append(tuple(messages))
        last = messages[-1]
        if last.tool_results:
            turn: list[Any] = [Delay(self.delay), last.tool_results[-1].text]
        else:
            turn = [Delay(self.delay), ToolUseBlock(f"look-{last.text}", "look", {"what": last.text})]
        return ScriptedModel(turn).do_stream(messages, tools, options)


@tool
async def look(what: str, context: RuntimeContext) -> str:
    """Looks it up in what the call was given."""
    await asyncio.sleep(1)
    return f"{what} for {context.session_id}"


def many(delay: float = 1.0, **options: Any) -> ReActAgent:
    return ReActAgent("Friday", Answering(delay), tools=[look], **options)


def said(memory: InMemoryMemory) -> list[str]:
    return [message.text for message in memory.messages if message.text]


@pytest.mark.spec("case 24", "W21", "W24", "R8", "D2")
def test_a_hundred_conversations_at_once():
    """Memories, contexts and events are not mixed up."""
    seen: dict[str, set[str]] = {}

    class Note(Hook):
        def on_event(self, event: Event) -> None:
            assert event.context is not None
            session = event.context.session_id or ""
            seen.setdefault(session, set()).add(event.source.run_id)

    async def main() -> None:
        friday = many(hooks=[Note()])
        memories = [InMemoryMemory() for _ in range(100)]
        contexts = [RuntimeContext(session_id=f"s{n}") for n in range(100)]
        calls = [
            friday.call(f"q{n}", memory=memory, context=context)
            for n, (memory, context) in enumerate(zip(memories, contexts, strict=True))
        ]
        tasks = [each.as_task() for each in reversed(calls)]
        await asyncio.sleep(0.5)
        assert len(friday.runs) == 100 and friday.running
        replies = [task.result().text for task in tasks if await asyncio.wait([task])]
        assert replies == [f"q{n} for s{n}" for n in reversed(range(100))]
        # all at once: no call waits for another
        assert asyncio.get_running_loop().time() == 3
        for n, memory in enumerate(memories):
            assert said(memory) == [f"q{n}", f"q{n} for s{n}"]
            assert list(results_in(memory.messages)) == [f"look-q{n}"]
        assert len(friday.memory.messages) == 0 and not friday.runs
        assert {session: len(runs) for session, runs in seen.items()} == {f"s{n}": 1 for n in range(100)}

    run_virtual(main())


@pytest.mark.spec("W21", "§22.10", "W07")
def test_two_assembled_calls_do_not_swap_their_contexts():
    """What a call is given belongs to that call, whichever is subscribed first."""

    async def main() -> None:
        for overlap in (False, True):
            friday = many(check_running=False)
            one = friday.call("one", context=RuntimeContext(session_id="first"))
            two = friday.call("two", context=RuntimeContext(session_id="second"))
            three = friday.call("three")
            if overlap:
                second, third, first = await asyncio.gather(*[each.as_task() for each in (two, three, one)])
            else:
                second, third, first = await two, await three, await one
            assert second.text.endswith("for second") and third.text.endswith("for None")
            assert first.text.endswith("for first")
            # and again: a call is cold, and can be repeated with the same context
            assert (await two).text.endswith("for second")

    run_virtual(main())


@pytest.mark.spec("case 30")
def test_hooks_and_tools_share_the_context_of_their_call():
    """A hook's change is seen by the tool; nothing is parked on the agent or the hook."""

    class Database:
        pass

    class Prepare(Hook):
        def on_event(self, event: Event) -> None:
            if event.type == "pre_acting":
                assert event.context is not None
                event.context.attributes["prepared"] = f"by the hook for {event.context.user_id}"

    contexts: list[RuntimeContext] = []

    @tool
    async def use(context: RuntimeContext, where: ToolContext) -> str:
        """Uses what is there."""
        assert where.runtime is context
        contexts.append(context)
        return f"{context.attributes.get('prepared')}: {type(context.get(Database)).__name__}"

    async def main() -> None:
        friday = ReActAgent("Friday", ScriptedModel(call("use"), "ok", repeat=True), tools=[use], hooks=[Prepare()])
        given = RuntimeContext(Database(), user_id="Ada")
        await friday.call("go", context=given)
        assert contexts == [given]
        (result,) = results_in(friday.memory.messages).values()
        assert result == (None, "by the hook for Ada: Database")

    run_virtual(main())


@pytest.mark.spec("case 25", "R8", "D2")
def test_a_second_call_is_refused_in_the_same_conversation_only():
    """The flag guards an agent with a memory, not the agent."""

    async def main() -> None:
        friday = many()
        one, two = InMemoryMemory(), InMemoryMemory()
        first = friday.call("a", memory=one).as_task()
        await asyncio.sleep(0.5)
        with pytest.raises(AgentBusyError):
            await friday.call("b", memory=one)
        assert (await friday.call("c", memory=two)).text == "c for None"
        assert (await friday.call("d")).text == "d for None"
        assert (await first).text == "a for None"
        assert said(one) == ["a", "a for None"]
        # two agents may use one memory at once: neither is the other's to guard
        other = many()
        assert [m.text for m in await asyncio.gather(
            friday.call("e", memory=one).as_task(), other.call("f", memory=two).as_task()
        )] == ["e for None", "f for None"]  # fmt: skip

    run_virtual(main())


def test_an_interruption_reaches_the_named_conversation_or_run():
    async def main() -> None:
        friday = agent(ScriptedModel(HANG, HANG, HANG, HANG))
        memories = [InMemoryMemory() for _ in range(4)]
        tasks = [friday.call("go", memory=memory).as_task() for memory in memories]
        await asyncio.sleep(1)
        assert not friday.interrupt(memory=InMemoryMemory()), "nothing runs there"
        assert not friday.interrupt(run_id="nobody")
        assert friday.interrupt("first", memory=memories[0])
        await asyncio.sleep(1)
        assert [task.done() for task in tasks] == [True, False, False, False]
        (run,) = friday.conversation(memories[1]).runs
        assert not friday.interrupt("no", run_id=run.id, memory=memories[2])
        assert friday.interrupt("second", run_id=run.id)
        await asyncio.sleep(1)
        assert [task.done() for task in tasks] == [True, True, False, False]
        assert friday.interrupt("all")
        await asyncio.wait(tasks)
        assert [task.result().text for task in tasks] == ["first", "second", "all", "all"]
        assert {task.result().generate_reason for task in tasks} == {GenerateReason.INTERRUPTED}

    run_virtual(main())


def test_idle_waits_for_one_conversation_or_for_all():
    async def main() -> None:
        friday = agent(ScriptedModel([Delay(2), "a"], [Delay(5), "b"]))
        one, two = InMemoryMemory(), InMemoryMemory()
        tasks = [friday.call("go", memory=memory).as_task() for memory in (one, two)]
        time = asyncio.get_running_loop().time
        await asyncio.sleep(0)
        await friday.idle(memory=InMemoryMemory())
        assert time() == 0
        await friday.idle(memory=one)
        assert time() == 2
        await friday.idle()
        assert time() == 5 and all(task.done() for task in tasks)

    run_virtual(main())


def test_pending_calls_belong_to_their_conversation():
    @tool(requires_approval=True)
    async def risky(n: int) -> str:
        """Needs a person."""
        return f"risked {n}"

    async def main() -> None:
        turns = [ToolUseBlock("r", "risky", {"n": n}) for n in range(3)]
        friday = ReActAgent("Friday", ScriptedModel(*turns, "zero", "one", "two"), tools=[risky])
        memories = [InMemoryMemory() for _ in range(3)]
        for memory in memories:
            assert (await friday.call("go", memory=memory)).pending_calls
        # the same id in each: the answer counts where it is given
        assert (await friday.call(Approve("r"), memory=memories[0])).text == "zero"
        assert friday.conversation(memories[1]).pending == {"r"}
        assert (await friday.call("no", memory=memories[1])).text == "one"
        assert (await friday.call(Approve("r", {"n": 7}), memory=memories[2])).text == "two"
        assert [results_in(m.messages)["r"][1] for m in memories][::2] == ["risked 0", "risked 7"]
        assert friday.conversation().pending is None

    run_virtual(main())


def test_disposing_of_one_conversation_leaves_the_others_alone():
    async def main() -> None:
        friday = many()
        memories = [InMemoryMemory() for _ in range(10)]
        tasks = [friday.call(f"q{n}", memory=memory).as_task() for n, memory in enumerate(memories)]
        await asyncio.sleep(1.5)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.wait(tasks)
        assert [task.result().text for task in tasks[1::2]] == [f"q{n} for None" for n in range(1, 10, 2)]
        await friday.idle()
        for n, memory in enumerate(memories):
            ((kind, _),) = results_in(memory.messages).values()
            assert kind == (None if n % 2 else "interrupted")

    run_virtual(main())


def test_on_many_threads_and_loops():
    friday = many(delay=0)
    friday.toolkit.remove("look")

    @tool(name="look")
    def quick(what: str, context: RuntimeContext) -> str:
        """Looks it up on a thread."""
        return f"{what} for {context.session_id}"

    friday.toolkit.register(quick)
    replies: dict[int, list[str]] = {}

    def work(n: int) -> None:
        memory = InMemoryMemory()
        context = RuntimeContext(session_id=f"s{n}")

        async def several() -> list[str]:
            return [(await friday.call(f"q{i}", memory=memory, context=context)).text for i in range(5)]

        replies[n] = asyncio.run(several()) if n % 2 else [
            friday.call(f"q{i}", memory=memory, context=context).run().text for i in range(5)
        ]  # fmt: skip

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert replies == {n: [f"q{i} for s{n}" for i in range(5)] for n in range(8)}


# --- what is kept, and what is not ----------------------------------------------------------------------------------


def conversations(friday: ReActAgent) -> int:
    return len(friday._conversations.all)


def test_a_conversation_goes_with_its_memory():
    async def main() -> None:
        friday = many()
        memory = InMemoryMemory()
        await friday.call("hi", memory=memory)
        conversation: ref[Conversation] = ref(friday.conversation(memory))
        gone = ref(memory)
        assert conversation() is friday.conversation(memory)
        before = conversations(friday)
        del memory
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None and conversation() is None
        assert conversations(friday) == before - 1

    run_virtual(main())


def test_a_thousand_conversations_leave_nothing():
    class Reply(Hook):
        def on_event(self, event: Event) -> Any:
            return event.stop() if isinstance(event, PostActingEvent) and "7" in event.tool_use.id else None

    async def main() -> None:
        friday = many(delay=0.001, hooks=[Reply()])

        async def one(n: int) -> None:
            memory = InMemoryMemory()
            flow = friday.call(f"q{n}", memory=memory)
            if n % 3 == 0:
                task = flow.as_task()
                await asyncio.sleep(0.5)
                task.cancel()
                await asyncio.wait([task])
            elif n % 3 == 1:
                task = flow.as_task()
                await asyncio.sleep(0.5)
                friday.interrupt(memory=memory)
                await task
            else:
                await flow
            await friday.idle(memory=memory)

        for batch in range(10):
            await asyncio.gather(*(one(batch * 100 + n) for n in range(100)))
        gc.collect()
        assert friday.runs == () and conversations(friday) == 0
        left = [each for each in gc.get_objects() if isinstance(each, Conversation)]
        assert [each for each in left if each.name == "Friday" and each.runs] == []

    run_virtual(main())


class Odd(InMemoryMemory):
    """A memory that is equal to every other, and that cannot be hashed."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd)

    __hash__ = None  # type: ignore[assignment]


class Empty(InMemoryMemory):
    """A memory that is false, and equal to nothing."""

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = InMemoryMemory.__hash__


@pytest.mark.parametrize("kind", [Odd, Empty])
def test_conversations_are_told_apart_by_the_object(kind: Any):
    async def main() -> None:
        friday = many()
        one, two = kind(), kind()
        first = friday.call("a", memory=one).as_task()
        await asyncio.sleep(0.5)
        assert (await friday.call("b", memory=two)).text == "b for None"
        assert (await first).text == "a for None"
        assert friday.conversation(one) is not friday.conversation(two)
        assert said(one) == ["a", "a for None"] and said(two) == ["b", "b for None"]
        assert len(friday.memory.messages) == 0

    run_virtual(main())


def test_an_agents_own_memory_is_a_conversation_like_any_other():
    async def main() -> None:
        friday = agent(ScriptedModel("a", "b"))
        await friday.call("x", memory=friday.memory)
        assert friday.conversation() is friday.conversation(friday.memory)
        await friday.observe("y", memory=(other := InMemoryMemory()))
        assert said(other) == ["y"] and said(friday.memory) == ["x", "a"]

    run_virtual(main())
