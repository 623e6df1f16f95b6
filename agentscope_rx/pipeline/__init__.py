"""Several agents as one: pipelines, teams and hubs. Each pipeline is an agent itself.

    review = SequentialPipeline([writer, critic], "Review")
    reply = await review.call("Write about tea.")

| to | use |
|---|---|
| call agents in turn, or at once | `SequentialPipeline`, `FanOutPipeline` |
| call agents by a condition, or in a loop | `ConditionalPipeline`, `LoopPipeline` |
| call one agent with many inputs | `MapPipeline`, the operator `map_agent` |
| write the order as a program | `Pipeline`, with `Step`, `Progress` and `Program` |
| let a model choose who answers | `RouterPipeline`, `Handoffs` |
| let a model delegate tasks | `Supervisor` |
| repeat until a goal is verified | `GoalLoop` |
| let agents hear each other | `MsgHub` |
"""

from agentscope_rx.pipeline.conditional import Condition, ConditionalPipeline
from agentscope_rx.pipeline.fan_out import Combine, FanOutPipeline
from agentscope_rx.pipeline.functional import compose, fanout_pipeline, map_agent, sequential_pipeline
from agentscope_rx.pipeline.goal.command_check import CommandCheck
from agentscope_rx.pipeline.goal.goal_loop import GoalLoop
from agentscope_rx.pipeline.goal.verdict import GoalEnd, GoalOutcome, GoalVerdict
from agentscope_rx.pipeline.handoff.handoff import Handoff, HistoryFilter, texts_only
from agentscope_rx.pipeline.handoff.handoffs import Handoffs
from agentscope_rx.pipeline.hub import MsgHub
from agentscope_rx.pipeline.loop import LoopPipeline
from agentscope_rx.pipeline.mapping import MapPipeline
from agentscope_rx.pipeline.members import FunctionAgent, Member
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.routing.route import Route
from agentscope_rx.pipeline.routing.router import RouterPipeline, route_of
from agentscope_rx.pipeline.sequential import SequentialPipeline
from agentscope_rx.pipeline.steps import Next, Program, Progress, Step, StepResult
from agentscope_rx.pipeline.supervision.delegate import Delegate
from agentscope_rx.pipeline.supervision.supervisor import Supervisor

__all__ = [
    "Combine",
    "CommandCheck",
    "Condition",
    "ConditionalPipeline",
    "Delegate",
    "FanOutPipeline",
    "FunctionAgent",
    "GoalEnd",
    "GoalLoop",
    "GoalOutcome",
    "GoalVerdict",
    "Handoff",
    "Handoffs",
    "HistoryFilter",
    "LoopPipeline",
    "MapPipeline",
    "Member",
    "MsgHub",
    "Next",
    "Pipeline",
    "PipelineOptions",
    "Program",
    "Progress",
    "Route",
    "RouterPipeline",
    "SequentialPipeline",
    "Step",
    "StepResult",
    "Supervisor",
    "compose",
    "fanout_pipeline",
    "map_agent",
    "route_of",
    "sequential_pipeline",
    "texts_only",
]
