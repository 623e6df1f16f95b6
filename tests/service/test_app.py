"""The small application: what it takes, what it refuses, and that its routes do what they say."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import ErrorEvent, InputEvent, PostCallEvent, PreCallEvent, ReasoningChunkEvent, StreamOptions
from agentscope_rx.messages import GenerateReason, ImageBlock, Msg, TextBlock, URLSource
from agentscope_rx.service import Runs, ServiceStoppingError, create_app
from agentscope_rx.session import InMemorySession, SessionLease
from agentscope_rx.testing import ScriptedModel, call
from tests.agent.parts import agent, remembered
from tests.service.serving import PATIENCE, Speaker, ask, checked, events_of, served, sse

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def quick():
    """One server for the requests that need no server of their own."""
    friday = agent(ScriptedModel("fine", repeat=True))
    with served(create_app(friday)) as server, server.client() as client:
        yield client, friday


def refused(response, status: int, kind: str) -> str:
    """What an error response says."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    error = response.json()["error"]
    assert error["type"] == kind and set(error) == {"type", "message"}
    return error["message"]


def test_a_question_and_its_events():
    friday = agent(ScriptedModel(call("weather", city="Oslo"), "Sunny."))
    with served(create_app(friday)) as server, server.client() as client:
        events = ask(client, "Weather?")
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(events[-1], PostCallEvent) and events[-1].message.text == "Sunny."
    assert [message.role for message in remembered(friday)] == ["user", "assistant", "tool", "assistant"]


def test_messages_in_full(quick):
    client, _ = quick
    msgs = [Msg.user([TextBlock("look"), ImageBlock(URLSource("http://x/y.png"))]), Msg.user("now")]
    body = {"messages": [json.loads(msg.to_json()) for msg in msgs]}
    with sse(client, "POST", "/run", json=body) as source:
        first = events_of(source)[0]
    assert isinstance(first, PreCallEvent) and first.input == tuple(msgs)


def test_calls_that_wait_are_answered_over_http():
    done: list[str] = []

    @tool(requires_approval=True)
    def delete(path: str) -> str:
        """Deletes."""
        done.append(path)
        return f"deleted {path}"

    friday = agent(ScriptedModel([call("delete", path="a"), call("delete", path="b")], "Done."), tools=[delete])
    with served(create_app(friday)) as server, server.client() as client:
        reply = ask(client, "go")[-1].message
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        one, two = reply.pending_calls
        answers = [
            {"type": "approve", "call_id": one.id, "input": {"path": "c"}},
            {"type": "reject", "call_id": two.id, "reason": "no"},
        ]
        with sse(client, "POST", "/run", json={"answers": answers}) as source:
            assert events_of(source)[-1].message.text == "Done."
        response = client.post("/run", json={"answers": [{"type": "maybe", "call_id": "x"}]})
        for wrong in ({"type": "maybe", "call_id": "x"}, {"type": "reject", "call_id": ""}):
            response = client.post("/run", json={"answers": [wrong]})
            assert "answers.0" in refused(response, 422, "InvalidInputError")
    assert done == ["c"]


def test_no_messages_go_on_from_memory(quick):
    client, _ = quick
    with sse(client, "POST", "/run", json={"messages": []}) as source:
        assert events_of(source)[0].input == ()


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[" * 100_000, b"text=hi", b'{"text": NaN}', b"9" * 5000])
def test_a_body_that_is_not_json(quick, raw):
    client, _ = quick
    assert "not JSON" in refused(client.post("/run", content=raw, headers=JSON), 400, "MalformedBodyError")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (None, "give either text or messages"),
        ({}, "give either text or messages"),
        ([], "valid dictionary"),
        ("hi", "valid dictionary"),
        (7, "valid dictionary"),
        ({"text": 7}, "text: "),
        ({"text": "a", "messages": []}, "give either text or messages"),
        ({"txet": "a"}, "txet: "),
        ({"messages": "a"}, "messages: "),
        ({"messages": [{"name": "u"}]}, "messages.0.content"),
        ({"messages": [{"name": "u", "content": [{"type": "video_call"}]}]}, "messages.0.content.0"),
        ({"messages": [{"name": "u", "content": [], "role": "king"}]}, "messages.0.role"),
        ({"messages": [json.loads(Msg.system("x").to_json())]}, "SYSTEM message"),
    ],
)
def test_a_body_that_is_not_what_an_agent_takes(quick, body, says):
    client, _ = quick
    content = b"" if body is None else json.dumps(body).encode()
    assert says in refused(client.post("/run", content=content, headers=JSON), 422, "InvalidInputError")


