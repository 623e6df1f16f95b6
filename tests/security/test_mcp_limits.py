"""MCP servers that say too much, by every way that their words take; and clients that say too much to ours."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError, McpConnectionError, McpLimitError
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.tools import ToolContext
from agentscope_rx.tools.mcp import McpClient, McpHttp, McpStdio, mcp_app, stdio
from agentscope_rx.tools.mcp.limits import Excess, TooMuchError, events, lines
from tests.mcp.parts import call, use
from tests.security import hostile_mcp

FILE = hostile_mcp.__file__
MIB = 1024 * 1024
LIMIT = 2 * MIB


@contextmanager
def hostile(attack: str, limit: int = LIMIT) -> Iterator[McpClient]:
    """A client of a program that does this when its tool is called; the program has ended at the end."""
    # (an interpreter without its site packages starts sooner)
    server = McpStdio(sys.executable, ["-S", "-E", FILE, attack], max_message_bytes=limit)
    client = McpClient(server, name="hostile", mode="legacy")
    try:
        yield client
    finally:
        client.close().run()
        assert not stdio._running


def attacked(client: McpClient) -> ToolResultBlock:
    return client.call("attack", {}, ToolContext(use("attack"))).run()


def refused(client: McpClient) -> McpLimitError:
    with pytest.raises(McpLimitError) as caught:
        attacked(client)
    assert caught.value.server == "hostile" and not caught.value.retryable
    return caught.value


@contextmanager
def memory(most: int) -> Iterator[None]:
    """No more than this is taken within the block, at any time."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < most, f"{(peak - before) / most:.2f} of what was allowed"


class TestStdout:
    @pytest.mark.parametrize("attack", ["endless_line", "endless_result"])
    def test_a_line_without_an_end(self, attack: str) -> None:
        with hostile(attack) as client:
            client.tools().run()
            with memory(4 * LIMIT):
                error = refused(client)
            assert (error.option, error.limit) == ("max_message_bytes", LIMIT) and str(LIMIT) in str(error)

    def test_before_it_is_connected(self) -> None:
        sent = "'hostile' sent a message of more than"
        with hostile("at_once") as client, pytest.raises(McpLimitError, match=sent):
            client.tools().run()

    def test_a_line_that_comes_byte_by_byte(self) -> None:
        """A piece of one byte takes forty."""
        with hostile("drop_by_drop", 30_000) as client:
            client.tools().run()
            with memory(MIB):
                refused(client)

    def test_a_line_of_a_great_many_values(self) -> None:
        with hostile("many_values") as client:
            client.tools().run()
            with memory(5 * LIMIT):
                assert "JSON values" in str(refused(client))

    def test_the_limit_is_a_result_for_the_model_and_others_go_on(self) -> None:
        with hostile("endless_line") as client:
            toolkit = Toolkit()
            toolkit.register_mcp(client).run()
            result = call(toolkit, "attack")
            assert result.is_error and "max_message_bytes" in result.text
            # a program that was started anew, and has listed nothing yet
            assert call(toolkit, "listings").text == "0"

    def test_lines_that_are_no_messages(self) -> None:
        with hostile("blank_lines") as client:
            client.tools().run()
            with memory(2 * MIB):
                assert attacked(client).text == "said"

    @pytest.mark.parametrize("limit", [0, -1, 1.5, None, True])
    def test_limits_that_are_none(self, limit: Any) -> None:
        for make in (
            lambda: McpStdio("x", max_message_bytes=limit),
            lambda: McpHttp("http://x", max_message_bytes=limit),
        ):
            with pytest.raises(ConfigurationError, match="max_message_bytes"):
                make()


class TestRequests:
    def test_more_than_it_hears_the_answers_to(self) -> None:
        with hostile("many_requests") as client:
            client.tools().run()
            with memory(16 * MIB):
                assert "100 requests at the same time" in str(refused(client))

    def test_one_id_again_and_again(self) -> None:
        with hostile("one_request") as client:
            client.tools().run()
            assert "a second request of the id 'ping'" in str(refused(client))


class TestStderr:
    def test_any_amount(self) -> None:
        with hostile("errors") as client:
            client.tools().run()
            with memory(2 * MIB):
                assert attacked(client).text == "said"

    def test_its_end_is_kept(self) -> None:
        with hostile("last_words") as client:
            client.tools().run()
            with pytest.raises(McpConnectionError, match="the last words") as caught:
                attacked(client)
            assert "status is 3" in str(caught.value) and len(str(caught.value)) < 1200


