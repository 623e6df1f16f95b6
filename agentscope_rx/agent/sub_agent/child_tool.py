"""`ChildTool`: the port of a tool whose calls are runs of an agent; how one is found under its name."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from agentscope_rx.messages import ToolResultKind
from agentscope_rx.reactive import Flow, catch, defer, empty
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.tools import Tool, Toolkit

if TYPE_CHECKING:
    from agentscope_rx.agent.agent import Agent
    from agentscope_rx.agent.sub_agent.sub_conversations import SubConversation


class ChildTool(Tool):
    """A tool that has an agent do it."""

    @property
    @abstractmethod
    def agent(self) -> Agent:
        """Who does it."""

    @abstractmethod
    def close(self, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        """Give what waits in this conversation a result of this kind: the call that it is for goes on without it.

        Signals: completion when its memory is whole.
        Cancels: nothing that has begun.
        """


def child_tool(toolkit: Toolkit, name: str) -> ChildTool | None:
    """The tool of this name, beneath all that is wrapped around it, if it has an agent do it."""
    tool: object = toolkit.get(name)
    while tool is not None and not isinstance(tool, ChildTool):
        tool = getattr(tool, "inner", None)
    return tool


def abandoned(child: SubConversation, toolkit: Toolkit, kind: ToolResultKind, text: str | None) -> Flow[None]:
    """The call that has taken this child is given up: so is what the child waits for. Completes when that is done."""

    def close() -> Flow[None]:
        tool = child_tool(toolkit, child.tool)
        # (without its tool nobody can say whose it is; should that come back, its own next call closes what is open)
        return empty() if tool is None else tool.close(child, kind, text)

    def failed(error: Exception) -> Flow[None]:
        # the parent's own end does not depend on it
        report_dropped(error, f"closing what waits in {child.tool!r}")
        return empty()

    return defer(close).pipe(catch(failed))