def test_unknown_runs_and_methods(quick):
    client, _ = quick
    for response in (
        client.get("/runs/none/events"),
        client.post("/runs/none/interrupt"),
        client.post("/runs/none/input", json={"text": "hi"}),
        client.delete("/runs/none"),
    ):
        assert "'none'" in refused(response, 404, "UnknownRunError")
    assert client.get("/run").status_code == 405


def test_a_run_that_ends_with_its_client_is_forgotten(quick):
    client, _ = quick
    id = ask(client)[0].run_id
    refused(client.get(f"/runs/{id}/events"), 404, "UnknownRunError")


def test_a_busy_agent_is_409_before_a_stream_begins():
    model = Speaker(["One "], hang=True)
    with (
        served(create_app(agent(model))) as server,
        server.client() as client,
        server.client() as other,
        sse(client, "POST", "/run", json={"text": "hi"}) as source,
    ):
        events = source.iter_sse()
        first = checked(next(events))
        assert first.run_id in refused(other.post("/run", json={"text": "me too"}), 409, "AgentBusyError")
        model.go_on.say()
        assert [event.event for event in events][-1] == "post_call"


def test_a_conversation_leased_elsewhere_is_409():
    session = InMemorySession()
    friday = agent(ScriptedModel("fine"))
    friday.bind(session, "ann", lease="error").run()
    elsewhere = SessionLease(session, "ann")
    elsewhere.acquire().run()
    with served(create_app(friday)) as server, server.client() as client:
        text = refused(client.post("/run", json={"text": "hi"}), 409, "ConversationLeasedError")
        assert f"process {os.getpid()}" in text
        elsewhere.release().run()
        assert ask(client)[-1].type == "post_call"


def test_a_second_client_may_wait_for_its_turn():
    model = Speaker(["One "], hang=True)
    friday = agent(model, when_busy="queue")
    replies: list[str] = []

    def wait() -> None:
        with server.client() as other:
            replies.append(ask(other, "me too")[-1].message.text)

    waiting = threading.Thread(target=wait)
    with (
        served(create_app(friday)) as server,
        server.client() as client,
        sse(client, "POST", "/run", json={"text": "hi"}) as source,
    ):
        events = source.iter_sse()
        first = checked(next(events)).run_id
        waiting.start()
        for _ in range(1000):
            if len(friday.entered) == 2:
                break
            client.get("/runs/none/events")
        assert [run.stats().waiting_for for run in friday.entered] == [None, first]
        model.go_on.say()
        assert [event.event for event in events][-1] == "post_call"
        waiting.join(PATIENCE)
    assert replies == ["One at last"]
    assert [m.text for m in remembered(friday)] == ["hi", "One at last", "me too", "One at last"]


def test_only_what_was_chosen_is_shown():
    app = create_app(agent(ScriptedModel(["a", "b"])), options=StreamOptions(kinds=(ReasoningChunkEvent,)))
    with served(app) as server, server.client() as client:
        events = ask(client)
    assert [event.type for event in events] == ["reasoning_chunk", "reasoning_chunk"]
    assert [event.seq for event in events] == [0, 1]


def test_a_failing_run_ends_a_whole_response_with_an_error():
    with served(create_app(agent(ScriptedModel(ValueError("no idea"))))) as server, server.client() as client:
        events = ask(client)
    assert isinstance(events[-1], ErrorEvent)
    assert (events[-1].error_type, events[-1].error_text) == ("ValueError", "no idea")


