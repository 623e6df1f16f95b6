"""The line that a sub-agent's result begins with: the id is for the model, to go on with the conversation."""

from __future__ import annotations

from agentscope_rx.messages import OutputBlock, TextBlock, ToolResultBlock


def headed(conversation_id: str, text: str) -> str:
    """The text as a model reads it, under the id of the conversation that it comes from."""
    return f"conversation_id: {conversation_id}\n\n{text}"


def without_heading(result: ToolResultBlock) -> tuple[OutputBlock, ...]:
    """The blocks as a user reads them: without the line, if the result is a sub-agent's and still begins with it."""
    id = result.metadata.get("conversation_id")
    output = result.output
    if not isinstance(id, str) or not output or not isinstance(output[0], TextBlock):
        return output
    first, head = output[0].text, headed(id, "")
    if not first.startswith(head):
        return output
    words = first[len(head) :]
    return (TextBlock(words), *output[1:]) if words else output[1:]
