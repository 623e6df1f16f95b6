"""A thread is a stored conversation, which wins where the client's history differs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import ReActAgent, hook, tool
from agentscope_rx.events import PreCallEvent
from agentscope_rx.guardrails import CheckRequest, GuardrailsHook, Verdict, guardrail
from agentscope_rx.service import AgentHost
from agentscope_rx.session import WhenHeld
from agentscope_rx.testing import ScriptedModel, call
from tests.service.ag_ui.endpoint import Client, app_of, events_of, kinds, of, said, talking
from tests.service.serving import Speaker, served


def texts(model: ScriptedModel, number: int) -> list[str]:
    return [message.text for message in model.requests[number].messages]


def test_a_history_that_is_stored_is_not_taken_again() -> None:
    model = ScriptedModel("one", "two", "three")
    with talking(ReActAgent("a", model)) as client:
        for text in ("first", "second", "third"):
            events = client.say(text)
            assert not of(events, "MESSAGES_SNAPSHOT")
    assert texts(model, 2) == ["first", "one", "second", "two", "third"]
    assert len({message["id"] for message in client.messages}) == 6


def test_only_the_new_message_is_enough() -> None:
    """A client that has lost its messages gets them with its next run."""
    model = ScriptedModel("one", "two")
    with talking(ReActAgent("a", model)) as client:
        client.say("first")
        client.messages = []
        events = client.say("second")
    assert kinds(events)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert [message["content"] for message in client.messages] == ["first", "one", "second", "two"]
    assert texts(model, 1) == ["first", "one", "second"]


def test_what_a_client_says_that_was_said_is_left_out() -> None:
    model = ScriptedModel("one", "two")
    with talking(ReActAgent("a", model)) as client:
        client.say("first")
        client.messages[1]["content"] = "forged"
        client.messages[1:1] = [
            {"id": "x", "role": "assistant", "content": "never said"},
            {"id": "y", "role": "user", "content": "never asked"},
        ]
        client.say("second")
    assert texts(model, 1) == ["first", "one", "second"]
    assert [message["content"] for message in client.messages] == ["first", "one", "second", "two"]


def test_the_history_of_an_unknown_thread_is_taken() -> None:
    """As after a restart without a store."""
    model = ScriptedModel("Room 7, Ann.")
    pick = {"id": "c1", "type": "function", "function": {"name": "pick", "arguments": '{"floor": 2}'}}
    with talking(ReActAgent("a", model)) as client:
        client.messages = [
            {"id": "1", "role": "user", "content": "I am Ann."},
            {"id": "2", "role": "reasoning", "content": "Hm."},
            {"id": "3", "role": "assistant", "content": "Hello.", "toolCalls": [pick]},
            {"id": "4", "role": "tool", "toolCallId": "c1", "content": "7"},
        ]
        events = client.say()
    assert said(events) == "Room 7, Ann."
    sent = model.requests[0].messages
    assert [message.id for message in sent] == ["1", "3", "4"]
    assert sent[2].tool_results[0].text == "7"


def test_a_thread_outlasts_the_process(tmp_path: Path) -> None:
    model = ScriptedModel("one", "two")
    for text in ("first", "second"):
        with talking(AgentHost(ReActAgent("a", model), sessions=tmp_path)) as client:
            client.say(text)
    assert texts(model, 1) == ["first", "one", "second"]


@pytest.mark.parametrize("lease", ["error", "queue"])
def test_several_workers_serve_one_thread(tmp_path: Path, lease: WhenHeld) -> None:
    """The worker that asked does not know that another one has had the answer."""

    @tool(requires_approval=True)
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        return f"{disk} is empty."

    model = ScriptedModel(call("wipe", disk="a"), "Done a.", call("wipe", disk="b"), "Done b.", "Fine.")
    agent = ReActAgent("a", model, tools=[wipe])
    hosts = [AgentHost(agent, sessions=tmp_path, lease=lease) for _ in range(2)]
    with talking(hosts[0]) as client, talking(hosts[1]) as other:
        first, second = client.http, other.http
        client.say("Wipe a.")
        for http, text in ((second, "Wipe b."), (first, None)):
            client.http = http
            assert not of(client.approve(approved=True), "MESSAGES_SNAPSHOT")
            if text is not None:
                client.say(text)
        client.http = second
        assert not of(client.say("Well?"), "MESSAGES_SNAPSHOT")
    assert [message["content"] for message in client.messages if message["role"] == "user"] == [
        "Wipe a.",
        "Wipe b.",
        "Well?",
    ]


def test_users_do_not_share_a_thread() -> None:
    model = ScriptedModel("one", "two", "three")
    host = AgentHost(ReActAgent("a", model), user_of=lambda request: request.headers["x-user"])
    with talking(host) as client:
        for user in ("ann", "bob"):
            other = Client(client.http)
            other.http.headers["x-user"] = user
            other.say(f"I am {user}")
    assert texts(model, 1) == ["I am bob"]


def test_threads_of_two_agents_are_apart() -> None:
    model = ScriptedModel("one", "two")
    with talking(AgentHost({"a": ReActAgent("x", model), "b": ReActAgent("x", model)})) as client:
        client.say("to a", "/ag-ui/a")
        Client(client.http).say("to b", "/ag-ui/b")
    assert texts(model, 1) == ["to b"]


def test_nothing_new_is_refused() -> None:
    with talking(ReActAgent("a", ScriptedModel("one"))) as client:
        for _ in range(2):
            response = client.post(client.body())
            assert (response.status_code, response.json()["error"]["type"]) == (422, "InvalidInputError")
            if not client.messages:
                client.say("first")


def test_a_failed_run_can_be_asked_again() -> None:
    model = ScriptedModel(ValueError("no"), "one")
    with talking(ReActAgent("a", model)) as client:
        assert kinds(client.say("first"))[-1] == "RUN_ERROR"
        assert said(client.say()) == "one"
    assert texts(model, 1) == ["first"]


def test_context_is_for_one_run() -> None:
    model = ScriptedModel("one", "two")
    context = [{"description": "The page", "value": "Orders"}]
    with talking(ReActAgent("a", model, sys_prompt="Be kind.")) as client:
        client.messages = [{"id": "s", "role": "system", "content": "Be short."}]
        client.say("first", context=context)
        client.messages = [message for message in client.messages if message["role"] != "system"]
        client.say("second")
    about = "Information from the application:\n- The page: Orders\n- Be short."
    assert texts(model, 0) == ["Be kind.", about, "first"]
    assert texts(model, 1) == ["Be kind.", "first", "one", "second"]


def test_a_message_that_a_hook_has_changed_is_shown_so() -> None:
    @hook(PreCallEvent)
    def redact(event: PreCallEvent) -> PreCallEvent:
        return event.replace(input=tuple(each.replace(content="[redacted]") for each in event.input))

    with talking(ReActAgent("a", ScriptedModel("one"), hooks=[redact])) as client:
        client.say("my secret")
    assert [message["content"] for message in client.messages] == ["[redacted]", "one"]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("refused", ["notice", "hide"])
@pytest.mark.parametrize("on_stop", ["reply", "error"])
def test_an_input_that_is_refused_does_not_come_again(parallel: bool, refused: Any, on_stop: Any) -> None:
    @guardrail("input", parallel=parallel)
    def no_bombs(request: CheckRequest) -> Verdict | None:
        return Verdict.stop("bombs", "Not that.") if "bomb" in request.text else None

    guard = GuardrailsHook(no_bombs, refused=refused, on_stop=on_stop)
    model = ScriptedModel("one", repeat=True)
    with talking(ReActAgent("a", model, hooks=[guard])) as client:
        response = client.post(client.body("a bomb"))
        if response.status_code == 200:
            for event in events_of(response.content):
                client._apply(event)
            assert refused == "hide" or all("bomb" not in str(message) for message in client.messages)
        else:
            # nothing was said, and the client has the message still
            client.messages.clear()
        events = client.say("something good")
        assert said(events) == "one"
        assert not of(events, "MESSAGES_SNAPSHOT")
    assert not any("bomb" in text for text in texts(model, -1))


def test_two_requests_at_once_are_one_run() -> None:
    model = Speaker(["a"], hang=True)
    host = AgentHost(ReActAgent("a", model))
    with served(app_of(host)) as server, server.client() as http:
        client = Client(http)
        with http.stream("POST", "/ag-ui", json=client.body("first")) as response:
            lines = response.iter_lines()
            assert "RUN_STARTED" in next(lines)
            assert model.asked.wait(20)
            second = client.post(client.body("second"))
            assert (second.status_code, second.json()["error"]["type"]) == (409, "AgentBusyError")
            model.go_on.say()
            rest = "".join(lines)
        assert "RUN_FINISHED" in rest
    assert server.errors == []


def test_several_requests_begin_one_thread() -> None:
    """Its history is taken once; who comes late finds the thread busy, or has nothing new to say."""
    model = ScriptedModel("Ann.", repeat=True)
    with talking(ReActAgent("a", model)) as client:
        client.messages = [
            {"id": "1", "role": "user", "content": "I am Ann."},
            {"id": "2", "role": "assistant", "content": "Hello."},
            {"id": "3", "role": "user", "content": "Who am I?"},
        ]
        body = client.body()
        with ThreadPoolExecutor(6) as several:
            statuses = [response.status_code for response in several.map(client.post, [body] * 6)]
    assert statuses.count(200) == 1 and set(statuses) <= {200, 409, 422}
    assert [texts(model, number) for number in range(len(model.requests))] == [["I am Ann.", "Hello.", "Who am I?"]]


@pytest.mark.parametrize("thread", ["", " ", "x" * 600])
def test_an_id_that_is_none(thread: str) -> None:
    with talking(ReActAgent("a", ScriptedModel())) as client:
        client.thread = thread
        assert client.post(client.body("hi")).status_code == 422
