"""The whole tree of spans, for every way that a run can end."""

from __future__ import annotations

import asyncio
import logging
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, Toolkit, UsageLimits, hook, tool
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.errors import ToolSuspend
from agentscope_rx.events import PostActingEvent, PostCallEvent, PostReasoningEvent, PreCallEvent, PreReasoningEvent
from agentscope_rx.hooks import Hook, around
from agentscope_rx.messages import Approve, ToolResultBlock
from agentscope_rx.models import ExecutionConfig, FallbackModel
from agentscope_rx.models.wrappers.hedged import HedgedModel
from agentscope_rx.reactive import Flow, throw
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from agentscope_rx.tracing import UNTRACED
from tests.tracing.trees import Spans


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, "opentelemetry")
    yield
    records = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    assert [each.getMessage() for each in records if each.name.startswith("opentelemetry")] == []


class Wrong(Exception):
    """An error of a test."""


@tool
async def weather(city: str = "Oslo") -> str:
    """The weather."""
    await asyncio.sleep(1)
    return f"sunny in {city}"


@tool
def blocking() -> str:
    """Runs on a worker thread."""
    return "done"


@tool
async def broken() -> str:
    """Fails."""
    raise Wrong("broken")


@tool(execution_config=ExecutionConfig(timeout=2.0))
async def slow() -> str:
    """Takes for ever."""
    await asyncio.sleep(1e6)
    return ""


@tool
async def asks() -> str:
    """Is answered from outside."""
    raise ToolSuspend("Which?")


@tool(requires_approval=True)
async def risky() -> str:
    """Needs a person."""
    return "risked"


@tool(return_direct=True)
async def final() -> str:
    """Is the reply."""
    return "the reply"


TOOLS = [weather, blocking, broken, slow, asks, risky, final]


class Answer(BaseModel):
    n: int


def once(*turns: Any, **config: Any) -> ScriptedModel:
    """A model that makes one attempt, or as many as the config says."""
    return ScriptedModel(
        *turns, execution_config=ExecutionConfig(**{"max_attempts": 1, "initial_backoff": 1.0} | config)
    )


def agent_of(spans: Spans, *turns: Any, model: Any = None, name: str = "Friday", **options: Any) -> ReActAgent:
    tools = [*TOOLS, *options.pop("tools", ())]
    return ReActAgent(name, model or once(*turns), tools=tools, tracer=spans.hook(), **options)


async def failing(flow: Flow[Any]) -> None:
    with pytest.raises(Exception):  # noqa: B017
        await flow


# --- the cases ----------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[Callable[[Spans], Awaitable[object]], str]] = {}


def case(tree: str) -> Callable[[Callable[[Spans], Awaitable[object]]], None]:
    def add(run: Callable[[Spans], Awaitable[object]]) -> None:
        CASES[run.__name__] = (run, textwrap.dedent(tree).strip())

    return add


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
""")
async def a_reply(spans: Spans) -> None:
    await agent_of(spans, "Hello.").call("hi")


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
      acting
        execute_tool weather
        execute_tool blocking
      reasoning
        chat scripted
""")
async def tools_side_by_side(spans: Spans) -> None:
    await agent_of(spans, [call("weather"), call("blocking")], "Hello.").call("hi")


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
      acting
        execute_tool broken (error failed)
        execute_tool slow (error timeout)
        execute_tool weather (error invalid_arguments)
        execute_tool unknown (error not_found)
      reasoning
        chat scripted
""")
async def tools_that_fail(spans: Spans) -> None:
    calls = [call("broken"), call("slow"), call("weather", city=1), call("unknown")]
    await agent_of(spans, calls, "Hello.").call("hi")


@case("""
    invoke_agent Friday (error tests.tracing.test_trees.Wrong)
      reasoning (error tests.tracing.test_trees.Wrong)
        chat scripted (error tests.tracing.test_trees.Wrong, exception)
""")
async def a_model_that_fails(spans: Spans) -> None:
    await failing(agent_of(spans, Wrong("no")).call("hi"))


@case("""
    invoke_agent Friday (retry, retry)
      reasoning
        chat scripted (error ConnectionError, exception)
        chat scripted (error timeout, exception)
        chat scripted
