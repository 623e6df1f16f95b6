"""`protocol_app`: routes of protocols with a guard, health, an access log, metrics and draining."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from agentscope_rx import GracefulShutdown, ReActAgent, tool
from agentscope_rx.errors import AgentShuttingDownError
from agentscope_rx.events import ErrorEvent, PostCallEvent
from agentscope_rx.guard import GuardOptions
from agentscope_rx.service import AgentHost, events_routes, openai_routes, protocol_app
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, call
from tests.service.serving import PATIENCE, RawClient, Speaker, ask, events_of, served, sse


def friday(*script: Any, **options: Any) -> ReActAgent:
    return ReActAgent("friday", ScriptedModel(*script), **options)


def body_of(client: httpx.Client, path: str) -> tuple[int, Any]:
    response = client.get(path)
    return response.status_code, response.json()


def test_our_own_events_of_a_host() -> None:
    model = ScriptedModel("Hi Ann.", "You are Ann.", "Who?")
    host = AgentHost({"friday": ReActAgent("friday", model), "other": friday("I am other.")})
    with served(protocol_app(host, events_routes(host))) as server, server.client() as client:
        for text, session in (("I am Ann.", "s1"), ("Who am I?", "s1"), ("Who am I?", "s2")):
            with sse(client, "POST", "/run", json={"text": text, "agent": "friday", "session_id": session}) as source:
                assert isinstance(events_of(source)[-1], PostCallEvent)
        with sse(client, "POST", "/run", json={"text": "hi", "agent": "other"}) as source:
            assert events_of(source)[-1].message.text == "I am other."  # type: ignore[attr-defined]
        missing = client.post("/run", json={"text": "hi", "agent": "nobody"})
        assert (missing.status_code, missing.json()["error"]["type"]) == (404, "UnknownAgentError")
        assert client.post("/run", json={"text": "hi"}).status_code == 404
    assert [message.text for message in model.requests[1].messages] == ["I am Ann.", "Hi Ann.", "Who am I?"]
    assert [message.text for message in model.requests[2].messages] == ["Who am I?"]


def test_a_stored_conversation_takes_answers() -> None:
    @tool(requires_approval=True)
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    host = AgentHost(friday(call("wipe"), "Done.", tools=[wipe]))
    with served(protocol_app(host, events_routes(host, prefix="/own"))) as server, server.client() as client:
        with sse(client, "POST", "/own/run", json={"text": "Wipe.", "session_id": "s"}) as source:
            [waiting] = events_of(source)[-1].message.pending_calls  # type: ignore[attr-defined]
        answers = [{"type": "approve", "call_id": waiting.id}]
        with sse(client, "POST", "/own/run", json={"answers": answers, "session_id": "s"}) as source:
            assert events_of(source)[-1].message.text == "Done."  # type: ignore[attr-defined]


def test_health_is_told_without_a_token() -> None:
    host = AgentHost(friday())
    app = protocol_app(host, openai_routes(host), token="0123456789abcdef")
    with served(app) as server, server.client() as client:
        assert body_of(client, "/healthz") == (200, {"status": "ok"})
        assert body_of(client, "/readyz") == (200, {"status": "ready"})
        assert client.get("/v1/models").status_code == 401
        client.headers["authorization"] = "Bearer 0123456789abcdef"
        assert client.get("/v1/models").status_code == 200


def test_a_store_that_fails_is_not_ready() -> None:
    class Broken(InMemorySession):
        def exists(self, key: str) -> Any:
            raise OSError("secret-host is away")

    host = AgentHost(friday(), sessions=Broken())
    with served(protocol_app(host)) as server, server.client() as client:
        assert body_of(client, "/readyz") == (503, {"status": "store"})
        assert client.get("/healthz").status_code == 200


def test_origins_are_refused_unless_named() -> None:
    origin = {"origin": "https://app.example.com"}
    asked = {**origin, "access-control-request-method": "POST"}
    host = AgentHost(friday("ok"))
    with served(protocol_app(host, events_routes(host))) as server, server.client() as client:
        assert client.options("/run", headers=asked).status_code == 403
        assert client.post("/run", json={"text": "hi"}, headers=origin).status_code == 403
    host = AgentHost(friday("ok"))
    guard = GuardOptions(allowed_origins=["https://app.example.com"])
    with served(protocol_app(host, events_routes(host), guard=guard)) as server, server.client() as client:
        assert client.options("/run", headers=asked).headers["access-control-allow-origin"] == origin["origin"]
        made = client.post("/run", json={"text": "hi"}, headers=origin)
        assert made.headers["access-control-allow-origin"] == origin["origin"]


def test_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentscope_rx.access")
    model = Speaker(["a"], hang=True)
    host = AgentHost({"friday": friday("hi"), "slow": ReActAgent("slow", model)})
    with served(protocol_app(host, events_routes(host), access_log=True)) as server:
        with server.client() as client:
            client.get("/healthz?secret=1")
            client.post("/run", json={"text": "hi", "agent": "friday"})
            assert client.post("/run", content=b"{").status_code == 415
        with RawClient(server.port) as raw:
            raw.send("POST", "/run", {"text": "hi", "agent": "slow"})
            raw.read_until(b"reasoning_chunk")
        assert model.closed.wait(PATIENCE)
    requests: list[dict[str, Any]] = [record.request for record in caplog.records if hasattr(record, "request")]
    said = [(each["method"], each["path"], each["status"], each["complete"]) for each in requests]
    assert said == [
        ("GET", "/healthz", 200, True),
        ("POST", "/run", 200, True),
        ("POST", "/run", 415, True),
        ("POST", "/run", 200, False),
    ]
    assert requests[1]["bytes"] > 100
    assert requests[1]["seconds"] >= requests[1]["first_byte_seconds"] > 0


def test_figures_for_prometheus() -> None:
    pytest.importorskip("opentelemetry.exporter.prometheus")
    host = AgentHost(friday("hi"))
    with served(protocol_app(host, events_routes(host), metrics=True)) as server, server.client() as client:
        ask(client)
        client.request("BREW", "/pot")
        text = client.get("/metrics").text
    for line in (
        'http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="200"',
        'http_server_active_requests{http_request_method="GET"',
        'agentscope_service_runs{agentscope_run_state="live"',
    ):
        assert line in text, text
    assert "BREW" not in text and "/pot" not in text


def test_a_host_that_drains_lets_runs_end() -> None:
    model = Speaker(["a"], hang=True)
    host = AgentHost(ReActAgent("friday", model))
    app = protocol_app(host, events_routes(host))
    with (
        served(app) as server,
        server.client() as client,
        sse(client, "POST", "/run", json={"text": "hi"}) as source,
    ):
        assert model.asked.wait(PATIENCE)
        reports: list[Any] = []
        server.on_loop(lambda: host.drain().subscribe(reports.append))
        assert body_of(client, "/readyz") == (503, {"status": "draining"})
        refused = client.post("/run", json={"text": "hi"})
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "ServiceStoppingError")
        assert refused.headers["retry-after"] == "5"
        model.go_on.say()
        assert events_of(source)[-1].message.text == "aat last"  # type: ignore[attr-defined]
    assert len(reports[0].finished) == 1


def test_a_run_that_was_cut_off_goes_on_in_another_host() -> None:
    store = InMemorySession()
    hanging = Speaker(["a"], hang=True)
    first = AgentHost(ReActAgent("friday", hanging), sessions=store, shutdown=GracefulShutdown(timeout=0.05))
    with served(protocol_app(first, events_routes(first))) as server, server.client() as client:
        with sse(client, "POST", "/run", json={"text": "I am Ann.", "session_id": "s"}) as source:
            assert hanging.asked.wait(PATIENCE)
            server.on_loop(lambda: first.drain().subscribe())
            last = events_of(source)[-1]
        assert isinstance(last, ErrorEvent)
        assert last.error_type == AgentShuttingDownError.__name__
    model = ScriptedModel("Hi Ann.")
    second = AgentHost(ReActAgent("friday", model), sessions=store)
    with (
        served(protocol_app(second, events_routes(second))) as server,
        server.client() as client,
        sse(client, "POST", "/run", json={"messages": [], "session_id": "s"}) as source,
    ):
        assert events_of(source)[-1].message.text == "Hi Ann."  # type: ignore[attr-defined]
    # the part that was received is kept
    assert [message.text for message in model.requests[0].messages] == ["I am Ann.", "a"]
