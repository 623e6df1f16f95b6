"""Suspended calls: any tool may leave its call to the caller; other results are kept, and the run can go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from agentscope_rx import Approve, GenerateReason, Hook, Msg, ReActAgent, Toolkit, ToolResultBlock, tool
from agentscope_rx.errors import ToolSuspend
from agentscope_rx.events import ActingChunkEvent, Event, PostActingEvent
from agentscope_rx.messages import TextBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, just, throw
from agentscope_rx.testing import ScriptedModel, run_virtual
from agentscope_rx.tools import Tool
from tests.agent.parts import assert_whole, events_of, remembered, weather
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole, results_in

SUSPENDED, INTERRUPTED = ToolResultKind.SUSPENDED, ToolResultKind.INTERRUPTED
answered: list[str] = []


@pytest.fixture(autouse=True)
def nothing_answered() -> None:
    answered.clear()


def ask() -> str:
    """Suspend, unless the answer has come meanwhile."""
    if answered:
        return answered[-1]
    raise ToolSuspend("Which file?", kind="file", many=[1, 2])


@tool(name="ask")
async def coroutine() -> str:
    """Asks."""
    await asyncio.sleep(1)
    return ask()


@tool(name="ask")
def function() -> str:
    """Asks, on a worker."""
    return ask()


@tool(name="ask")
def generator() -> Iterator[str]:
    """Asks after a word, on a worker."""
    yield "hm"
    yield ask()


@tool(name="ask")
async def async_generator() -> AsyncIterator[str]:
    """Asks after a word."""
    yield "hm"
    await asyncio.sleep(1)
    yield ask()


@tool(name="ask")
def observable() -> Flow[str]:
    """Asks as a flow."""
    return just(answered[-1]) if answered else throw(ToolSuspend("Which file?", kind="file", many=[1, 2]))


class Raw(Tool):
    """Suspends where it is called, before there is any flow (W08)."""

    name = "ask"

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(ask())


EXTERNAL = Toolkit()
EXTERNAL.register_schema(
    ToolSchema("ask", "Asks.", {"type": "object", "properties": {"n": {"type": "integer"}}}), reason="Which file?"
)
KINDS: dict[str, Any] = {
    "coroutine": coroutine,
    "function": function,
    "generator": generator,
    "async generator": async_generator,
    "observable": observable,
    "raw": Raw(),
    "external": EXTERNAL.get("ask"),
}


def use(name: str, call_id: str, /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(call_id, name, arguments)


def given(id: str, text: str = "from outside") -> ToolResultBlock:
    return ToolResultBlock(id, "ask", (TextBlock(text),))


def friday(*turns: Any, tools: Any = (coroutine, weather), parallel: bool = True, **options: Any) -> ReActAgent:
    return ReActAgent("Friday", ScriptedModel(*turns), toolkit=Toolkit(tools, parallel=parallel), **options)


@pytest.mark.spec("§5.6", "§9.14", "T6", "W08", "W81")
@pytest.mark.parametrize("resume", ["results", "call"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tool_may_suspend_its_call(kind: str, resume: str):
    """The reply pairs the call with a placeholder; neither is remembered."""

    async def main() -> None:
        someone = friday(use("ask", "q"), "Thanks.", tools=[KINDS[kind]])
        seen = await events_of(someone, "go")
        reply = seen[-1].message
        assert (reply.role, reply.name) == ("assistant", "Friday")
        assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED
        call, placeholder = reply.content
        assert call == remembered(someone)[-1].tool_calls[0] and reply.pending_calls == (call,)
        assert (placeholder.id, placeholder.name, placeholder.kind) == ("q", "ask", SUSPENDED)
        assert placeholder.text == "Which file?" and not placeholder.is_error
        if kind != "external":
            assert placeholder.metadata == {"kind": "file", "many": [1, 2]}
        assert not any(isinstance(event, PostActingEvent) for event in seen)
        chunks = [event for event in seen if isinstance(event, ActingChunkEvent)]
        assert [event.text for event in chunks if not event.is_last] == (["hm"] if "generator" in kind else [])
        assert [(e.chunk.kind, e.is_last) for e in chunks[-1:]] == [(SUSPENDED, True)]
        assert_one_truth(seen, (), remembered(someone))
        assert_whole(someone, pending=["q"])

        before = list(remembered(someone))
        if resume == "results":
            seen = await events_of(someone, Msg.tool(given("q")))
        elif kind == "external":
            again = await someone.call()
            assert again.generate_reason is GenerateReason.TOOL_SUSPENDED and again.content == reply.content
            return
        else:
            answered.append("from outside")
            seen = await events_of(someone)
        assert seen[-1].message.text == "Thanks."
        assert results_in(remembered(someone))["q"] == (None, "from outside")
        assert_one_truth(seen, before, remembered(someone))
        assert_whole(someone)

    run_virtual(main())


@pytest.mark.spec("§22.10")
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("parallel", [True, False])
def test_one_of_three_is_suspended_and_the_others_are_kept(parallel: bool, place: int):
    """Results in call order; in turn, what stands behind the suspended call has not begun, and waits, too."""

    async def main() -> None:
        calls = [use("weather", f"w{n}", city=f"{n}") for n in range(2)]
        calls.insert(place, use("ask", "q"))
        someone = friday(calls, "Thanks.", parallel=parallel)
        seen = await events_of(someone, "go")
        reply = seen[-1].message
        order = [call.id for call in calls]
        waits = ["q"] if parallel else order[place:]
        assert [call.id for call in reply.pending_calls] == waits
        assert [block.id for block in reply.content] == [id for id in waits for _ in range(2)]
        assert {block.kind for block in reply.tool_results} == {SUSPENDED}
        done = [id for id in order if id not in waits]
        assert list(results_in(remembered(someone))) == done
        assert [e.tool_use.id for e in seen if isinstance(e, PostActingEvent)] == done
        assert_one_truth(seen, (), remembered(someone))
        assert_whole(someone, pending=waits)

        before = list(remembered(someone))
        seen = await events_of(someone, Msg.tool(given("q")))
        # the rest runs once, and only now
        assert seen[-1].message.text == "Thanks."
        assert [e.tool_use.id for e in seen if isinstance(e, PostActingEvent)] == waits[1:]
        assert_one_truth(seen, before, remembered(someone))
        assert_prompts_are_whole(someone.model)
        said = results_in(remembered(someone))
        assert said["q"] == (None, "from outside") and len(said) == 3

    run_virtual(main())


@pytest.mark.parametrize("parallel", [True, False])
def test_two_of_three_are_suspended_and_answered_one_by_one(parallel: bool):
    async def main() -> None:
        calls = [use("ask", "p"), use("weather", "w", city="Rome"), use("ask", "q")]
        someone = friday(calls, "Thanks.", parallel=parallel)
        reply = await someone.call("go")
        assert [c.id for c in reply.pending_calls] == (["p", "q"] if parallel else ["p", "w", "q"])
        reply = await someone.call(Msg.tool(given("p")))
        assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED
        assert [c.id for c in reply.pending_calls] == ["q"]
        assert (await someone.call(Msg.tool(given("q")))).text == "Thanks."
        assert sorted(results_in(remembered(someone))) == ["p", "q", "w"]
        assert_prompts_are_whole(someone.model)

    run_virtual(main())


def test_a_failed_sibling_is_a_result_and_hides_no_suspension():
    @tool
    async def broken() -> str:
        """Fails."""
        raise ValueError("no")

    async def main() -> None:
        someone = friday(
            [use("broken", "b"), use("ask", "q"), use("nothing", "n")], "Thanks.", tools=[broken, function]
        )
        reply = await someone.call("go")
        assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED and [c.id for c in reply.pending_calls] == ["q"]
        assert {id: kind for id, (kind, _) in results_in(remembered(someone)).items()} == {
            "b": ToolResultKind.FAILED, "n": ToolResultKind.NOT_FOUND,
        }  # fmt: skip
        assert (await someone.call(Msg.tool(given("q")))).text == "Thanks."

    run_virtual(main())


def test_a_suspension_is_not_tried_again():
    """A retry policy is for failures."""
    attempts: list[int] = []

    @tool(execution_config=ExecutionConfig(max_attempts=5))
    async def wait() -> str:
        """Waits."""
        attempts.append(1)
        raise ToolSuspend

    async def main() -> None:
        someone = friday(use("wait", "q"), "Thanks.", tools=[wait])
        reply = await someone.call("go")
        assert reply.tool_results[0].text == "Tool execution suspended"
        assert attempts == [1]

    run_virtual(main())


def test_arguments_that_do_not_fit_are_not_handed_to_anybody():
    async def main() -> None:
        someone = friday(use("ask", "q", n="x"), "Sorry.", tools=[EXTERNAL.get("ask")])
        assert (await someone.call("go")).text == "Sorry."
        assert results_in(remembered(someone))["q"][0] is ToolResultKind.INVALID_ARGUMENTS

    run_virtual(main())


@pytest.mark.spec("R5", "W43")
@pytest.mark.parametrize("way", ["interrupt", "dispose", "fail"])
def test_a_suspended_call_is_closed_when_its_run_is_cut_off(way: str):
    """The suspension was not reported to the caller, so the call is not left waiting."""

    class Failing(Hook):
        kinds = (PostActingEvent,)

        def on_event(self, event: Event) -> None:
            raise RuntimeError("hook")

    @tool
    async def slow() -> str:
        """Takes its time."""
        await asyncio.sleep(10)
        return "done"

    async def main() -> None:
        hooks = [Failing()] if way == "fail" else []
        someone = friday([use("ask", "q"), use("slow", "s")], "and on", tools=[coroutine, slow], hooks=hooks)
        task = someone.call("go").as_task()
        await asyncio.sleep(5)
        if way == "interrupt":
            assert someone.interrupt()
            assert (await task).generate_reason is GenerateReason.INTERRUPTED
        elif way == "dispose":
            task.cancel()
        await asyncio.wait([task])
        if way == "fail":
            assert isinstance(task.exception(), RuntimeError)
        await someone.idle()
        said = results_in(remembered(someone))
        kind = ToolResultKind.FAILED if way == "fail" else INTERRUPTED
        assert said["q"][0] is kind and someone.conversation().pending == set()
        assert sorted(said) == ["q", "s"]
        someone.hooks = type(someone.hooks)(())
        assert (await someone.call("and?")).text == "and on"
        assert_prompts_are_whole(someone.model)

    run_virtual(main())


def test_suspended_again_and_again():
    """A call may be suspended as often as it is run; each time it is asked once."""

    async def main() -> None:
        someone = friday(use("ask", "q"), "Thanks.", max_iters=1)
        for _ in range(3):
            assert (await someone.call()).generate_reason is GenerateReason.TOOL_SUSPENDED
        assert len(someone.model.requests) == 1
        answered.append("at last")
        reply = await someone.call()
        # its one round was that of the call: what follows is the last word
        assert (reply.text, reply.generate_reason) == ("Thanks.", GenerateReason.MAX_ITERATIONS)
        assert_whole(someone)

    run_virtual(main())


def test_a_suspended_and_an_approved_call_in_one_reply():
    @tool(requires_approval=True)
    async def risky() -> str:
        """Needs a person."""
        return "risked"

    async def main() -> None:
        someone = friday([use("ask", "q"), use("risky", "r")], "Thanks.", tools=[coroutine, risky])
        reply = await someone.call("go")
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert [(block.id, block.kind) for block in reply.tool_results] == [
            ("q", SUSPENDED), ("r", ToolResultKind.APPROVAL_REQUIRED),
        ]  # fmt: skip
        assert (await someone.call([Approve("r"), Msg.tool(given("q"))])).text == "Thanks."
        assert results_in(remembered(someone)) == {"q": (None, "from outside"), "r": (None, "risked")}
        assert_prompts_are_whole(someone.model)

    run_virtual(main())
