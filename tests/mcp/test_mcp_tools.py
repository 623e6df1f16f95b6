"""Tools of a server as tools of ours: which, with what schemas, what they give, and what becomes of them."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from reactivex import operators as ops

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.errors import ConfigurationError, DuplicateToolError, McpClosedError, McpError, MissingExtraError
from agentscope_rx.messages import AudioBlock, Base64Source, ImageBlock, TextBlock, ToolResultBlock, ToolResultKind
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.testing.scripted_model import call as called
from agentscope_rx.tools import ToolChunk
from agentscope_rx.tools.mcp import McpClient, McpInMemory, McpTool
from tests.mcp.parts import begun, call, near, use
from tests.support import mcp_server

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])


class TestWhich:
    def test_all_that_the_server_lists_in_its_order(self) -> None:
        with near() as toolkit:
            assert toolkit.names[:3] == ("add", "draw", "nothing")
            # a name that no model accepts
            assert toolkit.names[-1] == "files_read_all"
            assert call(toolkit, "files_read_all").text == "all"

    @pytest.mark.spec("case 119")
    def test_enabled_and_disabled(self) -> None:
        """Disable excludes; enable keeps only those."""
        client = McpClient(McpInMemory(mcp_server.make()))
        toolkit = Toolkit()
        toolkit.register_mcp(client, enable=["draw", "add"], prefix="demo_").run()
        toolkit.register_mcp(client, enable=["draw", "nothing"], disable=["nothing"]).run()
        assert toolkit.names == ("demo_add", "demo_draw", "draw")
        assert call(toolkit, "demo_add", a=1, b=2).text == "3"
        client.close().run()

    @pytest.mark.parametrize("option", ["enable", "disable"])
    def test_a_name_that_the_server_does_not_list(self, option: Any) -> None:
        toolkit = Toolkit()
        with pytest.raises(ConfigurationError, match=r"'ad'.*add"):
            toolkit.register_mcp(McpInMemory(mcp_server.make()), **{option: ["ad"]}).run()
        assert len(toolkit) == 0 and not toolkit.mcp

    @pytest.mark.spec("case 119")
    def test_all_or_none(self) -> None:
        """Case 119, mended: a registration that fails half-way registers nothing, and closes what it opened."""

        @tool
        def nothing() -> None:
            """Of the same name as one of the server's."""

        toolkit = Toolkit([nothing])
        with pytest.raises(DuplicateToolError):
            toolkit.register_mcp(McpInMemory(mcp_server.make())).run()
        assert toolkit.names == ("nothing",) and not toolkit.mcp
        toolkit.register_mcp(McpInMemory(mcp_server.make()), enable=["nothing"], on_conflict="rename").run()
        assert toolkit.names == ("nothing", "nothing_2")
        toolkit.close().run()

    @pytest.mark.spec("W59", "case 119")
    def test_presets_are_hidden_and_win(self) -> None:
        """One rule for presets, the registry's."""
        toolkit = Toolkit()
        server = McpInMemory(mcp_server.make())
        toolkit.register_mcp(server, enable=["add"], presets={"add": {"b": 40}}).run()
        schema = toolkit.schema("add")
        assert schema is not None and list(schema.parameters["properties"]) == ["a"]  # pyright: ignore[reportArgumentType]
        assert call(toolkit, "add", a=2).text == "42"
        assert call(toolkit, "add", a=2, b=1).text == "42"
        toolkit.close().run()

    def test_groups(self) -> None:
        toolkit = Toolkit()
        toolkit.create_tool_group("sums", "Adding up")
        toolkit.register_mcp(McpInMemory(mcp_server.make()), enable=["add"], group="sums").run()
        assert not toolkit.schemas() and toolkit.groups_of("add") == ("sums",)
        toolkit.update_tool_groups(["sums"], active=True)
        assert call(toolkit, "add", a=1, b=2).text == "3"
        toolkit.remove_mcp("demo").run()
        assert "add" not in toolkit and toolkit.groups_of("add") == ()

    def test_a_name_that_was_taken_stays_with_who_has_it(self) -> None:
        @tool
        def add() -> None:
            """Not the server's."""

        toolkit = Toolkit([add])
        registered = toolkit.register_mcp(McpInMemory(mcp_server.make()), enable=["add"], on_conflict="skip").run()
        assert registered == (toolkit.get("add"),)
        toolkit.remove_mcp("demo").run()
        assert toolkit.names == ("add",)

    def test_two_servers_of_one_name(self) -> None:
        toolkit = Toolkit()
        toolkit.register_mcp(McpInMemory(mcp_server.make()), enable=["add"]).run()
        with pytest.raises(ConfigurationError, match="name="):
            toolkit.register_mcp(McpInMemory(mcp_server.make()), enable=["draw"]).run()
        toolkit.register_mcp(McpInMemory(mcp_server.make()), enable=["draw"], name="other").run()
        assert list(toolkit.mcp) == ["demo", "other"]
        toolkit.remove_mcp("demo").run()
        assert toolkit.names == ("draw",) and list(toolkit.mcp) == ["other"]
        with pytest.raises(ConfigurationError, match="it has other"):
            toolkit.remove_mcp("demo").run()
        toolkit.close().run()

    def test_a_schema_that_cannot_be_checked_is_told_with_a_way_on(self) -> None:
        tools = mcp_server.Tools()
        bad = {"type": "object", "properties": {"x": {"$ref": "https://example.com/x.json"}}}
        listed = tools.listed
        tools.listed = lambda: [types.Tool(name="bad", input_schema=bad), *listed()]  # type: ignore[method-assign]
        toolkit = Toolkit()
        with pytest.raises(ConfigurationError, match=r"disable=\['bad'\]"):
            toolkit.register_mcp(McpInMemory(mcp_server.make(tools))).run()
        toolkit.register_mcp(McpInMemory(mcp_server.make(tools)), disable=["bad"]).run()
        assert "bad" not in toolkit and "add" in toolkit
        toolkit.close().run()


