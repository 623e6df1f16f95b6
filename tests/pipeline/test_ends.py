"""How a pipeline's run ends: interrupted, disposed, at a limit, at a deadline, with output, and when it is busy."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from agentscope_rx import GracefulShutdown, InMemorySession, Msg, ReActAgent, UsageLimits, tool
from agentscope_rx.errors import (
    AgentBusyError,
    AgentShuttingDownError,
    RunDeadlineError,
    RunEndedError,
    StepError,
    UsageLimitError,
)
from agentscope_rx.events import PostActingEvent, PostCallEvent, PreActingEvent
from agentscope_rx.messages import GenerateReason
from agentscope_rx.pipeline import FanOutPipeline, LoopPipeline, Pipeline, SequentialPipeline
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.pipeline.parts import assert_whole, echo, remembered, says, use
from tests.support.assertions import assert_prompts_are_whole


def nested() -> tuple[Pipeline, list[ReActAgent]]:
    """A pipeline in a pipeline: a, then (b beside c), then d."""
    agents = [echo(name, wait=1) for name in "abcd"]
    a, b, c, d = agents
    return SequentialPipeline([a, FanOutPipeline([b, c]), d]), agents


def test_an_interruption_is_passed_down_and_says_where():
    async def main() -> None:
        pipeline, agents = nested()
        task = pipeline.call("x").as_task()
        await asyncio.sleep(1.5)
        assert pipeline.interrupt()
        reply = await task
        assert reply.generate_reason is GenerateReason.INTERRUPTED
        assert reply.text == "I was interrupted in step 2 (fan-out)."
        inside = pipeline.members["fan-out"]
        assert remembered(inside)[-1].text == "I was interrupted in step 1 (b, c)."  # pyright: ignore
        for each in (pipeline, inside, *agents):
            assert not each.running  # pyright: ignore
            await assert_whole(each.conversation(), remembered(each))  # pyright: ignore
        assert remembered(agents[3]) == []
        assert (await pipeline.call("y")).text.startswith("d(## b")
        for agent in agents:
            assert_prompts_are_whole(agent.model)  # pyright: ignore

    run_virtual(main())


def test_the_message_of_an_interruption_is_the_reply():
    async def main() -> None:
        pipeline, _ = nested()
        task = pipeline.call("x").as_task()
        await asyncio.sleep(0.5)
        pipeline.interrupt("Enough.")
        assert (await task).text == "Enough."

    run_virtual(main())


def test_a_member_that_is_interrupted_ends_a_sequence():
    async def main() -> None:
        pipeline, (_, b, c, d) = nested()
        task = pipeline.call("x").as_task()
        await asyncio.sleep(1.5)
        b.interrupt("b stops")
        assert "## b\n\nb stops" in (await task).text and len(d.model.requests) == 1  # pyright: ignore

        first = echo("first", wait=1)
        alone = SequentialPipeline([first, echo("second")])
        task = alone.call("x").as_task()
        await asyncio.sleep(0.5)
        first.interrupt("first stops")
        reply = await task
        assert (reply.text, reply.generate_reason) == ("first stops", GenerateReason.INTERRUPTED)
        assert c.running is False

    run_virtual(main())


@pytest.mark.parametrize("way", ["dispose", "interrupt"])
def test_an_end_at_every_event_leaves_all_whole(way: str):
    async def run(at: int) -> int:
        pipeline, agents = nested()
        seen = 0
        stream = pipeline.stream("x")
        async with asyncio.timeout(60):
            events = aiter(stream)
            async for _ in events:
                seen += 1
                if seen == at:
                    if way == "interrupt":
                        pipeline.interrupt()
                    else:
                        break
            await events.aclose()  # pyright: ignore
        await pipeline.idle()
        for each in (pipeline, pipeline.members["fan-out"], *agents):
            await each.idle()  # pyright: ignore
            assert not each.running  # pyright: ignore
            await assert_whole(each.conversation(), remembered(each))  # pyright: ignore
        reply = await pipeline.call("again")
        assert reply.text == "d(## b\n\nb(a(again))\n\n## c\n\nc(a(again)))"
        for agent in agents:
            assert_prompts_are_whole(agent.model)  # pyright: ignore
        return seen

    total = run_virtual(run(10**6))
    for at in range(1, total + 1):
        run_virtual(run(at))


def test_limits_count_the_members():
    async def main() -> None:
        limited = SequentialPipeline([echo("a"), echo("b"), echo("c")], limits=UsageLimits(model_calls=2))
        with pytest.raises(UsageLimitError, match="Agent 'sequential' has reached its limit of 2 for model_calls"):
            await limited.call("x")
        await assert_whole(limited.conversation(), remembered(limited))
        summed = SequentialPipeline(
            [echo("a"), echo("b"), echo("c")], limits=UsageLimits(model_calls=2, on_limit="summary")
        )
        reply = await summed.call("x")
        assert reply.generate_reason is GenerateReason.LIMIT_REACHED
        assert reply.text == "The limit for model calls was reached before step 3.\n\nThe last reply was:\nb(a(x))"
        # in the middle of a member, which needs two calls
        looping = says("t", use("none", "1"), use("none", "2"), "done")
        inside = SequentialPipeline([looping], limits=UsageLimits(model_calls=2))
        with pytest.raises(UsageLimitError, match="'sequential'"):
            await inside.call("x")
        steps = FanOutPipeline([echo("a"), echo("b")], limits=UsageLimits(tool_calls=1))
        with pytest.raises(UsageLimitError, match="tool_calls"):
            await steps.call("x")
        await assert_whole(steps.conversation(), remembered(steps))

    run_virtual(main())


def test_a_deadline_ends_the_members():
    async def main() -> None:
        agent = says("a", [HANG])
        with pytest.raises(RunDeadlineError):
            await SequentialPipeline([agent], limits=UsageLimits(deadline=5)).call("x")
        assert not agent.running
        last = says("b", [Delay(100), "late"])
        limits = UsageLimits(deadline=20, summary_reserve=5, on_limit="summary")
        reply = await SequentialPipeline([echo("a"), last], limits=limits).call("x")
        assert reply.text == "The limit for time was reached in step 2 (b).\n\nThe last reply was:\na(x)"
        assert asyncio.get_running_loop().time() == 20 and not last.running

    run_virtual(main())


class Answer(BaseModel):
    value: int


def test_the_last_step_gives_the_structured_output():
    async def main() -> None:
        first, last = echo("a"), says("b", call("generate_response", value=7), call("generate_response", value=8))
        reply = await SequentialPipeline([first, last]).call("x", output=Answer)
        assert reply.structured(Answer) == Answer(value=7)
        assert reply.generate_reason is GenerateReason.STRUCTURED_OUTPUT
        assert len(first.model.requests) == 1  # pyright: ignore
        inner = SequentialPipeline([last], "inner")
        outer = SequentialPipeline([echo("a"), inner])
        assert (await outer.call("x", output=Answer)).structured(Answer) == Answer(value=8)
        counting = says("c", *(call("generate_response", value=n) for n in range(5)))
        loop = LoopPipeline(counting, until=lambda reply: reply.structured(Answer).value == 3)
        assert (await loop.call("x", output=Answer)).structured(Answer).value == 3

    run_virtual(main())


def test_a_busy_pipeline_and_a_busy_member():
    async def main() -> None:
        pipeline, (a, *_) = nested()
        first = pipeline.call("x").as_task()
        await asyncio.sleep(0.5)
        with pytest.raises(AgentBusyError):
            await pipeline.call("y")
        with pytest.raises(RunEndedError):
            pipeline.enqueue("more")
        second = pipeline.call("z", when_busy="queue").as_task()
        assert (await first).text.startswith("d(") and "a(z)" in (await second).text
        # a member that somebody else is calling
        other = a.call("elsewhere").as_task()
        await asyncio.sleep(0.5)
        with pytest.raises(StepError, match="AgentBusyError"):
            await pipeline.call("x")
        await other
        await assert_whole(pipeline.conversation(), remembered(pipeline))

    run_virtual(main())


def test_conversations_of_their_own_for_each_memory():
    from agentscope_rx import InMemoryMemory

    async def main() -> None:
        a = says("a", "one", "two", "three")
        pipeline = SequentialPipeline([a])
        memories = [InMemoryMemory(), InMemoryMemory()]
        await pipeline.call("x")
        await pipeline.call("y", memory=memories[0])
        await pipeline.call("z", memory=memories[0])
        assert [message.text for message in remembered(a)] == ["x", "one"]
        assert [message.text for message in a.model.requests[-1].messages] == ["y", "two", "z"]  # pyright: ignore
        await assert_whole(pipeline.conversation(memories[0]), memories[0].messages)

    run_virtual(main())


def test_a_handle_a_tool_and_an_observer():
    async def main() -> None:
        pipeline = SequentialPipeline([echo("a"), echo("b")], "team")
        handle = pipeline.start("x")
        assert (await handle.result()).text == "b(a(x))"
        boss = says("boss", use("call_team", "c", message="go"), "Done.", tools=[pipeline.as_tool()])
        events = [event async for event in boss.stream("begin")]
        assert events[-1].message.text == "Done."  # pyright: ignore
        assert "b(a(go))" in remembered(boss)[-2].text or "b(a(go))" in remembered(boss)[-2].tool_results[0].text
        deep = {event.agent: len(event.path) for event in events}
        assert deep == {"boss": 1, "team": 3, "a": 5, "b": 5}
        await pipeline.observe(Msg.assistant("I heard that.", "other"))
        assert remembered(pipeline)[-1].text == "I heard that."
        assert (await pipeline.call("y")).text == "b(a(y))"
        await assert_whole(boss.conversation(), remembered(boss))

    run_virtual(main())


def test_the_events_of_a_step():
    async def main() -> None:
        pipeline = SequentialPipeline([echo("a"), echo("b")])
        events = [event async for event in pipeline.stream("x")]
        own = [event for event in events if event.depth == 0]
        assert [type(event).__name__ for event in own] == [
            "PreCallEvent",
            *["MemoryEvent", "PreActingEvent", "ActingChunkEvent", "PostActingEvent"] * 2,
            "PostCallEvent",
        ]
        assert [event.tool_use.name for event in own if isinstance(event, PreActingEvent)] == ["call_a", "call_b"]
        results = [event.result.text for event in own if isinstance(event, PostActingEvent)]
        assert results == ["a(x)", "b(a(x))"]
        assert isinstance(own[-1], PostCallEvent) and own[-1].message.text == "b(a(x))"

    run_virtual(main())


def test_a_shutdown_goes_on_in_another_process():
    async def main() -> None:
        session = InMemorySession()
        shutdown = GracefulShutdown(timeout=2)
        pipeline = SequentialPipeline([echo("a", wait=1), says("b", [HANG])], shutdown=shutdown)
        await pipeline.bind(session, "s")
        task = pipeline.call("x").as_task()
        await asyncio.sleep(1.5)
        await shutdown.begin()
        with suppress(AgentShuttingDownError):
            await task
        again = echo("a")
        pipeline = SequentialPipeline([again, echo("b")])
        await pipeline.bind(session, "s")
        assert (await pipeline.call()).text == "b(a(x))"
        assert again.model.requests == []  # pyright: ignore
        await assert_whole(pipeline.conversation(), remembered(pipeline))

    run_virtual(main())


def test_a_pipeline_in_a_loop_of_rounds_sees_its_progress():
    from agentscope_rx.pipeline import Program, Progress, Step

    seen: list[Any] = []

    class Ping(Pipeline):
        def program(self, progress: Progress) -> Program:
            seen.append([[each.member for each in results] for results in progress.rounds])
            if len(progress.rounds) < 2:
                return [Step("a"), Step("b", [Msg.user("other")])]
            assert [each.value.text for each in progress.of("b")] == ["b(other)", "b(other)"]
            return " ".join(each.value.text for each in progress.results)

    async def main() -> None:
        pipeline = Ping("ping", [ReActAgent("a", ScriptedModel("1", "2")), echo("b")])
        assert (await pipeline.call("x")).text == "1 b(other) 2 b(other)"
        assert seen == [[], [["a", "b"]], [["a", "b"], ["a", "b"]]]

    run_virtual(main())


def test_members_remember_what_was_passed_by_in_another_process():
    done: list[str] = []

    @tool(requires_approval=True)
    async def delete(path: str) -> str:
        """Delete a file."""
        done.append(path)
        return "gone"

    def make(*turns: object) -> SequentialPipeline:
        return SequentialPipeline([says("a", *turns, tools=[delete]), echo("b")])

    async def main() -> None:
        session = InMemorySession()
        first = make("Hello.", use("delete", "d", path="x"))
        await first.bind(session, "s")
        await first.call("hi")
        await first.call("delete it")
        second = make("Never mind.")
        await second.bind(session, "s")
        assert len(await second.pending_calls()) == 1
        assert (await second.call("or not")).text == "b(Never mind.)"
        a = second.members["a"]
        assert isinstance(a, ReActAgent) and isinstance(a.model, ScriptedModel)
        said = [message.text for message in a.model.requests[0].messages if message.text]
        assert said == ["hi", "Hello.", "delete it", "or not"] and not done
        assert_prompts_are_whole(a.model)
        await assert_whole(second.conversation(), remembered(second))

    run_virtual(main())


def test_a_slow_subscriber_and_one_that_throws():
    async def main() -> None:
        pipeline, agents = nested()
        seen = 0
        async for _ in pipeline.stream("x").buffered(1):
            seen += 1
            await asyncio.sleep(3)
        assert seen > 20 and not pipeline.running

        def fail(event: object) -> None:
            if isinstance(event, PostActingEvent):
                raise RuntimeError("no")

        pipeline.stream("y").subscribe(fail, lambda error: None)
        await asyncio.sleep(60)
        for each in (pipeline, *agents):
            await each.idle()
            assert not each.running
            await assert_whole(each.conversation(), remembered(each))

    with collect_dropped():
        run_virtual(main())
