"""AgentScope 2's chat over HTTP: begun by one request, read by another, asked and answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentscope_rx import ReActAgent, tool
from agentscope_rx.agent import Agent
from agentscope_rx.messages import TextBlock
from agentscope_rx.service import AgentHost, RunRelay, blocks_routes, protocol_app
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import ExternalTool
from tests.events.test_blocks import check_plain
from tests.service.serving import PATIENCE, Served, Speaker, served

STREAM = {"accept": "text/event-stream"}


def said(text: str, id: str = "m1") -> dict[str, Any]:
    return {"name": "ann", "role": "user", "id": id, "content": [{"type": "text", "text": text}]}


def frames(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The events, each of which is one of `agentscope`."""
    for line in lines:
        if line.startswith("data: "):
            event = json.loads(line[6:])
            check_plain(event)
            yield event


def chat(client: httpx.Client, input: Any, session: str = "s1", **headers: str) -> httpx.Response:
    return client.post("/blocks/chat/", json={"session_id": session, "input": input}, headers=headers)


def streamed(client: httpx.Client, input: Any, session: str = "s1") -> list[dict[str, Any]]:
    response = chat(client, input, session, **STREAM)
    assert response.status_code == 200, response.text
    return list(frames(iter(response.text.splitlines())))


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join([event["delta"] for event in events if event["type"] == "TEXT_BLOCK_DELTA"])


def serving(agent: Agent, **options: Any) -> Any:
    host = AgentHost(agent, **options)
    return served(protocol_app(host, blocks_routes(host), access_log=False))


def deletes(ran: list[str]) -> Any:
    @tool(requires_approval=True)
    def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return f"deleted {path}"

    return delete


def test_a_run_is_read_by_the_request_that_begins_it():
    agent = ReActAgent("friday", ScriptedModel([TextBlock("Hello "), TextBlock("Ann")]))
    with serving(agent) as server, server.client() as client:
        events = streamed(client, said("hi"))
    assert kinds(events)[0] == "REPLY_START" and kinds(events)[-1] == "REPLY_END"
    assert (events[0]["session_id"], events[0]["name"], text_of(events)) == ("s1", "friday", "Hello Ann")
    assert events[-1]["finished_reason"] == "completed"
    assert {event["reply_id"] for event in events} == {events[0]["reply_id"]}


def test_one_stream_has_the_runs_of_a_session():
    """The stream is open before the first run, and goes on behind it."""
    agent = ReActAgent("friday", ScriptedModel(["one"], ["two"], ["three"], ["four"]))
    with serving(agent) as server, server.client() as client, server.client() as other:  # noqa: SIM117
        with client.stream("GET", "/blocks/sessions/s1/stream") as response:
            lines = frames(response.iter_lines())
            assert chat(other, said("hi")).json() == {"status": "started", "session_id": "s1"}
            first = until(lines, "REPLY_END")
            assert chat(other, [said("again", "m2"), said("and again", "m3")]).status_code == 200
            second = until(lines, "REPLY_END")
            assert text_of(streamed(other, said("elsewhere", "m4"), "s2")) == "three"
            assert chat(other, said("once more", "m5"), "s2").status_code == 200
    assert (text_of(first), text_of(second)) == ("one", "two")
    assert first[0]["reply_id"] != second[0]["reply_id"]