""")
async def retries(spans: Spans) -> None:
    model = once(ConnectionError("no"), HANG, "Hello.", max_attempts=3, timeout=5.0)
    await agent_of(spans, model=model).call("hi")


@case("""
    invoke_agent Friday (error ConnectionError, retry)
      reasoning (error ConnectionError)
        chat scripted (error ConnectionError, exception)
        chat scripted (error ConnectionError, exception)
""")
async def retries_that_are_used_up(spans: Spans) -> None:
    model = once(ConnectionError("one"), ConnectionError("two"), max_attempts=2)
    await failing(agent_of(spans, model=model).call("hi"))


@case("""
    invoke_agent Friday (retry)
      reasoning
        chat first (error ConnectionError, exception)
        chat second
""")
async def a_fallback(spans: Spans) -> None:
    first, second = once(ConnectionError("no")), once("Hello.")
    first.model_name, second.model_name = "first", "second"
    await agent_of(spans, model=FallbackModel(first, second)).call("hi")


@case("""
    invoke_agent Friday (retry)
      reasoning
        chat scripted (cancelled)
        chat scripted
""")
async def a_hedge(spans: Spans) -> None:
    await agent_of(spans, model=HedgedModel(once(HANG, [Delay(1), "Hello."]), after=2.0)).call("hi")


@case("""
    invoke_agent Friday (retry)
      reasoning
        chat scripted
        chat scripted
""")
async def an_empty_answer(spans: Spans) -> None:
    await agent_of(spans, model=once([], "Hello.", max_attempts=2)).call("hi")


@case("""
    invoke_agent Friday (error agentscope_rx.errors.run.UsageLimitError, exception)
      reasoning
        chat scripted
      acting
        execute_tool blocking
""")
async def a_limit(spans: Spans) -> None:
    agent = agent_of(spans, call("blocking"), "Hello.")
    await failing(agent.call("hi", limits=UsageLimits(model_calls=1)))


@case("""
    invoke_agent Friday (limit_reached)
      reasoning
        chat scripted
      acting
        execute_tool blocking
      summarizing
        chat scripted
""")
async def a_limit_with_a_summary(spans: Spans) -> None:
    agent = agent_of(spans, call("blocking"), "In short.")
    await agent.call("hi", limits=UsageLimits(model_calls=1, on_limit="summary"))


@case("""
    invoke_agent Friday (error timeout, exception)
      reasoning (cancelled)
        chat scripted (cancelled)
""")
async def a_deadline(spans: Spans) -> None:
    await failing(agent_of(spans, HANG).call("hi", limits=UsageLimits(deadline=5.0)))


@case("""
    invoke_agent Friday (max_iterations)
      reasoning
        chat scripted
      acting
        execute_tool blocking
      summarizing
        chat scripted
""")
async def too_many_rounds(spans: Spans) -> None:
    await agent_of(spans, call("blocking"), "In short.", max_iters=1).call("hi")


@case("""
    invoke_agent Friday (interrupted)
      reasoning
        chat scripted (cancelled)
""")
async def an_interruption_of_the_model(spans: Spans) -> None:
    agent = agent_of(spans, HANG)
    asyncio.get_running_loop().call_later(1, agent.interrupt)
    await agent.call("hi")


@case("""
    invoke_agent Friday (interrupted)
      reasoning
        chat scripted
      acting
        execute_tool slow
        execute_tool blocking
""")
async def an_interruption_of_tools(spans: Spans) -> None:
    agent = agent_of(spans, [call("slow"), call("blocking")])
    asyncio.get_running_loop().call_later(1, agent.interrupt)
    await agent.call("hi")


@case("""
    invoke_agent Friday (cancelled)
      reasoning (cancelled)
        chat scripted (cancelled)
""")
async def a_disposal_during_the_model(spans: Spans) -> None:
    agent = agent_of(spans, HANG)
    subscription = agent.stream("hi").subscribe(lambda event: None)
    await asyncio.sleep(1)
    subscription.dispose()
    await agent.idle()


@case("""
    invoke_agent Friday (cancelled)
      reasoning
        chat scripted
      acting (cancelled)
        execute_tool weather (cancelled)
        execute_tool slow (cancelled)
