"""`ChildTool`: the port of a tool whose calls are runs of an agent, and the form of its results."""

from __future__ import annotations

from abc import abstractmethod

from agentscope_rx.agent.run_state import RunState
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.messages import OutputBlock, TextBlock, ToolResultBlock, ToolResultKind
from agentscope_rx.reactive import Flow, catch, defer, empty
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.tools import Tool, Toolkit


class ChildTool(Tool):
    """A tool that calls an agent."""

    own_tools: bool = True
    """False if its agents have no tools but those of the agent that calls it."""

    @property
    @abstractmethod
    def agent_toolkit(self) -> Toolkit | None:
        """The tools of the agent; None if it has none to call."""

    @abstractmethod
    def close(self, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        """Give the pending calls of this conversation results of this kind: the parent continues without them.

        Signals: completion when its memory is whole.
        Cancels: nothing: the closing, once begun, runs to its end.
        """

    def close_in(self, run: RunState, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        """Like `close`, for a run of the parent: a tool that makes its agents for their parent finds it there.

        Signals and cancels: as `close`.
        """
        return self.close(child, kind, text)

    def toolkit_of(self, child: SubConversation | None) -> Toolkit | None:
        """The tools of the agent in this conversation, as far as they are known."""
        return self.agent_toolkit


def child_tool(toolkit: Toolkit, name: str) -> ChildTool | None:
    """The tool of this name, without the wrappers around it, if it calls an agent."""
    tool: object = toolkit.get(name)
    while tool is not None and not isinstance(tool, ChildTool):
        tool = getattr(tool, "inner", None)
    return tool


def close_child(child: SubConversation, run: RunState, kind: ToolResultKind, text: str | None) -> Flow[None]:
    """Close the pending calls of a child whose call is closed; an error is reported, the parent's end does not fail.

    Signals: completion.
    Cancels: nothing: the closing, once begun, runs to its end.
    """

    def close() -> Flow[None]:
        tool = child_tool(run.toolkit, child.tool)
        # without its tool the agent is not known; if the tool comes back, its next call closes the open calls
        return empty() if tool is None else tool.close_in(run, child, kind, text)

    def failed(error: Exception) -> Flow[None]:
        report_dropped(error, f"closing the pending calls of {child.tool!r}")
        return empty()

    return defer(close).pipe(catch(failed))


def headed(conversation_id: str, text: str, label: str | None = None, status: str = "ok") -> str:
    """The text of a result: the model needs the id, or the label, to continue the conversation."""
    named = "" if label is None else f"status: {status}\nlabel: {label}\n"
    return f"{named}conversation_id: {conversation_id}\n\n{text}"


def without_heading(result: ToolResultBlock) -> tuple[OutputBlock, ...]:
    """The blocks of a sub-agent's result without the lines above its reply; those of any other result as they are."""
    id = result.metadata.get("conversation_id")
    output = result.output
    if not isinstance(id, str) or not output or not isinstance(output[0], TextBlock):
        return output
    label = result.metadata.get("label")
    first, head = output[0].text, headed(id, "", label if isinstance(label, str) else None)
    if not first.startswith(head):
        return output
    words = first[len(head) :]
    return (TextBlock(words), *output[1:]) if words else output[1:]
