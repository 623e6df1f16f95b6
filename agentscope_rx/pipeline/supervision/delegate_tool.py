"""`DelegateTool`: a member of a supervisor as its tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.agent_tool import AgentTool
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg, MsgRole
from agentscope_rx.pipeline.handoff.handoff import texts_only
from agentscope_rx.pipeline.supervision.delegate import Delegate, Sees
from agentscope_rx.reactive import Flow, concat_map, just
from agentscope_rx.tools import ToolContext


class DelegateTool(AgentTool):
    """A member as a tool. A call is a run of the member, in a conversation that the coordinator may go on with."""

    def __init__(self, member: Delegate, sees: Sees) -> None:
        super().__init__(
            member.agent,
            name=member.tool,
            description=member.description,
            requires_approval=member.requires_approval,
        )
        self.return_direct: bool = member.verbatim
        self._sees: Sees = sees

    def messages_for(
        self, child: SubConversation, memory: Memory, arguments: Mapping[str, object], context: ToolContext
    ) -> str | Flow[Sequence[Msg]]:
        """The task; before it, if the member sees the conversation, the texts of it that the member has not seen."""
        message, host = cast("str", arguments["message"]), context.host
        if self._sees == "task" or child.begun or not isinstance(host, Run):
            return message
        task = Msg.user(message)

        def besides(history: Sequence[Msg], known: Sequence[Msg]) -> Sequence[Msg]:
            seen = {each.id for each in known}
            texts = (each for each in texts_only(history) if each.role is not MsgRole.SYSTEM)
            return (*(each for each in texts if each.id not in seen), task)

        return host.history().pipe(
            concat_map(lambda history: memory.get().pipe(concat_map(lambda known: just(besides(history, known)))))
        )
