"""The results of MCP tools: as blocks for a model, and checked against their output schemas.

| content                                  | output                                                       |
|------------------------------------------|--------------------------------------------------------------|
| text                                     | the text                                                     |
| image, audio                             | the block; without data, a note                              |
| resource with text                       | its text                                                     |
| resource with bytes: image/*, audio/*    | the block                                                    |
| resource with other bytes                | text that names its type and URI                             |
| link to a resource                       | text with its name and URI                                   |
| only structured content                  | its JSON                                                     |
| nothing                                  | "Done."; for an error "The tool failed without a message."   |

Structured content is also in the result's metadata, under `structured`. An error is a result of kind `failed`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

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

from agentscope_rx.errors import ConfigurationError
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
from agentscope_rx.tools.schemas.foreign import ReadSchema, read_schema
from agentscope_rx.tools.schemas.guarded import TooComplexError
from agentscope_rx.tools.schemas.stepwise import found

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from mcp.client.session import ClientSession

NO_MESSAGE = "The tool failed without a message."


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
    """The server's answer as the result of `call`."""
    output = tuple(block_of(each) for each in given.content if not _is_empty(each))
    metadata: dict[str, object] = {}
    if given.structured_content is not None:
        metadata["structured"] = given.structured_content
    if given.is_error:
        text = "\n".join(block.text for block in output if isinstance(block, TextBlock))
        media = tuple(block for block in output if not isinstance(block, TextBlock))
        if not text:
            text = _json(given.structured_content) if metadata else NO_MESSAGE
        error = ToolResultBlock.error(call, ToolResultKind.FAILED, text)
        return ToolResultBlock(call.id, call.name, (*error.output, *media), ToolResultKind.FAILED, metadata)
    if not output:
        output = (TextBlock(_json(given.structured_content)),) if metadata else DONE
    return ToolResultBlock(call.id, call.name, output, None, metadata)


def messages_of(prompt: GetPromptResult, server: str) -> tuple[Msg, ...]:
    """A prompt as messages; those of the assistant have the server's name."""
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


# --- output schemas ---------------------------------------------------------------------------------------------------


class OutputValidator:
    """The part of a jsonschema validator that the SDK uses, within the limits of foreign schemas."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self._name = name
        self._schema: ReadSchema = _read_schema(name, schema)

    def iter_errors(self, value: object) -> Iterable[ValidationError]:
        try:
            return found(self._schema, value)
        except TooComplexError as error:
            raise RuntimeError(
                f"The structured content of tool {self._name} is too complex to check: {error}"
            ) from None


def check_outputs(session: ClientSession) -> None:
    """Make the session use `OutputValidator`: its own validator is jsonschema's, which may block the loop."""
    validators: dict[str, tuple[dict[str, Any], OutputValidator]] = {}

    def validator(name: str, schema: dict[str, Any]) -> OutputValidator:
        known = validators.get(name)
        if known is None or known[0] is not schema:
            known = validators[name] = (schema, OutputValidator(name, schema))
        return known[1]

    # the SDK has no parameter for it: the session makes its validators itself
    vars(session)["_output_schema_validator"] = validator


def _read_schema(name: str, schema: dict[str, Any]) -> ReadSchema:
    try:
        return read_schema(schema)
    except ConfigurationError as error:
        # the SDK's error for an invalid schema
        raise RuntimeError(f"Invalid output schema of tool {name}: {error}") from None