class TestSchemas:
    @pytest.mark.spec("case 120")
    def test_as_given(self) -> None:
        """References, both $defs and definitions, unions, no properties; the output's schema is kept."""
        with near() as toolkit:
            draw, nothing, add = toolkit.get("draw"), toolkit.get("nothing"), toolkit.get("add")
            assert draw is not None and draw.parameters == mcp_server.SHAPES
            assert nothing is not None and nothing.parameters == {"type": "object"}
            assert isinstance(add, McpTool) and add.output_schema == mcp_server.SUM

    def test_arguments_are_checked_here(self) -> None:
        with near() as toolkit:
            wrong = call(toolkit, "draw", shape={"radius": "wide"})
            assert wrong.kind is ToolResultKind.INVALID_ARGUMENTS and "radius" in wrong.text
            assert call(toolkit, "draw", shape={"side": 2}, tags=None).text == "{'shape': {'side': 2}}"

    def test_hints_say_who_must_be_asked(self) -> None:
        toolkit = Toolkit()
        toolkit.register_mcp(
            McpInMemory(mcp_server.make()), enable=["add", "draw"], requires_approval=lambda t: not t.hints.read_only
        ).run()
        add = toolkit.get("add")
        assert isinstance(add, McpTool) and add.hints.read_only and add.hints.destructive is False
        assert add.read_only and not toolkit.get("draw").read_only, "plan mode allows what the server declares"
        assert not toolkit.needs_approval(use("add", a=1, b=2))
        assert toolkit.needs_approval(use("draw", shape={"side": 2}))
        toolkit.close().run()


