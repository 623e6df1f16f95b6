"""`HttpReranker` against a server on loopback that speaks the protocols of rerankers."""

from __future__ import annotations

from typing import Any

import pytest

from agentscope_rx.errors import ConfigurationError, ModelHTTPError, ModelTimeoutError, ProtocolError
from agentscope_rx.knowledge import HttpReranker, Passage
from agentscope_rx.models import ExecutionConfig
from tests.knowledge.retrieval.parts import chunks_of
from tests.support.json_server import JsonServer

PASSAGES = [
    Passage(chunk=each, score=0.5, text=each.text, start=each.start, end=each.end)
    for each in chunks_of("a.md", "cats", "dogs", "zoos")
]
ONCE = ExecutionConfig(max_attempts=1)
RESULTS = [
    {"index": 2, "relevance_score": 0.9},
    {"index": 0, "relevance_score": 0.2},
    {"index": 1, "relevance_score": 0},
]
ANSWERS: dict[str, Any] = {
    "cohere": {"results": RESULTS, "meta": {}},
    "jina": {"results": RESULTS, "usage": {"total_tokens": 3}},
    "compatible": {"results": RESULTS},
    "dashscope": {"output": {"results": RESULTS}, "request_id": "r"},
    "tei": [{"index": each["index"], "score": each["relevance_score"]} for each in RESULTS],
}
TEXTS = ["cats", "dogs", "zoos"]
BODIES: dict[str, Any] = {
    **{api: {"model": "m", "query": "zoo", "documents": TEXTS, "top_n": 3} for api in ("cohere", "compatible")},
    "jina": {"model": "m", "query": "zoo", "documents": TEXTS, "top_n": 3, "return_documents": False},
    "dashscope": {
        "model": "m",
        "input": {"query": "zoo", "documents": TEXTS},
        "parameters": {"return_documents": False, "top_n": 3},
    },
    "tei": {"query": "zoo", "texts": TEXTS, "truncate": True},
}


def reranker(server: JsonServer, api: Any, **options: Any) -> HttpReranker:
    base = server.url + ("/api/v1" if api == "dashscope" else "/v1")
    return HttpReranker("m", api=api, base_url=base, api_key="secret-key-1", **{"execution_config": ONCE, **options})


@pytest.mark.parametrize("api", list(ANSWERS))
def test_what_is_on_the_wire(api: str):
    with JsonServer(lambda path, body: ANSWERS[api]) as server:
        assert reranker(server, api).rerank("zoo", PASSAGES).run() == [0.2, 0.0, 0.9]
    (asked,) = server.asked
    path = "/api/v1/services/rerank/text-rerank/text-rerank" if api == "dashscope" else "/v1/rerank"
    assert asked.path == path and asked.body == BODIES[api] and asked.headers["authorization"] == "Bearer secret-key-1"


@pytest.mark.parametrize(
    "results",
    [
        *(None, [], "x", RESULTS[:2], [*RESULTS, RESULTS[0]], [*RESULTS[:2], {"index": 7, "relevance_score": 1}], [{}]),
        *([*RESULTS[:2], {"index": 1, "relevance_score": score}] for score in (10**400, -(10**301), float("nan"))),
    ],
    ids=range(10),
)
def test_answers_without_a_score_for_each_passage(results: Any):
    with JsonServer(lambda path, body: {"results": results}) as server, pytest.raises(ProtocolError):
        reranker(server, "jina").rerank("zoo", PASSAGES).run()


def test_error_status_is_retried_and_names_the_model():
    answers = iter([(503, {"message": "busy"}), ANSWERS["jina"], (401, {"message": "bad secret-key-1"})])
    config = ExecutionConfig(max_attempts=2, initial_backoff=0.01)
    with JsonServer(lambda path, body: next(answers)) as server:
        asked = reranker(server, "jina", execution_config=config)
        assert asked.rerank("zoo", PASSAGES).run() == [0.2, 0.0, 0.9]
        with pytest.raises(ModelHTTPError) as caught:
            asked.rerank("zoo", PASSAGES).run()
    assert caught.value.status == 401 and caught.value.model == "m" and "secret-key-1" not in str(caught.value)


def test_deadline_of_an_attempt():
    config = ExecutionConfig(max_attempts=1, timeout=0.05)
    with JsonServer(lambda path, body: ANSWERS["jina"], delay=0.3) as server, pytest.raises(ModelTimeoutError):
        reranker(server, "jina", execution_config=config).rerank("zoo", PASSAGES).run()


def test_long_passages_are_cut():
    with JsonServer(lambda path, body: ANSWERS["jina"]) as server:
        reranker(server, "jina", max_chars=2).rerank("zoo", PASSAGES).run()
    assert server.asked[0].body["documents"] == ["ca", "do", "zo"]


def test_nothing_is_sent_about_no_passages():
    with JsonServer(lambda path, body: {}) as server:
        assert reranker(server, "jina").rerank("zoo", []).run() == ()
    assert server.asked == []


def test_keys_and_addresses(monkeypatch: pytest.MonkeyPatch):
    for name in ("COHERE_API_KEY", "JINA_API_KEY", "DASHSCOPE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for api, expected in {"cohere": "COHERE_API_KEY", "jina": "JINA_API_KEY", "dashscope": "DASHSCOPE_API_KEY"}.items():
        with pytest.raises(ConfigurationError, match=expected):
            HttpReranker("m", api=api)  # pyright: ignore
    for api in ("compatible", "tei"):
        with pytest.raises(ConfigurationError, match="base_url="):
            HttpReranker("m", api=api)
    with pytest.raises(ConfigurationError, match="api must be"):
        HttpReranker("m", api="other")  # pyright: ignore
    monkeypatch.setenv("COHERE_API_KEY", "secret")
    assert "secret" not in repr(HttpReranker("rerank-v3.5"))


def test_address_with_its_path():
    with JsonServer(lambda path, body: ANSWERS["compatible"]) as server:
        for path in ("/v2/rerank", "/compatible-api/v1/reranks"):
            HttpReranker("m", api="compatible", base_url=server.url + path).rerank("zoo", PASSAGES).run()
    assert [each.path for each in server.asked] == ["/v2/rerank", "/compatible-api/v1/reranks"]
