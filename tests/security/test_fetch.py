"""Addresses that a server names: not asked unless wanted, and then only what is public."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

import pytest

from agentscope_rx.errors import ConfigurationError, ModelConnectionError, ModelHTTPError, ProtocolError
from agentscope_rx.messages import AudioBlock, Base64Source, FileBlock, ImageBlock, Msg, URLSource, VideoBlock
from agentscope_rx.models import (
    AnthropicChatModel,
    DashScopeChatModel,
    ExecutionConfig,
    GeminiChatModel,
    OllamaChatModel,
    OpenAIChatModel,
    OpenAIResponsesModel,
)
from agentscope_rx.models.embedding import DashScopeEmbeddingModel
from agentscope_rx.models.speech import DashScopeTTSModel
from agentscope_rx.models.transport import HttpConfig
from agentscope_rx.models.transport.fetch import fetched, is_public, public_addresses
from tests.support.json_server import JsonServer

ONCE = ExecutionConfig(max_attempts=1)

NOT_PUBLIC = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "localhost",
    "[::]",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::127.0.0.1]",
    "[fe80::1]",
    "[fec0::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
]


@contextmanager
def storage(status: int = 200, body: bytes = b"RIFF", **headers: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server of sounds, and the headers that it was asked with."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def get(url: str, **options: Any) -> bytes:
    return asyncio.run(fetched(url, HttpConfig(), **options))


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback counts as public here: what follows the check is tested with a real server."""
    monkeypatch.setattr("agentscope_rx.models.transport.fetch.is_public", lambda address: True)


@pytest.mark.parametrize("host", NOT_PUBLIC)
def test_what_is_not_public_is_not_asked(host: str) -> None:
    with pytest.raises(ProtocolError, match="not public"):
        get(f"http://{host}:1/latest/meta-data")


def test_public_addresses_are() -> None:
    assert all(is_public(ip_address(each)) for each in ("1.1.1.1", "47.88.0.1", "2606:4700::1111", "::ffff:8.8.8.8"))


def test_one_address_that_is_not_public_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async def resolve(host: str, port: int, **options: Any) -> list[Any]:
            return [(2, 1, 6, "", (each, port)) for each in ("1.1.1.1", "10.0.0.1")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        with pytest.raises(ProtocolError, match="not public"):
            await public_addresses("rebinding.example", 80, "http://rebinding.example")

    asyncio.run(main())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "ftp://x/",
        "gopher://x",
        "//x/a",
        "/a",
        "http://",
        "http://a@1.1.1.1/",
        "http://x:abc/",
    ],
)
def test_only_web_addresses_are_asked(url: str) -> None:
    with pytest.raises(ProtocolError):
        get(url)


def test_the_address_that_was_checked_is_the_one_that_is_asked(anywhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is looked up once: a second look that gives another address does not happen."""
    looks: list[str] = []

    async def main(port: int) -> bytes:
        async def resolve(host: str, port: int, **options: Any) -> list[Any]:
            looks.append(host)
            return [(2, 1, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        return await fetched(f"http://storage.example:{port}/a.wav?sign=1", HttpConfig())

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with storage() as (url, asked):
        port = int(url.rpartition(":")[2])
        assert asyncio.run(main(port)) == b"RIFF"
    assert looks == ["storage.example"]
    (headers,) = asked
    assert headers["host"] == f"storage.example:{port}" and "authorization" not in headers


def test_redirects_are_not_followed(anywhere: None) -> None:
    moved = storage(302, location="http://169.254.169.254/")
    with moved as (url, asked), pytest.raises(ProtocolError, match="redirects"):
        get(url)
    assert len(asked) == 1


def test_what_is_fetched_is_bounded(anywhere: None) -> None:
    with storage(body=b"x" * 1000) as (url, _):
        assert len(get(url, limit=1000)) == 1000
        with pytest.raises(ProtocolError, match="more than 999 bytes"):
            get(url, limit=999)
    packed = storage(body=gzip.compress(b"x" * 10_000_000), content_encoding="gzip")
    with packed as (url, asked), pytest.raises(ProtocolError, match="compressed"):
        get(url, limit=100_000)
    assert asked[0]["accept-encoding"] == "identity"
    with storage(404, b"gone" * 100_000) as (url, _), pytest.raises(ModelHTTPError) as caught:
        get(url)
    assert len(str(caught.value)) < 20_000


def test_an_unreachable_address_is_a_connection_error(anywhere: None) -> None:
    with pytest.raises(ModelConnectionError, match=r"http://127\.0\.0\.1"):
        get("http://127.0.0.1:1/a?secret=1")


@pytest.mark.parametrize("stream", [True, False])
def test_the_address_of_a_sound_is_not_asked_unless_wanted(stream: bool) -> None:
    """The reproduction: whoever answers names an address within, and what is there was fetched."""
    with storage(body=b"metadata") as (url, asked):
        answer = {"output": {"audio": {"data": "", "url": f"{url}/latest/meta-data"}}}
        told: Any = f"data:{json.dumps(answer)}\n\n".encode() if stream else answer
        with JsonServer(lambda path, body: told) as server:
            for fetch, kind in ((False, ConfigurationError), (True, ProtocolError)):
                model = DashScopeTTSModel(
                    stream=stream, fetch=fetch, base_url=server.url, api_key="k", execution_config=ONCE
                )
                with pytest.raises(kind):
                    model.synthesize("Hi.").run()
    assert asked == []


def test_no_model_fetches_what_a_message_names() -> None:
    """An address in a message goes to the vendor as it is, or is refused: nobody here asks it."""
    with storage() as (url, asked):
        blocks = [kind(URLSource(f"{url}/a.png")) for kind in (ImageBlock, AudioBlock, VideoBlock, FileBlock)]
        with JsonServer(lambda path, body: {}) as server:
            options: dict[str, Any] = {"base_url": server.url, "api_key": "k", "execution_config": ONCE}
            models = [
                each("m", stream=False, **options)
                for each in (
                    OpenAIChatModel,
                    OpenAIResponsesModel,
                    AnthropicChatModel,
                    GeminiChatModel,
                    DashScopeChatModel,
                    OllamaChatModel,
                )
            ]
            for model in models:
                for block in blocks:
                    with pytest.raises(Exception):  # noqa: B017  (the server answers nothing; refused, or asked)
                        model.stream([Msg.user(block)]).run()
            embedding = DashScopeEmbeddingModel(
                "multimodal-embedding-v1", base_url=server.url, api_key="k", execution_config=ONCE
            )
            with pytest.raises(Exception):  # noqa: B017
                embedding.embed(ImageBlock(URLSource(f"{url}/a.png"))).run()
    assert len(server.asked) > 6 and asked == []


def test_a_data_url_of_absurd_size_is_taken_apart_in_one_go() -> None:
    from agentscope_rx.models.wire.media import data_source

    source = data_source(URLSource(f"data:image/png;base64,{'A' * 20_000_000}"))
    assert isinstance(source, Base64Source) and len(source.data) == 20_000_000
    assert data_source(URLSource(f"data:{';' * 1_000_000},x")) == Base64Source("text/plain", "eA==")
