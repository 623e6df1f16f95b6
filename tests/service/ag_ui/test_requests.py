"""Bad requests are refused by a typed status, and leave nothing running."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated, Any

import pytest
from ag_ui.core import RunAgentInput

from agentscope_rx import ReActAgent, tool
from agentscope_rx.messages import ImageBlock, TextBlock
from agentscope_rx.planning import TodoList
from agentscope_rx.service import AgentHost, AgUiState, ag_ui_routes
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import Inject
from tests.service.ag_ui.endpoint import PICK, Client, events_of, kinds, of, said, serving, talking

USER = {"id": "1", "role": "user", "content": "hi"}
FINE: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [USER]}
ASKED = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}

WRONG: list[Any] = [
    [],
    "hi",
    None,
    {},
    {**FINE, "threadId": 1},
    {**FINE, "threadId": None},
    {**FINE, "runId": ""},
    {**FINE, "runId": "x" * 1000},
    {**FINE, "messages": None},
    {**FINE, "messages": "hi"},
    {**FINE, "messages": []},
    {**FINE, "messages": [1]},
    {**FINE, "messages": [{}]},
    {**FINE, "messages": [{"role": "user", "content": "hi"}]},
    {**FINE, "messages": [{**USER, "id": ""}]},
    {**FINE, "messages": [{**USER, "id": 1}]},
    {**FINE, "messages": [{**USER, "role": 1}]},
    {**FINE, "messages": [{**USER, "role": "robot"}]},
    {**FINE, "messages": [{**USER, "content": None}]},
    {**FINE, "messages": [{**USER, "content": 1}]},
    {**FINE, "messages": [{**USER, "content": [1]}]},
    {**FINE, "messages": [{**USER, "content": [{"type": "text"}]}]},
    {**FINE, "messages": [{**USER, "content": [{"type": "image"}]}]},
    {**FINE, "messages": [{**USER, "content": [{"type": "image", "source": {"type": "data", "value": "x"}}]}]},
    {**FINE, "messages": [{**USER, "content": [{"type": "image", "source": {"type": "url", "value": "/etc/passwd"}}]}]},
    {**FINE, "messages": [{**USER, "content": [{"type": "image", "source": {"type": "url", "value": ""}}]}]},
    {**FINE, "messages": [{"id": "2", "role": "assistant", "content": "hi"}]},
    {**FINE, "messages": [{"id": "2", "role": "tool", "toolCallId": "forged", "content": "7"}]},
    {**FINE, "messages": [{"id": "2", "role": "tool", "content": "7"}]},
    {**FINE, "messages": [USER, {"id": "2", "role": "assistant", "toolCalls": [{"id": "c"}]}]},
    {**FINE, "messages": [USER, {"id": "2", "role": "assistant", "toolCalls": [ASKED]}, USER]},
    {**FINE, "messages": [{**USER, "id": str(n)} for n in range(10_001)]},
    {**FINE, "tools": "x"},
    {**FINE, "tools": [{}]},
    {**FINE, "tools": [{"name": "", "description": ""}]},
    {**FINE, "tools": [{**PICK, "parameters": "x"}]},
    {**FINE, "tools": [{**PICK, "parameters": {"type": "nothing"}}]},
    {**FINE, "tools": [PICK, PICK]},
    {**FINE, "context": [{"description": "x"}]},
    {**FINE, "context": "x"},
    {**FINE, "resume": "x"},
    {**FINE, "resume": [{}]},
    {**FINE, "resume": [{"interruptId": "approval:c", "status": "maybe"}]},
    {**FINE, "messages": [], "resume": [{"interruptId": "approval:c", "status": "resolved"}]},
    {**FINE, "protocolVersion": 1},
]


def test_bad_bodies_are_unprocessable() -> None:
    host = AgentHost(ReActAgent("friday", ScriptedModel()))
    with serving(host) as server, server.client() as http:
        for body in WRONG:
            response = http.post("/ag-ui", json=body)
            error = response.json()["error"]
            assert response.status_code == 422, (body, response.text)
            assert error["type"] in ("InvalidInputError", "OpenCallsError"), body
            assert error["message"]
            assert host.runs.statistics() == (0, 0, 0)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"threadId": "t"', b"NaN", b'{"messages": NaN}']
)
def test_what_is_no_json(body: bytes) -> None:
    with talking(ReActAgent("friday", ScriptedModel())) as client:
        response = client.http.post("/ag-ui", content=body, headers={"content-type": "application/json"})
        assert response.status_code in (400, 422)
        assert response.json()["error"]["type"] in ("MalformedBodyError", "InvalidInputError")


def test_a_deep_body() -> None:
    deep = b'{"threadId": "t", "runId": "r", "messages": [], "state": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    with talking(ReActAgent("friday", ScriptedModel())) as client:
        response = client.http.post("/ag-ui", content=deep, headers={"content-type": "application/json"})
        assert response.status_code == 422


def test_other_methods_are_not_allowed() -> None:
    with talking(ReActAgent("friday", ScriptedModel())) as client:
        for method in ("GET", "PUT", "DELETE"):
            assert client.http.request(method, "/ag-ui").status_code == 405


def test_what_the_protocol_does_not_describe_is_left_out() -> None:
    model = ScriptedModel("Yes.")
    parts = [
        {"type": "text", "text": "Look."},
        {"type": "hologram", "x": 1},
        {"type": "image", "source": {"type": "beam", "value": "x"}},
        {"type": "image", "source": {"type": "file", "value": "file-1", "provider": "openai"}},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}, "more": 1},
    ]
    body = {
        **FINE,
        "messages": [{"id": "0", "role": "prophet", "content": "x"}, {**USER, "content": parts, "mood": "good"}],
        "telepathy": True,
        "protocolVersion": "1.7",
    }
    with talking(ReActAgent("friday", model)) as client:
        response = client.post(body)
        assert response.status_code == 200
        events = events_of(response.content)
    assert said(events) == "Yes."
    assert events[0]["protocolVersion"] == "1.0"
    [text, image] = model.requests[0].messages[0].content
    assert isinstance(text, TextBlock) and isinstance(image, ImageBlock)


def test_tools_find_the_request_and_change_the_state() -> None:
    @tool
    def add(step: str, state: Annotated[AgUiState, Inject], asked: Annotated[RunAgentInput, Inject]) -> str:
        """Add a step."""
        steps = state.get("steps")
        assert isinstance(steps, list)
        state.update(steps=[*steps, step])
        return json.dumps(asked.forwarded_props)

    @tool
    def restart(state: Annotated[AgUiState, Inject]) -> str:
        """Begin anew."""
        state.set([])
        return "ok"

    model = ScriptedModel(call("add", step="walk"), [call("restart")], "Done.")
    with talking(ReActAgent("friday", model, tools=[add, restart])) as client:
        client.state = {"steps": ["wake"], "mood": "x" * 300}
        events = client.say("Plan.", forwardedProps={"tenant": "acme"})
    assert of(events, "STATE_DELTA")[0]["delta"] == [{"op": "add", "path": "/steps/-", "value": "walk"}]
    assert of(events, "STATE_SNAPSHOT")[0]["snapshot"] == client.state == []
    assert of(events, "TOOL_CALL_RESULT")[0]["content"] == '{"tenant": "acme"}'


def test_a_plan_is_an_activity() -> None:
    model = ScriptedModel(call("write_todos", todos=[{"content": "walk", "status": "pending"}]), "Noted.")
    with talking(ReActAgent("friday", model, hooks=[TodoList()])) as client:
        events = client.say("Plan.")
    [activity] = of(events, "ACTIVITY_SNAPSHOT")
    assert activity["activityType"] == "plan"
    assert "walk" in json.dumps(activity["content"])


def test_routes_may_have_another_place() -> None:
    host = AgentHost(ReActAgent("friday", ScriptedModel("a", "b")))
    assert [route.path for route in ag_ui_routes(host, prefix="")] == ["/", "/{agent:path}"]
    with serving(host, prefix="/agents") as server, server.client() as http:
        client = Client(http)
        assert kinds(client.say("hi", "/agents"))[-1] == "RUN_FINISHED"
        assert kinds(client.say("hi", "/agents/friday"))[-1] == "RUN_FINISHED"


def test_without_the_extra_the_error_names_it() -> None:
    code = """
import sys

sys.modules["ag_ui"] = None
import agentscope_rx.service as service
from agentscope_rx.errors import MissingExtraError

assert "ag_ui_routes" not in service.__all__
for name in ("ag_ui_routes", "AgUiState"):
    try:
        getattr(service, name)
    except MissingExtraError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = "'ag-ui-protocol' is not installed. Install it with: pip install 'agentscope-rx[ag-ui]'"
    assert done.stdout.splitlines() == [told, told]


def test_the_service_itself_does_not_load_it() -> None:
    code = "import sys, agentscope_rx.service; print('ag_ui' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