class TestResults:
    @pytest.mark.spec("case 121")
    def test_content(self) -> None:
        """Each kind of content, what is empty, what no model can read."""
        with near() as toolkit:
            output = call(toolkit, "mixed").output
        assert output == (
            TextBlock("words"),
            ImageBlock(Base64Source("image/png", mcp_server.PIXEL)),
            AudioBlock(Base64Source("audio/wav", "AAAA")),
            TextBlock("a file"),
            ImageBlock(Base64Source("image/png", mcp_server.PIXEL)),
            TextBlock("[Binary resource: application/pdf, URI: file:///a.pdf]"),
            TextBlock("[Resource b.txt (file:///b.txt, text/plain): more]"),
            TextBlock("[Empty image content: image/png]"),
        )

    def test_nothing_is_done(self) -> None:
        with near() as toolkit:
            assert call(toolkit, "nothing").text == "Done."

    def test_structured_content_is_kept(self) -> None:
        with near() as toolkit:
            result = call(toolkit, "add", a=1, b=2)
        assert result.text == "3" and result.metadata == {"structured": {"sum": 3}}

    @pytest.mark.spec("case 120", "case 121")
    def test_errors(self) -> None:
        """A failing tool is a failed result with all of its text, or with words for none."""
        with near() as toolkit:
            failed, mute = call(toolkit, "fail"), call(toolkit, "fail_mute")
        assert failed.kind is ToolResultKind.FAILED and failed.text == "Error: no luck\nat all"
        assert mute.kind is ToolResultKind.FAILED and mute.text == "Error: The tool failed without a message."

    @pytest.mark.spec("case 120")
    @BOTH
    def test_an_error_of_the_protocol(self, mode: str) -> None:
        tools = mcp_server.Tools()
        with near(tools, mode=mode) as toolkit:
            tools.go_on = None  # type: ignore[assignment]
            result = call(toolkit, "slow")
            assert result.kind is ToolResultKind.FAILED and "MCP server 'demo' answered with error" in result.text
            assert call(toolkit, "nothing").text == "Done."


class TestProgress:
    @BOTH
    def test_progress_is_shown_before_the_result(self, mode: str) -> None:
        """Progress notifications are chunks of the call, in order."""
        with near(mode=mode) as toolkit:
            *chunks, result = toolkit.call(use("steps")).pipe(ops.to_list()).run()
        assert [chunk.output[0].text for chunk in chunks] == ["one", "2/3", "3"]  # type: ignore[union-attr]
        assert isinstance(result, ToolResultBlock) and result.text == "three steps"

    @BOTH
    def test_log_messages_are_logged(self, mode: str, caplog: pytest.LogCaptureFixture) -> None:
        with near(mode=mode) as toolkit, caplog.at_level(logging.DEBUG, "agentscope_rx.mcp"):
            assert call(toolkit, "log").text == "logged"
        assert [(each.name, each.levelname, each.message) for each in caplog.records] == [
            ("agentscope_rx.mcp.demo.server", "WARNING", "look out")
        ]


class TestChanges:
    @BOTH
    def test_tools_follow_the_server(self, mode: str) -> None:
        from tests.mcp.parts import STDIO

        server = STDIO if mode == "legacy" else McpInMemory(mcp_server.make())
        client = McpClient(server, name="demo", mode=mode)
        toolkit = Toolkit()
        toolkit.register_mcp(client, prefix="demo_").run()
        view = toolkit.copy()

        @tool
        def last() -> None:
            """Registered later: what changes before stays before."""

        toolkit.register(last)
        before = toolkit.names
        # each is told by itself, in any order
        refreshed = [refreshes(each) for each in (toolkit, view)]
        try:
            assert call(toolkit, "demo_grow").text == "grown"
            assert all(each.wait(60) for each in refreshed)
            assert toolkit.names == (*before[:2], "demo_nothing_more", *before[2:])
            assert toolkit.names[-1] == "last"
            assert call(toolkit, "demo_nothing_more").kind is ToolResultKind.FAILED
            assert "demo_nothing_more" in view and "last" not in view
        finally:
            client.close().run()


def refreshes(toolkit: Toolkit) -> Any:
    """An event that is set when the toolkit's tools have been replaced."""
    import threading

    event = threading.Event()
    replace = toolkit.replace_tools

    def replace_tools(*args: Any) -> Any:
        try:
            return replace(*args)
        finally:
            event.set()

    toolkit.replace_tools = replace_tools  # type: ignore[method-assign]
    return event


