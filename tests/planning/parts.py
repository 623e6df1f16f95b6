"""What the tests of planning share."""

from __future__ import annotations

from collections.abc import Mapping

from agentscope_rx import ReActAgent
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.planning import PlanNotebook
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import Toolkit
from tests.support.assertions import results

TRIP = call(
    "create_plan",
    name="Trip",
    description="to Oslo",
    expected_outcome="there",
    subtasks=[{"name": "Book"}, {"name": "Pack"}, {"name": "Go"}],
)
BEGIN = call("update_subtask_state", subtask_idx=0, state="in_progress")


def finish(index: int) -> ToolUseBlock:
    return call("finish_subtask", subtask_idx=index, subtask_outcome="ok")


def friday(*turns: object, notebook: PlanNotebook | None = None, **options) -> ReActAgent:
    """An agent with a notebook, and a model that gives these answers."""
    book = PlanNotebook() if notebook is None else notebook
    return ReActAgent("Friday", ScriptedModel(*turns), plan_notebook=book, **options)


def texts(agent: ReActAgent) -> list[str]:
    """The texts of all results in memory."""
    return [result.text for result in results(agent.memory.messages)]


class Desk:
    """A notebook whose tools are called by hand, without an agent."""

    def __init__(self, **options) -> None:
        self.notebook = PlanNotebook(**options)
        self.toolkit = Toolkit(self.notebook.tools())

    def use(self, name: str, /, **arguments: object) -> ToolResultBlock:
        result = self.toolkit.call(call(name, **arguments)).run()
        assert isinstance(result, ToolResultBlock)
        return result

    def create(self, *names: str, **changes: object) -> ToolResultBlock:
        subtasks: list[Mapping[str, object]] = [{"name": name} for name in names]
        given = {"name": "P", "description": "d", "expected_outcome": "e", "subtasks": subtasks, **changes}
        return self.use("create_plan", **given)

    @property
    def states(self) -> list[str]:
        plan = self.notebook.plan()
        return [] if plan is None else [each.state for each in plan.subtasks]
