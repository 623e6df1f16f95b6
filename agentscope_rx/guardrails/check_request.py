"""`CheckRequest`: what a check is asked about."""

from __future__ import annotations

from dataclasses import replace

from agentscope_rx.events.base import NOWHERE, EventSource, HasSource
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.guardrails.verdict import Content, Kind
from agentscope_rx.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.models.wire.json_codec import encode_json


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest(HasSource):
    """The content that a check judges, read-only. `text` is its text; for a tool call the JSON of its arguments.

    | kind          | has                                                                                       |
    |---------------|-------------------------------------------------------------------------------------------|
    | `input`       | `message`                                                                                 |
    | `output`      | `before`: the end of the text that was shown already; `thinking`; `is_last`                 |
    | `tool_call`   | `call`                                                                                    |
    | `tool_result` | `call`, `result`; the call is None for a result that the caller has brought               |
    """

    kind: Kind
    text: str
    source: EventSource = NOWHERE
    message: Msg | None = None
    call: ToolUseBlock | None = None
    result: ToolResultBlock | None = None
    before: str = ""
    thinking: bool = False
    is_last: bool = True

    def with_content(self, content: Content) -> CheckRequest:
        """Returns a copy of the request with this content."""
        if self.kind == "tool_call" and self.call is not None:
            return request_of_call(changed_call(self.call, content), self.source)
        text = str(content)
        message = None if self.message is None else with_text(self.message, text)
        result = None if self.result is None else result_with_text(self.result, text)
        return replace(self, text=text, message=message, result=result)


def request_of_call(call: ToolUseBlock, source: EventSource) -> CheckRequest:
    """The question about a call."""
    text = encode_json(thaw(call.input)) if call.raw is None else call.raw
    return CheckRequest(kind="tool_call", text=text, call=call, source=source)


def changed_call(call: ToolUseBlock, content: Content) -> ToolUseBlock:
    """The call with these arguments; `TypeError` for a text."""
    if isinstance(content, str):
        raise TypeError("a tool call is replaced by its arguments, Verdict.replace({...}), and not by a text")
    return call.with_input(content)


def with_text(message: Msg, text: str) -> Msg:
    """The message with this text in the place of its first block of text, and without the others."""
    first = next((n for n, block in enumerate(message.content) if isinstance(block, TextBlock)), len(message.content))
    rest = [block for block in message.content[first:] if not isinstance(block, TextBlock)]
    return message.replace(content=[*message.content[:first], TextBlock(text), *rest])


def result_with_text(result: ToolResultBlock, text: str) -> ToolResultBlock:
    """The result with this text in the place of its first block of text, and without the others."""
    first = next((n for n, block in enumerate(result.output) if isinstance(block, TextBlock)), len(result.output))
    rest = [block for block in result.output[first:] if not isinstance(block, TextBlock)]
    return result.replace(output=[*result.output[:first], TextBlock(text), *rest])
