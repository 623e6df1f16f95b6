"""Real processes in one conversation: one after the other, and what becomes of one that is killed or stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agentscope_rx.errors import ConversationLeasedError
from agentscope_rx.session import LeasePolicy, open_session
from agentscope_rx.testing import ScriptedModel
from tests.agent.lease_program import KEY
from tests.agent.parts import agent, remembered
from tests.support.servers import Server, postgres_url, redis_url
from tests.support.signals import child

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(params=["sessions", "sessions.db", "postgres", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder, a SQLite file, or a server."""
    if request.param.startswith("sessions"):
        yield str(tmp_path / request.param)
        return
    server: Server = request.getfixturevalue(request.param)
    url = postgres_url(server) if request.param == "postgres" else redis_url(server)
    yield url
    opened = open_session(url)
    opened.delete(KEY).run()
    opened.close().run()


@contextmanager
def program(store: str, name: str, turns: int, ttl: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.agent.lease_program", store, name, str(turns), str(ttl)]
    with child(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def texts(store: str) -> list[str]:
    twin = agent(ScriptedModel("-"))
    assert twin.load(open_session(store), KEY).run()
    return [message.text for message in remembered(twin)]


@pytest.mark.spec("W69")
def test_two_processes_lose_no_turn(store: str):
    turns = 30
    with ExitStack() as stack:
        programs = [stack.enter_context(program(store, name, turns, 30)) for name in ("ann", "bob")]
        assert [line_of(each) for each in programs] == ["done", "done"]
    found = texts(store)
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert all(reply == question.replace("asks", "says") for question, reply in pairs), "a turn was torn"
    for name in ("ann", "bob"):
        asked = [question for question, _ in pairs if question.startswith(name)]
        assert asked == [f"{name} asks {number}" for number in range(turns)]
    lease = open_session(store).load(KEY, "lease").run()
    assert isinstance(lease, dict) and (lease["token"], lease["holder"]) == (2 * turns, None)


def test_a_process_that_is_killed_is_replaced_at_once(store: str):
    heir = agent(ScriptedModel("mine", repeat=True))
    with program(store, "ann", 0, 3600) as process:
        assert line_of(process) == "running"
        heir.bind(open_session(store), KEY, lease="error").run()
        with pytest.raises(ConversationLeasedError) as caught:
            heir.call("too early").run()
        assert caught.value.pid == process.pid
        process.send_signal(signal.SIGKILL)
        process.wait()
        heir.call("now").run()
    assert texts(store) == ["now", "mine"]


def test_a_process_that_was_stopped_cannot_save_late(store: str):
    ttl = 1.5
    heir = agent(ScriptedModel("mine", repeat=True))
    heir.bind(open_session(store), KEY, lease=LeasePolicy("queue", ttl=ttl)).run()
    with program(store, "ann", 0, ttl) as process:
        assert line_of(process) == "running"
        process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        heir.call("b").run()
        assert time.monotonic() - begun > ttl / 2, "not before its signs of life have ceased"
        process.send_signal(signal.SIGCONT)
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert line_of(process) == "LeaseLostError"
    assert texts(store) == ["b", "mine"]
    heir.call("c").run()
    assert texts(store) == ["b", "mine", "c", "mine"]
