"""A toolkit as an MCP server: its schemas, its calls with their progress, its errors.

| here                                      | for the client                                                       |
|-------------------------------------------|----------------------------------------------------------------------|
| the available tools                       | `tools/list`, in the toolkit's order                                 |
| a chunk of a call                         | a progress notification, if it asked for them                        |
| text, image, audio; video, file           | the same; an embedded resource, a video of frames as images          |
| media by URL; in a local file             | a link to the resource; its bytes                                    |
| an error, or a suspended result           | `isError`, with the text                                             |
| a call that needs approval                | a question for it, if it takes questions; else `isError`             |
| cancellation, or the connection's end     | the call is disposed                                                 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from mcp.server import Server, ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as Listed
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ApprovalError, InvalidInputError
from agentscope_rx.guard import GuardOptions, RequestGuard
from agentscope_rx.guard.guard import LOOPBACK_HOSTS
from agentscope_rx.messages import (
    Base64Source,
    FileBlock,
    FramesSource,
    Msg,
    OutputBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.wire.media import address_of, has_files, read_files
from agentscope_rx.reactive import on_worker
from agentscope_rx.tools.calls.signals import ToolChunk
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.mcp.tool import McpAnnotations

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from agentscope_rx.tools.base import ToolSource

Context = ServerRequestContext[Any, Any]

_ASK = "approve"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_ASK: {"type": "boolean", "title": "Let it run", "default": False}},
    "required": [_ASK],
}
_PREFIX = "Error: "


def mcp_server(
    toolkit: ToolSource,
    *,
    name: str = "toolkit",
    instructions: str | None = None,
    context: RuntimeContext | None = None,
) -> Server[Any]:
    """A server object of the SDK over this toolkit, for any transport of the SDK.

    Each call gets `context`, because there is no agent to provide one.
    """
    served = _Served(toolkit, context)
    return Server(name, instructions=instructions, on_list_tools=served.list_tools, on_call_tool=served.call_tool)


def mcp_app(
    toolkit: ToolSource,
    *,
    name: str = "toolkit",
    path: str = "/mcp",
    host: str = "127.0.0.1",
    instructions: str | None = None,
    context: RuntimeContext | None = None,
    token: str | None = None,
    guard: GuardOptions | None = None,
) -> Starlette:
    """An ASGI application that serves this toolkit by streamable HTTP at `path`. Its lifespan has to run.

    Clients get the schemas of the available tools, progress, results with images, errors as `isError`, and may cancel.
    The client confirms a call that needs approval; one that cannot ask gets a refusal. A suspended call is an error,
    because a client cannot answer it.

    With a `token` requests need `Authorization: Bearer <token>`. Without one only clients on this machine are answered,
    under the names `localhost`, `127.0.0.1`, `[::1]` and `host`, and no web pages of other origins. `guard` has further
    host names and origins, the size of a body (10 MiB) and the open requests of a client (32); without a guard the
    requests a minute are not limited.
    """
    guard = guard or GuardOptions(client_requests_per_minute=None)
    if host not in (*LOOPBACK_HOSTS, "::1", "0.0.0.0", "::", ""):  # noqa: S104 - not bound: compared with
        own = f"[{host}]" if ":" in host else host
        guard = replace(guard, allowed_hosts=(*guard.allowed_hosts, own))
    if token is not None:
        guard = replace(guard, token=token)
    server = mcp_server(toolkit, name=name, instructions=instructions, context=context)
    app = server.streamable_http_app(
        streamable_http_path=path,
        host=host,
        # `RequestGuard` checks hosts and origins
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=guard.max_body_bytes,
    )
    app.add_middleware(RequestGuard, options=guard)
    return app


class _Served:
    """The handlers of one server."""

    def __init__(self, toolkit: ToolSource, runtime: RuntimeContext | None) -> None:
        self._toolkit = toolkit
        self._runtime = runtime

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """All that are available, on one page."""
        return ListToolsResult(tools=[self._listed(schema) for schema in self._toolkit.schemas()])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        """One call, after approval if it needs one."""
        call = ToolUseBlock(f"mcp-{context.request_id}", params.name, params.arguments or {})
        try:
            if self._toolkit.needs_approval(call):
                refusal = await _approval(context, params, call)
                if refusal is not None:
                    return refusal
        except ApprovalError as error:
            return _error(str(error))
        own = ToolContext(call, runtime=self._runtime, toolkit=self._toolkit)
        done = 0
        async with self._toolkit.call(call, context=own) as events:
            async for event in events:
                if isinstance(event, ToolResultBlock):
                    return await _with_files(event)
                if isinstance(event, ToolChunk):
                    done += 1
                    text = "\n".join(block.text for block in event.output if isinstance(block, TextBlock))
                    await context.session.report_progress(done, message=text or None)
        raise AssertionError("a call ends with its result")

    def _listed(self, schema: ToolSchema) -> Listed:
        tool = self._toolkit.get(schema.name)
        hints = getattr(tool, "hints", None)
        if hints is None and tool is not None and tool.read_only:
            hints = McpAnnotations(read_only=True)
        return Listed(
            name=schema.name,
            description=schema.description or None,
            input_schema=thaw(schema.parameters),
            annotations=_annotations(hints) if isinstance(hints, McpAnnotations) else None,
        )


async def _approval(
    context: Context, params: CallToolRequestParams, call: ToolUseBlock
) -> CallToolResult | InputRequiredResult | None:
    """None if the client approves the call; else the answer to it."""
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return _error(f"Tool {call.name!r} needs a person's approval, and this client cannot ask for it.")
    message = f"Tool {call.name!r} needs approval. Its arguments: {dict(call.input)!r:.500}"
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        answer = (params.input_responses or {}).get(_ASK)
        if not isinstance(answer, ElicitResult):
            asked = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=_SCHEMA))
            return InputRequiredResult(input_requests={_ASK: asked})
    else:
        answer = await context.session.elicit_form(message, _SCHEMA, related_request_id=context.request_id)
    if answer.action == "accept" and answer.content is not None and answer.content.get(_ASK) is True:
        return None
    return _error(f"The call of tool {call.name!r} was not approved and has not run.")


async def _with_files(result: ToolResultBlock) -> CallToolResult:
    """The answer with the bytes of local files: their paths mean nothing to a client."""
    message = Msg.tool(result)
    if has_files((message,)):
        try:
            (message,) = await on_worker(lambda: read_files((message,)))
        except InvalidInputError as error:
            return _error(str(error))
    return _result(message.tool_results[0])


def _result(result: ToolResultBlock) -> CallToolResult:
    content = [each for block in result.output for each in _contents(block)]
    structured = result.metadata.get("structured")
    if result.kind is ToolResultKind.SUSPENDED:
        return _error(f"This call is suspended, and cannot be continued over MCP: {result.text}")
    if result.is_error and content and isinstance(first := content[0], TextContent):
        # the client adds its own prefix
        content[0] = TextContent(text=first.text.removeprefix(_PREFIX))
    plain = thaw(cast("Mapping[str, object]", structured)) if isinstance(structured, Mapping) else None
    return CallToolResult(content=content, structured_content=plain, is_error=result.is_error)


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _contents(block: OutputBlock) -> list[ContentBlock]:
    if isinstance(block, TextBlock):
        return [TextContent(text=block.text)]
    source = block.source
    if isinstance(source, FramesSource):
        # a video as its images
        return [_media(frame, "image", "frame") for frame in source.frames]
    name = block.name if isinstance(block, FileBlock) and block.name else block.type
    return [_media(source, block.type, name)]


def _media(source: Source, kind: str, name: str) -> ContentBlock:
    if not isinstance(source, Base64Source):
        return ResourceLink(name=name, uri=address_of(source))
    if kind == "image":
        return ImageContent(data=source.data, mime_type=source.media_type)
    if kind == "audio":
        return AudioContent(data=source.data, mime_type=source.media_type)
    uri = f"result://{quote(name)}"
    return EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=source.data, mime_type=source.media_type))


def _annotations(hints: McpAnnotations) -> ToolAnnotations:
    return ToolAnnotations(
        title=hints.title,
        read_only_hint=hints.read_only,
        destructive_hint=hints.destructive,
        idempotent_hint=hints.idempotent,
        open_world_hint=hints.open_world,
    )