def until(lines: Iterator[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for event in lines:
        events.append(event)
        if event["type"] == kind:
            return events
    raise AssertionError(f"the stream ended before {kind}: {kinds(events)}")


def test_a_stream_begins_with_the_run_in_progress():
    model = Speaker(["One ", "moment "], hang=True)
    with serving(ReActAgent("friday", model)) as server, server.client() as client:
        assert chat(client, said("hi")).status_code == 200
        assert model.asked.wait(PATIENCE)
        with client.stream("GET", "/blocks/sessions/s1/stream") as response:
            lines = frames(response.iter_lines())
            assert next(lines)["type"] == "REPLY_START"
            model.go_on.say()
            assert text_of(until(lines, "REPLY_END")) == "One moment at last"


def test_a_second_run_of_a_session_is_refused():
    model = Speaker(["One ", "moment "], hang=True)
    with serving(ReActAgent("friday", model)) as server, server.client() as client:
        assert chat(client, said("hi")).status_code == 200
        refused = chat(client, said("me too", "m2"))
        assert (refused.status_code, refused.json()["error"]["type"]) == (409, "AgentBusyError")
        assert interrupt(client) == {"session_id": "s1", "interrupted": True}
        assert model.closed.wait(PATIENCE)


def interrupt(client: httpx.Client) -> Any:
    response = client.post("/blocks/sessions/s1/interrupt")
    assert response.status_code == 202
    return response.json()


def test_an_interruption_ends_the_reply():
    model = Speaker(["One ", "moment "], hang=True)
    with serving(ReActAgent("friday", model)) as server, server.client() as client, server.client() as other:
        assert interrupt(other) == {"session_id": "s1", "interrupted": False}
        with client.stream("GET", "/blocks/sessions/s1/stream") as response:
            lines = frames(response.iter_lines())
            assert chat(other, said("hi")).status_code == 200
            until(lines, "TEXT_BLOCK_DELTA")
            assert interrupt(other)["interrupted"]
            events = until(lines, "REPLY_END")
    assert kinds(events)[-2:] == ["USER_INTERRUPT", "REPLY_END"]
    assert events[-1]["finished_reason"] == "interrupted"


@pytest.mark.parametrize(("confirmed", "path", "result"), [
    (True, "a.txt", "deleted a.txt"), (True, "b.txt", "deleted b.txt"), (False, "a.txt", "rejected"),
])  # fmt: skip
def test_a_call_is_confirmed_edited_or_denied(confirmed: bool, path: str, result: str):
    ran: list[str] = []
    model = ScriptedModel([call("delete", path="a.txt")], ["Done"])
    with serving(ReActAgent("friday", model, tools=[deletes(ran)])) as server, server.client() as client:
        asked = streamed(client, said("clean up"))
        assert asked[-1]["type"] == "REQUIRE_USER_CONFIRM"
        waiting = asked[-1]["tool_calls"][0]
        assert (waiting["name"], json.loads(waiting["input"]), waiting["state"]) == (
            "delete", {"path": "a.txt"}, "asking",
        )  # fmt: skip
        edited = {**waiting, "input": json.dumps({"path": path})}
        answer = {
            "type": "USER_CONFIRM_RESULT",
            "reply_id": asked[-1]["reply_id"],
            "confirm_results": [{"confirmed": confirmed, "tool_call": edited}],
        }
        events = streamed(client, answer)
        # the reply goes on: it does not begin again
        assert kinds(events)[0] == "USER_CONFIRM_RESULT" and "REPLY_START" not in kinds(events)
        assert {event["reply_id"] for event in events if event["type"] != "CUSTOM"} == {asked[-1]["reply_id"]}
        results = [event for event in events if event["type"] == "TOOL_RESULT_END"]
        assert [each["state"] for each in results] == ["success" if confirmed else "denied"]
        assert (ran, text_of(events)) == ([path] if confirmed else [], "Done")
        # an answer to a call that no longer waits
        again = chat(client, answer)
        assert (again.status_code, again.json()["error"]["type"]) == (422, "InvalidInputError")


def test_a_rule_is_kept_for_the_session():
    ran: list[str] = []
    model = ScriptedModel([call("delete", path="a")], ["Done"], [call("delete", path="b")], ["Done"])
    with serving(ReActAgent("friday", model, tools=[deletes(ran)])) as server, server.client() as client:
        asked = streamed(client, said("clean up"))
        confirmed = {"confirmed": True, "tool_call": asked[-1]["tool_calls"][0]}
        rule = {"tool_name": "delete", "rule_content": None, "behavior": "allow", "source": "user"}
        answer = {"type": "USER_CONFIRM_RESULT", "reply_id": asked[-1]["reply_id"]}
        other = {**answer, "confirm_results": [{**confirmed, "rules": [{**rule, "rule_content": "a*"}]}]}
        assert "rule_content" in chat(client, other).json()["error"]["message"]
        streamed(client, {**answer, "confirm_results": [{**confirmed, "rules": [rule]}]})
        assert kinds(streamed(client, said("more", "m2")))[-1] == "REPLY_END"
    assert ran == ["a", "b"]


def test_an_external_result_is_given_and_not_forged():
    ran: list[str] = []
    weather = ExternalTool("weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})
    model = ScriptedModel([call("weather", city="Rome"), call("delete", path="a")], ["Sunny"], ["Bye"])
    with serving(ReActAgent("friday", model, tools=[weather, deletes(ran)])) as server, server.client() as client:
        asked = streamed(client, said("go"))
        required = {event["type"]: event["tool_calls"] for event in asked if event["type"].startswith("REQUIRE")}
        outside, guarded = required["REQUIRE_EXTERNAL_EXECUTION"][0], required["REQUIRE_USER_CONFIRM"][0]

        def result(waiting: dict[str, Any], state: str = "success") -> dict[str, Any]:
            output = [{"type": "text", "text": "22 degrees"}]
            block = {"type": "tool_result", "id": waiting["id"], "name": waiting["name"], "output": output}
            return {
                "type": "EXTERNAL_EXECUTION_RESULT",
                "reply_id": asked[-1]["reply_id"],
                "execution_results": [{**block, "state": state}],
            }

        forged = chat(client, result(guarded))
        assert (forged.status_code, "does not wait for this" in forged.text) == (422, True)
        assert "not there yet" in chat(client, result(outside, "running")).text
        events = streamed(client, result(outside))
        assert kinds(events)[0] == "EXTERNAL_EXECUTION_RESULT"
    assert ran == []


def test_a_failed_run_ends_with_its_error():
    agent = ReActAgent("friday", ScriptedModel([TextBlock("One "), RuntimeError("lost")]))
    with serving(agent) as server, server.client() as client:
        events = streamed(client, said("hi"))
        assert (events[-1]["type"], events[-1]["finished_reason"]) == ("REPLY_END", "error")
        assert "lost" in events[-1]["error"]["message"]


def test_a_run_goes_on_when_the_reader_of_the_session_leaves():
    model = Speaker(["One ", "moment "], hang=True)
    agent = ReActAgent("friday", model)
    host = AgentHost(agent)
    with served(protocol_app(host, blocks_routes(host), access_log=False)) as server, server.client() as client:
        with client.stream("GET", "/blocks/sessions/s1/stream") as response:
            with server.client() as other:
                assert chat(other, said("hi")).status_code == 200
            until(frames(response.iter_lines()), "TEXT_BLOCK_DELTA")
        model.go_on.say()
        assert model.closed.wait(PATIENCE)
        await_quiet(server, host)


def await_quiet(server: Served, host: AgentHost) -> None:
    """No run and no reader is left."""
    done = threading.Event()
    for _ in range(2000):
        if server.on_loop(lambda: host.runs.statistics()[::2]) == (0, 0):
            return
        done.wait(0.005)
    raise AssertionError(server.on_loop(host.runs.statistics))


def test_an_open_stream_ends_with_the_drained_host():
    model = Speaker(["One ", "moment "], hang=True)
    host = AgentHost(ReActAgent("friday", model))
    app = protocol_app(host, blocks_routes(host), access_log=False)
    with served(app) as server, server.client() as client, server.client() as other:  # noqa: SIM117
        with client.stream("GET", "/blocks/sessions/s1/stream") as response:
            lines = frames(response.iter_lines())
            assert chat(other, said("hi")).status_code == 200
            until(lines, "TEXT_BLOCK_DELTA")
            server.on_loop(lambda: host.drain().subscribe())
            refused = chat(other, said("me too", "m2"))
            assert refused.status_code == 503
            model.go_on.say()
            assert kinds(list(lines))[-1] == "REPLY_END"


@pytest.mark.parametrize(("body", "words"), [
    ({"input": None}, "session_id"),
    ({"session_id": "s1"}, "input"),
    ({"session_id": "s1", "input": "hi"}, "input"),
    ({"session_id": "s1", "input": said("hi"), "stream": True}, "stream"),
    ({"session_id": "s1", "input": {**said("hi"), "role": "system"}}, "role"),
    ({"session_id": "s1", "input": {**said("hi"), "content": []}}, "content"),
    ({"session_id": "s1", "input": {"type": "REPLY_END"}}, "REPLY_END"),
    ({"session_id": "s1", "input": {"type": "USER_CONFIRM_RESULT", "reply_id": "r", "confirm_results": []}}, "confirm"),
    ({"session_id": "s1", "agent_id": "nobody", "input": said("hi")}, "nobody"),
])  # fmt: skip
def test_bad_bodies_are_refused(body: Any, words: str):
    with serving(ReActAgent("friday", ScriptedModel())) as server, server.client() as client:
        response = client.post("/blocks/chat/", json=body)
        assert response.status_code in (404, 422) and words in response.json()["error"]["message"], response.text


def test_a_stream_has_the_runs_of_other_processes(tmp_path: Path):
    """Each process has a relay of its own to one file."""
    models = [ScriptedModel(["here"], ["here again"]), ScriptedModel(["elsewhere"])]
    hosts = [
        AgentHost(
            ReActAgent("friday", model),
            sessions=tmp_path / "chats.db",
            lease="error",
            relay=RunRelay(tmp_path / "chats.runs.db"),
        )
        for model in models
    ]
    here, there = (protocol_app(host, blocks_routes(host), access_log=False) for host in hosts)
    with served(here) as first, served(there) as second, first.client() as client, second.client() as far:  # noqa: SIM117
        with client.stream("GET", "/blocks/sessions/s1/stream") as response:
            lines = frames(response.iter_lines())
            with first.client() as near:
                assert chat(near, said("one")).status_code == 200
                assert text_of(until(lines, "REPLY_END")) == "here"
                assert chat(far, said("two", "m2")).status_code == 200
                assert text_of(until(lines, "REPLY_END")) == "elsewhere"
                assert chat(near, said("three", "m3")).status_code == 200
                assert text_of(until(lines, "REPLY_END")) == "here again"
