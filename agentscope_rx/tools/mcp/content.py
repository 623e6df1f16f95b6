"""What an MCP tool gives, as what a model reads.

| content                                  | output                                                       |
|------------------------------------------|--------------------------------------------------------------|
| text                                     | the text                                                     |
| image, audio                             | the block; without data, text that says so                   |
| resource with text                       | its text                                                     |
| resource with bytes: image/*, audio/*    | the block                                                    |
| resource with other bytes                | text that names its type and URI                             |
| link to a resource                       | text that names it                                           |
| structured content, and nothing else     | its JSON                                                     |
| nothing                                  | "Done."; of an error "The tool failed and does not say why." |

Structured content is in the result's metadata, too, under `structured`; an error is a result of kind `failed`.
"""

from __future__ import annotations

import json
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ImageBlock,
    Msg,
    OutputBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.tools.results.convert import DONE

UNSAID = "The tool failed and does not say why."


def block_of(content: ContentBlock) -> OutputBlock:
    """One piece of content as a block."""
    match content:
        case TextContent():
            return TextBlock(content.text)
        case ImageContent() | AudioContent():
            return _media(content.mime_type, content.data, f"{content.type} content")
        case EmbeddedResource():
            return resource_block(content.resource)
        case ResourceLink():
            named = content.title or content.name
            kind = f", {content.mime_type}" if content.mime_type else ""
            about = f": {content.description}" if content.description else ""
            return TextBlock(f"[Resource {named} ({content.uri}{kind}){about}]")


def resource_block(resource: TextResourceContents | BlobResourceContents) -> OutputBlock:
    """The content of a resource as a block."""
    if isinstance(resource, TextResourceContents):
        return TextBlock(resource.text)
    kind = resource.mime_type or "application/octet-stream"
    if kind.startswith(("image/", "audio/")):
        return _media(kind, resource.blob, f"resource {resource.uri}")
    return TextBlock(f"[Binary resource: {kind}, URI: {resource.uri}]")


def result_of_call(call: ToolUseBlock, given: CallToolResult) -> ToolResultBlock:
    """The result of `call` that the server's answer stands for."""
    output = tuple(block_of(each) for each in given.content if not _is_empty(each))
    metadata: dict[str, object] = {}
    if given.structured_content is not None:
        metadata["structured"] = given.structured_content
    if given.is_error:
        text = "\n".join(block.text for block in output if isinstance(block, TextBlock))
        media = tuple(block for block in output if not isinstance(block, TextBlock))
        if not text:
            text = _json(given.structured_content) if metadata else UNSAID
        error = ToolResultBlock.error(call, ToolResultKind.FAILED, text)
        return ToolResultBlock(call.id, call.name, (*error.output, *media), ToolResultKind.FAILED, metadata)
    if not output:
        output = (TextBlock(_json(given.structured_content)),) if metadata else DONE
    return ToolResultBlock(call.id, call.name, output, None, metadata)


def messages_of(prompt: GetPromptResult, server: str) -> tuple[Msg, ...]:
    """A prompt as messages; what it gives the assistant to say is said under the server's name."""
    return tuple(
        Msg.user([block_of(each.content)]) if each.role == "user" else Msg.assistant([block_of(each.content)], server)
        for each in prompt.messages
    )


def _media(kind: str, data: str, what: str) -> OutputBlock:
    if not data:
        return TextBlock(f"[Empty {what}: {kind}]")
    source = Base64Source(kind, data)
    return AudioBlock(source) if kind.startswith("audio/") else ImageBlock(source)


def _is_empty(content: ContentBlock) -> bool:
    return isinstance(content, TextContent) and not content.text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
