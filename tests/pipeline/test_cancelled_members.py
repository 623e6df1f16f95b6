"""The work of one member is cancelled, but not by its pipeline: that is the failure of this member alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentscope_rx import Agent, Msg, ReActAgent
from agentscope_rx.errors import StepError
from agentscope_rx.pipeline import FanOutPipeline, FunctionAgent, SequentialPipeline, fanout_pipeline, map_agent
from agentscope_rx.reactive import SourceCancelledError, from_callable, from_iterable
from agentscope_rx.testing import ScriptedModel, collect_dropped, run_virtual
from tests.pipeline.parts import assert_whole, remembered, says


class CancelledOnce(ScriptedModel):
    """A model whose first request is cancelled: its own task, or what that awaits."""

    def __init__(self, kind: str) -> None:
        super().__init__("at last", repeat=True)
        self.kind = kind
        self.asked = 0

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
        self.asked += 1
        if self.asked > 1:
            return super().do_stream(messages, tools, options)
        return from_callable(lambda: cancelled(self.kind))


async def cancelled(kind: str) -> Any:
    if kind == "await":
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


@pytest.mark.parametrize("kind", ["await", "task"])
def test_a_cancelled_agent_is_whole_and_goes_on(kind: str):
    async def main() -> None:
        agent = ReActAgent("B", CancelledOnce(kind))
        members = [says("A", "a", "a"), agent, says("C", "c", "c")]
        first, second, third = await fanout_pipeline(members, "go")
        assert (first.value.text, third.value.text) == ("a", "c")
        assert second.error is not None and second.error.kind == "cancelled" and not second.ok
        await assert_whole(agent.conversation(), remembered(agent))
        again = await fanout_pipeline(members, "again")
        assert [each.value.text for each in again] == ["a", "at last", "c"]
        assert len(asyncio.all_tasks()) == 1

    run_virtual(main())


@pytest.mark.parametrize("kind", ["await", "task"])
def test_a_sequence_fails_with_the_member(kind: str):
    async def second(message: Msg) -> Any:
        return await cancelled(kind)

    async def main() -> None:
        with pytest.raises(StepError, match="'second'") as raised:
            await SequentialPipeline([says("A", "a"), second]).call("go")
        assert raised.value.kind == "cancelled"

    run_virtual(main())


def test_a_loop_that_ends_gives_no_more_work():
    begun: list[str] = []
    heard: list[Exception] = []
    all_begun = asyncio.Event()

    async def hang(message: Msg) -> str:
        begun.append("hang")
        if len(begun) == 3:
            all_begun.set()
        await asyncio.Event().wait()
        return "never"

    async def other(message: Msg) -> str:
        begun.append("other")
        return "never"

    members: list[Agent] = [FunctionAgent(hang, f"h{i}") for i in range(3)]
    pipeline = SequentialPipeline([FanOutPipeline(members), FunctionAgent(other)])

    async def main() -> None:
        pipeline.call("go").subscribe(on_error=heard.append)
        await all_begun.wait()

    # the errors of the other members of the round come after the end of the run
    with collect_dropped():
        asyncio.run(main())
    assert begun == ["hang"] * 3
    assert [type(each) for each in heard] == [SourceCancelledError]


def test_a_cancelled_input_of_a_map_is_a_value():
    async def work(message: Msg) -> str:
        if message.text == "2":
            await cancelled("await")
        return message.text

    async def main() -> None:
        found = [each async for each in from_iterable(["1", "2", "3"]).pipe(map_agent(work))]
        assert [each.ok for each in found] == [True, False, True]
        assert found[1].error is not None and found[1].error.kind == "cancelled"

    run_virtual(main())