""")
async def a_disposal_during_tools(spans: Spans) -> None:
    agent = agent_of(spans, [call("weather"), call("slow")])
    subscription = agent.stream("hi").subscribe(lambda event: None)
    await asyncio.sleep(0.5)
    subscription.dispose()
    await agent.idle()


@case("""
    invoke_agent Friday (cancelled)
      reasoning (cancelled)
        chat scripted (cancelled)
""")
async def a_task_that_is_cancelled(spans: Spans) -> None:
    agent = agent_of(spans, HANG)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await agent.call("hi")
    await agent.idle()


@case("""
    invoke_agent Friday (cancelled)
      reasoning (cancelled)
        chat scripted (cancelled)
""")
async def iteration_that_is_left(spans: Spans) -> None:
    agent = agent_of(spans, ["a", Delay(1), "b"])
    async for event in agent.stream("hi"):
        if event.type == "reasoning_chunk":
            break
    await agent.idle()


@case("""
    invoke_agent Friday (cancelled)
      reasoning (cancelled)
        chat scripted (cancelled)
""")
async def a_subscriber_that_throws(spans: Spans) -> None:
    agent = agent_of(spans, ["a", Delay(1), "b"])

    def refuse(event: Any) -> None:
        if event.type == "reasoning_chunk":
            raise Wrong

    with collect_dropped() as dropped:
        agent.stream("hi").subscribe(refuse)
        await asyncio.sleep(5)
    assert len(dropped) == 1


def failing_on(kind: Any) -> Hook:
    @hook(kind)
    async def fail(event: Any) -> None:
        await asyncio.sleep(0)
        raise Wrong(event.type)

    return fail


@case("""
    invoke_agent Friday (error tests.tracing.test_trees.Wrong, exception)
""")
async def a_hook_that_fails_before_the_stages(spans: Spans) -> None:
    await failing(agent_of(spans, "Hello.", hooks=[failing_on(PreCallEvent)]).call("hi"))


@case("""
    invoke_agent Friday (error tests.tracing.test_trees.Wrong)
      reasoning (error tests.tracing.test_trees.Wrong, exception)
""")
async def a_hook_that_fails_before_the_model(spans: Spans) -> None:
    await failing(agent_of(spans, "Hello.", hooks=[failing_on(PreReasoningEvent)]).call("hi"))


@case("""
    invoke_agent Friday (error tests.tracing.test_trees.Wrong)
      reasoning (error tests.tracing.test_trees.Wrong, exception)
        chat scripted
""")
async def a_hook_that_fails_after_the_model(spans: Spans) -> None:
    await failing(agent_of(spans, "Hello.", hooks=[failing_on(PostReasoningEvent)]).call("hi"))


@case("""
    invoke_agent Friday (error tests.tracing.test_trees.Wrong)
      reasoning
        chat scripted
      acting (error tests.tracing.test_trees.Wrong, exception)
        execute_tool blocking
""")
async def a_hook_that_fails_after_a_tool(spans: Spans) -> None:
    await failing(agent_of(spans, call("blocking"), hooks=[failing_on(PostActingEvent)]).call("hi"))


@case("""
    invoke_agent Friday (error tests.tracing.test_trees.Wrong, exception)
      reasoning
        chat scripted
""")
async def a_hook_that_fails_at_the_end(spans: Spans) -> None:
    await failing(agent_of(spans, "Hello.", hooks=[failing_on(PostCallEvent)]).call("hi"))


@case("""
    invoke_agent Friday (retry)
      reasoning
        chat scripted (error tests.tracing.test_trees.Wrong, exception)
        chat scripted
""")
async def a_hook_that_tries_again(spans: Spans) -> None:
    from reactivex import operators as ops

    await agent_of(spans, Wrong("no"), "Hello.", hooks=[around("model", ops.retry(2))]).call("hi")


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
    invoke_agent Friday (error agentscope_rx.errors.run.AgentBusyError, exception)
""")
async def a_second_call(spans: Spans) -> None:
    agent = agent_of(spans, [Delay(1), "Hello."])
    first = agent.call("hi").as_task()
    await asyncio.sleep(0.5)
    await failing(agent.call("hi"))
    await first


