"""Plans as values: `Plan`, `SubTask`, `Todo`, the rules of their changes, their Markdown. `planning` has the tools."""

from agentscope_rx.plan.markdown import plan_markdown, subtask_markdown, todos_markdown
from agentscope_rx.plan.values import Plan, PlanState, SubTask, Todo

__all__ = ["Plan", "PlanState", "SubTask", "Todo", "plan_markdown", "subtask_markdown", "todos_markdown"]