class TestNotifications:
    def test_progress_that_is_not_read(self) -> None:
        """While there is no room, the latest takes the place of those before."""

        async def main() -> None:
            toolkit = Toolkit()
            await toolkit.register_mcp(client)
            async with toolkit.call(use("attack")) as events:
                first = await anext(events)
                assert not isinstance(first, ToolResultBlock)
                shown = 0
                async for event in events:
                    if isinstance(event, ToolResultBlock):
                        assert event.text == "done"
                    else:
                        shown += 1
                        await asyncio.sleep(0)

        with hostile("progress") as client:
            client.tools().run()
            with memory(16 * MIB):
                asyncio.run(main())

    def test_names_of_loggers(self, caplog: pytest.LogCaptureFixture) -> None:
        """A logger lives as long as the process."""
        with hostile("loggers") as client, caplog.at_level(logging.WARNING, "agentscope_rx.mcp"):
            client.tools().run()
            assert attacked(client).text == "logged"
        names = [name for name in logging.root.manager.loggerDict if name.startswith("agentscope_rx.mcp.hostile.")]
        assert 0 < len(names) <= 20
        assert max(len(record.getMessage()) for record in caplog.records) <= 10_000

    def test_changes(self) -> None:
        """One listing at a time, and one more for what came meanwhile."""
        with hostile("changes") as client:
            toolkit = Toolkit()
            toolkit.register_mcp(client).run()
            assert call(toolkit, "attack").text == "changed"
            assert int(call(toolkit, "listings").text) < 100
            toolkit.close().run()


def _bomb() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join([*(packer.compress(b" " * MIB) for _ in range(100)), packer.flush()])


BOMB = _bomb()


class Far(BaseHTTPRequestHandler):
    """A server by HTTP that answers a call as its path says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Nothing."""

    def do_DELETE(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, id = asked.get("method"), asked.get("id")
        if method == "initialize":
            version = asked["params"]["protocolVersion"]
            server = {"name": "far", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
            self._answer(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())
        elif method == "tools/call":
            with suppress(OSError):
                getattr(self, f"{self.path[1:]}")(id)
            self.close_connection = True
        elif method is None:
            # an answer of the client's
            self.connection.recv(1)
        elif id is not None:
            self._answer(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"tools": []}}).encode())
        else:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()

    def _answer(self, body: bytes, **headers: str) -> None:
        self._begin(200, "application/json", content_length=str(len(body)), **headers)
        self.wfile.write(body)

    def _begin(self, status: int, kind: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _forever(self, piece: bytes = b"x" * 65536) -> None:
        while True:
            self.wfile.write(piece)

    def json_without_end(self, id: object) -> None:
        self._begin(200, "application/json", connection="close")
        self._forever()

    def error_without_end(self, id: object) -> None:
        self._begin(500, "application/json", connection="close")
        self._forever()

    def redirect_without_end(self, id: object) -> None:
        self._begin(307, "text/plain", connection="close", location=f"{self.path}?again")
        self._forever()

    def event_without_end(self, id: object) -> None:
        self._begin(200, "text/event-stream", connection="close")
        self.wfile.write(b"data: ")
        self._forever()

    def event_of_lines(self, id: object) -> None:
        self._begin(200, "text/event-stream", connection="close")
        self._forever(b"data: x\n" * 1000)

    def compressed(self, id: object) -> None:
        """Some kilobytes, of which come a hundred megabytes."""
        self._answer(BOMB, content_encoding="gzip")

    def values(self, id: object) -> None:
        self._answer(b'{"a": [' + b"[]," * 300_000 + b"0]}")

    def requests(self, id: object) -> None:
        """More than it hears the answers to: it answers none of these."""
        self._begin(200, "text/event-stream", connection="close")
        for number in range(100_000):
            ping = json.dumps({"jsonrpc": "2.0", "id": f"ping {number}", "method": "ping"}).encode()
            self.wfile.write(b"data: " + ping + b"\n\n")

    def good(self, id: object) -> None:
        self._begin(200, "text/event-stream", connection="close")
        result = {"content": [{"type": "text", "text": "x" * MIB}]}
        data = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
        self.wfile.write(b": a comment\r\n\r\nevent: message\r\ndata: " + data + b"\r\n\r\n")

    def packed(self, id: object) -> None:
        result = {"content": [{"type": "text", "text": "x" * MIB}]}
        body = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())
        # (it says that it closes the connection: the client would send its next request there, and lose it)
        self._answer(body, content_encoding="gzip", connection="close")


@contextmanager
def far(attack: str) -> Iterator[McpClient]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Far)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/{attack}"
    client = McpClient(McpHttp(url, max_message_bytes=LIMIT), name="hostile", mode="legacy")
    try:
        yield client
    finally:
        client.close().run()
        server.shutdown()
        server.server_close()
        thread.join()


