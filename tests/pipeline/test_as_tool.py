"""Each kind of pipeline as a tool of another agent: its reply is the result, and its events are nested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentscope_rx import Agent, Msg
from agentscope_rx.pipeline import (
    ConditionalPipeline,
    FanOutPipeline,
    GoalLoop,
    GoalVerdict,
    Handoffs,
    LoopPipeline,
    MapPipeline,
    RouterPipeline,
    SequentialPipeline,
    Supervisor,
)
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.pipeline.parts import use
from tests.pipeline.teams import all_events, assert_free, member, messages_of
from tests.support.assertions import results_in


def ann() -> Any:
    return member("Ann", "from Ann", "from Ann")


async def judge(answer: Msg) -> GoalVerdict:
    return GoalVerdict(True, "good")


PIPELINES: dict[str, Callable[[], Agent]] = {
    "sequential": lambda: SequentialPipeline([ann()], "team"),
    "fan-out": lambda: FanOutPipeline([ann()], "team"),
    "conditional": lambda: ConditionalPipeline([(lambda message: True, ann())], name="team"),
    "loop": lambda: LoopPipeline(ann(), until=lambda message: True, name="team"),
    "map": lambda: MapPipeline(ann(), "team"),
    "goal": lambda: GoalLoop(ann(), judge, "team"),
    "router": lambda: RouterPipeline(lambda message: "Ann", [ann()], "team"),
    "handoffs": lambda: Handoffs("team", [ann()]),
    "supervisor": lambda: Supervisor("team", ScriptedModel(call("call_ann", message="go"), "from Ann"), [ann()]),
}


@pytest.mark.parametrize("kind", PIPELINES)
def test_each_kind_is_a_tool(kind: str):
    async def main() -> None:
        pipeline = PIPELINES[kind]()
        host = member("Host", use("call_team", "t", message="go"), "end", tools=[pipeline.as_tool()])
        events = await all_events(host, "x")
        kind_of_result, text = results_in(messages_of(host))["t"]
        assert kind_of_result is None and "from Ann" in text
        assert {"Host", "team"} <= {each.agent for each in events}
        assert "from Ann" in "".join(getattr(each, "text", "") for each in events if len(each.path) > 1)
        assert_free(host)
        assert messages_of(pipeline) == []

    run_virtual(main())
