"""`CompactionHook`: a `ContextPolicy` as a hook, with the tool by which the model asks for a compaction.

agent = ReActAgent("Friday", model, hooks=[CompactionHook(max_tokens=100_000)])
"""

from __future__ import annotations

from collections.abc import Iterable

from agentscope_rx.context_policy.policy import ContextPolicy
from agentscope_rx.context_policy.strategy import Strategy
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.base import check_priority
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.models.tokens import TokenCounter
from agentscope_rx.parts import Where
from agentscope_rx.reactive import Flow
from agentscope_rx.tools import Tool, ToolContext, tool
from agentscope_rx.tools.options import check_flag

TOOL = "compact_context"


class CompactionHook(Hook):
    """Keeps each request of an agent within a budget: `ReActAgent(..., hooks=[CompactionHook(max_tokens=100_000)])`.

    Give a `policy`, or the options of `ContextPolicy`. With `tool` the model gets `compact_context`, to ask for a
    compaction before its next round. One hook serves any number of agents and conversations.
    """

    in_sub_agents = True
    kinds: tuple[type[Event], ...] | None = ()

    def __init__(
        self,
        policy: ContextPolicy | None = None,
        *,
        strategies: Iterable[Strategy] | None = None,
        max_tokens: int | None = None,
        trigger: float | None = None,
        target: float | None = None,
        trigger_messages: int | None = None,
        keep_rounds: int | None = None,
        counter: TokenCounter | None = None,
        tool: bool = True,
        priority: int = 10,
    ) -> None:
        given = {
            "strategies": strategies,
            "max_tokens": max_tokens,
            "trigger": trigger,
            "target": target,
            "trigger_messages": trigger_messages,
            "keep_rounds": keep_rounds,
            "counter": counter,
        }
        options = {name: value for name, value in given.items() if value is not None}
        if policy is None:
            policy = ContextPolicy(**options)  # pyright: ignore[reportArgumentType]
        elif not isinstance(policy, ContextPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"policy must be a ContextPolicy, not {policy!r:.60}.")
        elif options:
            raise ConfigurationError(f"Give a policy, or its options {', '.join(options)}, not both.")
        check_flag("tool", tool)
        check_priority("CompactionHook", priority)
        self.policy: ContextPolicy = policy
        self.priority = priority
        own: tuple[Tool, ...] = (_CompactionTools(policy).compact_context,) if tool else ()
        self._tools: tuple[Tool, ...] = (*own, *policy.tools())

    def compact(self, request: CompactionRequest) -> Flow[Compaction] | None:
        """The compaction that the policy makes; signals and cancels as `ContextPolicy.compact`."""
        return self.policy.compact(request)

    def ask(self, where: Where = None) -> None:
        """Make a compaction before the next request of this conversation (`agent.conversation(memory)`)."""
        self.policy.ask(where)

    def tools(self) -> tuple[Tool, ...]:
        """`compact_context`, unless it was not wanted, and the tools of the strategies."""
        return self._tools

    def __repr__(self) -> str:
        return f"<CompactionHook by {self.policy!r}, priority {self.priority}>"


class _CompactionTools:
    """The tool of a `CompactionHook`, which must not be registered without it."""

    def __init__(self, policy: ContextPolicy) -> None:
        self._policy = policy

    @tool(name=TOOL, read_only=True)
    def compact_context(self, context: ToolContext) -> str:
        """Make this conversation smaller: its older part is shortened or summarised before your next step.

        Use it when a part of the work is done and its details are not needed any more. What you need exactly, such as
        numbers and paths, say in your next text first.
        """
        self._policy.ask(context)
        return "The older part of this conversation is made smaller before your next step."
