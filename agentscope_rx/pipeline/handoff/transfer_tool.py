"""`TransferTool`: the tool by which a member transfers the conversation to another one.

| call                                           | result                                                        |
|------------------------------------------------|---------------------------------------------------------------|
| the first of its round                         | the next member takes over after this round                   |
| another one of the round                       | an error: one transfer a round                                |
| after `max_handoffs` transfers                 | an error that asks for an answer                              |
| rejected by a person or a hook                 | none: the active member goes on                               |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentscope_rx.errors import ToolError
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.pipeline.handoff.handoff import Handoff
from agentscope_rx.pipeline.handoff.state import STATE, HandoffState
from agentscope_rx.reactive import Flow, defer, just, throw
from agentscope_rx.tools import Tool, ToolContext
from agentscope_rx.tools.base import Approval, check_mark, check_name
from agentscope_rx.tools.schemas.check import check_of, fitting

_PARAMETERS = freeze(
    {
        "type": "object",
        "properties": {
            "message": {
                "type": "string",
                "description": "What the one who takes over should know or do. They see the conversation, too.",
            }
        },
        "additionalProperties": False,
    }
)

_AT_MOST = (
    "The conversation was transferred {count} times for this question already, and no further transfer is allowed. "
    "Answer the user yourself."
)


class TransferTool(Tool):
    """Transfers the conversation to `member`. `first` is true for the first transfer of a round, by the call's id."""

    parameters: Mapping[str, object] = _PARAMETERS
    read_only = True
    """It changes the conversation only: plan mode allows it, and a call that a crash has cut off is run again."""

    def __init__(self, member: Handoff, max_handoffs: int, first: Callable[[ToolContext], bool]) -> None:
        self.name: str = check_name(member.tool)
        self.description: str = member.description
        self.requires_approval: Approval = check_mark(self.name, member.requires_approval)
        self.member = member
        self._most = max_handoffs
        self._first = first
        self._check = check_of(self.name, _PARAMETERS)

    def __repr__(self) -> str:
        return f"<TransferTool {self.name}>"

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments if they fit the schema, or `InvalidArgumentsError` with every problem."""
        return fitting(self._check, self.name, {key: value for key, value in arguments.items() if value is not None})

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Signals: a `ToolError`: there is no conversation to transfer. Cancels: nothing."""
        return throw(ToolError(f"{self.name} transfers a conversation, and needs one: call it through its agent."))

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """Note the transfer, which takes effect when every call of the round has its result.

        Signals: the text of the result, or a `ToolError` as in the table above.
        Cancels: nothing: it takes no time.
        """
        if context.parts is None:
            return self.call(arguments)

        def begin() -> Flow[object]:
            first = self._first(context)
            STATE.change(context.parts, lambda state: (self._after(state, context.call.id, first=first), None))
            return just(f"{self.member.name} takes over the conversation.")

        return defer(begin)

    def _after(self, state: HandoffState, call_id: str, *, first: bool) -> HandoffState:
        if state.call == call_id:
            # it is run again after a crash
            return state
        if state.next or not first:
            taken = f"{state.next} takes over." if state.next else "The first transfer of the round counts."
            raise ToolError(f"A conversation can be transferred to one agent at a time. {taken}")
        if state.count >= self._most:
            raise ToolError(_AT_MOST.format(count=state.count))
        return state.transferring(self.member.name, call_id)
