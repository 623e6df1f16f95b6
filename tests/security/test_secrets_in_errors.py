"""No error, repr or traceback shows a key or a password; what cannot be sent is a typed error; TLS is made once."""

from __future__ import annotations

import asyncio
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import AuthenticationError, ConfigurationError, ModelError, ProtocolError
from agentscope_rx.messages import Msg
from agentscope_rx.models import ExecutionConfig, GenerateOptions, OpenAIChatModel
from agentscope_rx.models.embedding import OpenAIEmbeddingModel
from agentscope_rx.models.transport import HttpConfig, HttpRequest, Transport, client
from agentscope_rx.models.transport.client import tls_context
from agentscope_rx.models.wire.base_url import base_parts, sendable
from tests.models.conftest import Loopback, loopback
from tests.security.test_redirects import KEY, MODELS

ASK = [Msg.user("hi")]
ONCE = ExecutionConfig(max_attempts=1)


@pytest.fixture
def serve() -> Iterator[Callable[..., Loopback]]:
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(loopback(script))


async def collect(source: Any) -> list[Any]:
    return [value async for value in source]


def shown(error: BaseException) -> str:
    """All that a log would show of it."""
    return "".join([*traceback.format_exception(error), repr(error), str(vars(error))])


def echo(error: bool, status: int) -> Any:
    async def answer(reply: Any) -> None:
        said = f"Incorrect API key provided: {reply.asked.headers}. {reply.asked.target}"
        reply.json(status, {"error": {"message": said, "code": said}} if error else said, **{"x-request-id": KEY})

    return answer


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("error", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_a_key_that_a_server_echoes_is_hidden(
    serve: Any, provider: str, status: int, error: bool, stream: bool
) -> None:
    server = serve(echo(error, status))
    options = GenerateOptions(
        stream=stream,
        additional_headers={"x-gateway-token": "gateway-0123456789"},
        additional_query_params={"key": "query/0123456789"},
    )
    with pytest.raises(ModelError) as caught:
        asyncio.run(collect(MODELS[provider](server.url).stream(ASK, (), options)))
    text = shown(caught.value)
    assert KEY not in text and "gateway-0123456789" not in text
    assert "query/0123456789" not in text and "query%2F0123456789" not in text
    assert "***" in text or (status == 200 and not error)


def test_a_key_at_the_place_where_a_body_is_cut_is_hidden(serve: Any) -> None:
    for length in range(1980, 2001, 5):

        async def answer(reply: Any, length: int = length) -> None:
            reply.whole(500, b"x" * length + KEY.encode())

        with pytest.raises(ModelError) as caught:
            asyncio.run(collect(MODELS["openai"](serve(answer).url).stream(ASK)))
        assert KEY[:4] not in shown(caught.value)


def test_a_key_in_a_broken_event_or_head_is_hidden(serve: Any) -> None:
    async def event(reply: Any) -> None:
        reply.start()
        reply.send("{nonsense " + KEY)
        reply.end()

    async def head(reply: Any) -> None:
        reply.writer.write(f"HTTP/1.1 200 OK\r\n{KEY} is no header\r\n\r\n".encode())
        reply.writer.close()

    async def vectors(reply: Any) -> None:
        reply.json(200, {"data": KEY})

    for script in (event, head):
        model = OpenAIChatModel("m", api_key=KEY, base_url=serve(script).url, execution_config=ONCE)
        with pytest.raises(ModelError) as caught:
            asyncio.run(collect(model.stream(ASK)))
        assert KEY not in shown(caught.value)
    embedding = OpenAIEmbeddingModel("m", api_key=KEY, base_url=serve(vectors).url, execution_config=ONCE)
    with pytest.raises(ProtocolError) as refused:
        asyncio.run(collect(embedding.embed(["x"])))
    assert KEY not in shown(refused.value)


def test_short_values_do_not_garble_errors(serve: Any) -> None:
    async def answer(reply: Any) -> None:
        reply.json(401, {"error": {"message": "kkk is no key"}})

    with pytest.raises(AuthenticationError, match="kkk is no key"):
        asyncio.run(collect(OpenAIChatModel("m", api_key="k", base_url=serve(answer).url).stream(ASK)))


def test_no_repr_has_a_secret() -> None:
    proxy = HttpConfig(proxy="http://user:hunter22@proxy.example:8080")
    assert repr(proxy) == "HttpConfig(proxy='http://***@proxy.example:8080')"
    assert "hunter22" not in repr(Transport(proxy))
    request = HttpRequest("https://u:hunter22@host/v1?key=hunter22", b"hunter22", {"x-api-key": "hunter22"})
    assert "hunter22" not in repr(request) and "host/v1" in repr(request)
    options = GenerateOptions(additional_headers={"x-key": "hunter22"}, additional_query_params={"key": "hunter22"})
    assert "hunter22" not in repr(options)
    for make in MODELS.values():
        model = make("http://user:hunter22@host/v1")
        assert "hunter22" not in f"{model!r} {getattr(model, 'endpoint', '')!r}"


@pytest.mark.parametrize(
    "base",
    ["http://user:hunter22@host:x/v1", "http://user:hunter22@[::1/v1", "ftp://user:hunter22@host", "user:hunter22@host",
     "http://user:hunt/hunter22@", "http://user:hunter22@ho\u2100st", "http://host:99999", "ftp://h/v1?key=hunter22#"],
)  # fmt: skip
def test_an_address_that_is_none_is_told_without_its_password(base: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        base_parts(base, "https://example.com")
    assert "hunter22" not in shown(caught.value)


@pytest.mark.parametrize(
    "proxy",
    ["socks9://user:hunter22@host", "http://user:hunter22@", "http://user:hunter22@host:x", "user:hunter22@host", "", 5,
     "http://[user:hunter22@host"],
)  # fmt: skip
def test_a_proxy_that_is_none(proxy: Any) -> None:
    with pytest.raises(ConfigurationError, match="proxy must be a URL") as caught:
        HttpConfig(proxy=proxy)
    assert "hunter22" not in shown(caught.value)


def test_an_unreachable_proxy_is_named_without_password() -> None:
    transport = Transport(HttpConfig(proxy="http://user:hunter22@127.0.0.1:1"))
    model = OpenAIChatModel("m", base_url="http://127.0.0.1:2", transport=transport, execution_config=ONCE)
    with pytest.raises(ModelError) as caught:
        asyncio.run(collect(model.stream(ASK)))
    assert "hunter22" not in shown(caught.value)


def test_a_broken_proxy_of_the_environment_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks9://user:hunter22@host")
    model = OpenAIChatModel("m", base_url="http://127.0.0.1:2", execution_config=ONCE)
    with pytest.raises(ConfigurationError, match="proxy cannot be used") as caught:
        asyncio.run(collect(model.stream(ASK)))
    assert "hunter22" not in shown(caught.value)


BAD_VALUES = [
    "a\r\nx-evil: 1",
    "a\nb",
    "a\x00b",
    "caf\u00e9",
    "sk\u200b-key",
    "\u2026",
    " key",
    "key ",
    "\x7f",
    None,
    5,
    b"x",
]


@pytest.mark.parametrize("value", BAD_VALUES)
def test_an_unsendable_header_is_named_without_its_value(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="'X-Mine'") as caught:
        GenerateOptions(additional_headers={"X-Mine": value})
    if isinstance(value, str):
        assert repr(value)[1:-1] not in str(caught.value).replace("'X-Mine'", "")
    with pytest.raises(ConfigurationError):
        asyncio.run(collect(Transport().request(HttpRequest("http://127.0.0.1:1", b"", {"X-Mine": value}))))


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\nb", "\u00e9", None, 5])
def test_what_is_no_name_of_a_header(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name of a header"):
        GenerateOptions(additional_headers={name: "x"})


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8)))
def test_headers_are_sent_or_refused(headers: dict[str, str]) -> None:
    import h11

    try:
        checked = sendable(headers)
    except ConfigurationError:
        return
    checked.pop("host", None)
    if not {"content-length", "transfer-encoding"} & set(checked):
        h11.Request(method="POST", target="/", headers=[("host", "x"), *checked.items()])


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_certificates_are_loaded_once_and_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_contexts", {})
    threads: list[threading.Thread] = []
    make = client.httpx.create_ssl_context

    def counted(**given: Any) -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return make(**given)

    monkeypatch.setattr(client.httpx, "create_ssl_context", counted)

    async def main() -> list[ssl.SSLContext]:
        return await asyncio.gather(*(tls_context(True, trust_env=True) for _ in range(8)))

    found = {id(each) for _ in range(2) for each in asyncio.run(main())}
    assert len(found) == len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_checking_and_not_checking_are_two_contexts() -> None:
    async def main() -> None:
        checked, unchecked = await tls_context(True, trust_env=True), await tls_context(False, trust_env=True)
        assert (checked.verify_mode, checked.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert (unchecked.verify_mode, unchecked.check_hostname) == (ssl.CERT_NONE, False)
        own = ssl.create_default_context()
        assert await tls_context(own, trust_env=True) is own

    asyncio.run(main())


def test_certificates_that_cannot_be_read_are_a_typed_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "broken.pem").write_text("no certificate")
    for place in (tmp_path / "none.pem", tmp_path / "broken.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(place))
        with pytest.raises(ConfigurationError, match="SSL_CERT_FILE"):
            asyncio.run(collect(Transport().request(HttpRequest("https://127.0.0.1:1", b"{}"))))
