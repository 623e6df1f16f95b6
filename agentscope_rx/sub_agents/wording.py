"""What the model reads of sub-agents: the list in the system message, and the result of `agent_list`.

The list is sorted, escaped, and the same text byte for byte until a declaration changes: prompt caches hold. What
changes with each call, the sub-agents that were started, is in the result of `agent_list`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.sub_agents.limits import SPAWN, is_taken

SEND: Final = "agent_send"
LIST: Final = "agent_list"
TAG: Final = "subagent"

INSTRUCTION: Final = (
    f"Sub-agents do tasks on their own, each in a conversation of its own. To start one, call {SPAWN} with its name "
    "and a task that says all it needs to know: it does not see this conversation, and you see only its last message. "
    f"Start several in one turn if their tasks do not depend on each other. Use {SEND} to go on with one that you have "
    "started, and do small tasks yourself."
)


def status_of(child: SubConversation) -> str:
    """What the sub-agent does now, in one word or a few."""
    if child.reply is not None:
        return "waits for a person"
    return "working" if is_taken(child) else "idle"


def listed(children: Iterable[SubConversation]) -> str:
    """The sub-agents that were started, a line for each."""
    lines = [
        f"- label: {child.label}, agent: {child.agent}, conversation_id: {child.id}, status: {status_of(child)}"
        for child in children
        if child.tool == SPAWN
    ]
    return "\n".join(lines) or "No sub-agents were started in this conversation."
