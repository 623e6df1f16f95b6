"""A toolkit as a server: driven by the SDK's own client, and by ours."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from agentscope_rx import ReActAgent, RuntimeContext, Toolkit, ToolSuspend, tool
from agentscope_rx.errors import ConfigurationError, SetupError
from agentscope_rx.messages import (
    Base64Source,
    FileBlock,
    FramesSource,
    ImageBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.tools import ToolContext
from agentscope_rx.tools.mcp import McpClient, McpHttp, McpInMemory, mcp_server
from tests.mcp.parts import call
from tests.support.mcp_server import PIXEL

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Desk:
    """Tools to serve, and what became of them."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.deleted: list[str] = []

    @tool
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool
    async def count(self, to: int) -> Any:
        """Count."""
        for number in range(1, to + 1):
            yield f"at {number}"

    @tool
    async def wait(self) -> None:
        """Wait until the call is left."""
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()

    @tool
    async def picture(self) -> Any:
        """A picture, and where to find others."""
        video = VideoBlock(Base64Source("video/mp4", "AAAA"))
        frames = VideoBlock(FramesSource((Base64Source("image/png", PIXEL), URLSource("https://example.com/b.png"))))
        image = Base64Source("image/png", PIXEL)
        file = FileBlock(Base64Source("application/pdf", "AAAA"), "a b.pdf")
        return [ImageBlock(image), ImageBlock(URLSource("https://example.com/a.png")), video, frames, file]

    @tool(requires_approval=True)
    async def delete(self, path: str) -> str:
        """Delete a file."""
        self.deleted.append(path)
        return f"deleted {path}"

    @tool
    async def sign(self) -> None:
        """Have it signed."""
        raise ToolSuspend("Waiting for the director")

    @tool
    async def whoami(self, context: RuntimeContext, own: ToolContext) -> str:
        """Who is asking."""
        return f"{context.user_id} {own.call.name}"


