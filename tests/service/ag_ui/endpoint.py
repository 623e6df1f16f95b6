"""An endpoint on loopback, and a client that keeps the thread as AG-UI's own does."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

import httpx
from starlette.applications import Starlette

from agentscope_rx import Agent
from agentscope_rx.service import AgentHost, ag_ui_routes
from tests.service.ag_ui.rules import check
from tests.service.serving import Served, served

PICK: dict[str, Any] = {
    "name": "pick",
    "description": "Let the user pick a room.",
    "parameters": {"type": "object", "properties": {"floor": {"type": "integer"}}, "required": ["floor"]},
}


def app_of(host: AgentHost, **options: Any) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with host:
            yield

    return Starlette(routes=ag_ui_routes(host, **options), lifespan=lifespan)


@contextmanager
def serving(host: AgentHost, **options: Any) -> Iterator[Served]:
    with served(app_of(host, **options)) as server:
        yield server
    assert server.errors == []


@contextmanager
def talking(agent: Agent | AgentHost, **options: Any) -> Iterator[Client]:
    """A client of an endpoint with this agent; no run is left at the end."""
    host = agent if isinstance(agent, AgentHost) else AgentHost(agent)
    with serving(host, **options) as server, server.client() as http:
        yield Client(http)
        assert host.runs.statistics().live == 0


class Client:
    """One thread of a client. It applies the events to its messages and its state, and sends them with each request."""

    def __init__(self, http: httpx.Client, thread: str = "t1") -> None:
        self.http = http
        self.thread = thread
        self.messages: list[dict[str, Any]] = []
        self.state: Any = {}
        self.interrupts: list[dict[str, Any]] = []

    def body(self, text: str | None = None, **more: Any) -> dict[str, Any]:
        if text is not None:
            self.messages.append({"id": uuid4().hex, "role": "user", "content": text})
        body = {"threadId": self.thread, "runId": uuid4().hex, "protocolVersion": "1.0"}
        return {**body, "messages": self.messages, "state": self.state, "tools": [], "context": [], **more}

    def post(self, body: Any, path: str = "/ag-ui") -> httpx.Response:
        return self.http.post(path, json=body)

    def say(self, text: str | None = None, path: str = "/ag-ui", **more: Any) -> list[dict[str, Any]]:
        """The events of a run, which keep the rules of the protocol."""
        body = self.body(text, **more)
        response = self.post(body, path)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        events = events_of(response.content)
        check(events)
        if events[-1]["type"] == "RUN_FINISHED":
            assert {(e["threadId"], e["runId"]) for e in (events[0], events[-1])} == {(self.thread, body["runId"])}
        self.messages = json.loads(json.dumps(self.messages))
        for event in events:
            self._apply(event)
        return events

    def approve(self, **payload: Any) -> list[dict[str, Any]]:
        """The run that goes on after each interrupt is resolved by this payload."""
        return self.say(resume=[answer(each, payload) for each in self.interrupts])

    def _find(self, id: str, **new: Any) -> dict[str, Any]:
        found = next((each for each in self.messages if each["id"] == id), None)
        if found is None:
            found = {"id": id, **new}
            self.messages.append(found)
        return found

    def _apply(self, event: dict[str, Any]) -> None:
        owner = {"subagentRunId": event["subagentRunId"]} if "subagentRunId" in event else {}
        match event["type"]:
            case "TEXT_MESSAGE_START":
                self._find(event["messageId"], role="assistant", content="", **owner)
            case "TEXT_MESSAGE_CONTENT":
                message = self._find(event["messageId"])
                message["content"] = message.get("content", "") + event["delta"]
            case "TOOL_CALL_START":
                message = self._find(event["parentMessageId"], role="assistant", **owner)
                function = {"name": event["toolCallName"], "arguments": ""}
                call = {"id": event["toolCallId"], "type": "function", "function": function}
                message.setdefault("toolCalls", []).append(call)
            case "TOOL_CALL_ARGS":
                self.call(event["toolCallId"])["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                about = {"role": "tool", "toolCallId": event["toolCallId"], "content": event["content"]}
                self._find(event["messageId"], **about, **owner)
            case "MESSAGES_SNAPSHOT":
                self.messages = event["messages"]
            case "STATE_SNAPSHOT":
                self.state = event["snapshot"]
            case "STATE_DELTA":
                self.state = patched(self.state, event["delta"])
            case "RUN_FINISHED":
                self.interrupts = event["outcome"].get("interrupts", [])
            case _:
                pass

    def call(self, id: str) -> dict[str, Any]:
        return next(call for message in self.messages for call in message.get("toolCalls", ()) if call["id"] == id)


def answer(interrupt: dict[str, Any], payload: Any) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The events of a whole stream, each one `data` line."""
    found = []
    for frame in stream.decode().split("\n\n"):
        if frame.strip() and not frame.startswith(":"):
            assert frame.startswith("data: ")
            assert "\n" not in frame
            found.append(json.loads(frame.removeprefix("data: ")))
    return found


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def of(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def said(events: Sequence[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in of(events, "TEXT_MESSAGE_CONTENT") if "subagentRunId" not in event)


def patched(document: Any, patch: Sequence[dict[str, Any]]) -> Any:
    """The document after a patch of the operations that are used here."""
    root = {"": json.loads(json.dumps(document))}
    for operation in patch:
        at: Any = root
        *path, last = ["", *(each.replace("~1", "/").replace("~0", "~") for each in operation["path"].split("/")[1:])]
        for name in path:
            at = at[int(name)] if isinstance(at, list) else at[name]
        if isinstance(at, list):
            place = len(at) if last == "-" else int(last)
            if operation["op"] == "add":
                at.insert(place, operation["value"])
            elif operation["op"] == "remove":
                del at[place]
            else:
                assert place < len(at)
                at[place] = operation["value"]
        elif operation["op"] == "remove":
            del at[last]
        else:
            assert operation["op"] == "add" or last in at
            at[last] = operation["value"]
    return root[""]
