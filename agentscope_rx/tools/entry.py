"""`ToolEntry`: what a toolkit keeps of a registered tool."""

from __future__ import annotations

from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.calls.execute import Plan
from agentscope_rx.tools.meta_tool import MetaTool
from agentscope_rx.tools.wrapper import innermost


class ToolEntry:
    """A registered tool with what is made of it once: its schema, and the plan for the config last asked for."""

    __slots__ = ("_planned", "limits", "meta", "schema", "tool")

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.schema = tool.schema
        self.limits = tool.limits
        inner = innermost(tool)
        self.meta = inner if isinstance(inner, MetaTool) else None
        """The meta tool, wrapped or not: what it says of itself changes with the groups."""
        self._planned: tuple[ExecutionConfig | None, Plan] | None = None

    def plan(self, given: ExecutionConfig | None, default: ExecutionConfig) -> Plan:
        """The plan for this config; an agent gives the same one with every call."""
        planned = self._planned
        if planned is not None and planned[0] is given:
            return planned[1]
        config = default if given is None else given.over(default)
        own = self.tool.execution_config
        plan = Plan(config if own is None else own.over(config), self.schema.name)
        # one assignment: toolkits are shared between threads
        self._planned = (given, plan)
        return plan