def test_an_interruption_from_another_client():
    model = Speaker(["One "], hang=True)
    app = create_app(agent(model), on_disconnect="continue")
    with served(app) as server, server.client() as client, server.client() as other:
        with sse(client, "POST", "/run", json={"text": "hi"}) as source:
            events = source.iter_sse()
            id = checked(next(events)).run_id
            model.asked.wait(PATIENCE)
            refused(other.post(f"/runs/{id}/interrupt", json={"words": 1}), 422, "InvalidInputError")
            assert other.post(f"/runs/{id}/interrupt", json={"text": "enough"}).json() == {"interrupted": True}
            last = [checked(event) for event in events][-1]
        assert isinstance(last, PostCallEvent) and last.message.text == "enough"
        assert last.message.generate_reason is GenerateReason.INTERRUPTED
        assert model.closed.wait(PATIENCE)
        assert other.post(f"/runs/{id}/interrupt").json() == {"interrupted": False}


def test_input_to_a_live_run_from_another_client():
    model = Speaker(["One "], hang=True)
    friday = agent(model)
    app = create_app(friday, on_disconnect="continue")
    with served(app) as server, server.client() as client, server.client() as other:
        with sse(client, "POST", "/run", json={"text": "hi"}) as source:
            events = source.iter_sse()
            id = checked(next(events)).run_id
            model.asked.wait(PATIENCE)
            where = f"/runs/{id}/input"
            for body in ({}, {"text": "a", "messages": []}, {"text": "a", "when": "now"}, {"answers": []}):
                refused(other.post(where, json=body), 422, "InvalidInputError")
            system = json.loads(Msg.system("x").to_json())
            refused(other.post(where, json={"messages": [system]}), 422, "InvalidInputError")
            refused(other.post(where, content=b"{", headers=JSON), 400, "MalformedBodyError")
            message = json.loads(Msg.user("and then this").to_json())
            for body in ({"messages": [message], "when": "idle"}, {"text": "steer"}):
                response = other.post(where, json=body)
                assert (response.status_code, response.json()) == (202, {"enqueued": True})
            model.go_on.say()
            seen = [checked(event) for event in events]
        assert [each.input[0].text for each in seen if isinstance(each, InputEvent)] == ["steer", "and then this"]
        assert id in refused(other.post(where, json={"text": "late"}), 409, "RunEndedError")


def test_a_run_is_stopped_by_another_client():
    model = Speaker(["One "], hang=True)
    friday = agent(model)
    app = create_app(friday, on_disconnect="continue")
    with served(app) as server, server.client() as client, server.client() as other:
        with sse(client, "POST", "/run", json={"text": "hi"}) as source:
            events = source.iter_sse()
            id = checked(next(events)).run_id
            model.asked.wait(PATIENCE)
            assert other.delete(f"/runs/{id}").status_code == 204
            assert model.closed.is_set() and not friday.running
            last = [checked(event) for event in events][-1]
        assert isinstance(last, ErrorEvent) and last.error_type == "RunStoppedError"
        refused(other.delete(f"/runs/{id}"), 404, "UnknownRunError")


def test_what_is_gone_is_410_and_nonsense_is_422():
    app = create_app(agent(ScriptedModel(["a "] * 50)), on_disconnect="continue", log_capacity=5)
    with served(app) as server, server.client() as client:
        events = ask(client)
        path, last = f"/runs/{events[0].run_id}/events", len(events) - 1
        assert "no longer has" in refused(client.get(path), 410, "EventsGoneError")
        refused(client.get(path, params={"last_event_id": 3}), 410, "EventsGoneError")
        refused(client.get(path, params={"last_event_id": last + 1}), 422, "InvalidInputError")
        refused(client.get(path, headers={"last-event-id": "abc"}), 422, "InvalidInputError")
        with sse(client, "GET", path, params={"last_event_id": last - 5}) as source:
            assert events_of(source) == events[-5:]
        head = client.head(path)
        assert head.status_code == 200 and not head.content


