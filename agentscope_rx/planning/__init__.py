"""Planning: hooks by which a model makes a plan and follows it, keeps a todo list, or waits for approval of its plan.

Plans, lists and modes belong to a conversation, and are saved with it: one hook serves many conversations, and a
sub-agent has its own. Each change is a `PlanEvent` in the stream of the run that makes it.
"""

from agentscope_rx.planning.hints import DefaultPlanToHint, PlanToHint
from agentscope_rx.planning.notebook import PlanNotebook
from agentscope_rx.planning.plan_mode import PlanMode
from agentscope_rx.planning.storage import InMemoryPlanStorage, PlanStorage, SessionPlanStorage
from agentscope_rx.planning.todo_list import TodoList

__all__ = [
    "DefaultPlanToHint",
    "InMemoryPlanStorage",
    "PlanMode",
    "PlanNotebook",
    "PlanStorage",
    "PlanToHint",
    "SessionPlanStorage",
    "TodoList",
]
