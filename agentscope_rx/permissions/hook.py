"""`PermissionsHook`: rules as a hook, which holds in sub-agents too."""

from __future__ import annotations

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event, EventSource
from agentscope_rx.hooks import Hook
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.permissions.permission_rules import PermissionRules
from agentscope_rx.tools import Tool
from agentscope_rx.tools.argument_wrappers import layered


class PermissionsHook(Hook):
    """Asks `rules` about every call of its agent, and of the agents that this one calls.

    | verdict | the call |
    |---|---|
    | deny | does not run; the model reads which rule denies it, in a result of kind `rejected` |
    | ask | waits for a person: at the top, also if a sub-agent makes it |
    | allow | runs, although its tool may ask |

    A call of a sub-agent is decided by the rules of each agent above it and by its own: one deny denies it, one ask
    asks. So a sub-agent may do what all of them allow. An agent that a function calls by itself (`await
    agent.call(...)` within a tool) is a run of its own: make it a tool.
    """

    in_sub_agents = True
    kinds: tuple[type[Event], ...] | None = ()

    def __init__(self, rules: PermissionRules) -> None:
        if not isinstance(rules, PermissionRules):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"PermissionsHook takes PermissionRules, not {rules!r:.60}.")
        self.rules = rules

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        """The text for a call that is denied."""
        if tool is None:
            # there is nothing to run
            return None
        return self.rules.refusal(call, layered(tool, source.context, call.name))

    def approval(self, call: ToolUseBlock, tool: Tool, source: EventSource) -> bool | None:
        """True for a call that waits for a person."""
        return self.rules.approval(call, layered(tool, source.context, call.name))

    def for_sub_agents(self) -> Hook | None:
        """Returns this hook: its rules also hold in sub-agents."""
        return self
