"""`agentscope-rx serve` in a process of its own, and what it refuses to begin with."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from agentscope_rx.cli.main import main
from tests.support.servers import Server

PATIENCE = 60.0
AGENTS = '''
import asyncio
from agentscope_rx import ReActAgent, tool
from agentscope_rx.testing import ScriptedModel, call

@tool(read_only=True)
async def wait(file: str) -> str:
    """Wait for a file."""
    import os
    open(file + ".began", "w").close()
    while not os.path.exists(file):
        await asyncio.sleep(0.01)
    return "there"

hello = ReActAgent("friday", ScriptedModel("Hello.", repeat=True))

def waiting():
    import os
    model = ScriptedModel(call("wait", file=os.environ["WAIT_FOR"]), "It is there.", repeat=True)
    return [ReActAgent("waiter", model, tools=[wait]), hello]

number = 3
'''


class Service:
    """A `serve` in another process; `lines` are what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.url = ""
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(PATIENCE), self.lines
        assert self.url, self.lines

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            if found := re.search(r"at (http://\S+)", line):
                self.url = found[1]
                self._ready.set()
        self._ready.set()

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False, **options)

    def ended(self) -> int:
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status


@contextmanager
def serving(folder: Path, *argv: str, **env: str) -> Iterator[Service]:
    (folder / "my_agents.py").write_text(AGENTS)
    process = subprocess.Popen(
        [sys.executable, "-m", "agentscope_rx", "serve", *argv, "--port", "0"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **env},
    )
    try:
        yield Service(process)
    finally:
        process.kill()
        process.wait(PATIENCE)
        assert process.stderr is not None
        process.stderr.close()


def until(client: httpx.Client, path: str, status: int) -> None:
    for _ in range(1000):
        if client.get(path).status_code == status:
            return
    raise AssertionError(f"{path} never had {status}")


def test_a_file_and_a_clean_end(tmp_path: Path) -> None:
    with serving(tmp_path, "my_agents.py:hello", "--openai", "--token", "0123456789abcdef") as service:
        with OpenAI(base_url=f"{service.url}/v1", api_key="0123456789abcdef", max_retries=0) as client:
            made = client.chat.completions.create(model="friday", messages=[{"role": "user", "content": "hi"}])
            assert made.choices[0].message.content == "Hello."
        with service.client() as client:
            assert client.get("/v1/models").status_code == 401
            assert client.get("/healthz").status_code == 200
            client.headers["authorization"] = "Bearer 0123456789abcdef"
            # only the protocol that was named
            assert client.post("/run", json={"text": "hi"}).status_code == 404
        service.process.send_signal(signal.SIGTERM)
        assert service.ended() == 0
    requests = [json.loads(line) for line in service.lines if line.startswith("{")]
    assert [(each["path"], each["status"]) for each in requests][:2] == [
        ("/v1/chat/completions", 200),
        ("/v1/models", 401),
    ]
    assert "0123456789abcdef" not in "".join(service.lines)


def test_a_signal_lets_a_run_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with (
        serving(tmp_path, "my_agents.py:waiting", "--events", WAIT_FOR=str(file)) as service,
        service.client() as client,
    ):
        with client.stream("POST", "/run", json={"text": "hi", "agent": "waiter"}) as response:
            lines = response.iter_lines()
            while "tool_call" not in next(lines):
                pass
            service.process.send_signal(signal.SIGINT)
            with service.client() as other:
                until(other, "/readyz", 503)
                assert other.post("/run", json={"text": "hi", "agent": "friday"}).status_code == 503
            file.touch()
            assert any("It is there." in line for line in lines)
        assert service.ended() == 0


def test_a_conversation_outlives_the_process(tmp_path: Path) -> None:
    store = ["--sessions", "conversations.db"]
    for text in ("one", "two"):
        with serving(tmp_path, "my_agents.py:hello", *store) as service, service.client() as client:
            body = {"text": text, "session_id": "s"}
            assert client.post("/run", json=body).status_code == 200
            service.process.send_signal(signal.SIGTERM)
            assert service.ended() == 0
    from agentscope_rx.session import SqliteSession

    store_now = SqliteSession(tmp_path / "conversations.db")
    [key] = store_now.keys().run()
    assert "s" in key
    store_now.close().run()


def test_another_process_goes_on_after_the_first_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    options = ("my_agents.py:waiting", "--sessions", "conversations.db", "--events")
    body = {"text": "hi", "agent": "waiter", "session_id": "s"}
    env = {"WAIT_FOR": str(file)}
    with serving(tmp_path, *options, **env) as first, serving(tmp_path, *options, **env) as other:
        with first.client() as client, client.stream("POST", "/run", json=body) as response:
            lines = response.iter_lines()
            while "acting" not in next(lines):
                pass
            with other.client() as second:
                # one process at a time
                held = second.post("/run", json=body)
                assert (held.status_code, held.json()["error"]["type"]) == (409, "ConversationLeasedError")
            first.process.kill()
            first.process.wait(PATIENCE)
        file.touch()
        with other.client() as second:
            made = second.post("/run", json={**body, "text": None, "messages": []})
            assert made.status_code == 200, made.text
            assert "It is there." in made.text


