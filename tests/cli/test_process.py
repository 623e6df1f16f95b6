"""The command line as a process, over real HTTP: exit statuses, pipes, a terminal and Ctrl-C."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentscope_rx import fold
from agentscope_rx.events import event_from_json

from .processes import SECONDS, Start
from .scripted_server import Server, calls, hangs, refuses, says

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_ask_over_http(cli: Cli, server: Server, tmp_path: Path) -> None:
    (tmp_path / "ferry.txt").write_text("Name: Aurora\n")
    server.answers += [calls("read_file", path="ferry.txt"), says("It is ", "Aurora.")]
    done = cli("ask", "Which?", "--model", "openai:m", "--base-url", server.url, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    folded = fold(event_from_json(line) for line in done.stdout.splitlines())
    assert folded.message is not None
    assert folded.message.text == "It is Aurora."
    assert folded.history[2].tool_results[0].text == "     1\tName: Aurora"


def test_chat_from_a_pipe_with_a_model_from_the_environment(cli: Cli, server: Server) -> None:
    server.answers += [says("Hello."), says("Ada.")]
    done = cli("chat", input="I am Ada.\nWho am I?\n", OPENAI_BASE_URL=server.url, OPENAI_MODEL="m")
    assert done.returncode == 0
    assert done.stderr == f"agentscope-rx: model: openai:m at {server.url} (OPENAI_BASE_URL and OPENAI_MODEL are set)\n"
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["Hello.", "-- 1 turn", "Ada.", "-- 1 turn"]
    asked = server.requests[1]["messages"]
    assert isinstance(asked, list)
    assert [message["content"] for message in asked][1:] == ["I am Ada.", "Hello.", "Who am I?"]


@pytest.mark.parametrize(
    ("status", "message", "line"),
    [
        (401, "Incorrect API key.", "openai:m: HTTP 401: Incorrect API key. Check the API key in OPENAI_API_KEY."),
        (404, "No model 'm'.", "openai:m: HTTP 404: No model 'm'. Check the model's name (--model) and the server's"),
    ],
)
def test_what_the_server_refuses_is_one_line(cli: Cli, server: Server, status: int, message: str, line: str) -> None:
    server.answers.append(refuses(status, message))
    done = cli("ask", "?", "--model", "openai:m", "--base-url", server.url)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"agentscope-rx: error: {line}")
    assert done.stderr.count("\n") == 1
    assert len(server.requests) == 1


def test_a_refused_connection_is_one_line_at_once(cli: Cli) -> None:
    url = f"http://127.0.0.1:{_closed_port()}/v1"
    done = cli("ask", "?", "--model", "openai:m", "--base-url", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"agentscope-rx: error: openai:m: No connection to {url}/chat/completions: ")
    assert done.stderr.endswith("Check that the server is running, and its address (--base-url).\n")
    assert done.stderr.count("\n") == 1


def test_a_missing_key_is_one_line(cli: Cli) -> None:
    done = cli("ask", "?", "--model", "openai:m")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("agentscope-rx: error: There is no API key for OpenAI: set OPENAI_API_KEY.")
    assert done.stderr.count("\n") == 1


# --- signals ----------------------------------------------------------------------------------------------------------


def test_ctrl_c_interrupts_an_answer_and_keeps_the_conversation(terminal: Start, server: Server) -> None:
    server.answers += [hangs("Once upon"), says("You said hello.")]
    chat = terminal("chat")
    chat.until("> ")
    chat.type("hello\n")
    chat.until("Once upon")
    chat.interrupt()
    chat.until("-- interrupted")
    chat.until("> ")
    chat.type("what did I say?\n")
    chat.until("You said hello.")
    chat.until("> ")
    asked = server.requests[1]["messages"]
    assert isinstance(asked, list)
    assert [message["content"] for message in asked if message["role"] == "user"] == ["hello", "what did I say?"]
    chat.type("\x04")
    assert chat.wait() == 0


def test_a_second_ctrl_c_leaves_and_a_third_at_once(terminal: Start, server: Server, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import asyncio\n"
        "async def wait() -> str:\n"
        "    '''Wait.'''\n"
        "    try:\n"
        "        print('waiting', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "    finally:\n"
        "        print('stopping', flush=True)\n"
        "        await asyncio.Event().wait()\n"
    )
    server.answers.append(calls("wait"))
    chat = terminal("chat", "--tools", "slow:wait")
    chat.until("> ")
    chat.type("wait\n")
    chat.until("waiting")
    chat.interrupt()
    chat.until("stopping")
    chat.interrupt()
    chat.until("leaving when")
    chat.interrupt()
    assert chat.wait() == 130


def test_ctrl_c_at_the_prompt_leaves(terminal: Start) -> None:
    chat = terminal("chat")
    chat.until("> ")
    # between its prompt and its waiting readline is deaf, and a person presses again
    for _ in range(10):
        chat.interrupt()
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert chat.popen.wait(3) == 130
            return
    pytest.fail("Ctrl-C at the prompt does not leave")


def test_ctrl_c_during_ask_is_status_130(terminal: Start, server: Server) -> None:
    server.answers.append(hangs("Once upon"))
    ask = terminal("ask", "?")
    ask.until("Once upon")
    ask.interrupt()
    assert ask.wait() == 130
    assert "Traceback" not in ask.seen


def test_a_reader_that_leaves_is_no_error(server: Server, environment: dict[str, str], tmp_path: Path) -> None:
    """`agentscope-rx ask ... | head -1`."""
    gone = threading.Event()

    def endless(handler: object) -> None:
        from .scripted_server import Handler

        assert isinstance(handler, Handler)
        handler.begin()
        handler.event({"choices": [{"index": 0, "delta": {"content": "line 1\n"}}]})
        gone.wait(SECONDS)
        try:
            while not handler.server.over.is_set():
                handler.event({"choices": [{"index": 0, "delta": {"content": "more\n"}}]})
        except OSError:
            handler.server.asked.set()

    server.answers.append(endless)
    command = [sys.executable, "-m", "agentscope_rx", "ask", "?", "--model", "openai:m", "--base-url", server.url]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path
    ) as popen:
        assert popen.stdout is not None
        assert popen.stderr is not None
        assert popen.stdout.readline() == b"line 1\n"
        popen.stdout.close()
        gone.set()
        assert popen.stderr.read() == b""
        assert popen.wait(SECONDS) == 141
    assert server.asked.wait(SECONDS), "the response was not closed"
