"""`--model auto`: servers on this machine, known by their own APIs; nothing but a path is sent to them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentscope_rx.cli import discover
from agentscope_rx.cli.discover import KNOWN_SERVERS, FoundModel, KnownServer, find
from agentscope_rx.cli.main import main
from agentscope_rx.cli.models import SUGGESTION, choose, model_of
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.ollama.model import OllamaChatModel
from agentscope_rx.models.openai.model import OpenAIChatModel
from agentscope_rx.reactive import never
from agentscope_rx.testing import ScriptedModel, run_virtual

OLLAMA = {
    "models": [
        {"name": "old:7b", "digest": "a", "modified_at": "2026-01-01T00:00:00Z"},
        {"name": "nomic-embed-text", "digest": "b", "modified_at": "2026-11-01T00:00:00Z"},
        {"name": "qwen3:8b", "digest": "c", "modified_at": "2026-10-01T00:00:00Z"},
    ]
}
LM_STUDIO = {
    "object": "list",
    "data": [
        {"id": "text-embed", "type": "embeddings", "state": "loaded"},
        {"id": "first", "type": "llm", "state": "not-loaded"},
        {"id": "second", "type": "vlm", "state": "loaded"},
    ],
}
LLAMA = {"object": "list", "data": [{"id": "gguf", "object": "model", "owned_by": "llamacpp"}]}
VLLM = {"object": "list", "data": [{"id": "org/model", "object": "model", "owned_by": "vllm"}]}
ANSWERS: dict[str, object] = {"Ollama": OLLAMA, "LM Studio": LM_STUDIO, "llama.cpp": LLAMA, "vLLM": VLLM}
SEEN = list[tuple[str, str, Mapping[str, str]]]


@contextmanager
def serving(path: str, answer: object, seen: SEEN) -> Iterator[int]:
    """A server on loopback with one answer at one path; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200 if self.path == path else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(answers: Mapping[str, object], seen: SEEN | None = None) -> tuple[FoundModel, ...]:
    """What is found where these servers answer."""
    with ExitStack() as stack:
        log: SEEN = seen if seen is not None else []
        places = [
            replace(place, port=stack.enter_context(serving(place.path, answers[place.server], log)))
            for place in KNOWN_SERVERS
            if place.server in answers
        ]
        return find(places, 30).run()


@pytest.mark.parametrize(
    ("server", "provider", "model", "why"),
    [
        ("Ollama", "ollama", "qwen3:8b", "changed last"),
        ("LM Studio", "openai", "second", "loaded"),
        ("llama.cpp", "llama.cpp", "gguf", "the one it serves"),
        ("vLLM", "vllm", "org/model", "the one it serves"),
    ],
)
def test_each_is_known_by_its_own_api(server: str, provider: str, model: str, why: str) -> None:
    (found,) = asked({server: ANSWERS[server]})
    assert (found.server, found.provider, found.model, found.why) == (server, provider, model, why)
    assert found.base_url.startswith("http://127.0.0.1:")


def test_all_in_the_order_of_preference() -> None:
    assert [found.server for found in asked(ANSWERS)] == ["Ollama", "LM Studio", "llama.cpp", "vLLM"]


@pytest.mark.parametrize(
    "answer",
    [
        {"models": []},
        {"models": [{"name": "x"}]},
        {"data": [{"id": "x", "object": "model", "owned_by": "someone"}]},
        {"models": "no", "data": {"id": 1}},
        {"models": [{"name": "a\x1b[2Jb", "digest": "c"}], "data": [{"id": 7, "owned_by": "vllm", "state": 1}]},
        [1],
        b"<html>It works!</html>",
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * 5_000_000,
    ],
)
def test_other_servers_on_these_ports_are_passed_over(answer: object) -> None:
    assert asked(dict.fromkeys(ANSWERS, answer)) == ()


def test_nothing_but_the_path_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "VLLM_API_KEY", "LLAMA_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.setenv(name, "secret-key")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    seen: SEEN = []
    assert len(asked(ANSWERS, seen)) == 4
    assert sorted(path for _, path, _ in seen) == sorted(place.path for place in KNOWN_SERVERS)
    for method, _, headers in seen:
        assert method == "GET"
        assert "secret-key" not in str(headers)
        assert set(headers) <= {"host", "accept", "accept-encoding", "connection", "user-agent"}


def test_all_are_asked_at_once_and_within_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[int, float]] = []

    async def silent(port: int, path: str) -> object:
        begun.append((port, asyncio.get_running_loop().time()))
        return VLLM if port == 8000 else await never()

    async def found() -> tuple[list[str], float]:
        start = asyncio.get_running_loop().time()
        servers = [each.server for each in await find()]
        return servers, asyncio.get_running_loop().time() - start

    monkeypatch.setattr(discover, "get_loopback", silent)
    servers, seconds = run_virtual(found())
    assert servers == ["vLLM"]
    assert seconds == pytest.approx(0.3)
    assert [port for port, _ in begun] == [11434, 1234, 8080, 8000]
    assert len({when for _, when in begun}) == 1


def test_auto_says_which_was_taken_and_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    seen: SEEN = []
    with serving("/api/tags", OLLAMA, seen) as one, serving("/api/v0/models", LM_STUDIO, seen) as two:
        ports = {"Ollama": one, "LM Studio": two}
        places = tuple(replace(place, port=ports[place.server]) for place in KNOWN_SERVERS if place.server in ports)
        monkeypatch.setattr(discover, "KNOWN_SERVERS", places)
        monkeypatch.setattr(discover, "SECONDS", 30.0)
        found = model_of("auto", None, {})
        assert isinstance(found, OllamaChatModel)
        assert found.model_name == "qwen3:8b"
        assert capsys.readouterr().err == (
            f"agentscope-rx: model: ollama:qwen3:8b at http://127.0.0.1:{one} "
            "(Ollama, changed last; also there: LM Studio)\n"
        )
        monkeypatch.setattr(discover, "KNOWN_SERVERS", places[1:])
        other = model_of("auto", None, {"OPENAI_API_KEY": "secret-key"})
    assert isinstance(other, OpenAIChatModel)
    assert other.endpoint.url == f"http://127.0.0.1:{two}/v1/chat/completions"
    # the key of another server is not sent to one that was merely found
    assert other.endpoint.api_key is None


def test_auto_with_nothing_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "KNOWN_SERVERS", ())
    with pytest.raises(ConfigurationError, match="--model auto found no model server"):
        choose("auto", None, {})
    with pytest.raises(ConfigurationError, match="leave --base-url out"):
        choose("auto", "http://h", {})


@pytest.mark.usefixtures("bare")
def test_without_auto_it_is_suggested_and_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[KnownServer] = []
    monkeypatch.setattr(discover, "_asked", lambda place, seconds: asked.append(place))
    monkeypatch.setattr("agentscope_rx.cli.models.make", lambda choice, environment: ScriptedModel("Hi."))
    assert main(["ask", "Hello", "-q"]) == 0
    told = capsys.readouterr().err
    assert SUGGESTION in told
    assert "--model auto" in told
    assert main(["ask", "Hello", "-q", "--model", "local:smollm2"]) == 0
    assert capsys.readouterr().err == ""
    assert asked == []
