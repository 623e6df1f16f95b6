"""`Delegate`: a member of a `Supervisor`: how the coordinator calls it, what it sees, and where its answer goes.

| sees           | a call of the member begins with                                                      |
|----------------|---------------------------------------------------------------------------------------|
| "task"         | the task that the coordinator has written                                             |
| "conversation" | the texts of the conversation that the member has not seen yet, then the task          |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast, get_args

from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.pipeline.names import tool_name

Sees = Literal["task", "conversation"]
"""What a member sees when it is called; see the table above."""


@dataclass(frozen=True, slots=True, init=False)
class Delegate:
    """A member of a `Supervisor`, with the rules for calls of it.

    | argument | meaning |
    |---|---|
    | `tool`, `description` | name and description of its tool |
    | `sees` | "task": the supervisor's text; "conversation": also the texts before it; None: as the supervisor has it |
    | `verbatim` | True: its answer is the reply, word for word, and the supervisor's model is not asked again |
    | `requires_approval` | True, or a function of the arguments: a person decides about each call |
    """

    agent: AgentCore
    tool: str
    description: str
    sees: Sees | None
    verbatim: bool
    requires_approval: bool | Callable[[Mapping[str, Any]], bool]

    def __init__(
        self,
        agent: AgentCore,
        *,
        tool: str | None = None,
        description: str | None = None,
        sees: Sees | None = None,
        verbatim: bool = False,
        requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False,
    ) -> None:
        if not isinstance(agent, AgentCore):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A member of a Supervisor is an agent, not {agent!r:.60}.")
        put = object.__setattr__
        put(self, "agent", agent)
        put(self, "tool", tool_name("call", agent.name) if tool is None else tool)
        put(self, "description", f"Give {agent.name} a task." if description is None else description)
        put(self, "sees", None if sees is None else check_sees(sees))
        put(self, "verbatim", verbatim)
        put(self, "requires_approval", requires_approval)

    @property
    def name(self) -> str:
        """The name of the member."""
        return self.agent.name


def check_sees(sees: object) -> Sees:
    """The value; `ConfigurationError` for any other."""
    if sees not in get_args(Sees):
        raise ConfigurationError(f"sees must be 'task' or 'conversation', not {sees!r:.60}.")
    return cast("Sees", sees)


def delegates_of(given: Iterable[AgentCore | Delegate]) -> dict[str, Delegate]:
    """The members by name; `ConfigurationError` for none, and for two of one name."""
    if isinstance(given, (str, Mapping, AgentCore)) or not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"members takes a list of agents or Delegates, not {cast('object', given)!r:.60}.")
    members: dict[str, Delegate] = {}
    for each in given:
        member = each if isinstance(each, Delegate) else Delegate(each)
        if member.name in members:
            raise ConfigurationError(f"Two members are named {member.name!r}. Rename one of them.")
        members[member.name] = member
    if not members:
        raise ConfigurationError("A Supervisor needs at least one member.")
    return members
