"""`Mem0LongTermMemory` against a server on loopback that speaks mem0's protocols."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from agentscope_rx import Msg, RuntimeContext
from agentscope_rx.errors import ConfigurationError, InvalidInputError, LongTermMemoryServiceError
from agentscope_rx.long_term_memory import Mem0LongTermMemory, MemoryScope, NoteSource, StaticLongTermMemory
from agentscope_rx.testing import ScriptedModel, check_long_term_memory
from tests.long_term_memory.mem0_server import Mem0Server
from tests.long_term_memory.parts import agent, notes_in
from tests.support.json_server import JsonServer

ANN = MemoryScope(user="ann")
APIS = ["v3", "v1", "self_hosted"]


@pytest.fixture
def server() -> Iterator[Mem0Server]:
    found = Mem0Server()
    with found.http:
        yield found


def memory(server: Mem0Server, api: Any = "v3", key: str = "secret-key", **options: Any) -> Mem0LongTermMemory:
    return Mem0LongTermMemory(key, base_url=server.http.url, api=api, **options)


@pytest.mark.parametrize("api", APIS)
def test_it_keeps_the_laws(server: Mem0Server, api: str):
    keys = count()
    report = check_long_term_memory(lambda: memory(server, api, f"key-{next(keys)}"), real_time=True)
    assert {"found", "users", "narrow", "limit", "hostile"} <= set(report.checked)


@pytest.mark.parametrize(
    ("api", "paths", "header"),
    [
        ("v3", ("/v3/memories/add/", "/v3/memories/search/"), ("authorization", "Token secret-key")),
        ("v1", ("/v1/memories/", "/v2/memories/search/"), ("authorization", "Token secret-key")),
        ("self_hosted", ("/memories", "/search"), ("x-api-key", "secret-key")),
    ],
)
def test_what_is_on_the_wire(server: Mem0Server, api: str, paths: tuple[str, str], header: tuple[str, str]):
    ltm = memory(server, api, infer=False)
    scope = MemoryScope(user="ann", agent="friday", session="s1")
    source = NoteSource(
        session_key="s1", run_id="r1", message_ids=("m1",), agent="Friday", at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    ltm.record([Msg.user("I like tea."), Msg.assistant("Noted.")], scope=scope, source=source).run()
    (first, second) = ltm.retrieve("tea noted", 4, scope=scope).run()
    record, search = server.http.asked
    assert (record.path, search.path) == paths
    assert record.headers[header[0]] == search.headers[header[0]] == header[1]
    ids = {"user_id": "ann", "agent_id": "friday", "run_id": "s1"}
    messages = [{"role": "user", "content": "I like tea."}, {"role": "assistant", "content": "Noted."}]
    assert record.body.pop("metadata")["source"]["message_ids"] == ["m1"]
    assert record.body == {"messages": messages, "infer": False, **({"filters": ids} if api == "v3" else ids)}
    filters: dict[str, Any] = {"user_id": "ann"}
    assert search.body == {
        "query": "tea noted",
        "top_k": 12,
        "filters": {"AND": [filters]} if api == "v1" else filters,
        **({"user_id": "ann"} if api == "self_hosted" else {}),
    }
    assert {first.text, second.text} == {"I like tea.", "Noted."} and first.source == source
    assert first.scope == scope and first.updated == datetime(2026, 1, 3, 3, 4, 5, tzinfo=UTC)


def test_a_call_of_an_agent_reaches_it(server: Mem0Server):
    model = ScriptedModel("Noted.", "Tea.")
    friday = agent(model, hooks=[StaticLongTermMemory(memory(server))])
    for text in ("I like tea.", "What do I like?"):
        friday.call(text, context=RuntimeContext(user_id="ann")).run()
    assert "I like tea." in notes_in(model, 1)[0] and notes_in(model, 0) == []


@pytest.mark.parametrize(
    ("answer", "text", "status"),
    [
        ((401, {"detail": "Invalid API key"}), "Invalid API key", 401),
        ((500, {"error": "boom"}), "boom", 500),
        ({"results": "none"}, "no list of results", None),
        ({"detail": "ok"}, "no list of results", None),
        ("fine", "no list of results", None),
        ({"results": [{"id": "m1"}]}, "needs an id and a memory", None),
        ({"results": [7]}, "results", None),
        ({"results": [{"id": "m1", "memory": "x", "created_at": "soon"}]}, "ISO 8601", None),
        (b"<html>", "not JSON", None),
    ],
    ids=range(9),
)
def test_a_bad_answer_is_an_error_and_no_empty_text(answer: Any, text: str, status: int | None):
    with JsonServer(lambda path, body: answer) as http:
        ltm = Mem0LongTermMemory("secret-key", base_url=http.url)
        with pytest.raises(LongTermMemoryServiceError, match=text) as caught:
            ltm.retrieve("tea", scope=ANN).run()
        assert caught.value.status == status and "secret-key" not in str(caught.value)
        assert caught.value.retryable is (status == 500)


def test_an_older_server_answers_with_a_list():
    with JsonServer(
        lambda path, body: [{"id": "m1", "memory": "tea", "score": None}, {"id": "m2", "memory": " "}]
    ) as http:
        (note,) = Mem0LongTermMemory("k", base_url=http.url).retrieve("tea", scope=ANN).run()
    assert (note.text, note.score, note.source, note.scope) == ("tea", 0.0, None, ANN)


def test_a_server_that_is_not_there_and_one_that_is_slow():
    with JsonServer(lambda path, body: {"results": []}, delay=1.0) as http:
        slow = Mem0LongTermMemory("k", base_url=http.url, timeout=0.05)
        with pytest.raises(LongTermMemoryServiceError, match=r"no answer within 0\.05 s") as caught:
            slow.retrieve("tea", scope=ANN).run()
        assert caught.value.retryable
        url = http.url
    gone = Mem0LongTermMemory("k", base_url=url)
    with pytest.raises(LongTermMemoryServiceError, match="No connection") as caught:
        gone.record([Msg.user("tea")], scope=ANN).run()
    assert caught.value.retryable and caught.value.status is None


def test_what_another_user_has_is_never_shown():
    stray = [{"id": "m1", "memory": "tea", "user_id": "bob"}, {"id": "m2", "memory": "tea", "run_id": "s9"}]
    with JsonServer(lambda path, body: {"results": stray}) as http:
        assert Mem0LongTermMemory("k", base_url=http.url).retrieve("tea", scope=ANN).run() == ()


def test_whose_memories_must_be_said(server: Mem0Server):
    ltm = memory(server)
    for flow in (ltm.record([Msg.user("tea")]), ltm.retrieve("tea"), ltm.retrieve("tea", scope=MemoryScope())):
        with pytest.raises(InvalidInputError, match="whose memories"):
            flow.run()
    assert server.http.asked == []
    memory(server, scope=ANN).record([Msg.user("tea")]).run()
    assert server.http.asked[0].body["filters"] == {"user_id": "ann"}


def test_wrong_arguments_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MEM0_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="MEM0_API_KEY"):
        Mem0LongTermMemory()
    with pytest.raises(ConfigurationError, match="base_url="):
        Mem0LongTermMemory("k", api="self_hosted")
    with pytest.raises(ConfigurationError, match="api must be"):
        Mem0LongTermMemory("k", api="v2")  # type: ignore[arg-type]
    monkeypatch.setenv("MEM0_API_KEY", "from-env")
    assert "from-env" not in repr(Mem0LongTermMemory())
