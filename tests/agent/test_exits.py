"""`sys.exit()`, Ctrl-C and the like within a run: it ends as if disposed, and they come out as they are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from agentscope_rx import ExecutionConfig, Hook, InMemoryMemory, Msg, ReActAgent, tool
from agentscope_rx.errors import AwaitCancelledError
from agentscope_rx.events import Event, PostActingEvent, PostCallEvent, PreActingEvent, PreCallEvent, PreReasoningEvent
from agentscope_rx.messages import TextBlock, ToolResultKind
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, SourceCancelledError, from_async_iterable, from_callable, just
from agentscope_rx.testing import ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import assert_whole
from tests.reactive.test_workers import until


class Leave(BaseException):
    """Neither an error nor one of Python's own."""


@tool
async def fine() -> str:
    """Works."""
    return "fine"


def leaving(error: BaseException, where: str) -> ReActAgent:
    """An agent in which this is raised there."""

    async def leave() -> Any:
        await asyncio.sleep(0)
        raise error

    @tool(name="leave")
    async def leave_async() -> str:
        """Leaves."""
        return await leave()

    @tool(name="leave")
    def leave_blocking() -> str:
        """Leaves."""
        raise error

    @tool(name="leave")
    async def leave_midway():
        """Leaves."""
        yield "one"
        await leave()

    class Leaving(Hook):
        def on_event(self, event: Event) -> Any:
            if type(event).__name__ == where.removeprefix("async "):
                if where.startswith("async "):
                    return leave()
                raise error
            return None

    class Memory(InMemoryMemory):
        def add(self, messages: Sequence[Msg]) -> Flow[None]:
            if where == "memory" and any(message.tool_calls for message in messages):
                return from_callable(leave)
            return super().add(messages)

    class Model(ScriptedModel):
        def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
            return from_callable(leave) if where == "model" else super().do_stream(messages, tools, options)

    tools = {"blocking tool": leave_blocking, "generator": leave_midway}.get(where, leave_async)
    used = "leave" if "tool" in where or where == "generator" else "fine"
    return ReActAgent("F", Model(call(used), "ok"), tools=[tools, fine], hooks=[Leaving()], memory=Memory())


PLACES = [
    "async tool",
    "blocking tool",
    "generator",
    "memory",
    "model",
    *(
        f"{how}{kind.__name__}"
        for kind in (PreCallEvent, PreReasoningEvent, PreActingEvent, PostActingEvent, PostCallEvent)
        for how in ("", "async ")
    ),
]
EXITS = [SystemExit(3), KeyboardInterrupt(), Leave()]


async def awaited(agent: ReActAgent) -> object:
    return await agent.call("x")


async def iterated(agent: ReActAgent) -> object:
    return [event async for event in agent.stream("x")]


async def entered(agent: ReActAgent) -> object:
    async with agent.stream("x") as events:
        return [event async for event in events]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("error", EXITS, ids=repr)
def test_it_comes_out_of_run_and_the_library_s_loop_goes_on(where: str, error: BaseException) -> None:
    agent = leaving(error, where)
    with pytest.raises(type(error)) as raised:
        agent.call("x").run()
    assert raised.value is error
    assert not agent.running
    assert_whole(agent)
    assert just(1).run() == 1


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("consume", [awaited, iterated, entered])
def test_it_comes_out_of_await_and_async_for(where: str, consume: Any) -> None:
    error = SystemExit(3)
    agent = leaving(error, where)

    async def main() -> None:
        with pytest.raises(SystemExit) as raised:
            await consume(agent)
        assert raised.value is error
        await agent.idle()
        assert_whole(agent)

    asyncio.run(main())


def test_the_call_that_left_is_closed_and_the_next_run_answers() -> None:
    agent = leaving(SystemExit(3), "async tool")
    with pytest.raises(SystemExit):
        agent.call("x").run()
    (result,) = agent.memory.get().run()[-1].tool_results
    assert result.kind is ToolResultKind.INTERRUPTED
    assert agent.call("again").run().text == "ok"