class TestHttp:
    @pytest.mark.parametrize(
        "attack",
        [
            "json_without_end",
            "error_without_end",
            "redirect_without_end",
            "event_without_end",
            "event_of_lines",
            "compressed",
            "values",
        ],
    )
    def test_an_answer_of_too_much(self, attack: str) -> None:
        with far(attack) as client:
            client.tools().run()
            # (a decompressor gives a megabyte at a time)
            with memory(6 * LIMIT):
                assert "max_message_bytes" in str(refused(client))

    def test_more_requests_than_it_hears_the_answers_to(self) -> None:
        with far("requests") as client:
            client.tools().run()
            with memory(16 * MIB):
                assert "100 requests at the same time" in str(refused(client))

    @pytest.mark.parametrize("answer", ["good", "packed"])
    def test_one_within_the_limit(self, answer: str) -> None:
        with far(answer) as client:
            assert attacked(client).text == "x" * MIB


PIECES = st.lists(st.text("a\n\r:", max_size=6).map(str.encode), max_size=8)


async def collected(reader: Any, pieces: list[bytes], limit: int) -> list[bytes]:
    async def source() -> Any:
        for piece in pieces:
            yield piece

    return [bytes(each) async for each in reader(source(), Excess(limit))]


@settings(max_examples=150, deadline=None)
@given(PIECES)
def test_events_are_what_came_however_it_was_cut(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert b"".join(asyncio.run(collected(events, pieces, 10_000))) == whole
    assert asyncio.run(collected(lines, pieces, 10_000)) == whole.split(b"\n")[:-1]


@settings(max_examples=100, deadline=None)
@given(PIECES, st.integers(1, 20))
def test_nothing_longer_than_the_limit_comes_out(pieces: list[bytes], limit: int) -> None:
    longest = max(map(len, b"".join(pieces).split(b"\n")))
    try:
        asyncio.run(collected(lines, pieces, limit))
        assert longest <= limit
    except TooMuchError:
        assert longest > limit
    with suppress(TooMuchError):
        assert all(len(each) <= limit for each in asyncio.run(collected(events, pieces, limit)))


class TestOurs:
    def test_a_client_on_stdio(self, tmp_path: Path) -> None:
        program = tmp_path / "ours.py"
        program.write_text(
            "import tracemalloc\n"
            "from agentscope_rx import Toolkit\n"
            "from agentscope_rx.errors import McpLimitError\n"
            "toolkit = Toolkit()\n"
            "import agentscope_rx.tools.mcp\n"
            "tracemalloc.start()\n"
            "try:\n"
            "    toolkit.serve_mcp(name='desk', max_message_bytes=1_000_000).run()\n"
            "except McpLimitError as error:\n"
            "    print(error.server, error.limit, tracemalloc.get_traced_memory()[1] < 8_000_000)\n"
        )
        root = str(Path(__file__).parents[2])
        with subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": root}
        ) as ours:
            assert ours.stdin is not None and ours.stdout is not None
            with suppress(BrokenPipeError):
                while ours.poll() is None:
                    ours.stdin.write(b"x" * 65536)
            with suppress(BrokenPipeError):
                ours.stdin.close()
            assert ours.stdout.read().split() == [b"desk", b"1000000", b"True"]

    @pytest.mark.parametrize(
        ("headers", "client", "status"),
        [
            ({}, "127.0.0.1", 200),
            ({"origin": "http://127.0.0.1:8000"}, "127.0.0.1", 200),
            ({"host": "evil.example"}, "127.0.0.1", 421),
            ({"origin": "http://evil.example"}, "127.0.0.1", 403),
            ({"sec-fetch-site": "cross-site"}, "127.0.0.1", 403),
            ({"content-type": "text/plain"}, "127.0.0.1", 415),
            ({}, "203.0.113.9", 403),
        ],
    )
    @pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
    def test_who_is_answered_by_http(self, headers: dict[str, str], client: str, status: int, host: str) -> None:
        assert visited(mcp_app(Toolkit(), host=host), headers, client) == status

    def test_with_a_token(self) -> None:
        token = "an-example-of-a-token"
        for client in ("127.0.0.1", "203.0.113.9"):
            assert visited(mcp_app(Toolkit(), token=token), {}, client) == 401
            assert visited(mcp_app(Toolkit(), token=token), {"authorization": f"Bearer {token}"}, client) == 200

    def test_a_host_of_its_own(self) -> None:
        assert visited(mcp_app(Toolkit(), host="192.0.2.7"), {"host": "192.0.2.7:8000"}, "127.0.0.1") == 200
        assert visited(mcp_app(Toolkit(), host="2001:db8::1"), {"host": "[2001:db8::1]"}, "127.0.0.1") == 200

    def test_a_body_without_an_end(self) -> None:
        async def endless() -> Any:
            while True:
                yield b" " * 65536

        assert visited(mcp_app(Toolkit()), {}, "127.0.0.1", content=endless()) == 413


def visited(app: Any, headers: dict[str, str], client: str, content: Any = None) -> int:
    """The status of the answer to a client's first request."""
    info = {"name": "x", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}

    async def main() -> int:
        transport = httpx.ASGITransport(app, client=(client, 4000))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http,
        ):
            answer = await http.post("/mcp", content=content or body, headers={**usual, **headers})
            return answer.status_code

    return asyncio.run(main())
