"""`SubAgentFactory`: makes the agent of a declaration for its parent, and keeps it while both stay as they are.

| from the parent               | the sub-agent gets                                                               |
|-------------------------------|----------------------------------------------------------------------------------|
| model, generate options       | the same, without a forced tool; other options if it declares another model      |
| its tools                     | those that the declaration allows: a copy of the toolkit, with its settings      |
| hooks with `in_sub_agents`    | the same: compaction, eviction, guardrails, permissions, workspace, skills       |
| tools of hooks                | with the hook, if at least one of them is allowed                                |
| other hooks, long-term memory | nothing: they may keep state of one agent in themselves                          |
| `max_iters`, timeouts, grace  | the same, unless it declares others                                              |

What the parent's hooks refuse, or want approved, holds for its sub-agents as well (`Hook.for_sub_agents`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import replace
from typing import Final, cast

from agentscope_rx.agent import ReActAgent
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.events import Event, EventSource
from agentscope_rx.hooks import Hook
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models.options import GenerateOptions
from agentscope_rx.permissions import PermissionRules
from agentscope_rx.permissions.rule_set import RuleSet
from agentscope_rx.reactive.kernel.forking import new_rlock
from agentscope_rx.skills import SkillsHook
from agentscope_rx.sub_agents.sub_agent import SubAgent
from agentscope_rx.tools import Tool, Toolkit
from agentscope_rx.tools.argument_wrappers import layered
from agentscope_rx.workspace import WorkspaceContextHook

MAKING: Final[ContextVar[bool]] = ContextVar("agentscope_rx_making_sub_agent", default=False)
"""True while an agent is made of a declaration."""

MoreHooks = Callable[[SubAgent], Iterable[Hook]]

ABOUT: Final = (
    "You are a sub-agent: another agent has given you a task, and reads only your last message. Do the task with the "
    "tools that you have. If something is missing, say what, and do not guess. End with a message that has all that "
    "was asked for."
)


class NarrowingHook(Hook):
    """Refuses and asks by more rules; it allows nothing. It holds for the agents below as well."""

    kinds: tuple[type[Event], ...] | None = ()

    def __init__(self, rules: RuleSet) -> None:
        self._rules = PermissionRules(deny=rules.deny, ask=rules.ask, mode=rules.mode)
        self._has_mode = rules.mode is not None

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        """The text for a call that is denied."""
        return None if tool is None else self._rules.refusal(call, layered(tool, source.context, call.name))

    def approval(self, call: ToolUseBlock, tool: Tool, source: EventSource) -> bool | None:
        """True for a call that waits for a person; never False."""
        decision = self._rules.decide(call, layered(tool, source.context, call.name))
        return True if decision.verdict == "ask" and (self._has_mode or decision.rule is not None) else None

    def for_sub_agents(self) -> Hook | None:
        """The rules bound what sub-agents of this one may do."""
        return self


class _Kept:
    """An agent that was made, with what it was made of."""

    __slots__ = ("agent", "declared", "sources")

    def __init__(self, declared: SubAgent, sources: tuple[object, ...], agent: AgentCore) -> None:
        self.declared = declared
        self.sources = sources
        self.agent = agent

    def is_of(self, declared: SubAgent, sources: tuple[object, ...]) -> bool:
        """True if nothing has changed since."""
        same = len(sources) == len(self.sources) and all(map(operator.is_, sources, self.sources))
        return same and declared == self.declared


class SubAgentFactory:
    """Makes agents. What it makes for a parent is kept with the parent."""

    def __init__(self, spawning: Hook, more_hooks: MoreHooks | None) -> None:
        self._spawning = spawning
        self._more_hooks = more_hooks
        self._lock = new_rlock()
        self._ready: dict[str, _Kept] = {}

    def agent_of(self, declared: SubAgent, parent: AgentCore | None) -> AgentCore:
        """The agent of this declaration; `ToolError`, which says why, if this parent cannot have it."""
        if declared.agent is None and not isinstance(parent, ReActAgent):
            raise ToolError(
                f"Sub-agent {declared.name!r} gets its model and its tools from the agent that starts it, and "
                f"{'there is none' if parent is None else f'{parent.name!r} has none'}."
            )
        with self._lock:
            if declared.agent is not None:
                return self._one(self._ready, declared, (), lambda: _ready(declared))
            assert isinstance(parent, ReActAgent)
            kept = cast("dict[str, _Kept]", parent.extras.setdefault(self, {}))
            return self._one(kept, declared, _sources(parent), lambda: self._new(declared, parent))

    def _one(
        self, kept: dict[str, _Kept], declared: SubAgent, sources: tuple[object, ...], make: Callable[[], AgentCore]
    ) -> AgentCore:
        known = kept.get(declared.name)
        if known is None or not known.is_of(declared, sources):
            making = MAKING.set(True)
            try:
                known = _Kept(declared, sources, make())
            except ConfigurationError as error:
                raise ToolError(f"Sub-agent {declared.name!r} cannot be started: {error}") from error
            finally:
                MAKING.reset(making)
            kept[declared.name] = known
        return known.agent

    def _new(self, declared: SubAgent, parent: ReActAgent) -> ReActAgent:
        if problem := declared.tool_problem(parent.toolkit.names):
            raise ToolError(f"Sub-agent {declared.name!r} cannot be started: {problem[1]}")
        hooks = self._hooks_of(declared, parent)
        same_model = declared.model is None
        options = parent.generate_options if same_model else GenerateOptions()
        model = parent.model if declared.model is None else declared.model
        agent = ReActAgent(
            declared.name,
            model,
            f"{declared.prompt}\n\n{ABOUT}" if declared.prompt else ABOUT,
            toolkit=_tools_of(declared, parent),
            hooks=hooks,
            memory_window=parent.memory_window if same_model else None,
            max_iters=parent.max_iters if declared.max_iters is None else declared.max_iters,
            generate_options=replace(options, tool_choice=None),
            tool_execution_config=parent.tool_execution_config,
            limits=declared.limits,
            interrupt_grace=parent.interrupt_grace,
            context_store=parent.context_store,
            in_doubt=parent.in_doubt,
        )
        for name in agent.toolkit.names:
            # what a hook of the parent brings is allowed, or not, tool by tool
            if not declared.allows(name) and name in parent.toolkit and not _is_spawning(name, self._spawning):
                agent.toolkit.remove(name)
        return agent

    def _hooks_of(self, declared: SubAgent, parent: ReActAgent) -> list[Hook]:
        found: list[Hook] = []
        for hook in parent.hooks.all:
            if hook is self._spawning or not hook.in_sub_agents:
                continue
            if declared.workspace == "none" and isinstance(hook, (WorkspaceContextHook, SkillsHook)):
                continue
            brought = [tool.name for tool in tools_of(hook)]
            if not brought or any(map(declared.allows, brought)):
                found.append(hook)
        if declared.permissions is not None:
            found.append(NarrowingHook(declared.permissions))
        # the narrowing of the parent holds by `for_sub_agents`
        if declared.spawns:
            found.append(self._spawning)
        return [*found, *(() if self._more_hooks is None else self._more_hooks(declared))]


def _ready(declared: SubAgent) -> AgentCore:
    agent = declared.agent
    made: object = agent() if agent is not None and not isinstance(agent, AgentCore) else agent
    if not isinstance(made, AgentCore):
        raise ConfigurationError(f"the function must return an agent, not {made!r:.60}.")
    return made


def tools_of(hook: Hook) -> tuple[Tool, ...]:
    """All tools that the hook brings."""
    return (*hook.tools(), *(tool for tools in hook.tool_groups().values() for tool in tools))


def _is_spawning(name: str, hook: Hook) -> bool:
    return any(tool.name == name for tool in hook.tools())


def _tools_of(declared: SubAgent, parent: ReActAgent) -> Toolkit:
    """A copy of the parent's toolkit with the tools that are allowed, without those of hooks."""
    brought = {tool.name for hook in parent.hooks.all for tool in tools_of(hook)}
    toolkit = parent.toolkit.copy()
    toolkit.allow_deletion = True
    for name in toolkit.names:
        if name in brought or not declared.allows(name):
            toolkit.remove(name)
    hooked = {group.name for hook in parent.hooks.all for group in hook.tool_groups()}
    if left := [group.name for group in toolkit.groups if group.name in hooked]:
        toolkit.remove_tool_groups(left)
    return toolkit


def _sources(parent: ReActAgent) -> tuple[object, ...]:
    """The objects that agents are made of: others make another agent."""
    options = (parent.generate_options, parent.tool_execution_config, parent.memory_window, parent.context_store)
    return (parent.model, *options, parent.max_iters, *parent.toolkit, None, *parent.hooks.all)
