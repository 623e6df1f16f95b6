"""The tools by which a model starts sub-agents and talks to them.

| tool                                                   | does                                                        |
|--------------------------------------------------------|-------------------------------------------------------------|
| `agent_spawn(agent, task, label, timeout_seconds)`     | starts a sub-agent in a new conversation, gives its reply   |
| `agent_send(agent, message, timeout_seconds)`          | goes on with one of them, by its label or conversation id   |
| `agent_list()`                                         | the sub-agents of this conversation, and what they do       |

A call that takes longer than `timeout_seconds` goes on in the background; 0 is at once (see `agent.background`). The
conversations belong to that of the parent: they are saved and loaded with it, and so are the labels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Final, cast

from agentscope_rx.agent.lifecycle import close_pending
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.restoring import thaw_child
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.run_state import RunState
from agentscope_rx.agent.sub_agent.child_tool import ChildTool
from agentscope_rx.agent.sub_agent.conversations import SubConversation, SubConversations
from agentscope_rx.agent.sub_agent.running import AgentToolConfig, Forward, run_child
from agentscope_rx.errors import ToolError
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.messages import ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.messages.msg import new_id
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, concat_map, defer, empty, just
from agentscope_rx.sub_agents.building import SubAgentFactory
from agentscope_rx.sub_agents.catalog import SubAgents
from agentscope_rx.sub_agents.limits import SPAWN, SubAgentLimits, counts_of, is_taken, outermost_of
from agentscope_rx.sub_agents.wording import LIST, SEND, listed
from agentscope_rx.tools import Tool, ToolContext, Toolkit
from agentscope_rx.tools.background import Background
from agentscope_rx.tools.effects import Effects

FOREGROUND: Final = 30.0
"""The seconds after which a sub-agent goes on in the background."""
MAX_FOREGROUND: Final = 600
MAX_LABEL: Final = 80

_SECONDS: Final[Mapping[str, object]] = {
    "type": "number",
    "minimum": 0,
    "maximum": MAX_FOREGROUND,
    "description": (
        f"The seconds that you wait for the reply ({FOREGROUND:g}). After them the sub-agent goes on in the "
        "background, and its reply comes later; with 0 at once."
    ),
}


def seconds_of(arguments: Mapping[str, object]) -> float:
    """The seconds in the foreground of a call with these arguments."""
    seconds = arguments.get("timeout_seconds")
    given = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    return min(max(float(cast("float", seconds)), 0.0), MAX_FOREGROUND) if given else FOREGROUND


class SubAgentCalls:
    """What the tools share: the declarations, the agents made of them, the limits."""

    def __init__(
        self, read: Callable[[], Flow[SubAgents]], factory: SubAgentFactory, limits: SubAgentLimits, forward: Forward
    ) -> None:
        self.read = read
        self.factory = factory
        self.limits = limits
        self.config: AgentToolConfig = AgentToolConfig(forward, InMemoryMemory, sys.maxsize, on_run=self._begin)
        self.alone: SubConversations = SubConversations()
        """The conversations of calls without an agent."""

    def _begin(self, run: RunState) -> None:
        child = cast("Run", run)
        if self.limits.share is not None:
            child.limits = child.usage.limits = self.limits.shared(child)

    def children_of(self, host: Run | None) -> SubConversations:
        """The sub-agents of the conversation that the call belongs to."""
        if host is None:
            return self.alone
        conversation = host.conversation
        if conversation.children is None:
            conversation.children = SubConversations()
        return conversation.children

    def agent_of(self, child: SubConversation, host: Run | None, declared: SubAgents) -> AgentCore:
        """The agent of a conversation that is there: as it is declared now, or as it was if calls of it are pending."""
        if child.call_id is not None and isinstance(child.runs_on, AgentCore):
            return child.runs_on
        found = declared.by_name.get(child.agent or "")
        if found is None:
            raise ToolError(
                f"Sub-agent {child.label!r} is a {child.agent!r}, which is not declared any more. Start another one."
            )
        agent = self.factory.agent_of(found.declared, _parent(host))
        if child.runs_on is not None and child.runs_on is not agent:
            _move(child, agent)
        return agent

    def run(
        self,
        agent: AgentCore,
        child: SubConversation,
        children: SubConversations,
        message: str,
        context: ToolContext,
        host: Run | None,
    ) -> Flow[object]:
        """One run of the agent in this conversation; signals and cancels as `run_child`."""
        child.runs_on = agent
        return thaw_child(child, agent, self.config.memory).pipe(
            concat_map(lambda _: run_child(agent, child, children, message, context, host, self.config))
        )

    def close(self, run: Run, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        """Close the pending calls of a child; signals and cancels as `ChildTool.close`."""
        pending = child.conversation is not None and child.conversation.pending
        if child.reply is None and child.frozen is None and not pending:
            return empty()

        def close(declared: SubAgents) -> Flow[None]:
            agent = self.agent_of(child, run, declared)
            child.runs_on = agent
            return thaw_child(child, agent, self.config.memory).pipe(
                concat_map(lambda memory: close_pending(agent, memory, kind, text))
            )

        return self.read().pipe(concat_map(close))


def _parent(host: Run | None) -> AgentCore | None:
    agent = None if host is None else host.agent
    return agent if isinstance(agent, AgentCore) else None


def _move(child: SubConversation, agent: AgentCore) -> None:
    """The declaration, or the parent, has changed: the conversation goes on with the agent as it is now."""
    old, memory = child.conversation, child.memory
    if old is None or memory is None:
        return
    new = agent.conversation(memory)
    new.parts.restore(old.parts.dump())
    new.take_over(old)
    child.conversation = new


class _SpawnTool(ChildTool):
    """What both tools have that run a sub-agent."""

    interruptible = False
    """The interruption is passed down: the sub-agent ends with its own reply, which is the result."""
    effects: Effects | None = Effects()
    background: Background | None = Background(after=seconds_of)

    def __init__(self, calls: SubAgentCalls, *, declared: bool) -> None:
        self._calls = calls
        # what they do is asked about call by call, unless an agent does it that others have made
        self.read_only = declared
        self.own_tools: bool = not declared
        self.execution_config: ExecutionConfig | None = ExecutionConfig(timeout=None)

    @property
    def agent_toolkit(self) -> Toolkit | None:
        return None

    def toolkit_of(self, child: SubConversation | None) -> Toolkit | None:
        """The tools of the agent in this conversation, if it has run in this process."""
        toolkit: object = None if child is None else getattr(child.runs_on, "toolkit", None)
        return toolkit if isinstance(toolkit, Toolkit) else None

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Like `call_with`, without a caller: each subscription is a call of its own."""

        def begin() -> Flow[object]:
            return self.call_with(arguments, ToolContext(ToolUseBlock(f"call_{new_id()}", self.name, arguments)))

        return defer(begin)

    def close(self, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        # without a run of the parent there is no agent to close it
        return empty()

    def close_in(self, run: RunState, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        return self._calls.close(cast("Run", run), child, kind, text)

    def _taken(
        self, context: ToolContext, message: str, take: Callable[[Run | None, SubAgents], SubConversation]
    ) -> Flow[object]:
        """A run in the conversation that this call has begun, or that `take` gives."""
        calls = self._calls
        host = context.host if isinstance(context.host, Run) else None

        def begin(declared: SubAgents) -> Flow[object]:
            children = calls.children_of(host)
            child = children.of_call(context.call.id)
            if child is None:
                child = take(host, declared)
            agent = calls.agent_of(child, host, declared)
            return calls.run(agent, child, children, message, context, host)

        return calls.read().pipe(concat_map(begin))


class AgentSpawn(_SpawnTool):
    """`agent_spawn`: starts a sub-agent."""

    name = SPAWN
    description = (
        "Start a sub-agent on a task, in a conversation of its own. The result has its label, its conversation_id and "
        "its reply."
    )
    parameters: Mapping[str, object] = freeze(
        {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "The name of one of the available sub-agents."},
                "task": {"type": "string", "minLength": 1, "description": "All that it needs to know to do the task."},
                "label": {
                    "type": "string",
                    "maxLength": MAX_LABEL,
                    "description": "A name of your own for it, which no other one has. Without it one is made.",
                },
                "timeout_seconds": _SECONDS,
            },
            "required": ["agent", "task"],
            "additionalProperties": False,
        }
    )

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """One run of a new sub-agent.

        Signals: `ToolNested` and `ToolChunk` during the run, then the result: its reply, or a placeholder if it has
        pending calls; `ToolError` if it is not started, `SubAgentError` if it fails.
        Cancels: the run; the repair of its memory runs to its end.
        """
        return self._taken(context, cast("str", arguments["task"]), partial(self._new, arguments, context))

    def _new(
        self, arguments: Mapping[str, object], context: ToolContext, host: Run | None, declared: SubAgents
    ) -> SubConversation:
        calls = self._calls
        name = cast("str", arguments["agent"]).strip()
        found = declared.by_name.get(name)
        if found is None:
            raise ToolError(_unknown(name, declared))
        calls.limits.check(host, name)
        # made first: what cannot be made takes no conversation
        agent = calls.factory.agent_of(found.declared, _parent(host))
        children = calls.children_of(host)
        label = _label(cast("str | None", arguments.get("label")), name, children)
        child = children.take(SPAWN, context.call.id, None, at_most=sys.maxsize)
        child.agent, child.label, child.runs_on = name, label, agent
        return child


