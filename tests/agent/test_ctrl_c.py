"""Ctrl-C in a script: `run()` disposes the run, waits for its clean-up, and the interrupt goes on as it came."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from agentscope_rx.reactive import throw
from tests.support.signals import child

SCRIPT = """
import asyncio
from agentscope_rx import ReActAgent, tool
from agentscope_rx.testing import ScriptedModel, call

@tool
async def wait() -> str:
    'Waits.'
    try:
        print("waiting", flush=True)
        await asyncio.get_running_loop().create_future()
    finally:
        await asyncio.sleep(0)
        print("cleaned up", flush=True)
    return "never"

agent = ReActAgent("Friday", ScriptedModel(call("wait"), "next"), tools=[wait])
try:
    agent.call("hi").run()
except KeyboardInterrupt:
    print("interrupted", agent.memory.messages[-1].tool_results[0].kind, agent.running, flush=True)
print(agent.call("again").run().text)
"""


@pytest.fixture(params=["terminal", "background"])
def started_from(request: pytest.FixtureRequest) -> Iterator[str]:
    """In the background SIGINT is ignored, by the tests and by what they start."""
    before = signal.getsignal(signal.SIGINT)
    if request.param == "background":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield request.param
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("started_from")
def test_ctrl_c_in_run_leaves_memory_whole_and_the_agent_free():
    with child([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "waiting\n"
        script.send_signal(signal.SIGINT)
        rest = script.stdout.read().splitlines()
    assert rest == ["cleaned up", "interrupted interrupted False", "next"]
    assert script.returncode == 0


MISSED = """
import _thread, threading
from agentscope_rx.reactive import never
# as a signal that comes between the last look at signals and the wait: it is noted, and wakes no wait
threading.Timer(0.3, _thread.interrupt_main).start()
try:
    never().run()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_signal_that_does_not_wake_the_thread_is_noticed():
    with child([sys.executable, "-c", MISSED], stdout=subprocess.PIPE) as script:
        assert script.stdout is not None
        assert script.stdout.read() == "interrupted\n"


def test_a_timeout_error_of_the_run_is_raised_by_run():
    error = TimeoutError("of the run")
    with pytest.raises(TimeoutError, match="of the run") as caught:
        throw(error).run()
    assert caught.value is error
