"""How runs end that do not simply answer: time-outs, interruptions, clients that leave or stall, a shutdown."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent, UsageLimits, tool
from agentscope_rx.errors import RunDeadlineError
from agentscope_rx.messages import TextBlock
from agentscope_rx.models import OpenAIChatModel
from agentscope_rx.service import AgentHost, Runs
from agentscope_rx.testing import HANG, ScriptedModel, call, run_virtual
from tests.agent.parts import assert_whole
from tests.service.ag_ui.endpoint import Client, app_of, events_of, kinds, of, said, serving, talking
from tests.service.ag_ui.rules import check
from tests.service.ag_ui.test_laws import streamed
from tests.service.firehose import firehose
from tests.service.serving import PATIENCE, RawClient, Speaker, served
from tests.service.test_clients import live_run, until


def test_an_interrupted_run_is_cancelled() -> None:
    model = Speaker(["One ", "moment "], hang=True)
    agent = ReActAgent("friday", model)
    host = AgentHost(agent)
    with serving(host) as server, server.client() as http:
        client = Client(http)
        body = client.body("hi")
        with http.stream("POST", "/ag-ui", json=body) as response:
            raw = b""
            for piece in response.iter_raw():
                raw += piece
                if b"moment" in raw and b"RUN_FINISHED" not in raw and model.asked.is_set():
                    server.on_loop(lambda: host.pool().interrupt("anyone", "t1"))
        events = events_of(raw)
        check(events)
        assert events[-1]["outcome"] == {"type": "cancelled"}
        assert events[-1]["metadata"] == {"generateReason": "interrupted"}
        model.hang = False
        client.messages.append({"id": "u2", "role": "user", "content": "again"})
        assert said(client.say()).endswith("moment ")


def test_a_deadline_ends_the_run_with_its_error() -> None:
    """In virtual time, from the events of the run."""
    agent = ReActAgent("friday", ScriptedModel([TextBlock("One "), HANG]))

    async def main() -> list[object]:
        seen: list[object] = []
        with suppress(RunDeadlineError):
            async for event in agent.stream("hi", limits=UsageLimits(deadline=60)):
                seen.append(event)
        await agent.idle()
        return seen

    events = streamed(run_virtual(main()))  # type: ignore[arg-type]
    check(events)
    assert (said(events), kinds(events)[-1], events[-1]["code"]) == ("One ", "RUN_ERROR", "RunDeadlineError")


@pytest.mark.parametrize("after", [b"RUN_STARTED", b"STEP_STARTED", b"TEXT_MESSAGE_CONTENT"])
def test_a_run_ends_when_its_client_leaves(after: bytes) -> None:
    model = Speaker(["One ", "moment "], hang=True)
    agent = ReActAgent("friday", model)
    host = AgentHost(agent)
    with serving(host) as server, server.client() as http:
        client = Client(http)
        raw = RawClient(server.port)
        raw.send("POST", "/ag-ui", client.body("hi"))
        raw.read_until(after)
        assert model.asked.wait(PATIENCE)
        raw.close()
        assert model.closed.wait(PATIENCE)
        until(server, lambda: host.runs.statistics() == (0, 0, 0))
        assert_whole(agent)
        # the message is stored, and is answered when the client asks again
        model.hang = False
        assert said(client.say()) == "One moment "


def test_a_client_leaves_while_a_tool_runs() -> None:
    began, ended = threading.Event(), threading.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    host = AgentHost(ReActAgent("friday", ScriptedModel(call("wait"), "Back."), tools=[wait]))
    with serving(host) as server, server.client() as http:
        client = Client(http)
        raw = RawClient(server.port)
        raw.send("POST", "/ag-ui", client.body("hi"))
        raw.read_until(b"TOOL_CALL_END")
        assert began.wait(PATIENCE)
        raw.close()
        assert ended.wait(PATIENCE)
        until(server, lambda: host.runs.statistics() == (0, 0, 0))
        events = client.say()
        assert said(events) == "Back."
        # the client is shown the call that it has missed
        assert [message["role"] for message in client.messages] == ["user", "assistant", "tool", "assistant"]


def test_a_slow_client_slows_the_model() -> None:
    with firehose() as upstream:
        agent = ReActAgent("friday", OpenAIChatModel("test", base_url=upstream.base_url, api_key="k"))
        runs = Runs()
        host = AgentHost(agent, runs=runs)
        with serving(host) as server, server.client() as http, RawClient(server.port) as raw:
            raw.send("POST", "/ag-ui", Client(http).body("hi"))
            raw.read_until(b"TEXT_MESSAGE_CONTENT")
            run = live_run(runs)
            until(server, lambda: run.statistics().withheld and upstream.blocked)
            assert run.statistics().behind <= 64
            raw.close()
            assert upstream.left.wait(PATIENCE)
            until(server, lambda: runs.statistics() == (0, 0, 0))


def test_a_shutdown_ends_runs_with_an_error() -> None:
    model = Speaker(["One ", "moment "], hang=True)
    host = AgentHost(ReActAgent("friday", model))
    with served(app_of(host)) as server, server.client() as http:
        with http.stream("POST", "/ag-ui", json=Client(http).body("hi")) as response:
            raw, stopped = b"", False
            for piece in response.iter_raw():
                raw += piece
                if b"moment" in raw and not stopped:
                    stopped = True
                    server.await_(host.runs.__aexit__(None, None, None))
        events = events_of(raw)
        check(events)
        assert (kinds(events)[-1], events[-1]["code"]) == ("RUN_ERROR", "RunStoppedError")
        response = http.post("/ag-ui", json=Client(http, "t2").body("hi"))
        assert (response.status_code, response.json()["error"]["type"]) == (503, "ServiceStoppingError")


def test_too_many_runs_are_refused() -> None:
    model = Speaker(["a"], hang=True)
    host = AgentHost(ReActAgent("friday", model), runs=Runs(max_live=1))
    with (
        serving(host) as server,
        server.client() as http,
        http.stream("POST", "/ag-ui", json=Client(http).body("hi")) as response,
    ):
        lines = response.iter_lines()
        next(lines)
        other = http.post("/ag-ui", json=Client(http, "t2").body("hi"))
        assert (other.status_code, other.json()["error"]["type"]) == (503, "TooManyRunsError")
        model.go_on.say()
        assert "RUN_FINISHED" in "".join(lines)


def test_a_sub_agent_that_is_cut_off_has_an_end() -> None:
    """Its own events end with a piece of text; the result of its call follows."""
    helper = ReActAgent("helper", ScriptedModel("Let me see."))
    agent = ReActAgent("friday", ScriptedModel(call("call_helper", message="help"), "Well."), tools=[helper.as_tool()])
    seen = run_virtual(agent.stream("hi").pipe(ops.to_list()))
    inside = [event for event in seen if event.depth]
    for count in range(1, len(inside)):
        cut = [event for event in seen if event not in inside[count:]]
        events = streamed(cut)
        check(events)
        [failed] = of(events, "SUBAGENT_ERROR")
        [result] = of(events, "TOOL_CALL_RESULT")
        assert failed["code"] == "cancelled" and events.index(failed) < events.index(result)
        assert said(events) == "Well."


def test_a_sub_agent_that_fails_does_not_end_the_run() -> None:
    helper = ReActAgent("helper", ScriptedModel([TextBlock("Let "), ValueError("inside")]))
    agent = ReActAgent("friday", ScriptedModel(call("call_helper", message="help"), "Sorry."), tools=[helper.as_tool()])
    with talking(agent) as client:
        events = client.say("hi")
    [failed] = of(events, "SUBAGENT_ERROR")
    assert failed["code"] == "ValueError" and "inside" not in failed["message"]
    assert said(events) == "Sorry."
    assert events[-1]["outcome"] == {"type": "success"}


def test_sub_agents_within_sub_agents() -> None:
    def agent(name: str, *script: Any, tools: Any = ()) -> ReActAgent:
        return ReActAgent(name, ScriptedModel(*script, repeat=True), tools=tools)

    inner = agent("inner", "Deep.")
    outer = agent("outer", call("call_inner", message="x"), "Mid.", tools=[inner.as_tool()])
    with talking(agent("friday", call("call_outer", message="x"), "Top.", tools=[outer.as_tool()])) as client:
        events = client.say("hi")
        first, second = of(events, "SUBAGENT_STARTED")
        assert (first["name"], second["name"]) == ("outer", "inner")
        assert second["parentSubagentRunId"] == first["subagentRunId"]
        assert first["parentMessageId"] == client.messages[1]["id"]
        by = {each.get("subagentRunId"): each["delta"] for each in of(events, "TEXT_MESSAGE_CONTENT")}
        assert by == {None: "Top.", first["subagentRunId"]: "Mid.", second["subagentRunId"]: "Deep."}
        # a client keeps what sub-agents have said, also when it is shown the stored messages
        inside = {each["id"] for each in client.messages if "subagentRunId" in each}
        client.messages = client.messages[1:]
        assert of(client.say("again"), "MESSAGES_SNAPSHOT")
        assert inside < {each["id"] for each in client.messages if "subagentRunId" in each}
        assert client.messages[-1]["content"] == "Top."