class AgentSend(_SpawnTool):
    """`agent_send`: goes on with a sub-agent."""

    name = SEND
    description = (
        "Send a message to a sub-agent that you have started, in the same conversation with it. The result has its "
        "reply."
    )
    parameters: Mapping[str, object] = freeze(
        {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "Its label or its conversation_id."},
                "message": {"type": "string", "minLength": 1, "description": "What to say to it."},
                "timeout_seconds": _SECONDS,
            },
            "required": ["agent", "message"],
            "additionalProperties": False,
        }
    )

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """One more run of a sub-agent; signals and cancels as `AgentSpawn.call_with`."""
        return self._taken(context, cast("str", arguments["message"]), partial(self._known, arguments, context))

    def _known(
        self, arguments: Mapping[str, object], context: ToolContext, host: Run | None, declared: SubAgents
    ) -> SubConversation:
        calls = self._calls
        children = calls.children_of(host)
        child = find(cast("str", arguments["agent"]), children)
        if is_taken(child):
            raise ToolError(
                f"Sub-agent {child.label!r} has not ended what it does for you. Wait for its reply, then send the "
                "message."
            )
        if host is not None:
            calls.limits.check_at_once(counts_of(outermost_of(host).conversation)[0], child.label or child.id)
        # before it is taken: what cannot run takes no conversation
        child.runs_on = calls.agent_of(child, host, declared)
        return children.take(SPAWN, context.call.id, child.id, at_most=sys.maxsize)


