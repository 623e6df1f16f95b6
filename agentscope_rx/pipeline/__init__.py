"""Several agents as one: pipelines, each of which is an agent, and `MsgHub`."""

from agentscope_rx.pipeline.members import FunctionAgent, Member
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.steps import Next, Program, Progress, Step, StepResult

__all__ = ["FunctionAgent", "Member", "Next", "Pipeline", "Program", "Progress", "Step", "StepResult"]