def test_a_factory_chooses_the_agent_of_a_request(caplog):
    agents = {name: agent(ScriptedModel(name, repeat=True)) for name in ("anna", "ben")}

    async def chosen(request):
        await asyncio.sleep(0)
        assert (await request.json())["text"] == "hi"
        return agents.get(request.headers["x-user"])

    expected = ["ConfigurationError"]
    with served(create_app(chosen), expected=expected) as server, server.client() as client:
        for name in agents:
            client.headers["x-user"] = name
            assert ask(client)[-1].message.text == name
        client.headers["x-user"] = "nobody"
        told = refused(client.post("/run", json={"text": "hi"}), 500, "ConfigurationError")
        # what is wrong within the service is for its log
        assert told == "The service failed. See its log."
    assert any("must return an Agent" in record.getMessage() for record in caplog.records)


def test_it_is_part_of_a_larger_application(quick):
    whole = Starlette(routes=[Mount("/agent", create_app(agent(ScriptedModel("fine"))))])
    with (
        served(whole) as server,
        server.client() as client,
        sse(client, "POST", "/agent/run", json={"text": "hi"}) as source,
    ):
        assert isinstance(events_of(source)[-1], PostCallEvent)


def test_heartbeats_reach_a_client():
    model = Speaker(["One "], hang=True)
    with served(create_app(agent(model), heartbeat=0.01, retry=1.5)) as server, server.client() as client:
        beats = 0
        with client.stream("POST", "/run", json={"text": "hi"}) as response:
            lines = []
            for line in response.iter_lines():
                lines.append(line)
                beats += line == ":"
                if beats == 3:
                    model.go_on.say()
    assert lines[0] == "retry: 1500" and beats >= 3
    assert lines[-2].startswith('data: {"v":1,"type":"post_call"')
    assert all(line == ":" or not line or line.split(":")[0] in {"id", "event", "data", "retry"} for line in lines)


def test_a_service_that_shuts_down_begins_nothing():
    runs = Runs()
    asyncio.run(runs.aclose())
    app = create_app(agent(ScriptedModel("x")))
    asyncio.run(app.state.runs.aclose())
    with pytest.raises(ServiceStoppingError):
        runs.add(agent(ScriptedModel("x")).stream("hi"))


def test_a_missing_extra_is_named():
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        "from agentscope_rx.errors import MissingExtraError\n"
        "try: import agentscope_rx.service\n"
        "except MissingExtraError as error: print(error.extra, error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith(
        "service 'starlette' is not installed. Install it with: pip install 'agentscope-rx[service]'"
    )


@pytest.mark.spec("R27")
def test_what_waits_inside_of_a_sub_agent_is_answered_over_http():
    """The ids of the reply are those of the answers; the run's id is that of the outermost."""
    done: list[str] = []

    @tool(requires_approval=True)
    def delete(path: str) -> str:
        """Deletes."""
        done.append(path)
        return f"deleted {path}"

    child = ReActAgent("Researcher", ScriptedModel(call("delete", path="a"), "Deleted."), tools=[delete])
    boss = agent(ScriptedModel(call("call_researcher", message="go"), "Done."), tools=[child.as_tool()])
    with served(create_app(boss, on_disconnect="continue")) as server, server.client() as client:
        events = ask(client, "go")
        assert {event.depth for event in events} == {0, 1}
        run_id = events[0].run_id
        (waiting,) = events[-1].message.pending_calls
        with sse(client, "GET", f"/runs/{run_id}/events?last_event_id={events[-2].seq}") as source:
            assert events_of(source)[-1].run_id == run_id
        answers = [{"type": "approve", "call_id": waiting.id, "input": {"path": "b"}}]
        with sse(client, "POST", "/run", json={"answers": answers}) as source:
            assert events_of(source)[-1].message.text == "Done."
    assert done == ["b"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"on_disconnect": "contnue"},
        {"on_disconnect": -1},
        {"log_capacity": 0},
        {"max_log_bytes": "1 MB"},
        {"keep_seconds": "long"},
        {"heartbeat": "often"},
        {"retry": -1},
        {"send_timeout": 0},
    ],
)
def test_a_wrong_option_is_refused_at_creation(wrong: dict[str, Any]):
    name = next(iter(wrong)).replace("log_", "")
    with pytest.raises(ConfigurationError, match=f"^{name} must be"):
        create_app(agent(ScriptedModel()), **wrong)
