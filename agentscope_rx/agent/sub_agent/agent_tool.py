"""`AgentTool`: an agent as a tool of another one; `agent.as_tool()` makes it.

    writer = ReActAgent("Writer", model, tools=[researcher.as_tool()])
    ReActAgent("Editor", model, tools=[AgentTool(lambda: make_critic(), name="ask_critic")])    made at its first call

A call is a run of the agent, in a new conversation unless the model gives the id of one. The run's events, costs,
interruption and pending calls belong to the run of the caller, too. See `sub_agent.running`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from typing import Any, TypedDict, cast

from agentscope_rx.agent.lifecycle import close_pending
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.restoring import thaw_child
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.child_tool import ChildTool
from agentscope_rx.agent.sub_agent.conversations import SubConversation, SubConversations
from agentscope_rx.agent.sub_agent.running import AgentToolConfig, Forward, run_child
from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import Msg, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.messages.msg import new_id
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, concat_map, defer, empty
from agentscope_rx.tools import InvalidArgumentsError, ToolContext, Toolkit
from agentscope_rx.tools.base import Approval, check_mark, check_name, check_names
from agentscope_rx.tools.wrapper import innermost

MAX_DEPTH = 16
"""The levels of sub-agents that call sub-agents; one that calls itself ends here."""

MAX_NAME = 64
"""The longest name of a tool that model providers accept."""

_PARAMETERS = freeze(
    {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What to say to the agent."},
            "conversation_id": {
                "type": "string",
                "description": (
                    "Leave out to begin a new conversation. To continue one, give the conversation_id of an earlier "
                    "result."
                ),
            },
        },
        "required": ["message"],
        "additionalProperties": False,
    }
)


class AgentToolOptions(TypedDict, total=False):
    """The options of `agent.as_tool` besides a name and a description; see `AgentTool`."""

    forward: Forward
    memory: Callable[[], Memory]
    max_conversations: int
    interrupt_grace: float | None
    execution_config: ExecutionConfig | None
    requires_approval: bool | Callable[[Mapping[str, Any]], bool]


class AgentTool(ChildTool):
    """An agent as a tool. `agent` is an agent, or a function that makes it at the first call.

    - `forward` selects the part of its runs that the parent's stream shows.
    - `memory` makes the memory of a new conversation. Each conversation of a parent keeps at most `max_conversations`,
      besides those with pending calls.
    - `interrupt_grace`: the seconds that an interrupted run has to end; None is no bound.
    - `requires_approval`: True, or a function of the arguments: these calls wait for a person.
    - Calls have no timeout unless `execution_config` sets one. The agent's own limits and those of the parent's run
      bound them.
    """

    parameters: Mapping[str, object] = _PARAMETERS
    interruptible = False
    """The interruption is passed down: the sub-agent ends with its own reply, which is the result."""

    def __init__(
        self,
        agent: AgentCore | Callable[[], AgentCore],
        *,
        name: str | None = None,
        description: str | None = None,
        forward: Forward = "events",
        memory: Callable[[], Memory] = InMemoryMemory,
        max_conversations: int = 100,
        interrupt_grace: float | None = 30.0,
        execution_config: ExecutionConfig | None = None,
        requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False,
    ) -> None:
        self._agent = agent if isinstance(agent, AgentCore) else None
        self._make = None if isinstance(agent, AgentCore) else agent
        if self._make is not None and (not callable(self._make) or isinstance(self._make, type)):
            raise ConfigurationError(f"AgentTool takes an agent, or a function that makes one, not {agent!r:.60}.")
        if self._agent is None and name is None:
            raise ConfigurationError(
                "A function that makes an agent needs a name for the tool: AgentTool(..., name='ask_critic')."
            )
        who = name if self._agent is None else self._agent.name
        self.name: str = check_name((name or tool_name(self._agent.name if self._agent else "")).strip())
        self.description: str = description if description is not None else f"Call {who} to complete tasks."
        self.options: AgentToolConfig = AgentToolConfig(forward, memory, max_conversations, interrupt_grace)
        unbounded = ExecutionConfig(timeout=None)
        self.execution_config: ExecutionConfig | None = (
            unbounded if execution_config is None else execution_config.over(unbounded)
        )
        self.requires_approval: Approval = check_mark(self.name, requires_approval)
        self._children = SubConversations()

    def __repr__(self) -> str:
        return f"<AgentTool {self.name}>"

    @property
    def made(self) -> AgentCore | None:
        """The agent, or None before the first use of a tool that makes its agent."""
        return self._agent

    @property
    def agent(self) -> AgentCore:
        """The agent; made now, if this is its first use."""
        if self._agent is None:
            made = self._make() if self._make is not None else None
            if not isinstance(made, AgentCore):
                raise ConfigurationError(f"Tool {self.name!r}: the function must return an agent, not {made!r:.60}.")
            self._agent = made
        return self._agent

    @property
    def agent_toolkit(self) -> Toolkit | None:
        toolkit: object = getattr(self.agent, "toolkit", None)
        return toolkit if isinstance(toolkit, Toolkit) else None

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The message must not be blank; an empty or null id counts as none."""
        arguments = {
            name: value for name, value in arguments.items() if name != "conversation_id" or value not in (None, "")
        }
        check_names(self, arguments)
        problems = [
            f"{name}: must be a string, not {type(value).__name__}"
            for name, value in arguments.items()
            if not isinstance(value, str)
        ]
        if not problems and not cast("str", arguments["message"]).strip():
            problems = ["message: must not be blank"]
        if problems:
            raise InvalidArgumentsError(self.name, problems)
        return arguments

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Like `call_with`, without a caller: each subscription is a call of its own."""

        def begin() -> Flow[object]:
            return self.call_with(arguments, ToolContext(ToolUseBlock(f"call_{new_id()}", self.name, arguments)))

        return defer(begin)

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """One run of the agent, in the conversation that this call has begun or that the model has named.

        Signals: `ToolNested` and `ToolChunk` during the run, then the result: its reply, or a placeholder if it has
        pending calls; `SubAgentError` if it fails.
        Cancels: the run; the repair of its memory runs to its end.
        """

        def begin() -> Flow[object]:
            agent = self.agent
            host = context.host if isinstance(context.host, Run) else None
            children = self._children if host is None else children_of(host)
            call = context.call
            if len(context.path) // 2 >= MAX_DEPTH:
                raise ToolError(f"Agents are calling each other {MAX_DEPTH} deep. Answer without calling another one.")
            child = children.of_call(call.id)
            if child is None:
                id = cast("str | None", arguments.get("conversation_id"))
                child = children.take(call.name, call.id, id, at_most=self.options.max_conversations)
            taken = child

            def run(memory: Memory) -> Flow[object]:
                given = self.messages_for(taken, memory, arguments, context)
                if isinstance(given, str):
                    return run_child(agent, taken, children, given, context, host, self.options)
                return given.pipe(
                    concat_map(
                        lambda messages: run_child(agent, taken, children, messages, context, host, self.options)
                    )
                )

            return thaw_child(taken, agent, self.options.memory).pipe(concat_map(run))

        return defer(begin)

    def messages_for(
        self, child: SubConversation, memory: Memory, arguments: Mapping[str, object], context: ToolContext
    ) -> str | Flow[Sequence[Msg]]:
        """The input of the agent's run, if it begins now: a message of the user, or several messages."""
        return cast("str", arguments["message"])

    def close(self, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        pending = child.conversation is not None and child.conversation.pending
        if child.reply is None and child.frozen is None and not pending:
            # its run has ended with a reply: its memory is whole
            return empty()
        agent = self.agent
        return thaw_child(child, agent, self.options.memory).pipe(
            concat_map(lambda memory: close_pending(agent, memory, kind, text))
        )


def children_of(host: Run) -> SubConversations:
    """The conversations of sub-agents in that of the run; made at their first use."""
    conversation = host.conversation
    if conversation.children is None:
        conversation.children = SubConversations()
    return conversation.children


def tool_name(agent: str) -> str:
    """`call_<name>`, in the characters and the length that model providers accept.

    If that loses a part of the name, digits that distinguish it from others follow.
    """
    lower = agent.strip().lower()
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^a-z0-9_-]+", "_", lower)).strip("_") or "agent"
    name = f"call_{plain}"
    if not re.search(r"[^a-z0-9_\-\s]", lower) and len(name) <= MAX_NAME:
        return name
    digits = digits_of(agent)
    return f"{name[: MAX_NAME - len(digits) - 1].rstrip('_')}_{digits}"


def digits_of(agent: str) -> str:
    """Digits that distinguish the name of this agent from others, if a part of it is lost."""
    return md5(agent.encode(), usedforsecurity=False).hexdigest()[:8]


def sub_agent_tools(toolkit: Toolkit) -> frozenset[str] | None:
    """The names of the tools of all sub-agents in the toolkit, and of theirs; None if one is not known yet."""
    names: set[str] = set()
    seen: set[int] = set()
    toolkits = [toolkit]
    while toolkits:
        current = toolkits.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for each in current:
            tool = innermost(each)
            if not isinstance(tool, ChildTool):
                continue
            if isinstance(tool, AgentTool) and tool.made is None:
                return None
            inner = tool.agent_toolkit
            if inner is not None:
                names.update(inner.names)
                toolkits.append(inner)
            elif tool.own_tools and not isinstance(tool, AgentTool):
                return None
    return frozenset(names)