class TestLife:
    def test_one_connection_for_all_loops(self) -> None:
        """Opened by one run(), used by others and by loops of their own, closed by another: one task holds it."""
        with near() as toolkit:
            assert call(toolkit, "add", a=1, b=2).text == "3"
            session = toolkit.mcp["demo"]._connections.session

            async def on_another_loop() -> str:
                first, second = await asyncio.gather(
                    toolkit.call(use("add", a=1, b=2)), toolkit.call(use("steps", "2"))
                )
                assert isinstance(first, ToolResultBlock) and isinstance(second, ToolResultBlock)
                return f"{first.text} {second.text}"

            assert asyncio.run(on_another_loop()) == "3 three steps"
            assert asyncio.run(on_another_loop()) == "3 three steps"
            assert toolkit.mcp["demo"]._connections.session is session

    def test_an_agent(self) -> None:
        with near() as toolkit:
            agent = ReActAgent("Friday", ScriptedModel(called("add", a=40, b=2), "42"), toolkit=toolkit)
            assert agent.call("What is 40 + 2?").run().text == "42"

    @pytest.mark.spec("case 122")
    def test_closed(self) -> None:
        """A call after the end says so; closing twice is nothing new; nor does anything connect again."""
        with near() as toolkit:
            client = toolkit.mcp["demo"]
            client.close().run()
            client.close().run()
            result = call(toolkit, "add", a=1, b=2)
            assert result.kind is ToolResultKind.FAILED and "has been closed" in result.text
            with pytest.raises(McpClosedError, match="'demo'"):
                client.tools().run()

    @pytest.mark.spec("case 122")
    def test_connected_when_it_is_needed_and_once(self) -> None:
        """A client that was not connected connects; calls that come together share the connection."""
        made: list[object] = []

        class Counted(McpInMemory):
            def link(self) -> Any:
                made.append(self)
                return super().link()

        client = McpClient(Counted(mcp_server.make()))

        async def together() -> None:
            await asyncio.gather(client.tools(), client.resources(), client.prompts())

        asyncio.run(together())
        assert len(made) == 1
        client.close().run()

    def test_an_unreferenced_client_closes(self) -> None:
        client = McpClient(McpInMemory(mcp_server.make()))
        client.tools().run()
        session = client._connections.session
        assert session is not None
        del client
        assert session.exited.wait(10)

    @BOTH
    def test_calls_in_progress_when_it_is_closed(self, mode: str) -> None:
        async def closed() -> ToolResultBlock:
            async with toolkit.call(use("slow")) as events:
                await begun(events)
                await toolkit.mcp["demo"].close()
                result = await anext(events)
                assert isinstance(result, ToolResultBlock)
                return result

        with near(mode=mode) as toolkit:
            result = asyncio.run(closed())
        assert result.kind is ToolResultKind.FAILED and "has been closed" in result.text

    @pytest.mark.spec("W62")
    def test_copies_and_their_servers(self) -> None:
        """A copy knows its servers; closing it closes nothing of the original's."""
        toolkit = Toolkit()
        toolkit.register_mcp(McpInMemory(mcp_server.make())).run()
        other = toolkit.copy()
        assert list(other.mcp) == ["demo"]
        other.close().run()
        assert call(toolkit, "nothing").text == call(other, "nothing").text == "Done."
        other.remove_mcp("demo").run()
        assert "nothing" in toolkit and "nothing" not in other
        toolkit.close().run()
        assert "has been closed" in call(toolkit, "nothing").text