@case("""
    invoke_agent Friday (tool_suspended)
      reasoning
        chat scripted
      acting
        execute_tool asks (suspended)
    invoke_agent Friday (link)
      reasoning
        chat scripted
""")
async def a_suspended_call(spans: Spans) -> None:
    agent = agent_of(spans, call("asks", "a"), "Hello.")
    reply = await agent.call("hi")
    (pending,) = reply.pending_calls
    await agent.call(Msg.tool(ToolResultBlock(pending.id, pending.name, "This.")))


@case("""
    invoke_agent Friday (approval_required)
      reasoning
        chat scripted
      acting
    invoke_agent Friday (link)
      acting
        execute_tool risky
      reasoning
        chat scripted
""")
async def an_approval(spans: Spans) -> None:
    agent = agent_of(spans, call("risky", "r"), "Hello.")
    await agent.call("hi")
    await agent.call(Approve("r"))


@case("""
    invoke_agent Friday (return_direct)
      reasoning
        chat scripted
      acting
        execute_tool final
""")
async def a_result_that_is_the_reply(spans: Spans) -> None:
    await agent_of(spans, call("final")).call("hi")


@case("""
    invoke_agent Friday (structured_output)
      reasoning
        chat scripted
      acting
        execute_tool generate_response
""")
async def a_structured_output(spans: Spans) -> None:
    await agent_of(spans, call("generate_response", n=1)).call("hi", output=Answer)


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
      acting
        execute_tool call_expert
          invoke_agent Expert
            reasoning
              chat scripted
            acting
              execute_tool weather
            reasoning
              chat scripted
        execute_tool blocking
      reasoning
        chat scripted
""")
async def a_sub_agent(spans: Spans) -> None:
    expert = agent_of(spans, call("weather"), "Sunny.", name="Expert")
    friday = agent_of(spans, [call("call_expert", message="?"), call("blocking")], "Hello.", tools=[expert])
    await friday.call("hi")


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
      acting
        execute_tool call_expert (error failed)
          invoke_agent Expert (error tests.tracing.test_trees.Wrong)
            reasoning (error tests.tracing.test_trees.Wrong)
              chat scripted (error tests.tracing.test_trees.Wrong, exception)
      reasoning
        chat scripted
""")
async def a_sub_agent_that_fails(spans: Spans) -> None:
    expert = agent_of(spans, Wrong("no"), name="Expert")
    await agent_of(spans, call("call_expert", message="?"), "Hello.", tools=[expert]).call("hi")


@case("""
    invoke_agent Friday (interrupted)
      reasoning
        chat scripted
      acting
        execute_tool call_expert (interrupted)
          invoke_agent Expert (interrupted)
            reasoning
              chat scripted (cancelled)
""")
async def a_sub_agent_that_is_interrupted(spans: Spans) -> None:
    expert = agent_of(spans, HANG, name="Expert")
    friday = agent_of(spans, call("call_expert", message="?"), tools=[expert])
    asyncio.get_running_loop().call_later(1, friday.interrupt)
    await friday.call("hi")


@case("""
    invoke_agent Friday (cancelled)
      reasoning
        chat scripted
      acting (cancelled)
        execute_tool call_expert (cancelled)
          invoke_agent Expert (cancelled)
            reasoning (cancelled)
              chat scripted (cancelled)
""")
async def a_sub_agent_at_a_disposal(spans: Spans) -> None:
    expert = agent_of(spans, HANG, name="Expert")
    friday = agent_of(spans, call("call_expert", message="?"), tools=[expert])
    subscription = friday.stream("hi").subscribe(lambda event: None)
    await asyncio.sleep(1)
    subscription.dispose()
    await friday.idle()
    await expert.idle()


