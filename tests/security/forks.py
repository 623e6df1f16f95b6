"""What `test_fork` runs, each case in an interpreter of its own: `python -m tests.security.forks CASE FOLDER`."""

from __future__ import annotations

import asyncio
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import InMemoryMemory, ReActAgent, Toolkit, tool
from agentscope_rx.agent import GracefulShutdown
from agentscope_rx.agent.user.lines import Lines
from agentscope_rx.errors import AgentBusyError, ConfigurationError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wrappers import CircuitBreaker
from agentscope_rx.reactive import ENGINE_WORKERS, WORKERS, WorkerPool, on_worker
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.session import JsonSession
from agentscope_rx.session.durable import locked
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.files import FileTools

SECONDS = 50
FOLDER = Path(sys.argv[2]) if __name__ == "__main__" else Path()


def in_child(work: Callable[[], object]) -> None:
    """Do it in a forked child, which must end well and in time; returns when it has."""
    pid = begin_child(work)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"the child ended with {os.waitstatus_to_exitcode(status)}"


def begin_child(work: Callable[[], object]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.alarm(SECONDS)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


@tool
def where() -> str:
    """Where it runs."""
    return f"{os.getpid()}"


@tool
async def later() -> str:
    """The same, on the loop."""
    await asyncio.sleep(0.001)
    return f"{os.getpid()}"


@tool
def parts() -> Iterator[str]:
    """The same, in parts."""
    yield "in"
    yield f"{os.getpid()}"


def ask(toolkit: Toolkit, name: str, **input: object) -> str:
    return toolkit.call(ToolUseBlock("1", name, input)).run().text


def everything(toolkit: Toolkit, session: JsonSession) -> None:
    """All kinds of work, without and with a loop of one's own."""
    (FOLDER / "folder").mkdir(exist_ok=True)
    me = f"{os.getpid()}"
    for name in ("where", "later", "parts"):
        assert ask(toolkit, name) == me
    assert "folder" in ask(toolkit, "list_directory")
    session.save_all(me, {"x": me}).run()
    assert session.load_all(me).run().values["x"] == me

    async def main() -> None:
        assert (await toolkit.call(ToolUseBlock("1", "where", {}))).text == me
        assert (await toolkit.call(ToolUseBlock("1", "later", {}))).text == me
        await session.save_all(me, {"x": 2})
        friday = ReActAgent("Friday", ScriptedModel(call("where"), "done"), toolkit=toolkit)
        assert (await friday.call("go")).text == "done"

    asyncio.run(main())
    friday = ReActAgent("Friday", ScriptedModel(call("where"), call("parts"), "done"), toolkit=toolkit)
    assert friday.call("go").run().text == "done"


def all_tools() -> Toolkit:
    return Toolkit([where, later, parts, FileTools(FOLDER)])


# --- the cases --------------------------------------------------------------------------------------------------------


def used() -> None:
    """The reproduction: the parent has used a tool, the child uses it as well; and so does the child's child."""
    toolkit, session = all_tools(), JsonSession(FOLDER)
    everything(toolkit, session)

    def again() -> None:
        everything(toolkit, session)
        in_child(lambda: everything(toolkit, session))
        everything(toolkit, session)

    in_child(again)
    everything(toolkit, session)


def prefork() -> None:
    """One agent, used once in the master, and then by several workers at once."""
    toolkit = all_tools()
    agents = [ReActAgent("Friday", ScriptedModel(*[call("where"), "done"] * 9), toolkit=toolkit) for _ in range(2)]
    for friday in agents:
        friday.call("go").run()

    def serve() -> None:
        assert agents[0].call("go").run().text == "done"

        async def main() -> None:
            assert (await agents[1].call("go")).text == "done"

        asyncio.run(main())

    children = [begin_child(serve) for _ in range(4)]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    serve()


def amid() -> None:
    """A run is in progress, with its tool on a thread, a permit taken, and another one waiting for it."""
    began, release = threading.Event(), threading.Event()

    @tool(max_concurrency=1)
    def one_at_a_time(wait: bool) -> str:
        """Wait."""
        if wait:
            began.set()
            release.wait(SECONDS)
        return f"{os.getpid()}"

    memory = InMemoryMemory()
    first = [call("one_at_a_time", wait=True), call("one_at_a_time", wait=True)]
    model = ScriptedModel(first, "parent", call("one_at_a_time", wait=False), "child")
    friday = ReActAgent("Friday", model, toolkit=Toolkit([one_at_a_time], max_concurrency_total=1), memory=memory)
    outcome: list[Any] = []
    friday.call("go").subscribe(lambda reply: outcome.append(reply.text), outcome.append, lambda: outcome.append("|"))
    assert began.wait(SECONDS)
    with pytest.raises(AgentBusyError):
        friday.call("busy").run()

    def child() -> None:
        assert not friday.running and friday.runs == ()
        assert (WORKERS.outstanding, WORKERS.statistics()[:4]) == (0, (0, 0, 0, 0))
        friday.idle().run()
        # the run is the parent's: what it has left open here is closed, and the conversation goes on
        friday.call("go on").run()
        open = {use.id for message in memory.messages for use in message.tool_calls}
        assert open == {result.id for message in memory.messages for result in message.tool_results}
        assert [each.kind.value for each in memory.messages[2].tool_results] == ["interrupted"]
        assert one_at_a_time.call({"wait": False}).run() == f"{os.getpid()}"

    in_child(child)
    release.set()
    friday.idle().run()
    while "|" not in outcome:
        threading.Event().wait(0.001)
    assert outcome == ["parent", "|"], outcome


def in_a_loop() -> None:
    """Forked by a coroutine, and by a tool on a worker's thread."""
    toolkit, session = all_tools(), JsonSession(FOLDER)

    @tool
    def forks() -> str:
        """Fork."""
        in_child(lambda: everything(toolkit, session))
        return "forked"

    async def main() -> None:
        await toolkit.call(ToolUseBlock("1", "where", {}))
        in_child(lambda: everything(toolkit, session))
        await toolkit.call(ToolUseBlock("1", "where", {}))
        assert (await Toolkit([forks]).call(ToolUseBlock("1", "forks", {}))).text == "forked"

    asyncio.run(main())
    assert ask(Toolkit([forks]), "forks") == "forked"


def _work(toolkit: Toolkit, session: JsonSession) -> None:
    signal.alarm(SECONDS)
    everything(toolkit, session)


def by_multiprocessing() -> None:
    """A process of the standard library ends as such, and so does a child that leaves through the usual exit."""
    toolkit, session = all_tools(), JsonSession(FOLDER)
    everything(toolkit, session)
    context: Any = multiprocessing.get_context("fork")
    process = context.Process(target=_work, args=(toolkit, session))
    process.start()
    process.join(SECONDS)
    assert process.exitcode == 0, process.exitcode
    pid = os.fork()
    if not pid:
        signal.alarm(SECONDS)
        everything(toolkit, session)
        # not in the parent's finally blocks
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    everything(toolkit, session)


def under_load() -> None:
    """Other threads hold the library's locks again and again while it is forked."""
    toolkit = Toolkit([where, later], max_concurrency_total=4)
    memories = [InMemoryMemory() for _ in range(4)]
    stop, own = threading.Event(), new_lock()

    def load(memory: InMemoryMemory) -> None:
        while not stop.is_set():
            friday = ReActAgent("Friday", ScriptedModel(call("where"), "done"), toolkit=toolkit, memory=memory)
            friday.call("go").run()
            memory.clear().run()
            with own:
                # (held for most of the time)
                stop.wait(0.002)

    threads = [threading.Thread(target=load, args=(memory,)) for memory in memories]
    for each in threads:
        each.start()
    me = os.getpid()

    def child() -> None:
        assert own.acquire(timeout=5)
        assert ask(toolkit, "where") == f"{os.getpid()}" != f"{me}"
        friday = ReActAgent("Friday", ScriptedModel(call("later"), "done"), toolkit=toolkit, memory=memories[0])
        friday.call("go").run()

    try:
        for _ in range(int(os.environ.get("FORKS", "25"))):
            in_child(child)
    finally:
        stop.set()
        for each in threads:
            each.join()


def connections() -> None:
    """The child has connections of its own, and the parent's are as they were."""
    seen: list[tuple[str, int]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append((self.path, self.client_address[1]))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        transport = Transport()

        def get(path: str) -> None:
            url = f"http://127.0.0.1:{server.server_port}{path}"
            assert transport.request(HttpRequest(url, b"", method="GET")).run() == {}

        loop = asyncio.new_event_loop()

        async def here(path: str) -> None:
            url = f"http://127.0.0.1:{server.server_port}{path}"
            await transport.request(HttpRequest(url, b"", method="GET"))

        get("/parent")
        loop.run_until_complete(here("/loop"))

        def child() -> None:
            get("/child")
            # a loop that is closed here has nothing of the parent's to close
            loop.run_until_complete(loop.shutdown_asyncgens())

        in_child(child)
        get("/parent")
        loop.run_until_complete(here("/loop"))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        server.shutdown()
    ports = {path: {port for each, port in seen if each == path} for path in ("/parent", "/loop", "/child")}
    assert [len(each) for each in ports.values()] == [1, 1, 1], ports
    assert not ports["/child"] & (ports["/parent"] | ports["/loop"])


def left_behind() -> None:
    """What the parent has abandoned is none of the child's."""
    release = threading.Event()
    began = [threading.Event() for _ in range(3)]
    for each in began:
        subscription = on_worker(lambda each=each: (each.set(), release.wait(SECONDS))).subscribe()
        assert each.wait(SECONDS)
        subscription.dispose()
    while WORKERS.statistics().abandoned < 3:
        threading.Event().wait(0.001)

    def child() -> None:
        assert WORKERS.statistics() == ENGINE_WORKERS.statistics() == (0, 0, 0, 0, ())
        assert on_worker(lambda: 1).run() == 1
        assert WORKERS.statistics().threads == 1

    in_child(child)
    assert WORKERS.statistics().abandoned == 3
    release.set()


def executors() -> None:
    """Of the caller's: a pool of the library's works, one of the standard library has no threads and says so."""
    theirs, ours = ThreadPoolExecutor(1), WorkerPool(1)
    assert on_worker(os.getpid, theirs).run() == on_worker(os.getpid, ours).run() == os.getpid()

    def child() -> None:
        assert on_worker(os.getpid, ours).run() == os.getpid()
        with pytest.raises(ConfigurationError, match="use a WorkerPool"):
            on_worker(os.getpid, theirs).run()
        with ThreadPoolExecutor(1) as new:
            assert on_worker(os.getpid, new).run() == on_worker(os.getpid, new).run() == os.getpid()

    in_child(child)
    assert on_worker(os.getpid, theirs).run() == os.getpid()
    theirs.shutdown()


def states() -> None:
    """Flags that somebody of the parent was to take back."""
    breaker = CircuitBreaker(ScriptedModel("fine"), failures=1, reset=0.01)
    shutdown = GracefulShutdown(timeout=None)
    began, release, entered = threading.Event(), threading.Event(), threading.Event()

    @tool
    def block() -> None:
        """Block."""
        began.set()
        release.wait(SECONDS)

    friday = ReActAgent("Friday", ScriptedModel(call("block"), "done"), tools=[block], shutdown=shutdown)
    friday.call("go").subscribe()
    assert began.wait(SECONDS)
    report: list[Any] = []
    shutdown.begin().subscribe(report.append)
    while not shutdown.refuses:
        threading.Event().wait(0.001)

    class Terminal:
        """A line each time that somebody presses enter."""

        def readline(self) -> str:
            entered.wait(SECONDS)
            return f"from {os.getpid()}\n"

    terminal = Terminal()
    lines = Lines.of(terminal)
    read: list[str] = []
    lines.next().subscribe(read.append)
    for state in breaker._states.states:
        state.failures, state.trial = 1, breaker  # type: ignore[assignment]

    def child() -> None:
        assert shutdown.refuses and shutdown.begin().run().finished == ()
        entered.set()
        assert lines.next().run() == f"from {os.getpid()}"
        assert all(state.trial is None for state in breaker._states.states)

    in_child(child)
    release.set()
    entered.set()
    while not (read and report):
        threading.Event().wait(0.001)
    assert read == [f"from {os.getpid()}"] and len(report[0].finished) == 1


def lock_of_the_dead() -> None:
    """A child outlives its parent, which died with the lock of a session in its hand."""
    with locked(FOLDER):
        begun, begins = os.pipe()
        if os.fork():
            os.read(begun, 1)
            # killed: nothing is unlocked
            os._exit(0)
        os.write(begins, b"x")
        # until the test has looked
        os.read(0, 1)
        os._exit(0)


if __name__ == "__main__":
    # where it hangs, and then the end: a child asks for its own alarm (faulthandler's own timer would hang in it)
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(100)
    globals()[sys.argv[1]]()
