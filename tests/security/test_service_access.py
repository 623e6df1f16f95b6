"""Who the service answers: web pages of other origins, rebound names, other machines, and clients without the token."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.guard.access import host_of, host_pattern, is_local, matches, origin_of, same
from agentscope_rx.service import GuardOptions, RequestGuard, create_app
from agentscope_rx.testing import ScriptedModel
from tests.agent.parts import agent

TOKEN = "an-example-of-a-token"
BEARER = {"authorization": f"Bearer {TOKEN}"}
ELSEWHERE = "203.0.113.9"


def send(
    app: Any,
    method: str = "POST",
    path: str = "/run",
    *,
    client: str = "127.0.0.1",
    url: str = "http://127.0.0.1:8000",
    **options: Any,
) -> httpx.Response:
    """The answer to one request of a client at this address; a run is asked for if nothing else is."""

    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(client, 4000))
        async with httpx.AsyncClient(transport=transport, base_url=url) as http:
            if method == "POST" and path == "/run" and not {"content", "data"} & options.keys():
                options.setdefault("json", {"text": "hi"})
            return await http.request(method, path, **options)

    return asyncio.run(main())


def app(**options: Any) -> Starlette:
    return create_app(agent(ScriptedModel("fine", repeat=True)), **options)


def refused(response: httpx.Response, status: int, kind: str) -> str:
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (status, kind)
    return error["message"]


class TestWebPages:
    @pytest.mark.parametrize(
        "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json"]
    )
    def test_what_a_page_may_send_unasked_is_no_json(self, kind: str) -> None:
        """A browser asks before it sends JSON elsewhere; forms and text it sends at once."""
        response = send(app(), content=b'{"text": "hi"}', headers={"content-type": kind})
        assert "application/json" in refused(response, 415, "MediaTypeError")
        response = send(app(), "POST", "/runs/x/interrupt", content=b"a=b", headers={"content-type": kind})
        refused(response, 415, "MediaTypeError")

    def test_a_body_without_a_type(self) -> None:
        refused(send(app(), content=b'{"text": "hi"}'), 415, "MediaTypeError")

    @pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/json ;x=y"])
    def test_json_is_let_through(self, kind: str) -> None:
        assert send(app(), content=b'{"text": "hi"}', headers={"content-type": kind}).status_code == 200

    @pytest.mark.parametrize(
        "origin", ["https://evil.example", "http://127.0.0.1:3000", "http://localhost:8000", "null"]
    )
    @pytest.mark.parametrize(
        ("method", "path"), [("POST", "/run"), ("POST", "/runs/x/interrupt"), ("DELETE", "/runs/x")]
    )
    def test_pages_of_other_origins(self, origin: str, method: str, path: str) -> None:
        told = refused(send(app(), method, path, headers={"origin": origin}), 403, "ForeignOriginError")
        assert origin in told and "allowed_origins" in told

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_what_a_page_elsewhere_embeds(self, site: str) -> None:
        """A picture or a link sends no origin, and the browser says where it is from all the same."""
        refused(send(app(), "GET", "/runs/x/events", headers={"sec-fetch-site": site}), 403, "ForeignOriginError")

    @pytest.mark.parametrize("site", ["none", "same-origin"])
    def test_pages_of_its_own(self, site: str) -> None:
        headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": site}
        assert send(app(), headers=headers).status_code == 200

    def test_a_page_that_is_allowed(self) -> None:
        """It is told so beforehand, too, without the token; what it is refused it can read."""
        served = app(token=TOKEN, guard=GuardOptions(allowed_origins=["https://app.example.com"]))
        page = {"origin": "https://app.example.com", "sec-fetch-site": "cross-site"}
        asked = {**page, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        response = send(served, "OPTIONS", headers=asked)
        assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, page["origin"])
        response = send(served, headers={**page, **BEARER})
        assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, page["origin"])
        response = send(served, headers=page)
        assert refused(response, 401, "UnauthorizedError")
        assert response.headers["access-control-allow-origin"] == page["origin"]
        other = {**asked, "origin": "https://evil.example"}
        assert "access-control-allow-origin" not in send(served, "OPTIONS", headers=other).headers


class TestHosts:
    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "localhost@evil.example", "", "a b"]
    )
    def test_a_name_that_was_rebound(self, host: str) -> None:
        """The page is of the same origin, then: its name leads here."""
        headers = {"host": host, "origin": f"http://{host}"}
        assert "allowed_hosts" in refused(send(app(), headers=headers), 421, "UnknownHostError")

    def test_two_hosts(self) -> None:
        headers = [("host", "127.0.0.1"), ("host", "evil.example")]
        refused(send(app(), "DELETE", "/runs/x", headers=headers), 421, "UnknownHostError")

    @pytest.mark.parametrize("url", ["http://localhost:9", "http://LOCALHOST", "http://[::1]:8000", "http://127.0.0.1"])
    def test_this_machine(self, url: str) -> None:
        assert send(app(), url=url).status_code == 200

    @pytest.mark.parametrize(
        ("host", "fits"),
        [
            ("agents.example.com", True),
            ("agents.example.com:8443", True),
            ("a.below.example.com", True),
            ("below.example.com", False),
            ("one.example.com:80", True),
            ("one.example.com", False),
            ("localhost", False),
        ],
    )
    def test_names_of_its_own(self, host: str, fits: bool) -> None:
        options = GuardOptions(allowed_hosts=["agents.example.com", "*.below.example.com", "one.example.com:80"])
        response = send(app(guard=options), headers={"host": host})
        assert response.status_code == (200 if fits else 421)


class TestTokens:
    @pytest.mark.parametrize(
        "given",
        [
            None,
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Basic {TOKEN}",
            TOKEN,
            "Bearer é",
        ],
    )
    def test_none_or_a_wrong_one(self, given: str | None) -> None:
        headers = [] if given is None else [("authorization", given.encode())]
        for method, path in (("POST", "/run"), ("GET", "/runs/x/events"), ("DELETE", "/runs/x"), ("GET", "/nothing")):
            response = send(app(token=TOKEN), method, path, headers=headers)
            assert TOKEN not in refused(response, 401, "UnauthorizedError")
            assert response.headers["www-authenticate"] == "Bearer"

    @pytest.mark.parametrize("client", ["127.0.0.1", ELSEWHERE])
    def test_the_right_one(self, client: str) -> None:
        assert send(app(token=TOKEN), headers=BEARER, client=client).status_code == 200
        assert send(app(token=TOKEN), headers={"authorization": f"bearer  {TOKEN}"}).status_code == 200

    @pytest.mark.parametrize("token", ["", "short", "with spaces in the middle", "ümläute-ümläute-ümläute", 7])
    def test_one_that_is_none(self, token: Any) -> None:
        with pytest.raises(ConfigurationError, match="token"):
            app(token=token)

    def test_it_is_not_shown(self) -> None:
        assert TOKEN not in repr(GuardOptions(token=TOKEN))


class TestWithoutAToken:
    def test_other_machines(self) -> None:
        for client in (ELSEWHERE, "10.0.0.2", "2001:db8::1", "::ffff:203.0.113.9", "testclient"):
            assert "token" in refused(send(app(), client=client), 403, "RemoteClientError")

    def test_this_machine(self) -> None:
        for client in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"):
            assert send(app(), client=client).status_code == 200

    @pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
    def test_a_proxy_on_this_machine(self, header: str) -> None:
        """Its clients seem to be on this machine."""
        assert "proxy" in refused(send(app(), headers={header: ELSEWHERE}), 403, "RemoteClientError")
        assert send(app(token=TOKEN), headers={header: ELSEWHERE, **BEARER}).status_code == 200

    def test_it_says_so_once(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "agentscope_rx"):
            served = app()
            for _ in range(3):
                send(served)
            assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["No token is set"]
            caplog.clear()
            send(app(token=TOKEN), headers=BEARER)
            send(app(guard=GuardOptions(allow_anonymous=True)))
        assert not caplog.records

    def test_an_application_with_an_authentication_of_its_own(self) -> None:
        assert send(app(guard=GuardOptions(allow_anonymous=True)), client=ELSEWHERE).status_code == 200

    def test_sockets(self) -> None:
        """Who can open a Unix socket is a matter of its file; a server that says nothing is no proof."""
        assert is_local({"client": None, "server": ("/run/agent.sock", None)})
        assert not is_local({"client": None, "server": ("127.0.0.1", 8000)})
        assert not is_local({"client": None, "server": None})
        assert not is_local({})


class TestAnyApplication:
    def test_the_guard_alone(self) -> None:
        async def hello(request: Any) -> PlainTextResponse:
            return PlainTextResponse((await request.body()).decode())

        guard = Middleware(RequestGuard, options=GuardOptions(token=TOKEN))
        served = Starlette(routes=[Route("/", hello, methods=["POST"])], middleware=[guard])
        assert send(served, path="/", json=1, headers=BEARER).text == "1"
        refused(send(served, path="/", json=1), 401, "UnauthorizedError")

    def test_a_web_socket(self) -> None:
        reached: list[str] = []

        async def inner(scope: Any, receive: Any, send: Any) -> None:
            reached.append(scope["type"])

        async def visit(headers: list[tuple[bytes, bytes]]) -> list[Any]:
            sent: list[Any] = []

            async def send(message: Any) -> None:
                sent.append(message)

            async def receive() -> Any:
                raise AssertionError

            scope = {"type": "websocket", "headers": headers, "client": ("127.0.0.1", 1), "scheme": "ws"}
            await RequestGuard(inner)(scope, receive, send)
            return sent

        host = (b"host", b"127.0.0.1")
        assert asyncio.run(visit([host, (b"origin", b"http://evil.example")])) == [
            {"type": "websocket.close", "code": 1008}
        ]
        assert not reached
        assert not asyncio.run(visit([host, (b"origin", b"http://127.0.0.1")]))
        assert reached == ["websocket"]

    @pytest.mark.parametrize(
        "options",
        [
            {"allowed_hosts": "localhost"},
            {"allowed_hosts": ["http://localhost"]},
            {"allowed_origins": ["app.example.com"]},
            {"allowed_origins": ["*"]},
            {"max_body_bytes": 0},
            {"max_body_bytes": None},
            {"body_timeout": 0},
            {"max_client_requests": 0},
            {"client_requests_per_minute": 1.5},
        ],
    )
    def test_options_that_cannot_work(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            GuardOptions(**options)


NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z]{1,5}){0,2}", fullmatch=True)


@settings(max_examples=80, deadline=None)
@given(NAMES, NAMES, st.integers(1, 65535) | st.none(), st.sampled_from(["http", "https"]))
def test_a_host_is_its_own_and_no_other(name: str, other: str, port: int | None, scheme: str) -> None:
    text = name if port is None else f"{name}:{port}"
    host = host_of(text.upper())
    assert host is not None and matches(host, host_pattern(name)) and matches(host, host_pattern("*"))
    assert matches(host, host_pattern(other)) == (name == other)
    assert matches(host, host_pattern(f"*.{other}")) == name.endswith(f".{other}")
    origin = origin_of(f"{scheme}://{text}")
    assert origin is not None and same(origin, host, "http")
    stranger = host_of(other)
    assert stranger is not None and same(origin, stranger, "http") == (
        name == other and origin.port == {"http": 80, "https": 443}[scheme]
    )


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30))
def test_any_words_are_a_host_or_none(words: str) -> None:
    host, origin = host_of(words), origin_of(words)
    assert host is None or host.name
    assert origin is None or origin.port