class TestCancellation:
    @BOTH
    @pytest.mark.parametrize("home", [True, False])
    def test_a_call_that_is_left_is_cancelled_over_there(self, mode: str, home: bool) -> None:
        tools = mcp_server.Tools()

        async def leave() -> None:
            async with toolkit.call(use("slow")) as events:
                await begun(events)

        with near(tools, mode=mode) as toolkit:
            if home:
                client = toolkit.mcp["demo"]
                assert client is not None
                chunks = toolkit.call(use("slow")).pipe(ops.take(1)).run()
                assert isinstance(chunks, ToolChunk)
            else:
                asyncio.run(leave())
            assert call(toolkit, "was_cancelled").text == "yes"

    def test_a_deadline(self) -> None:
        toolkit = Toolkit(execution_config=ExecutionConfig(idle_timeout=0.5))
        with near(toolkit=toolkit):
            result = call(toolkit, "slow")
            assert result.kind is ToolResultKind.TIMEOUT
            assert call(toolkit, "was_cancelled").text == "yes"

    def test_a_silent_server_is_not_waited_for_without_end(self) -> None:
        class Mute(McpInMemory):
            def link(self) -> Any:
                from contextlib import asynccontextmanager

                import anyio

                from agentscope_rx.tools.mcp.server import McpStreams

                @asynccontextmanager
                async def streams() -> Any:
                    heard, read = anyio.create_memory_object_stream[Any](0)
                    write, written = anyio.create_memory_object_stream[Any](10)
                    with heard, read, write, written:
                        yield read, write

                return McpStreams(streams())

        client = McpClient(Mute(mcp_server.make()), name="mute", connect_timeout=0.1)
        with pytest.raises(McpError, match=r"'mute' did not answer within 0\.1 s"):
            client.tools().run()
        client.close().run()


class TestErrors:
    def test_an_answer_that_is_not_as_the_tool_says(self) -> None:
        class Wrong(mcp_server.Tools):
            async def do_add(self, context: Any, params: Any) -> Any:
                return types.CallToolResult(content=[], structured_content={"sum": "many"})

        with near(Wrong()) as toolkit:
            result = call(toolkit, "add", a=1, b=2)
        assert result.kind is ToolResultKind.FAILED and "cannot be used" in result.text

    def test_what_the_server_wants_in_its_headers_is_looked_up(self) -> None:
        class Strict(mcp_server.Tools):
            calls = 0

            async def do_nothing(self, context: Any, params: Any) -> Any:
                self.calls += 1
                if self.calls == 1:
                    raise MCPError(types.HEADER_MISMATCH, "list me first")
                return types.CallToolResult(content=[])

        with near(Strict()) as toolkit:
            assert call(toolkit, "nothing").text == "Done."

    def test_a_page_that_has_to_be_visited(self) -> None:
        class Gated(mcp_server.Tools):
            async def do_nothing(self, context: Any, params: Any) -> Any:
                raise UrlElicitationRequiredError(
                    [types.ElicitRequestURLParams(message="Sign in", url="https://example.com/in", elicitation_id="1")]
                )

        with near(Gated(), mode="legacy") as toolkit:
            assert "Sign in: https://example.com/in" in call(toolkit, "nothing").text

    def test_without_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.startswith("agentscope_rx.tools.mcp")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(MissingExtraError, match=r"agentscope-rx\[mcp\]"):
            Toolkit().register_mcp(McpInMemory(mcp_server.make()))


class TestMore:
    def test_resources_and_prompts(self) -> None:
        with near() as toolkit:
            client = toolkit.mcp["demo"]
            assert [each.name for each in client.resources().run()] == ["notes"]
            assert client.read_resource("memo://notes").run() == (TextBlock("remember"),)
            assert [each.name for each in client.prompts().run()] == ["greet"]
            (message,) = client.prompt("greet", {"who": "Ada"}).run()
            assert message.text == "Greet Ada." and message.role == "user"

    def test_wrong_options(self) -> None:
        with pytest.raises(ConfigurationError, match="McpStdio"):
            McpClient("uvx")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="connect_timeout"):
            McpClient(McpInMemory(mcp_server.make()), connect_timeout=0)
        with pytest.raises(ConfigurationError, match="'auto', 'legacy'"):
            McpClient(McpInMemory(mcp_server.make()), mode="new")
        with pytest.raises(ConfigurationError, match="a list of names"):
            Toolkit().register_mcp(McpInMemory(mcp_server.make()), enable="add")