def follow_elsewhere(folder: Path, sessions: str) -> None:
    """A run is begun in one process, followed, controlled and taken up again in another."""
    file = folder / "file"
    options = ("my_agents.py:waiting", "--sessions", sessions, "--events", "--on-disconnect", "continue")
    body = {"text": "hi", "agent": "waiter", "session_id": "s"}
    env = {"WAIT_FOR": str(file)}
    with serving(folder, *options, **env) as first, serving(folder, *options, **env) as other:  # noqa: SIM117
        with first.client() as client, other.client() as second:
            with client.stream("POST", "/run", json=body) as response:
                lines = response.iter_lines()
                place = run = ""
                while "acting" not in (line := next(lines)):
                    place = line.removeprefix("id: ") if line.startswith("id: ") else place
                    run = json.loads(line[6:])["run_id"] if line.startswith("data: ") else run
            file.touch()
            rest = second.get(f"/runs/{run}/events", headers={"last-event-id": place})
            assert rest.status_code == 200 and "It is there." in rest.text and '"type":"post_call"' in rest.text
            assert f"id: {place}\n" not in rest.text and f"id: {int(place) + 1}\n" in rest.text
            file.unlink()
            # the next one is stopped from elsewhere
            with client.stream("POST", "/run", json=body) as response:
                lines = response.iter_lines()
                while "acting" not in (line := next(lines)):
                    run = json.loads(line[6:])["run_id"] if line.startswith("data: ") else run
            assert second.delete(f"/runs/{run}").status_code == 204
            ended = second.get(f"/runs/{run}/events")
            assert '"error_type":"RunStoppedError"' in ended.text


def test_a_run_is_followed_in_another_process(tmp_path: Path) -> None:
    follow_elsewhere(tmp_path, "conversations.db")
    assert (tmp_path / "conversations.runs.db").exists()


def test_a_run_is_followed_in_another_process_by_redis(tmp_path: Path, redis: Server) -> None:
    follow_elsewhere(tmp_path, f"unix://{redis.socket}?db=7")


@pytest.mark.skipif(sys.platform == "win32", reason="workers share a socket")
def test_workers_serve_one_conversation(tmp_path: Path) -> None:
    options = ("my_agents.py:hello", "--sessions", "conversations.db", "--workers", "2")
    with serving(tmp_path, *options) as service:
        for _ in range(6):
            # a connection each: any of the workers takes it
            with service.client(transport=httpx.HTTPTransport(retries=50)) as client:
                response = client.post("/run", json={"text": "hi", "session_id": "s"})
                assert response.status_code == 200, response.text
        service.process.send_signal(signal.SIGTERM)
        assert service.ended() in (0, -signal.SIGTERM)


def refused(capsys: pytest.CaptureFixture[str], argv: Sequence[str]) -> str:
    assert main(["serve", *argv]) == 2
    line = capsys.readouterr().err.strip()
    assert line.startswith("agentscope-rx: error: ") and "\n" not in line
    return line


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["my_agents.py:hello", "--host", "0.0.0.0"], "--token"),
        (["my_agents.py:hello", "--workers", "2"], "--workers needs --sessions"),
        (["my_agents.py:hello", "--token", "short"], "at least 16 characters"),
        (["my_agents.py:hello", "--model", "openai:x"], "leave --model out"),
        (["my_agents.py:hello", "--agent", "my_agents:hello"], "leave one out"),
        (["my_agents.py:helo"], "Did you mean hello?"),
        (["my_agents.py:number"], "not an Agent"),
        (["nowhere.py:agent"], "there is no file 'nowhere.py'"),
        (["my_agents.py"], "takes module:attribute"),
        (["my_agents.py:hello", "--allow-origin", "app"], "allowed_origins"),
    ],
)
def test_what_cannot_be_served(
    argv: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTSCOPE_RX_TOKEN", raising=False)
    (tmp_path / "my_agents.py").write_text(AGENTS)
    assert words in refused(capsys, argv)


def test_a_port_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_agents.py").write_text(AGENTS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use" in refused(capsys, ["my_agents.py:hello", "--port", str(taken.getsockname()[1])])


@pytest.mark.parametrize("argv", [["--port", "70000"], ["--on-disconnect", "never"], ["--rate", "0"], ["--drain", "x"]])
def test_wrong_numbers(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *argv])
    assert ended.value.code == 2
    assert argv[0] in capsys.readouterr().err