def words(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def approve(context: Any, params: Any) -> types.ElicitResult:
    assert "delete" in params.message
    return types.ElicitResult(action="accept", content={"approve": params.message.count("old") > 0})


@asynccontextmanager
async def client_of(desk: Desk, mode: str, **options: Any) -> AsyncIterator[Client]:
    server = mcp_server(Toolkit([desk]), name="desk", context=RuntimeContext(user_id="ada"))
    async with Client(server, mode=mode, **options) as client:
        yield client


@BOTH
class TestByTheSdk:
    def test_calls(self, mode: str) -> None:
        async def main() -> None:
            desk = Desk()
            async with client_of(desk, mode) as client:
                listed = (await client.list_tools()).tools
                assert [each.name for each in listed] == list(Toolkit([desk]).names)
                assert listed[0].description == "Add two numbers." and listed[0].input_schema["required"] == ["a", "b"]
                assert words(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
                wrong = await client.call_tool("add", {"a": "x", "b": 2})
                assert wrong.is_error and words(wrong).startswith("Invalid arguments for tool 'add'")
                assert (await client.call_tool("ad", {})).is_error
                assert words(await client.call_tool("whoami", {})) == "ada whoami"
                waiting = await client.call_tool("sign", {})
                assert waiting.is_error and "Waiting for the director" in words(waiting)

        asyncio.run(main())

    def test_progress(self, mode: str) -> None:
        async def main() -> None:
            heard: list[tuple[float, str | None]] = []

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                heard.append((progress, message))

            async with client_of(Desk(), mode) as client:
                assert words(await client.call_tool("count", {"to": 3}, progress_callback=on_progress)) == "at 3"
            assert heard == [(1, "at 1"), (2, "at 2"), (3, "at 3")]

        asyncio.run(main())

    def test_media(self, mode: str) -> None:
        async def main() -> None:
            async with client_of(Desk(), mode) as client:
                image, link, video, first, second, file = (await client.call_tool("picture", {})).content
            assert isinstance(image, types.ImageContent) and image.data == PIXEL
            assert isinstance(link, types.ResourceLink) and link.uri == "https://example.com/a.png"
            assert isinstance(video, types.EmbeddedResource) and video.resource.mime_type == "video/mp4"
            assert isinstance(first, types.ImageContent) and isinstance(second, types.ResourceLink)
            assert isinstance(file, types.EmbeddedResource) and file.resource.uri == "result://a%20b.pdf"

        asyncio.run(main())

    def test_cancellation_stops_the_tool(self, mode: str) -> None:
        async def main() -> None:
            desk = Desk()
            async with client_of(desk, mode) as client:
                with pytest.raises(Exception, match=r"[Tt]imed out"):
                    await client.call_tool("wait", {}, read_timeout_seconds=0.05)
                await desk.left.wait()

        asyncio.run(main())

    def test_approval_is_asked_for(self, mode: str) -> None:
        async def main() -> None:
            desk = Desk()
            async with client_of(desk, mode, elicitation_callback=approve) as client:
                assert words(await client.call_tool("delete", {"path": "old.txt"})) == "deleted old.txt"
                no = await client.call_tool("delete", {"path": "new.txt"})
                assert no.is_error and "was not approved" in words(no)
            async with client_of(desk, mode) as client:
                no = await client.call_tool("delete", {"path": "old.txt"})
                assert no.is_error and "cannot ask for it" in words(no)
            assert desk.deleted == ["old.txt"]

        asyncio.run(main())


class TestByOurs:
    def test_there_and_back(self) -> None:
        """Schemas, results and errors look from far away as they do from near."""
        here = Toolkit([Desk()])
        there = Toolkit()
        there.register_mcp(McpInMemory(mcp_server(here, name="desk"))).run()
        assert there.names == here.names
        for name in here.names:
            near, far = here.schema(name), there.schema(name)
            assert near is not None and far is not None
            assert (near.parameters, near.description) == (far.parameters, far.description)
        assert call(there, "add", a=1, b=2).output == call(here, "add", a=1, b=2).output
        assert call(there, "wait_", a=1).text.startswith("Error: There is no tool")
        waiting = call(there, "delete", path="old.txt")
        assert "needs approval" in waiting.text
        there.mcp["desk"].answer(waiting, {"approve": True})
        assert call(there, "delete", path="old.txt").text == "deleted old.txt"
        there.close().run()

    def test_tools_that_only_read_are_declared_as_such(self) -> None:
        first, second = Toolkit(), Toolkit()

        def look() -> str:
            """Looks."""
            return "x"

        first.register(look, read_only=True)
        second.register_mcp(McpInMemory(mcp_server(first))).run()
        assert second.get("look").read_only  # type: ignore[union-attr]
        second.close().run()

    def test_hints_are_passed_on(self) -> None:
        from tests.support.mcp_server import make

        first, second = Toolkit(), Toolkit()
        first.register_mcp(McpInMemory(make()), enable=["add"]).run()
        second.register_mcp(McpInMemory(mcp_server(first))).run()
        assert second.get("add").hints.read_only is True  # type: ignore[union-attr]
        assert second.get("add").read_only  # type: ignore[union-attr]
        assert call(second, "add", a=1, b=2).metadata == {"structured": {"sum": 3}}
        second.close().run()
        first.close().run()

    def test_by_http(self) -> None:
        async def main() -> None:
            async with Toolkit([Desk()]).serve_mcp(name="desk", transport="http", port=0) as served:
                url = await anext(served)
                client = McpClient(McpHttp(url))
                toolkit = Toolkit()
                await toolkit.register_mcp(client)
                result = await toolkit.call(ToolUseBlock("1", "add", {"a": 1, "b": 2}))
                assert result.text == "3"  # type: ignore[union-attr]
                async with Client(url) as official:
                    assert words(await official.call_tool("add", {"a": 20, "b": 22})) == "42"
                await client.close()

        asyncio.run(main())

    @BOTH
    def test_a_server_that_was_started_anew_between_calls(self, mode: str) -> None:
        """It knows nothing of the session: the request is made again on a new one."""
        toolkit = Toolkit()

        async def main() -> None:
            async with Toolkit([Desk()]).serve_mcp(transport="http", port=0) as served:
                url = await anext(served)
                client = McpClient(McpHttp(url), mode=mode)
                await toolkit.register_mcp(client)
            port = int(url.split(":")[2].split("/")[0])
            async with Toolkit([Desk()]).serve_mcp(transport="http", port=port) as served:
                await anext(served)
                result = await toolkit.call(ToolUseBlock("1", "add", {"a": 1, "b": 2}))
                assert result.text == "3"  # type: ignore[union-attr]
                await client.close()

        asyncio.run(main())

    def test_a_port_that_is_taken(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(SetupError, match=f"{port}"):
                Toolkit().serve_mcp(transport="http", port=port).run()
        with pytest.raises(ConfigurationError, match="'smoke'"):
            Toolkit().serve_mcp(transport="smoke")  # type: ignore[arg-type]

    def test_by_stdio(self, tmp_path: Path) -> None:
        """A program of one line; its end is the end of its input."""
        program = tmp_path / "desk.py"
        program.write_text(
            "from agentscope_rx import Toolkit\n"
            "def add(a: int, b: int) -> int:\n"
            "    '''Add.'''\n"
            "    print('not for the wire')\n"
            "    return a + b\n"
            "Toolkit([add]).serve_mcp(name='desk').run()\n"
            "print('ended')\n"
        )
        root = str(Path(__file__).parents[2])

        async def main() -> None:
            parameters = StdioServerParameters(command=sys.executable, args=[str(program)], env={"PYTHONPATH": root})
            async with Client(parameters) as client:
                assert words(await client.call_tool("add", {"a": 1, "b": 2})) == "3"

        asyncio.run(main())


class TestAgents:
    def test_an_agent_as_a_tool(self) -> None:
        agent = ReActAgent("Friday", ScriptedModel("It is sunny.", "Still."))

        async def main() -> None:
            async with Client(mcp_server(Toolkit([agent.as_tool()]))) as client:
                first = await client.call_tool("call_friday", {"message": "Weather?"})
                assert "It is sunny." in words(first)
                second = await client.call_tool("call_friday", {"message": "Now?"})
                assert "Still." in words(second) and not second.is_error

        asyncio.run(main())
