"""`AgentTool`: an agent as a tool of another one; `agent.as_tool()` makes it.

    writer = ReActAgent("Writer", model, tools=[researcher.as_tool()])
    ReActAgent("Editor", model, tools=[AgentTool(lambda: make_critic(), name="ask_critic")])    made at its first call

A call is a run of the agent, in a conversation of its own unless the model gives the id of one: the run's events, its
costs, its interruption and what waits in it belong to the run that called. See `sub_agent.running`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from agentscope_rx.agent.lifecycle import closed
from agentscope_rx.agent.persistence import thawed
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.child_tool import ChildTool
from agentscope_rx.agent.sub_agent.naming import tool_name
from agentscope_rx.agent.sub_agent.running import running
from agentscope_rx.agent.sub_agent.sub_conversations import SubConversation, SubConversations
from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.messages.msg import new_id
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, concat_map, defer, empty
from agentscope_rx.tools import InvalidArgumentsError, ToolContext
from agentscope_rx.tools.base import check_mark, check_name, check_names

if TYPE_CHECKING:
    from agentscope_rx.agent.agent import Agent

Forward = Literal["events", "text", "none"]
"""What of a sub-agent's run the parent's stream shows: its events and its text as progress, its text, or nothing."""

MAX_DEPTH = 16
"""How deep sub-agents may call sub-agents; one that calls itself ends here at the latest."""

_PARAMETERS = freeze(
    {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What to say to the agent."},
            "conversation_id": {
                "type": "string",
                "description": (
                    "Leave out to begin a new conversation. To go on with one, give the conversation_id that a result "
                    "has told."
                ),
            },
        },
        "required": ["message"],
        "additionalProperties": False,
    }
)


class AgentToolOptions(TypedDict, total=False):
    """What `agent.as_tool` takes besides a name and a description; see `AgentTool`."""

    forward: Forward
    memory: Callable[[], Memory]
    max_conversations: int
    interrupt_grace: float | None
    execution_config: ExecutionConfig | None
    requires_approval: bool | Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class AgentToolConfig:
    """How a sub-agent is called, and what is kept of it: options of `AgentTool`, checked."""

    forward: Forward = "events"
    memory: Callable[[], Memory] = InMemoryMemory
    max_conversations: int = 100
    interrupt_grace: float | None = 30.0

    def __post_init__(self) -> None:
        if self.forward not in ("events", "text", "none"):
            raise ConfigurationError(f"forward must be 'events', 'text' or 'none', not {self.forward!r}.")
        if not callable(self.memory):
            raise ConfigurationError(
                f"memory must be a function that makes one, such as InMemoryMemory, not {self.memory!r:.60}: each "
                "conversation has its own."
            )
        count = cast("object", self.max_conversations)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigurationError(f"max_conversations must be a whole number of at least 1, not {count!r}.")
        grace = cast("object", self.interrupt_grace)
        if grace is not None and not (isinstance(grace, (int, float)) and not isinstance(grace, bool) and grace >= 0):
            raise ConfigurationError(f"interrupt_grace must be >= 0 seconds or None, not {grace!r}.")


class AgentTool(ChildTool):
    """An agent, or a function that makes it at its first call, as a tool.

    `forward`: what the stream of the run that calls shows of its runs. `memory` makes the memory of a new conversation;
    of each parent's conversation at most `max_conversations` are kept, but for those that wait. `interrupt_grace`: how
    many seconds it has to end once it is interrupted; None is no bound. Its calls have no timeout unless
    `execution_config` says so: its own limits, and those of the run that calls, bound them.
    """

    parameters = _PARAMETERS
    interruptible = False
    """An interruption is passed down: the sub-agent ends by its own last words, and these are the result."""

    def __init__(
        self,
        agent: Agent | Callable[[], Agent],
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
        from agentscope_rx.agent.agent import Agent

        self._agent = agent if isinstance(agent, Agent) else None
        self._make = None if isinstance(agent, Agent) else agent
        if self._make is not None and (not callable(self._make) or isinstance(self._make, type)):
            raise ConfigurationError(f"AgentTool takes an agent, or a function that makes one, not {agent!r:.60}.")
        if self._agent is None and name is None:
            raise ConfigurationError(
                "An agent that is made at its first call needs a name as a tool: AgentTool(..., name='ask_critic')."
            )
        who = name if self._agent is None else self._agent.name
        self.name = check_name((name or tool_name(self._agent.name if self._agent else "")).strip())
        self.description = description if description is not None else f"Call {who} to complete tasks."
        self.options = AgentToolConfig(forward, memory, max_conversations, interrupt_grace)
        unbounded = ExecutionConfig(timeout=None)
        self.execution_config = unbounded if execution_config is None else execution_config.over(unbounded)
        self.requires_approval = check_mark(self.name, requires_approval)
        self._children = SubConversations()

    def __repr__(self) -> str:
        return f"<AgentTool {self.name}>"

    @property
    def made(self) -> Agent | None:
        """Who is called; None if it has not been made yet."""
        return self._agent

    @property
    def agent(self) -> Agent:
        """Who is called; made now, if it has not been yet."""
        from agentscope_rx.agent.agent import Agent

        if self._agent is None:
            made = self._make() if self._make is not None else None
            if not isinstance(made, Agent):
                raise ConfigurationError(f"Tool {self.name!r}: the function gave {made!r:.60}, which is no agent.")
            self._agent = made
        return self._agent

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """A message that is not blank; an id that is empty, or null, is none."""
        given = {
            name: value for name, value in arguments.items() if name != "conversation_id" or value not in (None, "")
        }
        check_names(self, given)
        arguments = given
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
        """As `call_with`, by nobody: each subscription is a call of its own."""

        def begin() -> Flow[object]:
            return self.call_with(arguments, ToolContext(ToolUseBlock(f"call_{new_id()}", self.name, arguments)))

        return defer(begin)

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """One run of the agent, in the conversation that this call has begun or that the model has named.

        Signals: `ToolNested` and `ToolChunk` as the run goes on, then the result: its reply, or a placeholder if calls
        of it wait; `SubAgentError` for what it failed with.
        Cancels: the run, with its repair of its memory.
        """

        def begin() -> Flow[object]:
            agent = self.agent
            host = context.host if isinstance(context.host, Run) else None
            children = self._children if host is None else _children_of(host)
            call = context.call
            if len(context.path) // 2 >= MAX_DEPTH:
                raise ToolError(f"Agents are calling each other {MAX_DEPTH} deep. Answer without calling another one.")
            child = children.of_call(call.id)
            if child is None:
                asked = cast("str | None", arguments.get("conversation_id"))
                child = children.take(call.name, call.id, asked, at_most=self.options.max_conversations)
            taken = child
            ready = thawed(taken, agent, self.options.memory)
            message = cast("str", arguments["message"])
            return ready.pipe(
                concat_map(lambda _: running(agent, taken, children, message, context, host, self.options))
            )

        return defer(begin)

    def close(self, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        left = child.conversation is not None and child.conversation.pending
        if child.reply is None and child.frozen is None and not left:
            # it has ended by itself: its memory is whole
            return empty()
        agent = self.agent
        return thawed(child, agent, self.options.memory).pipe(
            concat_map(lambda memory: closed(agent, memory, kind, text))
        )


def _children_of(host: Run) -> SubConversations:
    conversation = host.conversation
    if conversation.children is None:
        conversation.children = SubConversations()
    return conversation.children
