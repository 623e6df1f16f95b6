"""`Handoff`: a member of `Handoffs`, with whom it may transfer to, and what is true of transfers to it.

    Handoff(refunds, description="Refunds and complaints.", history=texts_only, requires_approval=True)
    Handoff(triage, to=["Refunds", "Sales"])                  it may transfer to these only

| history       | the member's model sees, of what was said before it took over                          |
|---------------|----------------------------------------------------------------------------------------|
| `None`        | all of it, with the calls and results of other members                                 |
| `texts_only`  | the texts and media of users and members                                               |
| a function    | what it returns for these messages                                                     |

What follows the transfer is always seen. Memory keeps the whole conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from agentscope_rx.agent.react.react_agent import ReActAgent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.pipeline.names import tool_name

HistoryFilter = Callable[[Sequence[Msg]], Sequence[Msg]]
"""Selects the messages before a transfer that the next member sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """A member of `Handoffs`, with the rules for transfers to it.

        Handoff(refunds, description="Refunds and complaints.", history=texts_only, requires_approval=True)
        Handoff(triage, to=["Refunds", "Sales"])                  # it may transfer to these only

    | argument | meaning |
    |---|---|
    | `to` | names of the members that it may transfer to; None: all others |
    | `tool`, `description` | name and description of the tool by which others transfer to it |
    | `history` | the messages before the transfer that its model sees; None: all |
    | `requires_approval` | True, or a function of the arguments: a person decides about each transfer to it |

    `history=texts_only` leaves out calls, results and thinking; a function `(messages) -> messages` selects. Messages
    after the transfer are always seen. Memory keeps the whole conversation.
    """

    agent: ReActAgent
    to: Sequence[str] | None = None
    tool: str = ""
    description: str = ""
    history: HistoryFilter | None = None
    requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False

    def __init__(
        self,
        agent: ReActAgent,
        *,
        to: Iterable[str] | None = None,
        tool: str | None = None,
        description: str | None = None,
        history: HistoryFilter | None = None,
        requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False,
    ) -> None:
        if not isinstance(agent, ReActAgent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"A member of Handoffs is a ReActAgent, not {agent!r:.60}: the conversation goes on with its model, "
                "its tools and its prompt. Call agents of other kinds as tools: agent.as_tool()."
            )
        if agent.limits is not None:
            raise ConfigurationError(
                f"Member {agent.name!r} of Handoffs has limits of its own, which would not hold: a call is a run of "
                "Handoffs. Give them to Handoffs(..., limits=...)."
            )
        if isinstance(to, str):
            raise ConfigurationError(f"to takes the names of members, such as to=[{to!r}], not a str.")
        if history is not None and not callable(history):  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigurationError(
                f"history must be a function of messages, such as texts_only, or None, not {history!r:.60}."
            )
        put = object.__setattr__
        put(self, "agent", agent)
        put(self, "to", None if to is None else tuple(to))
        put(self, "tool", tool_name("transfer_to", agent.name) if tool is None else tool)
        put(self, "description", f"Transfer the conversation to {agent.name}." if description is None else description)
        put(self, "history", history)
        put(self, "requires_approval", requires_approval)

    @property
    def name(self) -> str:
        """The name of the member."""
        return self.agent.name


def texts_only(messages: Sequence[Msg]) -> list[Msg]:
    """The messages without calls, results and thinking. A message that held nothing else is left out."""
    kept: list[Msg] = []
    for message in messages:
        content = tuple(
            block for block in message.content if not isinstance(block, (ToolUseBlock, ToolResultBlock, ThinkingBlock))
        )
        if len(content) == len(message.content):
            kept.append(message)
        elif any(not isinstance(block, TextBlock) or block.text.strip() for block in content):
            kept.append(message.replace(content=content))
    return kept


def members_of(given: Iterable[ReActAgent | Handoff]) -> dict[str, Handoff]:
    """The members by name; `ConfigurationError` for two of one name, or a target that is none of them."""
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            "Handoffs takes a name and a list of members, as in Handoffs('Team', [triage, Handoff(billing)]), "
            f"not {cast('object', given)!r:.60} as the list."
        )
    members: dict[str, Handoff] = {}
    tools: dict[str, str] = {}
    for each in given:
        member = each if isinstance(each, Handoff) else Handoff(each)
        if member.name in members:
            raise ConfigurationError(f"Two members are named {member.name!r}. Rename one of them.")
        if member.tool in tools:
            raise ConfigurationError(
                f"The tool {member.tool!r} would transfer to {tools[member.tool]!r} and to {member.name!r}. Give one "
                "of them another name: Handoff(agent, tool=...)."
            )
        members[member.name] = member
        tools[member.tool] = member.name
    if not members:
        raise ConfigurationError("Handoffs needs at least one member.")
    for member in members.values():
        unknown = [name for name in member.to or () if name not in members or name == member.name]
        if unknown:
            raise ConfigurationError(
                f"{member.name!r} cannot transfer to {unknown}. The other members are "
                f"{[name for name in members if name != member.name]}."
            )
    return members