@case("""
    invoke_agent Friday (approval_required)
      reasoning
        chat scripted
      acting
        execute_tool call_expert (approval_required)
          invoke_agent Expert (approval_required)
            reasoning
              chat scripted
            acting
    invoke_agent Friday (link)
      acting
        execute_tool call_expert
          invoke_agent Expert (link)
            acting
              execute_tool risky
            reasoning
              chat scripted
      reasoning
        chat scripted
""")
async def an_approval_in_a_sub_agent(spans: Spans) -> None:
    expert = agent_of(spans, call("risky", "r"), "Risked.", name="Expert")
    friday = agent_of(spans, call("call_expert", message="?"), "Hello.", tools=[expert])
    reply = await friday.call("hi")
    await friday.call([Approve(each.id) for each in reply.pending_calls])


@case("""
    invoke_agent Friday (cancelled)
      reasoning (cancelled)
        chat scripted (cancelled)
""")
async def a_run_that_is_stopped(spans: Spans) -> None:
    agent = agent_of(spans, HANG)
    handle = agent.start("hi")
    await asyncio.sleep(1)
    handle.dispose()
    await agent.idle()


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
""")
async def a_shared_run(spans: Spans) -> None:
    handle = agent_of(spans, ["a", Delay(1), "b"]).start("hi")
    await asyncio.gather(handle.result(), handle.result())


@case("""
    invoke_agent Friday (error agentscope_rx.errors.run.AgentShuttingDownError, exception)
      reasoning
        chat scripted
      acting
        execute_tool slow
""")
async def a_graceful_shutdown(spans: Spans) -> None:
    shutdown = GracefulShutdown(timeout=0.2)
    agent = agent_of(spans, call("slow"), shutdown=shutdown)
    run = agent.call("hi").as_task()
    await asyncio.sleep(1)
    await shutdown.begin()
    with pytest.raises(Exception):  # noqa: B017
        await run


class Forgets(InMemoryMemory):
    """Cannot remember an answer."""

    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        if any(message.role == "assistant" for message in messages):
            return throw(Wrong("full"))
        return super().add(messages)


@case("""
    invoke_agent Friday (error tests.tracing.test_trees.Wrong)
      reasoning (error tests.tracing.test_trees.Wrong, exception)
        chat scripted
""")
async def a_memory_that_fails(spans: Spans) -> None:
    await failing(agent_of(spans, "Hello.", memory=Forgets()).call("hi"))


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
      acting
        execute_tool weather
        execute_tool blocking
      reasoning
        chat scripted
""")
async def tools_one_by_one(spans: Spans) -> None:
    toolkit = Toolkit([weather, blocking], parallel=False)
    model = once([call("weather"), call("blocking")], "Hello.")
    await ReActAgent("Friday", model, toolkit=toolkit, tracer=spans.hook()).call("hi")


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
      acting
        execute_tool call_expert
          invoke_agent Expert
            reasoning
              chat scripted
      reasoning
        chat scripted
""")
async def a_sub_agent_without_a_tracer(spans: Spans) -> None:
    expert = ReActAgent("Expert", once("Sunny."))
    await agent_of(spans, call("call_expert", message="?"), "Hello.", tools=[expert]).call("hi")


@case("""
    invoke_agent Friday
      reasoning
        chat scripted
      acting
        execute_tool call_expert
      reasoning
        chat scripted
""")
async def a_sub_agent_that_is_not_traced(spans: Spans) -> None:
    expert = ReActAgent("Expert", once("Sunny."), tracer=UNTRACED)
    await agent_of(spans, call("call_expert", message="?"), "Hello.", tools=[expert]).call("hi")


@case("""
    invoke_agent Friday
      chat scripted
      execute_tool blocking
      chat scripted
""")
async def without_stages(spans: Spans) -> None:
    hook = spans.hook(stages=False)
    await ReActAgent("Friday", once(call("blocking"), "Hello."), tools=[blocking], tracer=hook).call("hi")


@pytest.mark.parametrize("name", CASES)
def test_the_tree(name: str) -> None:
    run, tree = CASES[name]
    spans = Spans()

    async def main() -> None:
        await run(spans)

    run_virtual(main())
    assert spans.tree() == tree
