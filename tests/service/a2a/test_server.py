"""An agent behind A2A, as the SDK's own client sees it."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Part,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors import ToolSuspend
from agentscope_rx.errors.model import RateLimitError
from agentscope_rx.service import AgentHost
from agentscope_rx.service.protocols.a2a.wire import plain, value_of
from agentscope_rx.testing import ScriptedModel, call
from tests.service.a2a.endpoint import asked, everything, says, serving
from tests.service.serving import RawClient, Speaker

BINDINGS = ["JSONRPC", "HTTP+JSON"]


def friday(*script: Any, **options: Any) -> ReActAgent:
    return ReActAgent("friday", ScriptedModel(*script), **options)


@tool(requires_approval=True)
def delete(file: str) -> str:
    """Delete a file."""
    return f"{file} is gone."


@tool
def pick(floor: int) -> str:
    """Let the user pick a room."""
    raise ToolSuspend("Which room?")


def states(updates: list[StreamResponse]) -> list[str]:
    made = [each.task.status.state if each.HasField("task") else each.status_update.status.state for each in updates]
    return [TaskState.Name(state)[11:].lower() for state in made if state]


def text_of(updates: list[StreamResponse]) -> str:
    pieces = [part.text for each in updates for part in each.artifact_update.artifact.parts]
    return "".join(pieces)


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_stream_of_text(binding: str) -> None:
    with serving(friday("Hello, Ann.")) as (server, _):
        updates = asked(server, lambda client: everything(client, says()), binding)
    assert states(updates) == ["working", "completed"]
    assert text_of(updates) == "Hello, Ann."
    artifacts = [each.artifact_update for each in updates if each.HasField("artifact_update")]
    assert [each.append for each in artifacts] == [False] + [True] * (len(artifacts) - 1)
    assert [each.last_chunk for each in artifacts] == [False] * (len(artifacts) - 1) + [True]


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_context_is_a_stored_conversation(binding: str) -> None:
    model = ScriptedModel("one", "two")

    async def talk(client: Client) -> None:
        first = (await everything(client, says("first")))[0].task
        await everything(client, says("second", context=first.context_id))
        task = await client.get_task(GetTaskRequest(id=first.id))
        assert (task.artifacts[0].parts[0].text, task.history[0].parts[0].text) == ("one", "first")
        listed = await client.list_tasks(ListTasksRequest(context_id=first.context_id, page_size=1))
        assert (listed.total_size, len(listed.tasks), listed.next_page_token) == (2, 1, "1")

    with serving(ReActAgent("friday", model)) as (server, _):
        asked(server, talk, binding)
    assert [message.text for message in model.requests[1].messages] == ["first", "one", "second"]


@pytest.mark.parametrize(("kind", "last"), [("approve", "a.txt is gone."), ("reject", "keep it")])
def test_an_approval(kind: str, last: str) -> None:
    model = ScriptedModel(call("delete", file="a.txt"), "Done.")

    async def talk(client: Client) -> None:
        updates = await everything(client, says("Clean up."))
        assert states(updates)[-1] == "input_required"
        status = updates[-1].status_update
        data: Any
        [data] = [plain(part.data) for part in status.status.message.parts if part.HasField("data")]
        assert (data["type"], data["name"], data["input"]) == ("approval", "delete", {"file": "a.txt"})
        answer = Part(data=value_of({"type": kind, "call_id": data["call_id"], "reason": "keep it"}))
        assert states(await everything(client, says("", answer, task=status.task_id)))[-1] == "completed"

    with serving(ReActAgent("friday", model, tools=[delete])) as (server, _):
        asked(server, talk)
    assert last in model.requests[1].messages[-1].tool_results[0].text


def test_text_answers_the_only_call() -> None:
    model = ScriptedModel(call("pick", floor=2), "Room 7.")

    async def talk(client: Client) -> None:
        updates = await everything(client, says("A room."))
        assert states(updates)[-1] == "input_required"
        await everything(client, says("Number 7", task=updates[0].task.id))

    with serving(ReActAgent("friday", model, tools=[pick])) as (server, _):
        asked(server, talk)
    assert model.requests[1].messages[-1].tool_results[0].text == "Number 7"


def test_a_failed_run() -> None:
    with serving(friday(RateLimitError("at https://secret", status=429))) as (server, _):
        updates = asked(server, lambda client: everything(client, says()))
    assert states(updates)[-1] == "failed"
    assert "secret" not in str(updates)


def test_a_second_task_in_a_busy_context_is_rejected() -> None:
    model = Speaker(["a"], hang=True)

    async def talk(client: Client) -> None:
        stream = client.send_message(says(context="c"))
        first = await anext(stream)
        assert states(await everything(client, says(context="c")))[-1] == "rejected"
        model.go_on.say()
        rest = [each async for each in stream]
        assert states([first, *rest])[-1] == "completed"

    with serving(ReActAgent("friday", model)) as (server, _):
        asked(server, talk)


def test_a_client_leaves_and_subscribes_again() -> None:
    model = Speaker(["a", "b"], hang=True)

    async def talk(client: Client) -> None:
        stream: Any = client.send_message(says())
        updates: list[StreamResponse] = []
        while text_of(updates) != "ab":
            updates.append(await anext(stream))
        await stream.aclose()
        id = updates[0].task.id
        again: Any = client.subscribe(SubscribeToTaskRequest(id=id))
        first = await anext(again)
        assert first.task.artifacts[0].parts[0].text == "ab"
        model.go_on.say()
        rest = [each async for each in again]
        assert (text_of(rest), states(rest)) == ("at last", ["completed"])
        with pytest.raises(UnsupportedOperationError):
            await anext(client.subscribe(SubscribeToTaskRequest(id=id)))

    with serving(ReActAgent("friday", model)) as (server, _):
        asked(server, talk)


@pytest.mark.parametrize("binding", BINDINGS)
def test_cancel_interrupts_the_run(binding: str) -> None:
    model = Speaker(["a"], hang=True)

    async def talk(client: Client) -> None:
        stream: Any = client.send_message(says())
        updates = [await anext(stream) for _ in range(2)]
        task = await client.cancel_task(CancelTaskRequest(id=updates[0].task.id))
        assert task.status.state == TaskState.TASK_STATE_CANCELED
        assert states([each async for each in stream])[-1] == "canceled"
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task.id))

    with serving(ReActAgent("friday", model)) as (server, _):
        asked(server, talk, binding)
    assert model.closed.is_set()


def test_a_task_stops_when_its_clients_stay_away() -> None:
    model = Speaker(["a"], hang=True)
    with serving(ReActAgent("friday", model), on_disconnect="stop") as (server, _), RawClient(server.port) as raw:
        body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
        raw.send("POST", "/a2a/friday/message:stream", body, a2a_version="1.0")
        raw.read_until(b'"a"')
        raw.close()
        assert model.closed.wait(20)


def test_tasks_of_another_user_are_not_there() -> None:
    host = AgentHost(friday("one"), user_of=lambda request: request.headers["x-user"])
    body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
    with serving(host) as (server, _), server.client() as client:
        ann, bob = ({"A2A-Version": "1.0", "x-user": user} for user in ("ann", "bob"))
        task = client.post("/a2a/friday/message:send", json=body, headers=ann).json()["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert client.get(f"/a2a/friday/tasks/{task['id']}", headers=ann).status_code == 200
        assert client.get(f"/a2a/friday/tasks/{task['id']}", headers=bob).status_code == 404


def test_a_client_that_does_not_wait_asks_later() -> None:
    model = Speaker(["a"], hang=True)
    body = {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]},
        "configuration": {"returnImmediately": True},
    }
    with serving(ReActAgent("friday", model)) as (server, host), server.client() as client:
        client.headers["A2A-Version"] = "1.0"
        task = client.post("/a2a/friday/message:send", json=body).json()["task"]
        assert task["status"]["state"] == "TASK_STATE_WORKING"
        [run] = server.on_loop(lambda: list(host.runs._live))
        model.go_on.say()
        server.await_(run.idle())
        found = client.get(f"/a2a/friday/tasks/{task['id']}?historyLength=0").json()
        assert (found["status"]["state"], "history" in found) == ("TASK_STATE_COMPLETED", False)


def test_the_card_has_the_tools_as_skills() -> None:
    with serving(friday(tools=[pick]), descriptions={"friday": "Helps."}) as (server, _), server.client() as client:
        for path in ("", "/a2a/friday"):
            card = client.get(f"{path}/.well-known/agent-card.json").json()
        assert (card["name"], card["description"], card["capabilities"]["streaming"]) == ("friday", "Helps.", True)
        assert [skill["id"] for skill in card["skills"]] == ["pick"]
        assert {each["protocolBinding"] for each in card["supportedInterfaces"]} == set(BINDINGS)


def test_an_unknown_task() -> None:
    async def talk(client: Client) -> None:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="none"))
        with pytest.raises(TaskNotFoundError):
            await everything(client, says(task="none"))

    with serving(friday()) as (server, _):
        asked(server, talk)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{", -32700),
        ("[]", -32600),
        ('{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}', -32600),
        ('{"jsonrpc": "2.0", "id": true, "method": "GetTask"}', -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": "Nothing"}', -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": []}', -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": 3}}}', -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {}}}', -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}', -32001),
        ('{"jsonrpc": "2.0", "id": 1, "method": "GetTaskPushNotificationConfig"}', -32003),
    ],
    ids=lambda value: None if isinstance(value, int) else str(len(value)),
)
def test_bad_requests(body: str, code: int) -> None:
    with serving(friday()) as (server, _), server.client() as client:
        answer = client.post("/a2a/friday", content=body, headers={"A2A-Version": "1.0"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, code)
        assert client.post("/a2a/friday/message:send", json=[], headers={"A2A-Version": "1.0"}).status_code == 400
        assert client.post("/a2a/friday/message:send", json={}).json()["error"]["status"] == "FAILED_PRECONDITION"
