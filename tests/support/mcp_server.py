"""A server made with the official SDK: a program (`mcp_server.py [http|sse PORT]`), or `make()` in this process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
YES = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
NOTHING: dict[str, Any] = {"type": "object"}
SHAPES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "shape": {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["shape"],
    "$defs": {
        "Circle": {"type": "object", "properties": {"radius": {"type": "number"}}, "required": ["radius"]},
        "Square": {"type": "object", "properties": {"side": {"type": "number"}}, "required": ["side"]},
    },
    "definitions": {"Old": {"type": "string"}},
}
ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


def text(value: str) -> types.TextContent:
    return types.TextContent(text=value)


def mixed() -> list[types.ContentBlock]:
    blob = types.BlobResourceContents
    return [
        text("words"),
        types.ImageContent(data=PIXEL, mime_type="image/png"),
        types.AudioContent(data="AAAA", mime_type="audio/wav"),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///a.txt", text="a file")),
        types.EmbeddedResource(resource=blob(uri="file:///a.png", blob=PIXEL, mime_type="image/png")),
        types.EmbeddedResource(resource=blob(uri="file:///a.pdf", blob="AAAA", mime_type="application/pdf")),
        types.ResourceLink(name="b.txt", uri="file:///b.txt", mime_type="text/plain", description="more"),
        types.ImageContent(data="", mime_type="image/png"),
    ]


class Tools:
    """The handlers, and what they have seen."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.more: list[str] = []
        self.cancelled = asyncio.Event()
        self.go_on = asyncio.Event()
        self.asked = 0

    def listed(self) -> list[types.Tool]:
        read_only = types.ToolAnnotations(title="Sum", read_only_hint=True, destructive_hint=False)
        plain = ["nothing", "mixed", "fail", "fail_mute", "slow", "was_cancelled", "die", "ask", "log", "grow", "steps"]
        return [
            types.Tool(name="add", description="Adds.", input_schema=ADD, output_schema=SUM, annotations=read_only),
            types.Tool(name="draw", description="Draws.", input_schema=SHAPES),
            *[types.Tool(name=name, input_schema=NOTHING) for name in [*self.more, *plain]],
            types.Tool(name="files/read.all", input_schema=NOTHING),
        ]

    async def list_tools(self, context: Context, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.listed())

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        name = params.name.replace("/", "_").replace(".", "_")
        return await getattr(self, f"do_{name}")(context, params)

    async def do_add(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        total = given["a"] + given["b"]
        return types.CallToolResult(content=[text(str(total))], structured_content={"sum": total})

    async def do_draw(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[text(repr(params.arguments))])

    async def do_nothing(self, context: Context, params: object) -> types.CallToolResult:
        return types.CallToolResult(content=[])

    async def do_files_read_all(self, context: Context, params: object) -> types.CallToolResult:
        return types.CallToolResult(content=[text("all")])

    async def do_mixed(self, context: Context, params: object) -> types.CallToolResult:
        return types.CallToolResult(content=mixed())

    async def do_fail(self, context: Context, params: object) -> types.CallToolResult:
        return types.CallToolResult(content=[text("no luck"), text("at all")], is_error=True)

    async def do_fail_mute(self, context: Context, params: object) -> types.CallToolResult:
        return types.CallToolResult(content=[], is_error=True)

    async def do_slow(self, context: Context, params: object) -> types.CallToolResult:
        await context.session.report_progress(0, message="begun")
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return types.CallToolResult(content=[text("gone on")])

    async def do_was_cancelled(self, context: Context, params: object) -> types.CallToolResult:
        await self.cancelled.wait()
        return types.CallToolResult(content=[text("yes")])

    async def do_die(self, context: Context, params: object) -> types.CallToolResult:
        print("the last words", file=sys.stderr, flush=True)  # noqa: T201
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    async def do_steps(self, context: Context, params: object) -> types.CallToolResult:
        await context.session.report_progress(1, 3, "one")
        await context.session.report_progress(2, 3)
        await context.session.report_progress(3)
        return types.CallToolResult(content=[text("three steps")])

    async def do_log(self, context: Context, params: object) -> types.CallToolResult:
        with warnings.catch_warnings():
            # (the newer protocol would rather have none)
            warnings.simplefilter("ignore")
            await context.session.send_log_message("warning", "look out", "server")  # pyright: ignore[reportDeprecated]
        return types.CallToolResult(content=[text("logged")])

    async def do_ask(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        self.asked += 1
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            answer = (params.input_responses or {}).get("sure")
            if answer is None:
                asked = types.ElicitRequest(params=types.ElicitRequestFormParams(message="Sure?", requested_schema=YES))
                return types.InputRequiredResult(input_requests={"sure": asked}, request_state="kept")
            assert params.request_state == "kept"
        else:
            answer = await context.session.elicit_form("Sure?", YES, context.request_id)
        return types.CallToolResult(content=[text(f"{answer.action} {answer.content}")])

    async def do_grow(self, context: Context, params: object) -> types.CallToolResult:
        self.more.append("nothing_more")
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self.bus.publish(ToolsListChanged())
        else:
            await context.session.send_tool_list_changed()
        return types.CallToolResult(content=[text("grown")])

    async def list_resources(self, context: Context, params: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="notes", uri="memo://notes")])

    async def read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> Any:
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text="remember")])

    async def list_prompts(self, context: Context, params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="greet")])

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        who = (params.arguments or {}).get("who", "you")
        messages = [types.PromptMessage(role="user", content=text(f"Greet {who}."))]
        return types.GetPromptResult(messages=messages)


def make(tools: Tools | None = None) -> Server[Any]:
    tools = tools or Tools()
    server: Server[Any] = Server(
        "demo",
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
        on_list_resources=tools.list_resources,
        on_read_resource=tools.read_resource,
        on_list_prompts=tools.list_prompts,
        on_get_prompt=tools.get_prompt,
        on_subscriptions_listen=ListenHandler(tools.bus),
    )
    return server


async def serve_stdio() -> None:
    server = make()
    async with stdio_server() as (read, write):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        await server.run(read, write, options)


def serve_sse(port: int) -> None:
    import socket

    import uvicorn
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = SseServerTransport("/messages/")
    server = make()

    class Events:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async with transport.connect_sse(scope, receive, send) as (read, write):
                await server.run(read, write, server.create_initialization_options())
            await Response()(scope, receive, send)

    bound = socket.create_server(("127.0.0.1", port))
    print(f"http://127.0.0.1:{bound.getsockname()[1]}/sse", flush=True)  # noqa: T201
    app = Starlette(routes=[Route("/sse", Events()), Mount("/messages/", transport.handle_post_message)])
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([bound])


def serve_http(port: int) -> None:
    import socket

    import uvicorn

    bound = socket.create_server(("127.0.0.1", port))
    print(f"http://127.0.0.1:{bound.getsockname()[1]}/mcp", flush=True)  # noqa: T201
    uvicorn.Server(uvicorn.Config(make().streamable_http_app(), log_level="error")).run([bound])


if __name__ == "__main__":
    if sys.argv[1:2] == ["sse"]:
        serve_sse(int(sys.argv[2]))
    elif sys.argv[1:2] == ["http"]:
        serve_http(int(sys.argv[2]))
    else:
        anyio.run(serve_stdio)