def test_other_runs_on_the_library_s_loop_go_on() -> None:
    began, release = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Waits."""
        began.set()
        assert release.wait(10)
        return "waited"

    other = ReActAgent("O", ScriptedModel(call("wait"), "done"), tools=[wait])
    replies: list[Msg] = []
    thread = threading.Thread(target=lambda: replies.append(other.call("x").run()))
    thread.start()
    began.wait(10)
    with pytest.raises(SystemExit):
        leaving(SystemExit(3), "async tool").call("x").run()
    release.set()
    thread.join(10)
    assert [reply.text for reply in replies] == ["done"]


def test_it_comes_out_of_a_sub_agent() -> None:
    child = leaving(SystemExit(3), "async tool")
    parent = ReActAgent("P", ScriptedModel(call("call_f", message="x"), "ok"), tools=[child])
    with pytest.raises(SystemExit):
        parent.call("x").run()
    assert_whole(parent)
    assert_whole(child)


def test_a_subscriber_without_a_place_for_it() -> None:
    """On the library's loop it is reported: there is no thread that waits."""
    agent = leaving(Leave(), "async tool")
    heard: list[object] = []
    with collect_dropped() as dropped:
        agent.call("x").subscribe(heard.append, heard.append, lambda: heard.append("|"))
        until(lambda: bool(dropped))
    assert heard == []
    assert [type(error) for error in dropped] == [Leave]


def test_it_leaves_a_loop_of_one_s_own() -> None:
    async def main() -> None:
        leaving(SystemExit(7), "async tool").call("x").subscribe()
        await asyncio.Event().wait()

    with pytest.raises(SystemExit) as raised:
        asyncio.run(main())
    assert raised.value.code == 7


def test_a_script_ends_with_the_status() -> None:
    script = (
        "import sys\n"
        "from agentscope_rx import ReActAgent, tool\n"
        "from agentscope_rx.testing import ScriptedModel, call\n"
        "@tool\n"
        "async def t() -> str:\n"
        "    '''Exits.'''\n"
        "    sys.exit(3)\n"
        "ReActAgent('F', ScriptedModel(call('t'), 'ok'), tools=[t]).call('x').run()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", "")


def test_a_failing_clean_up_after_it_does_not_replace_it() -> None:
    @tool
    async def leave() -> str:
        """Leaves."""
        try:
            await asyncio.sleep(0)
            raise Leave
        finally:
            raise ValueError("in finally")

    agent = ReActAgent("F", ScriptedModel(call("leave"), "ok"), tools=[leave])
    # Python's own rule: what `finally` raises is what the tool raised
    assert agent.call("x").run().text == "ok"


def test_a_run_in_a_log_fails_and_the_server_s_loop_goes_on() -> None:
    from agentscope_rx.reactive.replay_log import ReplayLog

    async def main() -> None:
        log: ReplayLog[Event] = ReplayLog(10)
        log.open(leaving(SystemExit(3), "async tool").stream("x"))
        with pytest.raises(SourceCancelledError, match=r"SystemExit\(3\)"):
            async for _ in log.read():
                pass

    asyncio.run(main())


@pytest.mark.parametrize("begun", [False, True])
def test_a_cancelled_await_in_a_model_is_retried(begun: bool) -> None:
    class Model(ScriptedModel):
        def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
            if self.requests:
                return super().do_stream(messages, tools, options)
            self.requests.append(None)  # type: ignore[arg-type]

            async def broken() -> Any:
                if begun:
                    yield ChatResponse((TextBlock("so far"),))
                task = asyncio.get_running_loop().create_future()
                task.cancel()
                await task

            return from_async_iterable(broken)

    agent = ReActAgent("F", Model("", "ok", execution_config=ExecutionConfig(max_attempts=2)))
    if begun:
        with pytest.raises(AwaitCancelledError):
            run_virtual(agent.call("x"))
    else:
        assert run_virtual(agent.call("x")).text == "ok"
    assert_whole(agent)


def test_a_cancelled_await_in_a_tool_is_a_failed_result() -> None:
    @tool
    async def broken() -> str:
        """Awaits what is cancelled."""
        task = asyncio.get_running_loop().create_future()
        task.cancel()
        return await task

    agent = ReActAgent("F", ScriptedModel(call("broken"), "ok"), tools=[broken])
    assert run_virtual(agent.call("x")).text == "ok"
    (result,) = agent.memory.get().run()[-2].tool_results
    assert result.kind is ToolResultKind.FAILED and "cancelled" in result.text
