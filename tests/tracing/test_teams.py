"""The spans of pipelines, handoffs and hubs, and of work in the background."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import ref

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from agentscope_rx import BackgroundHook, InMemoryMemory, Msg, MsgHub, ReActAgent, Toolkit, tool
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.models import ExecutionConfig
from agentscope_rx.pipeline import FanOutPipeline, Handoffs, LoopPipeline, SequentialPipeline
from agentscope_rx.testing import HANG, ScriptedModel, call, run_virtual
from agentscope_rx.tracing import instrument, uninstrument
from tests.tracing.test_metrics import Measured
from tests.tracing.trees import Spans, _lines


class Wrong(Exception):
    """An error of a test."""


@tool
async def build(seconds: float = 100.0) -> str:
    """Takes a while."""
    await asyncio.sleep(seconds)
    return "built"


@tool
async def breaks() -> str:
    """Takes a while, and fails."""
    await asyncio.sleep(100)
    raise Wrong("broken")


def member(name: str, *turns: Any, **options: Any) -> ReActAgent:
    return ReActAgent(name, ScriptedModel(*turns), **options)


def tree(spans: Spans) -> str:
    """As `Spans.tree`, of spans that may end after their parents."""
    spans.assert_whole(nested=False)
    ids = [span.get_span_context().span_id for span in spans.begun]
    ordered = sorted(spans.ended, key=lambda span: ids.index(span.context.span_id))  # pyright: ignore
    return "\n".join(_lines(ordered, None, ""))


# --- several agents -------------------------------------------------------------------------------------------------


def test_a_pipeline_is_a_workflow() -> None:
    spans = Spans()
    inner = FanOutPipeline([member("B", Wrong("no")), member("C", "c")], name="Fan")
    seq = SequentialPipeline([member("A", "a"), inner], name="Seq", tracer=spans.hook())
    run_virtual(seq.call("go"))
    assert spans.tree().splitlines() == [
        "invoke_workflow Seq",
        "  acting",
        "    execute_tool call_a",
        "      invoke_agent A",
        "        reasoning",
        "          chat scripted",
        "  acting",
        "    execute_tool call_fan",
        "      invoke_workflow Fan",
        "        acting",
        "          execute_tool call_b (error failed)",
        "            invoke_agent B (error tests.tracing.test_teams.Wrong)",
        "              reasoning (error tests.tracing.test_teams.Wrong)",
        "                chat scripted (error tests.tracing.test_teams.Wrong, exception)",
        "          execute_tool call_c",
        "            invoke_agent C",
        "              reasoning",
        "                chat scripted",
    ]
    given = spans["invoke_workflow Seq"].attributes or {}
    assert given["gen_ai.operation.name"] == "invoke_workflow" and given["gen_ai.agent.name"] == "Seq"
    assert {span.name for span in spans.ended if (span.attributes or {}).get("openinference.span.kind") == "CHAIN"} == {
        "invoke_workflow Seq", "invoke_workflow Fan", "reasoning", "acting",
    }  # fmt: skip


@pytest.mark.parametrize("way", ["disposed", "interrupted"])
def test_a_pipeline_that_does_not_come_to_its_end(way: str) -> None:
    spans = Spans()

    async def main() -> None:
        fan = FanOutPipeline([member("A", "a"), member("B", HANG)], name="Fan", tracer=spans.hook())
        task = asyncio.ensure_future(fan.call("go"))
        await asyncio.sleep(1)
        if way == "interrupted":
            fan.interrupt()
            await task
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run_virtual(main())
    lines = spans.tree().splitlines()
    how = "interrupted" if way == "interrupted" else "cancelled"
    assert lines[0].startswith(f"invoke_workflow Fan ({how}")
    assert lines[-1].strip() == "chat scripted (cancelled)"
    assert [line.strip() for line in lines[3:6]] == ["invoke_agent A", "reasoning", "chat scripted"]


def test_handoffs_name_the_active_member() -> None:
    spans = Spans()
    front = member("Front", (call("transfer_to_back", "h1"),), "never", toolkit=Toolkit([build]))
    back = member("Back", (call("build", "b1", seconds=1),), "Back says.", toolkit=Toolkit([build]))
    desk = Handoffs("Desk", [front, back], tracer=spans.hook())
    assert run_virtual(desk.call("go")).text == "Back says."
    agents = [(span.name, (span.attributes or {})["gen_ai.agent.name"]) for span in spans.named("")]
    assert agents == [
        ("invoke_agent Desk", "Desk"),
        ("reasoning", "Front"),
        ("chat scripted", "Front"),
        ("acting", "Front"),
        ("execute_tool transfer_to_back", "Front"),
        ("reasoning", "Back"),
        ("chat scripted", "Back"),
        ("acting", "Back"),
        ("execute_tool build", "Back"),
        ("reasoning", "Back"),
        ("chat scripted", "Back"),
    ]


def test_what_is_said_in_a_hub_is_on_the_span_of_the_speaker() -> None:
    spans = Spans()
    members = [member(f"M{n}", "hello") for n in range(100)]

    async def main() -> None:
        instrument(tracer_provider=spans.provider)
        try:
            async with MsgHub(members, name="round", announcement=Msg.user("welcome")):
                await members[0].call("speak")
        finally:
            uninstrument()

    run_virtual(main())
    assert spans.tree() == "invoke_agent M0 (hub)\n  reasoning\n    chat scripted"
    (event,) = spans["invoke_agent M0"].events
    given = dict(event.attributes or {})
    assert given["heard_by.count"] == 99 and given["heard_by"] == tuple(f"M{n}" for n in range(1, 33))


def test_a_fan_out_of_1000_is_whole_and_leaves_nothing() -> None:
    spans = Spans()

    async def main() -> ref[FanOutPipeline]:
        members = [member(f"M{n}", "hello") for n in range(1000)]
        fan = FanOutPipeline(members, name="Fan", tracer=spans.hook(metrics=False))
        await fan.call("go")
        return ref(fan)

    gone = run_virtual(main())
    spans.assert_whole()
    assert len(spans.ended) == 1 + 1 + 4 * 1000
    gc.collect()
    assert gone() is None


def test_a_loop_without_stages() -> None:
    spans = Spans()
    loop = LoopPipeline(member("A", *"abc"), name="Loop", max_rounds=3, tracer=spans.hook(stages=False))
    run_virtual(loop.call("go"))
    inner = ["  execute_tool call_a", "    invoke_agent A", "      chat scripted"] * 3
    assert spans.tree().splitlines() == ["invoke_workflow Loop (max_iterations)", *inner]


# --- in the background ----------------------------------------------------------------------------------------------


TURNS = (call("build", "c1"),), "Going on.", "Done.", "Again."
HEAD = "  reasoning\n    chat scripted\n  acting\n    execute_tool build"
ROUND = "  reasoning\n    chat scripted"


def friday(spans: Spans, *turns: Any, after: float = 10, wait: Any = "wait", **options: Any) -> ReActAgent:
    options.setdefault("toolkit", Toolkit([build, breaks]))
    return member("Friday", *(turns or TURNS), hooks=[BackgroundHook(after, wait=wait)], tracer=spans.hook(), **options)


async def promoted(spans: Spans) -> None:
    await friday(spans).call("go")


async def promoted_and_failing(spans: Spans) -> None:
    await friday(spans, (call("breaks", "c1"),), "Going on.", "Done.").call("go")


async def begun_there(spans: Spans) -> None:
    await friday(spans, after=0).call("go")


async def beyond_its_run(spans: Spans) -> None:
    agent = friday(spans, wait="leave")
    await agent.call("go")
    await agent.background().wait()
    await agent.call("and?")


async def stopped(spans: Spans) -> None:
    await friday(spans, wait="stop").call("go")
    await asyncio.sleep(1)


async def of_a_run_that_is_disposed_of(spans: Spans) -> None:
    agent = friday(spans, (call("build", "c1"),), HANG)
    task = asyncio.ensure_future(agent.call("go"))
    await asyncio.sleep(20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await agent.background().wait()


async def handed_over_at_a_shutdown(spans: Spans) -> None:
    shutdown = GracefulShutdown()
    agent = friday(spans, wait="leave", shutdown=shutdown, memory=InMemoryMemory())
    await agent.call("go")
    await shutdown.begin()


async def a_sub_agent_there(spans: Spans) -> None:
    expert = member(
        "Expert",
        ConnectionError("no"),
        (call("build", "e1"),),
        "It is.",
        toolkit=Toolkit([build]),
        model_execution_config=ExecutionConfig(max_attempts=2),
    )
    turns = ((call("call_expert", "c1", message="hi"),), "Going on.", "Done.")
    await friday(spans, *turns, toolkit=Toolkit([expert.as_tool()])).call("go")


EXPECTED: dict[Callable[[Spans], Awaitable[None]], str] = {
    promoted: f"invoke_agent Friday (background, background)\n{HEAD}\n{ROUND}\n{ROUND}",
    promoted_and_failing: "invoke_agent Friday (background, background)\n"
    f"{HEAD.replace('build', 'breaks')} (error failed)\n{ROUND}\n{ROUND}",
    begun_there: f"invoke_agent Friday (background, background)\n{HEAD}\n{ROUND}\n{ROUND}",
    beyond_its_run: f"invoke_agent Friday (background)\n{HEAD}\n{ROUND}\ninvoke_agent Friday (background)\n{ROUND}",
    stopped: f"invoke_agent Friday (background)\n{HEAD} (cancelled)\n{ROUND}",
    of_a_run_that_is_disposed_of: f"invoke_agent Friday (cancelled, background)\n{HEAD}\n"
    "  reasoning (cancelled)\n    chat scripted (cancelled)",
    handed_over_at_a_shutdown: f"invoke_agent Friday (background)\n{HEAD} (cancelled)\n{ROUND}",
    a_sub_agent_there: "invoke_agent Friday (background, background)\n"
    f"{HEAD.replace('build', 'call_expert')}\n"
    "      invoke_agent Expert (retry)\n        reasoning\n"
    "          chat scripted (error ConnectionError, exception)\n          chat scripted\n"
    "        acting\n          execute_tool build\n        reasoning\n          chat scripted\n"
    f"{ROUND}\n{ROUND}",
}


@pytest.mark.parametrize("way", EXPECTED, ids=lambda way: way.__name__)
def test_work_in_the_background_is_in_the_span_of_its_call(way: Callable[[Spans], Awaitable[None]]) -> None:
    spans = Spans()

    async def main() -> None:
        await way(spans)

    run_virtual(main())
    assert tree(spans) == EXPECTED[way]


def test_a_job_counts_once_for_each_state() -> None:
    measured = Measured()

    async def main() -> None:
        expert = member("Expert", (call("build", "e1"),), "x", "y", toolkit=Toolkit([build]), hooks=[BackgroundHook(0)])
        turns = (call("call_expert", "c1", message="hi"),), "Done."
        await member("Friday", *turns, toolkit=Toolkit([expert.as_tool()]), tracer=measured.tracer).call("go")

    run_virtual(main())
    states = measured.sums("agentscope.background.jobs", "agentscope.job.state")
    assert states == {("started",): 1, ("completed",): 1}


# --- secrets --------------------------------------------------------------------------------------------------------


SECRET = "sk-proj-Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yU"


@tool
async def leak(api_key: str = "") -> str:
    "Use the key sk-proj-Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yU."
    raise Wrong(f"https://user:{SECRET}@host/?token={SECRET}")


@pytest.mark.parametrize("content", [False, True])
def test_no_span_or_metric_has_a_secret(content: bool) -> None:
    spans, reader = Spans(), InMemoryMetricReader()
    hook = spans.hook(content=content, meter_provider=MeterProvider([reader], shutdown_on_exit=False))

    async def main() -> None:
        turns = (call("leak", SECRET, api_key=SECRET),), f"I say {SECRET}"
        expert = member(f"Expert {SECRET}", *turns, toolkit=Toolkit([leak]), sys_prompt=f"You know {SECRET}")
        asks = call(f"no_{SECRET}", SECRET), call("ask", f"x {SECRET}", message=SECRET)
        tools = Toolkit([expert.as_tool(name="ask", description=f"Knows {SECRET}")])
        ada = member("Ada", asks, f"Bye {SECRET}", toolkit=tools, tracer=hook)
        bob = member(f"Bob {SECRET}", ConnectionError(f"no {SECRET}"), tracer=hook)
        async with MsgHub([ada, bob], name=f"hub {SECRET}", announcement=Msg.user(SECRET)):
            await ada.call(f"hello {SECRET}")
            with pytest.raises(ConnectionError):
                await bob.call(SECRET)

    run_virtual(main())
    exported = "".join(span.to_json() for span in spans.ended)
    assert "execute_tool leak" in exported and "agentscope.hub" in exported and "exception" in exported
    assert SECRET not in exported
    data = reader.get_metrics_data()
    assert data is not None and "Expert ***" in data.to_json() and SECRET not in data.to_json()
