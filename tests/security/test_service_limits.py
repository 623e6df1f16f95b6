"""How much the service takes: bodies, requests of a client, live and kept runs; and clients that leave in mid-body."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentscope_rx.errors import BodyTooLargeError, ConfigurationError, TooManyRequestsError
from agentscope_rx.guard import clients
from agentscope_rx.guard.body import check_values
from agentscope_rx.guard.clients import Clients, client_of
from agentscope_rx.service import GuardOptions, RequestGuard, Runs, TooManyRunsError, create_app, sse_response
from agentscope_rx.testing import HANG, ScriptedModel, run_virtual
from tests.agent.parts import agent
from tests.security.test_service_access import app, refused, send
from tests.service.serving import RawClient, Served, Speaker, ask, served, sse

KIB, MIB = 1024, 1024 * 1024
JSON = {"content-type": "application/json"}


async def endless(piece: bytes = b" " * 65536) -> AsyncIterator[bytes]:
    while True:
        yield piece


class TestBodies:
    def test_one_that_says_that_it_is_too_large(self) -> None:
        """It is not read at all."""
        limited = app(guard=GuardOptions(max_body_bytes=1000))
        told = refused(send(limited, json={"text": "x" * 1000}), 413, "BodyTooLargeError")
        assert "1000 bytes" in told and "max_body_bytes" in told
        assert send(limited, json={"text": "x" * 900}).status_code == 200
        headers = {**JSON, "content-length": "9" * 5000}
        refused(send(limited, content=b"{}", headers=headers), 413, "BodyTooLargeError")

    @pytest.mark.parametrize("path", ["/run", "/runs/x/interrupt", "/nothing"])
    def test_one_without_an_end(self, path: str) -> None:
        refused(send(app(), path=path, content=endless(), headers=JSON), 413, "BodyTooLargeError")

    def test_one_that_says_less_than_it_is(self) -> None:
        headers = {**JSON, "content-length": "5"}
        refused(send(app(), content=endless(), headers=headers), 413, "BodyTooLargeError")

    def test_by_a_real_server(self) -> None:
        def pieces() -> Iterator[bytes]:
            yield from [b'{"text": "', *[b"x" * MIB] * 12]

        with served(app()) as server, server.client() as client:
            refused(client.post("/run", content=pieces(), headers=JSON), 413, "BodyTooLargeError")
            assert ask(client)[-1].type == "post_call"

    def test_one_that_comes_too_slowly(self) -> None:
        async def slow(guard: RequestGuard) -> list[Any]:
            sent: list[Any] = []

            async def send(message: Any) -> None:
                sent.append((asyncio.get_running_loop().time(), message))

            async def receive() -> Any:
                await asyncio.sleep(1)
                return {"type": "http.request", "body": b" ", "more_body": True}

            headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"99")]
            scope = {"type": "http", "method": "POST", "headers": headers, "client": ("127.0.0.1", 1)}
            await guard(scope, receive, send)
            return sent

        (when, start), (_, body) = run_virtual(slow(RequestGuard(app(), GuardOptions(body_timeout=7))))
        assert (when, start["status"]) == (7, 408)
        assert json.loads(body["body"])["error"]["type"] == "BodyTimeoutError"


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "one text": lambda n: b'{"texts": "' + b"x" * n + b'"}',
    "wide text": lambda n: '{"texts": "\U0001f600'.encode() + b"x" * n + b'"}',
    "escapes": lambda n: b'{"texts": "' + b'\\"' * (n // 2) + b'"}',
    "open string": lambda n: b'{"text": "' + b'\\"' * (n // 2),
    "empty lists": lambda n: b'{"messages": [' + b"[]," * (n // 3) + b"0]}",
    "empty objects": lambda n: b'{"messages": [' + b"{}," * (n // 3) + b"0]}",
    "small objects": lambda n: b'{"messages": [' + b'{"a":1},' * (n // 8) + b"0]}",
    "keys": lambda n: b"{" + b",".join(b'"%d":0' % i for i in range(n // 14)) + b"}",
    "as many as may be": lambda n: b'{"messages": [' + b'{"ab":1.5},' * (n // 128 - 9) + b"0]}" + b" " * (n // 2),
    "content": lambda n: b'{"messages": [{"name": "u", "content": [' + b"{}," * (n // 3) + b"0]}]}",
    "floats": lambda n: b'{"messages": [' + b"1.5," * (n // 4) + b"0]}",
    "strings": lambda n: b'{"messages": [' + b'"ab",' * (n // 5) + b"0]}",
    "quotes": lambda n: b"[" + b"," * (n // 16) + b'"' * (n // 2),
    "depth": lambda n: b"[" * n,
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_no_body_takes_more_than_a_few_times_the_limit(shape: str) -> None:
    """Also one within it: `{},` is three bytes, and takes seventy."""
    limit = 4 * MIB
    limited = app(guard=GuardOptions(max_body_bytes=limit))
    body = HOSTILE[shape](limit - 100)
    send(limited, content=b"{}", headers=JSON)
    tracemalloc.start()
    try:
        response = send(limited, content=body, headers=JSON)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert response.status_code in (400, 413, 422)
    assert peak < 8 * limit, f"{peak / limit:.1f} times"


def test_an_endless_body_takes_a_few_times_the_limit() -> None:
    limited = app(guard=GuardOptions(max_body_bytes=4 * MIB))
    for piece in (b" " * 65536, b" " * 100):
        tracemalloc.start()
        try:
            send(limited, content=endless(piece), headers=JSON)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 3 * 4 * MIB, f"{peak / 4 / MIB:.1f} times"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('\\"[]{},ab', max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('\\"[{,', max_size=3), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_values_are_counted_and_words_are_not(value: Any) -> None:
    """Each value but the first stands behind an opening or a comma."""

    def count(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        empty = isinstance(value, (dict, list)) and not value
        return 1 + empty + sum(map(count, inner))

    body = json.dumps(value).encode()
    most = count(value) - 1
    check_values(body, most)
    if most:
        with pytest.raises(BodyTooLargeError):
            check_values(body, most - 1)


class TestNesting:
    @pytest.mark.parametrize("depth", [500, 5_000, 100_000])
    @pytest.mark.parametrize(
        "body",
        [
            '{"text": DEEP}',
            '{"messages": [{"name": "u", "content": [DEEP]}]}',
            '{"messages": [{"name": "u", "content": [{"type": "tool_use", "id": "1", "name": "n", "input": DEEP}]}]}',
            '{"answers": [{"type": "approve", "call_id": "1", "input": DEEP}]}',
        ],
    )
    @pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
    def test_it_is_never_an_error_of_the_service(self, body: str, opening: str, closing: str, depth: int) -> None:
        content = body.replace("DEEP", opening * depth + "0" + closing * depth).encode()
        response = send(app(), content=content, headers=JSON)
        refused(response, 422, "InvalidInputError")
        assert len(response.content) < 4000


class TestRequestsOfAClient:
    def test_those_that_are_open(self) -> None:
        model = Speaker(["One "], hang=True)
        options = GuardOptions(max_client_requests=2, client_requests_per_minute=None)
        limited = create_app(lambda request: agent(model), on_disconnect="continue", guard=options)
        with served(limited) as server, server.client() as client, ExitStack() as open_ones:
            sources = [open_ones.enter_context(sse(client, "POST", "/run", json={"text": "hi"})) for _ in range(2)]
            # (held, for it closes its connection when it is let go)
            events = [source.iter_sse() for source in sources]
            assert all(next(each).event == "pre_call" for each in events)
            response = client.post("/run", json={"text": "hi"})
            assert "it may have 2" in refused(response, 429, "TooManyRequestsError")
            assert response.headers["retry-after"] == "1"
            open_ones.close()
            # the server hears of an end a moment later
            while client.get("/runs/x/events").status_code == 429:
                pass
            model.go_on.say()

    def test_those_of_a_minute(self) -> None:
        async def main() -> None:
            known = Clients(None, 60)

            def ask(name: str = "a") -> None:
                with known.admitted(name):
                    pass

            for _ in range(60):
                ask()
            with pytest.raises(TooManyRequestsError, match="60 a minute"):
                ask()
            ask("b")
            await asyncio.sleep(2.5)
            ask()
            ask()
            with pytest.raises(TooManyRequestsError):
                ask()
            await asyncio.sleep(3600)
            for _ in range(60):
                ask()
            with pytest.raises(TooManyRequestsError):
                ask()

        run_virtual(main())

    def test_guesses_of_the_token_count(self) -> None:
        async def main() -> list[int]:
            import httpx

            options = GuardOptions(token="x" * 20, client_requests_per_minute=3)
            transport = httpx.ASGITransport(app(guard=options), client=("203.0.113.9", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                return [(await http.get("/", headers={"authorization": f"Bearer {i}"})).status_code for i in range(5)]

        assert asyncio.run(main()) == [401, 401, 401, 429, 429]

    def test_who_a_client_is(self) -> None:
        def client(address: str) -> str:
            return client_of({"client": (address, 1)})

        assert client("203.0.113.9") == client("::ffff:203.0.113.9") != client("203.0.113.10")
        assert client("2001:db8::1") == client("2001:db8::2") != client("2001:db8:0:1::1")
        assert client("testclient") == "testclient" and client_of({"client": None}) == ""

    def test_clients_that_were_seen_once_are_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clients, "REMEMBERED", 10)

        async def main() -> None:
            known = Clients(5, 60)
            with known.admitted("stays"):
                for number in range(1000):
                    with known.admitted(str(number)):
                        pass
                assert len(known._known) <= 11 and "stays" in known._known

        run_virtual(main())


class TestRuns:
    def test_live_ones(self) -> None:
        models = [Speaker(["One "], hang=True) for _ in range(3)]
        waiting = iter(models)
        limited = create_app(lambda request: agent(next(waiting)), on_disconnect="continue", max_live_runs=2)
        with served(limited) as server, server.client() as client:
            ids: list[str] = []
            for _ in range(2):
                with sse(client, "POST", "/run", json={"text": "hi"}) as source:
                    ids.append(json.loads(next(source.iter_sse()).data)["run_id"])
            response = client.post("/run", json={"text": "hi"})
            told = refused(response, 503, "TooManyRunsError")
            assert told.startswith("2 runs") and int(response.headers["retry-after"]) > 0
            assert not models[2].asked.is_set()
            # what is live can be followed and stopped all the same
            assert client.post(f"/runs/{ids[0]}/interrupt", json={}).json() == {"interrupted": True}
            assert client.delete(f"/runs/{ids[1]}").status_code == 204

    def test_ended_ones(self) -> None:
        async def main() -> None:
            async with Runs(max_kept=2) as runs:
                ids: list[str] = []
                for _ in range(4):
                    run = runs.add(agent(ScriptedModel("x")).stream("hi"), on_disconnect="continue")
                    reader = run.follow()
                    assert [each async for each in reader]
                    await run.leave(reader)
                    await run.idle()
                    assert run.id is not None
                    ids.append(run.id)
                assert [id in runs._by_id for id in ids] == [False, False, True, True]
                assert len(runs._expiring) == 2 and runs.statistics().kept == 2

        run_virtual(main())

    def test_the_limit_holds_for_what_is_followed_at_once(self) -> None:
        async def main() -> None:
            async with Runs(max_live=1) as runs:
                first = runs.add(agent(ScriptedModel(["x", HANG])).stream("hi"))
                second = runs.add(agent(ScriptedModel("x")).stream("hi"))
                reader = first.follow()
                with pytest.raises(TooManyRunsError) as caught:
                    second.follow()
                assert caught.value.limit == 1 and caught.value.retryable
                await first.leave(reader)
                reader = second.follow()
                assert [each async for each in reader]
                await second.leave(reader)

        run_virtual(main())

    @pytest.mark.parametrize("followed", [False, True])
    def test_events_are_kept_by_their_size_too(self, followed: bool) -> None:
        """A model may say much in few chunks; who reads slowly slows it, and misses nothing."""

        async def main() -> None:
            words = ["x" * 10_000] * 50
            async with Runs() as runs:
                events = agent(ScriptedModel(words)).stream("hi")
                run = runs.add(events, on_disconnect="continue", max_bytes=100_000)
                reader = run.follow()
                if not followed:
                    await run.leave(reader)
                else:
                    seen: list[int] = []
                    async for each in reader:
                        seen.append(each.seq)
                        await asyncio.sleep(1)
                        assert run.handle is not None
                        # (one model chunk is in the making when the limit is reached; the reply is one event)
                        assert (
                            sum(
                                len(each.json)
                                for each in run.handle._log.values
                                if each.event.type == "reasoning_chunk"
                            )
                            < 130_000
                        )
                    assert seen == list(range(len(seen))) and len(seen) > 50
                await run.idle()
                assert run.handle is not None
                kept = [len(each.json) for each in run.handle._log.values]
                assert sum(kept) <= 100_000 or len(kept) == 1 or followed

        run_virtual(main())

    @pytest.mark.parametrize("options", [{"max_live": 0}, {"max_kept": -1}, {"max_live": 1.5}])
    def test_limits_that_are_none(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            Runs(**options)


def half_a_body(server: Served, chunked: bool) -> None:
    head = "transfer-encoding: chunked" if chunked else "content-length: 1000"
    with RawClient(server.port) as client:
        client.socket.sendall(
            f"POST /run HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{head}\r\n\r\n".encode()
            + (b'a\r\n{"text": "\r\n' if chunked else b'{"text": "')
        )


class TestLeaving:
    @pytest.mark.parametrize("chunked", [False, True])
    def test_in_mid_body_logs_nothing(self, chunked: bool, caplog: pytest.LogCaptureFixture) -> None:
        """No traceback, no 500, and nothing was begun."""
        made: list[object] = []
        left = threading.Semaphore(0)

        def factory(request: object) -> Any:
            made.append(request)
            return agent(ScriptedModel("x"))

        inner = create_app(factory, token=None)

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            await inner(scope, receive, send)
            if scope["type"] == "http":
                left.release()

        with caplog.at_level(logging.INFO), served(watched) as server:
            for _ in range(5):
                half_a_body(server, chunked)
                assert left.acquire(timeout=20)
        loud = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert [record.getMessage()[:11] for record in loud] == ["No token is"]
        assert not made

    def test_in_an_application_of_its_own(self, caplog: pytest.LogCaptureFixture) -> None:
        left = threading.Semaphore(0)

        async def begin(request: Any) -> Any:
            return sse_response(agent(ScriptedModel("x")).stream(await request.json()))

        inner = Starlette(
            routes=[Route("/run", begin, methods=["POST"])],
            middleware=[Middleware(RequestGuard, options=GuardOptions(allow_anonymous=True))],
        )

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            await inner(scope, receive, send)
            if scope["type"] == "http":
                left.release()

        with caplog.at_level(logging.WARNING), served(watched) as server:
            half_a_body(server, chunked=False)
            assert left.acquire(timeout=20)
        assert not caplog.records


def test_what_is_wrong_within_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    def factory(request: object) -> Any:
        raise OSError("/etc/secret/path is not readable")

    expected = ["Exception in ASGI application"]
    with served(create_app(factory), expected=expected) as server, server.client() as client:
        told = refused(client.post("/run", json={"text": "hi"}), 500, "OSError")
        assert "secret" not in told
    with served(app()) as server, server.client() as client:
        refused(client.get("/nothing"), 404, "HTTPException")
        refused(client.get("/run"), 405, "HTTPException")
    assert any("secret" in str(record.exc_info) for record in caplog.records)


def test_a_run_cannot_be_guessed() -> None:
    ids = {ask_id() for _ in range(20)}
    assert len(ids) == 20 and all(len(id) == 32 and int(id, 16) for id in ids)


def ask_id() -> str:
    response = send(app())
    return json.loads(response.text.split("data: ", 1)[1].split("\n", 1)[0])["run_id"]


def test_an_answer_is_json() -> None:
    for response in (send(app(), client="203.0.113.9"), send(app(), content=b"x")):
        assert isinstance(JSONResponse(response.json()), JSONResponse)
        assert response.headers["content-type"] == "application/json"
