"""Random scripted runs: tools, failures, retries, interruptions, sub-agents, structured output."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import ExecutionConfig, ReActAgent, Toolkit, hook
from agentscope_rx.errors import AgentScopeError, ModelConnectionError
from agentscope_rx.events import Event, PostCallEvent, PreReasoningEvent
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.response import ChatResponse, FinishReason, ToolUseDelta
from agentscope_rx.reactive import Flow
from agentscope_rx.testing import Delay, ScriptedModel, call
from tests.agent.parts import broken, count, slow, weather

SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TWICE = ExecutionConfig(max_attempts=2, initial_backoff=0.5)

_costs = st.builds(lambda i, o: ChatResponse(usage=ChatUsage(i, o)), st.integers(1, 50), st.integers(0, 9))
_calls = st.one_of(
    st.builds(lambda s: call("slow", seconds=s), st.sampled_from([0.2, 1.0])),
    st.builds(lambda n: call("count", upto=n), st.integers(0, 2)),
    st.builds(lambda: call("weather", city="Rome")),
    st.builds(lambda: call("broken")),
    st.builds(lambda: call("unknown")),
    st.builds(lambda: call("call_researcher", message="find out")),
    st.builds(lambda: ToolUseDelta(0, "1", "weather", '{"city": "Par')),
    st.builds(lambda: call("generate_response", city="Oslo")),
)
_said = st.one_of(
    st.text(min_size=1, max_size=3),
    st.builds(lambda text, n: ChatResponse((TextBlock(text),), block=n), st.text(min_size=1), st.integers(0, 2)),
    st.builds(ThinkingBlock, st.text(min_size=1, max_size=3), st.none() | st.just("signed")),
    st.builds(lambda: ChatResponse(finish_reason=FinishReason.STOP)),
)  # fmt: skip
_waits = st.builds(Delay, st.sampled_from([0.1, 0.7]))
_failures = st.one_of(
    st.builds(lambda: ModelConnectionError("broken pipe")), st.builds(lambda: AgentScopeError("the model fails"))
)
_steps = st.one_of(_said, _said, _calls, _calls, _waits, _costs, _failures)
_turns = st.lists(st.lists(_steps, min_size=1, max_size=5), max_size=4)


@dataclass(frozen=True)
class Scenario:
    """A random run. `turns` are those of the agent, `inner` those of its sub-agent."""

    turns: list[Any]
    inner: list[Any]
    parallel: bool
    structured: bool
    hinted: bool
    interrupt_at: float | None


scenarios = st.builds(
    Scenario,
    turns=_turns,
    inner=_turns,
    parallel=st.booleans(),
    structured=st.booleans(),
    hinted=st.booleans(),
    interrupt_at=st.none() | st.sampled_from([0.0, 0.15, 0.8, 2.0]),
)
uninterrupted = scenarios.map(lambda s: Scenario(s.turns, s.inner, s.parallel, s.structured, s.hinted, None))


@hook(PreReasoningEvent)
def hint(event: PreReasoningEvent) -> PreReasoningEvent:
    return event.with_hint("Be brief.").append_system_content("Be kind.")


def scripted(turns: list[Any]) -> ScriptedModel:
    return ScriptedModel(*turns, "the end", "at last", repeat=True, execution_config=TWICE)


def friday_of(scenario: Scenario, model: ChatModel | None = None, inner: ChatModel | None = None) -> ReActAgent:
    """The agent of a scenario, with its scripts or with these models."""
    sub = ReActAgent(
        "Researcher", inner or scripted(scenario.inner), toolkit=Toolkit([slow, weather], parallel=True), max_iters=2
    )
    toolkit = Toolkit([weather, slow, broken, count, sub.as_tool()], parallel=scenario.parallel)
    hooks = [hint] if scenario.hinted else []
    return ReActAgent(
        "Friday", model or scripted(scenario.turns), "You are Friday.", toolkit=toolkit, max_iters=3, hooks=hooks
    )


def stream_of(friday: ReActAgent, scenario: Scenario, question: str = "go") -> Flow[Event]:
    return friday.stream(question, output=SHAPE if scenario.structured else None)


async def run_of(friday: ReActAgent, scenario: Scenario, stream: Flow[Event] | None = None, seen: Any = None) -> Any:
    """The reply of a run, or its error; `seen` gets the events."""
    flow = stream_of(friday, scenario) if stream is None else stream
    handle = None
    if scenario.interrupt_at is not None:
        handle = asyncio.get_running_loop().call_later(scenario.interrupt_at, friday.interrupt)
    try:
        last = await flow.pipe(ops.do_action(seen or (lambda event: None)))
    except AssertionError:
        # of the test's own, in `seen`, or of a model that checks its requests
        raise
    except Exception as error:
        return error
    finally:
        if handle is not None:
            handle.cancel()
        await friday.idle()
    assert isinstance(last, PostCallEvent)
    return last.message