class AgentList(Tool):
    """`agent_list`: the sub-agents of this conversation."""

    name = LIST
    description = "List the sub-agents that you have started in this conversation, and what they do."
    parameters: Mapping[str, object] = freeze({"type": "object", "properties": {}, "additionalProperties": False})
    read_only = True
    effects: Effects | None = Effects()

    def __init__(self, calls: SubAgentCalls) -> None:
        self._calls = calls

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        return just(listed(self._calls.alone.all))

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        host = context.host if isinstance(context.host, Run) else None
        return defer(lambda: just(listed(self._calls.children_of(host).all)))


def find(wanted: str, children: SubConversations) -> SubConversation:
    """The sub-agent with this label (ignoring case) or conversation id, or the only one of this name."""
    known = [child for child in children.all if child.tool == SPAWN]
    key = wanted.strip().casefold()
    for child in known:
        if key in (child.id, (child.label or "").casefold()):
            return child
    named = [child for child in known if child.agent == key]
    if len(named) == 1:
        return named[0]
    labels = [child.label or child.id for child in known]
    near = get_close_matches(wanted[:100], labels, 3, 0.5) or labels[-10:]
    hint = f"There are: {', '.join(near)}." if near else f"None was started yet: use {SPAWN}."
    raise ToolError(f"There is no sub-agent with the label or conversation_id {wanted!r:.100}. {hint}")


def _unknown(name: str, declared: SubAgents) -> str:
    broken = [each for each in declared.problems if each.sub_agent == name]
    if broken:
        return f"Sub-agent {name!r:.100} cannot be used: {broken[0]}"
    near = ", ".join(declared.near(name)) or "no similar ones" if declared.by_name else "none at all"
    return f"There is no sub-agent {name!r:.100}. There are: {near}."


def _label(given: str | None, agent: str, children: SubConversations) -> str:
    """The label of a new sub-agent; `ToolError` if another one has it."""
    taken = {(child.label or "").casefold(): child for child in children.all if child.tool == SPAWN}
    label = " ".join((given or "").split())
    if not label:
        return next(each for number in range(1, len(taken) + 2) if (each := f"{agent}-{number}") not in taken)
    if (other := taken.get(label.casefold())) is not None:
        raise ToolError(
            f"There is a sub-agent with the label {other.label!r} (labels ignore case). Use {SEND} to go on with it, "
            "or give the new one another label."
        )
    return label
