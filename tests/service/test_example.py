"""The example runs as printed: with its script, and against an OpenAI-compatible server."""

from __future__ import annotations

import json
import runpy
from typing import Any

import pytest
from openai import OpenAI
from starlette.testclient import TestClient

from agentscope_rx.events import PostCallEvent
from agentscope_rx.testing import ScriptedModel
from tests.docs.pages import ROOT, blocks_of
from tests.service.serving import ask, events_of, served, sse
from tests.support.openai_server import openai_server

EXAMPLE = ROOT / "examples" / "sse_service.py"
PAGE = ROOT / "docs" / "guides" / "service.md"


def test_with_its_script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AGENTSCOPE_RX_MODEL", raising=False)
    monkeypatch.delenv("AGENT_TOKEN", raising=False)
    module = runpy.run_path(str(EXAMPLE))
    script = module["model"]()
    assert isinstance(script, ScriptedModel)
    # its pauses are for people
    steps = [[step for step in turn if isinstance(step, str) or hasattr(step, "name")] for turn in script.turns]
    module["agent_of"].__globals__["model"] = lambda: ScriptedModel(*steps, repeat=True)
    with served(module["app"]) as server, server.client() as client:
        for name in ("one", "two", "one"):
            client.headers["x-conversation"] = name
            events = ask(client, "Weather in Paris?")
            assert isinstance(events[-1], PostCallEvent) and "sunny in Paris" in events[-1].message.text
            path = f"/runs/{events[0].run_id}/events"
            assert client.get(path, headers={"last-event-id": str(events[-1].seq)}).status_code == 204
    assert sorted(module["agents"]) == ["one", "two"]


def test_with_a_model_behind_a_server(monkeypatch: pytest.MonkeyPatch):
    with openai_server() as upstream:
        monkeypatch.setenv("AGENTSCOPE_RX_MODEL", "openai:test")
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("OPENAI_BASE_URL", upstream.base_url)
        with served(runpy.run_path(str(EXAMPLE))["app"]) as server, server.client() as client:
            assert ask(client, "Weather?")[-1].message.text.strip() == "You said: Sunny in Paris, 21 degrees."


def test_the_applications_of_the_page(monkeypatch: pytest.MonkeyPatch):
    blocks = blocks_of(PAGE.read_text(encoding="utf-8"))
    small, guarded, own, fastapi, websocket, others = (block.text for block in blocks if block.language == "python")
    with openai_server() as upstream:
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("OPENAI_BASE_URL", upstream.base_url)
        page: dict[str, Any] = {}
        exec(small, page)
        with served(page["app"]) as server, server.client() as client:
            assert ask(client, "hi")[-1].message.text.strip() == "You said: hi"
        exec(guarded, page)
        with served(page["app"]) as server, server.client() as client:
            bearer = "Bearer a-long-secret-from-your-settings"
            client.headers.update({"host": "agents.example.com", "authorization": bearer})
            assert ask(client, "hi")[-1].message.text.strip() == "You said: hi"
        exec(own, page)
        with served(page["app"]) as server, server.client() as client:
            with sse(client, "POST", "/ask", json="hi") as source:
                assert isinstance(events_of(source)[-1], PostCallEvent)
            with sse(client, "POST", "/begin", json="hi") as source:
                events = events_of(source)
            with sse(client, "GET", f"/resume/{events[0].run_id}", headers={"last-event-id": "0"}) as source:
                assert events_of(source) == events[1:]
            assert client.get("/resume/nothing").status_code == 404
        exec(others, page)
        bearer = "a-long-secret-from-your-settings"
        with served(page["app"]) as server, OpenAI(base_url=f"{server.url}/v1", api_key=bearer) as openai:
            made = openai.chat.completions.create(model="friday", messages=[{"role": "user", "content": "hi"}])
            assert (made.choices[0].message.content or "").strip() == "You said: hi"
        exec(fastapi + websocket, page)
        with served(page["api"]) as server, server.client() as client:
            with sse(client, "POST", "/ask", json={"text": "hi"}) as source:
                assert isinstance(events_of(source)[-1], PostCallEvent)
            assert client.get(f"/runs/{events[0].run_id}").status_code == 404
        caller = TestClient(page["api"], client=("127.0.0.1", 50000))
        with caller, caller.websocket_connect("ws://127.0.0.1/chat") as socket:
            socket.send_text("hi")
            assert json.loads(socket.receive_text())["type"] == "pre_call"
