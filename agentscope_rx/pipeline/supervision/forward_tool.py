"""`ForwardTool`: the reply is the last answer of a member, word for word; the coordinator does not repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.child_tool import without_heading
from agentscope_rx.errors import ToolError
from agentscope_rx.messages import Msg, ToolResultBlock
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.pipeline.supervision.delegate import Delegate
from agentscope_rx.reactive import Flow, concat_map, throw
from agentscope_rx.tools import Tool, ToolContext
from agentscope_rx.tools.base import check_name
from agentscope_rx.tools.schemas.check import check_of, fitting

FORWARD = "forward_answer"
"""The name of the tool."""


class ForwardTool(Tool):
    """Ends the run with the last answer of a member to this question, with its media."""

    description = (
        "Give the user the last answer of an agent, word for word, as your own reply. Call it instead of repeating an "
        "answer that needs no change."
    )
    return_direct = True
    read_only = True

    def __init__(self, members: Mapping[str, Delegate]) -> None:
        self.name: str = check_name(FORWARD)
        self._members = members
        self.parameters: Mapping[str, object] = freeze(
            {
                "type": "object",
                "properties": {"agent": {"type": "string", "enum": list(members)}},
                "required": ["agent"],
                "additionalProperties": False,
            }
        )
        self._check = check_of(self.name, self.parameters)

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments if they fit the schema, or `InvalidArgumentsError` with every problem."""
        return fitting(self._check, self.name, arguments)

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Signals: a `ToolError`: there is no conversation. Cancels: nothing."""
        return throw(ToolError(f"{self.name} needs a conversation: call it through its agent."))

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """Read the conversation for the member's last answer.

        Signals: the blocks of the answer; `ToolError` if the member has given none since the user's last message.
        Cancels: the reading.
        """
        if not isinstance(context.host, Run):
            return self.call(arguments)
        host, member = context.host, self._members[cast("str", arguments["agent"])]

        def answer(history: Sequence[Msg]) -> ToolResultBlock:
            found = _last_answer(history, member.tool, host.input.question)
            if found is None:
                raise ToolError(f"{member.name} has not answered yet: call {member.tool} first.")
            return ToolResultBlock(context.call.id, context.call.name, without_heading(found))

        return host.history().pipe(concat_map(answer))


def _last_answer(history: Sequence[Msg], tool: str, question: frozenset[str]) -> ToolResultBlock | None:
    """The last result of the tool that is no error, not further back than the question."""
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        for result in reversed(message.tool_results):
            if result.name == tool and result.kind is None:
                return result
        if message.id in question and not message.tool_results:
            return None
    return None
