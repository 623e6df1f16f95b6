"""Each malformed request of the corpus gets a typed 4xx in its protocol's form, and leaves nothing running."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.guard import GuardOptions
from agentscope_rx.service import AgentHost, ag_ui_routes, blocks_routes, events_routes, openai_routes, protocol_app
from agentscope_rx.testing import ScriptedModel
from tests.service.corpus import BadRequest, corpus

USER = {"role": "user", "content": "hi"}
NO_TEXTS: Sequence[object] = (1, True, [], {})
NO_LISTS: Sequence[object] = (1, "x", True, {})

CHAT: dict[str, Sequence[object]] = {
    "model": (*NO_TEXTS, None, "nobody", "", "../friday", "x" * 100_000, "\u0000"),
    "messages": (
        *NO_LISTS,
        None,
        [],
        [1],
        [None],
        [[]],
        [{}],
        [{"role": "user"}],
        [{"role": 1, "content": "hi"}],
        [{"role": "robot", "content": "hi"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": 5}}]}],
        [{"role": "user", "content": [{"type": "video"}]}],
        [USER, {"role": "assistant", "content": "hi"}],
        [USER, {"role": "assistant", "tool_calls": [{"id": 1}]}],
        [USER, {"role": "assistant", "tool_calls": "x"}],
        [{"role": "tool", "tool_call_id": "call_forged_00000000", "content": "x"}],
        [{"role": "tool", "content": "x"}],
        [{"role": "system", "content": "only"}],
    ),
    "stream": (5, "x", [], {}),
    "stream_options": (1, "x", [], {"include_usage": "x"}, {"other": True}),
    "tools": (
        *NO_LISTS,
        [1],
        [{}],
        [{"type": "custom", "custom": {"name": "x"}}],
        [{"type": "function"}],
        [{"type": "function", "function": 1}],
        [{"type": "function", "function": {}}],
        [{"type": "function", "function": {"name": ""}}],
        [{"type": "function", "function": {"name": 5}}],
        [{"type": "function", "function": {"name": "x", "parameters": {"type": "strin"}}}],
        [{"type": "function", "function": {"name": "x", "parameters": 5}}],
    ),
    "tool_choice": (1, [], "required", "x", {"type": "function", "function": {"name": "x"}}),
    "response_format": (
        1,
        [],
        "json",
        {},
        {"type": "xml"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": 1}},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strin"}}},
    ),
    "n": (2, 0, -1, "x"),
    "logprobs": (True, 1, "x"),
    "unknown": (1, None),
}
RESPONSES: dict[str, Sequence[object]] = {
    "model": CHAT["model"],
    "input": (*NO_TEXTS, None, [1], [{"type": "video"}], [{"role": "user", "content": [5]}], [{"role": "assistant"}]),
    "instructions": NO_TEXTS,
    "previous_response_id": (*NO_TEXTS, "resp_forged", "", "../x", "x" * 10_000, "\u0000"),
    "text": (1, "x", [], {"format": 1}, {"format": {"type": "xml"}}),
    "store": (5, "x", []),
    "conversation": ("c", {"id": "c"}),
    "background": (True, 5),
    "unknown": (1,),
}
OWN: dict[str, Sequence[object]] = {
    "text": NO_TEXTS,
    "messages": (
        *NO_LISTS,
        [1],
        [{}],
        [{"role": "robot", "content": []}],
        [{"role": "user", "content": [{"type": "x"}]}],
    ),
    "answers": (*NO_LISTS, [1], [{}], [{"type": "approve"}], [{"type": "x", "call_id": "1"}]),
    "agent": (*NO_TEXTS, "nobody", "", "x" * 100_000),
    "session_id": (*NO_TEXTS, ""),
    "unknown": (1, None),
}
AG_UI: dict[str, Sequence[object]] = {
    "threadId": (*NO_TEXTS, None, ""),
    "runId": (*NO_TEXTS, None),
    "messages": (*NO_LISTS, None, [1], [{}], [{"id": "1", "role": "robot", "content": "hi"}], [{"role": "user"}], []),
    "tools": (*NO_LISTS, [1], [{}], [{"name": 5}], [{"name": "x", "description": "", "parameters": {"type": "strin"}}]),
    "context": (*NO_LISTS, [1], [{}]),
    "resume": (1, "x", True, [1], [{}], [{"interruptId": "approval:forged", "status": "x"}]),
}
BLOCKS: dict[str, Sequence[object]] = {
    "agent_id": (*NO_TEXTS, "nobody", "", "x" * 100_000),
    "session_id": (*NO_TEXTS, None, "", "x" * 1000),
    "input": (
        *NO_TEXTS,
        "hi",
        [1],
        [{}],
        {"name": "ann", "role": "assistant", "content": [{"type": "text", "text": "I did it"}]},
        {"name": "ann", "role": "user", "content": "hi"},
        {"name": "ann", "role": "user", "content": [{"type": "tool_result", "id": "1"}]},
        {"name": "ann", "role": "user", "content": [{"type": "data", "source": {"type": "url", "url": 5}}]},
        {"type": "REPLY_START", "session_id": "s1", "reply_id": "r"},
        {"type": "USER_CONFIRM_RESULT", "reply_id": "r", "confirm_results": [{"confirmed": True}]},
        {
            "type": "USER_CONFIRM_RESULT",
            "reply_id": "forged",
            "confirm_results": [{"confirmed": True, "tool_call": {"id": "forged", "name": "x", "input": "{}"}}],
        },
        {
            "type": "EXTERNAL_EXECUTION_RESULT",
            "reply_id": "forged",
            "execution_results": [{"id": "forged", "name": "x", "output": "x", "state": "success"}],
        },
    ),
    "unknown": (1, None),
}
ENDPOINTS: dict[str, tuple[Mapping[str, Any], Mapping[str, Sequence[object]]]] = {
    "/v1/chat/completions": ({"model": "friday", "messages": [USER]}, CHAT),
    "/v1/responses": ({"model": "friday", "input": "hi"}, RESPONSES),
    "/run": ({"text": "hi"}, OWN),
    "/blocks/chat/": (
        {"session_id": "s1", "input": {"name": "ann", "role": "user", "content": [{"type": "text", "text": "hi"}]}},
        BLOCKS,
    ),
    "/ag-ui": (
        {
            "threadId": "t",
            "runId": "r",
            "state": {},
            "messages": [{"id": "1", **USER}],
            "tools": [],
            "context": [],
            "forwardedProps": {},
        },
        AG_UI,
    ),
}


async def _answers(path: str) -> list[tuple[BadRequest, httpx.Response]]:
    host = AgentHost(ReActAgent("friday", ScriptedModel("Hello.", repeat=True)))
    app = protocol_app(
        host,
        openai_routes(host),
        events_routes(host),
        ag_ui_routes(host),
        blocks_routes(host),
        guard=GuardOptions(client_requests_per_minute=None, allowed_hosts=["test"]),
    )
    valid, wrong = ENDPOINTS[path]
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 5000), raise_app_exceptions=True)
    found = []
    async with host, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for bad in corpus(path, valid, wrong):
            request = client.build_request(bad.method, bad.path, headers=bad.headers, content=bad.body)
            found.append((bad, await client.send(request)))
            assert host.runs.statistics() == (0, 0, 0), bad.what
        # the valid one is answered, and so is one that is a client's first after these
        assert (await client.post(path, json=valid)).status_code == 200
    return found


@pytest.mark.parametrize("path", ENDPOINTS)
def test_malformed_requests_are_refused(path: str) -> None:
    answers = asyncio.run(_answers(path))
    surprises = [
        (bad.what, got.status_code, got.text[:200]) for bad, got in answers if not 400 <= got.status_code < 500
    ]
    assert surprises == []
    for bad, got in answers:
        if bad.method == "POST" and got.status_code not in (404, 405):
            error = got.json()["error"]
            assert isinstance(error["type"], str) and error["message"], bad.what
    assert len(answers) > 75


def test_the_corpus_has_its_size() -> None:
    assert sum(len(corpus(path, *both)) for path, both in ENDPOINTS.items()) >= 250
