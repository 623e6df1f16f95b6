"""Servers in processes of their own: killed in the middle of a call, lost and found, many at once, left at exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError, McpConnectionError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.reactive import RetryPolicy
from agentscope_rx.tools.mcp import McpClient, McpHttp, McpStdio, stdio
from tests.mcp.parts import FILE, STDIO, begun, call, far, http_process, near, use


def alive(pid: int) -> bool:
    """True if there is such a process and it is no zombie."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def servers() -> set[int]:
    """The processes of servers that are held here."""
    return {child._process.pid for child in stdio._running if child._process is not None}


def children() -> set[int]:
    """The processes that this one has started, directly or, after their parent's end, by the kernel's choice."""
    stats: dict[Path, str] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        # (a process of another test may end meanwhile)
        with contextlib.suppress(OSError):
            stats[path] = path.read_text()
    ours = {
        int(path.parent.name) for path, text in stats.items() if int(text.rpartition(")")[2].split()[1]) == os.getpid()
    }
    return {pid for pid in ours if alive(pid)}


class TestStdio:
    @pytest.mark.spec("case 122")
    def test_from_a_plain_script(self) -> None:
        """Register, call, close, each by a run() of its own; nothing is left."""
        toolkit = Toolkit()
        toolkit.register_mcp(STDIO, name="demo").run()
        (pid,) = servers()
        assert alive(pid)
        assert call(toolkit, "add", a=1, b=2).text == "3"
        assert call(toolkit, "files_read_all").text == "all"
        toolkit.close().run()
        assert not servers() and not alive(pid)
        assert "has been closed" in call(toolkit, "add", a=1, b=2).text

    def test_killed_in_the_middle(self) -> None:
        """That call gets an error that says how the server ended; other servers go on, and so does the next call."""
        with far() as toolkit, near() as other:

            async def die() -> tuple[ToolResultBlock, ToolResultBlock]:
                async with other.call(use("slow")) as elsewhere:
                    await begun(elsewhere)
                    async with toolkit.call(use("slow")) as events:
                        await begun(events)
                        await toolkit.call(use("die"))
                        cut = await anext(events)
                        assert isinstance(cut, ToolResultBlock)
                    result = await other.call(use("add", a=1, b=2))
                    assert isinstance(result, ToolResultBlock)
                    return cut, result

            cut, result = asyncio.run(die())
            assert cut.kind is ToolResultKind.FAILED and result.text == "3"
            assert "MCP server 'demo' ended during the call" in cut.text
            assert "SIGKILL" in cut.text and "the last words" in cut.text
            # and it is started again
            assert call(toolkit, "add", a=1, b=2).text == "3"

    @pytest.mark.parametrize(
        ("server", "words"),
        [
            (McpStdio("no-such-program-anywhere"), "FileNotFoundError"),
            (McpStdio(sys.executable, ["-c", "import sys; sys.exit('not today')"]), "not today"),
            (McpStdio(sys.executable, ["-c", "import sys; sys.stderr.write('no key')"]), "standard error:\nno key"),
        ],
    )
    def test_what_does_not_start(self, server: McpStdio, words: str) -> None:
        toolkit = Toolkit()
        with pytest.raises(McpConnectionError, match=words):
            toolkit.register_mcp(server, name="broken").run()
        assert not toolkit.mcp

    def test_a_server_that_does_not_come_back(self) -> None:
        """Attempts are limited; each call after that tries again."""
        tries: list[float] = []

        def wait(state: object) -> float:
            tries.append(time.monotonic())
            return 0.0

        with http_process() as (process, url):
            client = McpClient(
                McpHttp(url), name="web", reconnect=RetryPolicy(stop=lambda s: s.attempt_number == 3, wait=wait)
            )
            toolkit = Toolkit()
            toolkit.register_mcp(client).run()
            process.kill()
            process.wait()
            lost, gone = call(toolkit, "nothing"), call(toolkit, "nothing")
        assert "MCP server 'web'" in lost.text and "cannot be reached" in gone.text
        assert len(tries) == 3
        client.close().run()

    def test_a_server_that_does_not_want_to_end(self) -> None:
        stubborn = "import signal, runpy, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        code = f"{stubborn} sys.argv = ['x']; runpy.run_path({FILE!r}, run_name='__main__'); time.sleep(3600)"
        toolkit = Toolkit()
        toolkit.register_mcp(McpStdio(sys.executable, ["-c", code], env=STDIO.env), name="demo").run()
        (pid,) = servers()
        grace, stdio.GRACE_SECONDS = stdio.GRACE_SECONDS, 0.1
        try:
            toolkit.close().run()
        finally:
            stdio.GRACE_SECONDS = grace
        assert not alive(pid)

    def test_nothing_is_left_when_the_program_ends(self, tmp_path: Path) -> None:
        script = f"""
import sys
from agentscope_rx import Toolkit, ToolUseBlock
from agentscope_rx.tools.mcp import McpStdio
toolkit = Toolkit()
toolkit.register_mcp(McpStdio(sys.executable, [{FILE!r}], env={dict(STDIO.env)!r})).run()
child = next(iter(toolkit.mcp.values()))._connections.session._link.ended
print(child._process.pid, toolkit.call(ToolUseBlock("1", "add", {{"a": 1, "b": 2}})).run().text)
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **STDIO.env}, timeout=60
        )
        assert not done.stderr and done.returncode == 0
        pid, text = done.stdout.split()
        assert text == "3" and not alive(int(pid))

    def test_only_a_few_variables_are_passed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_SECRET_KEY", "12345")
        child = McpStdio("x", env={"A": "b"}).link().ended
        assert "MY_SECRET_KEY" not in child._env and child._env["A"] == "b"  # type: ignore[union-attr]

    def test_wrong_servers(self) -> None:
        with pytest.raises(ConfigurationError, match="as a list"):
            McpStdio("python", "-m server")
        with pytest.raises(ConfigurationError, match="a command"):
            McpStdio("")
        with pytest.raises(ConfigurationError, match="https://"):
            McpHttp("example.com/mcp")
        assert "12345" not in repr(McpHttp("https://example.com", {"authorization": "12345"}))


class TestHttp:
    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_calls_cancellation_and_a_new_server_at_the_same_place(self, mode: str) -> None:
        with http_process() as (process, url):
            client = McpClient(McpHttp(url), mode=mode)
            assert client.name == url.removeprefix("http://").removesuffix("/mcp")
            toolkit = Toolkit()
            toolkit.register_mcp(client).run()

            async def use_it() -> None:
                async with toolkit.call(use("slow")) as events:
                    await begun(events)
                    add = await toolkit.call(use("add", "2", a=1, b=2))
                    assert isinstance(add, ToolResultBlock) and add.text == "3"
                seen = await toolkit.call(use("was_cancelled"))
                assert isinstance(seen, ToolResultBlock) and seen.text == "yes"

            asyncio.run(use_it())
            port = int(url.split(":")[2].split("/")[0])

            async def killed() -> ToolResultBlock:
                async with toolkit.call(use("slow")) as events:
                    await begun(events)
                    process.send_signal(signal.SIGKILL)
                    result = await anext(events)
                    assert isinstance(result, ToolResultBlock)
                    return result

            result = asyncio.run(killed())
            assert result.kind is ToolResultKind.FAILED and "ended during the call" in result.text
            process.wait()
            with http_process(port):
                assert call(toolkit, "add", a=1, b=2).text == "3"
                client.close().run()


@pytest.mark.parametrize("turns", range(1, 13))
@pytest.mark.parametrize("how", ["task", "task twice", "scope"])
def test_left_while_it_starts(turns: int, how: str) -> None:
    """The scopes of anyio cancel again and again: asyncio's own clean-up of a start does not outlast that."""
    transport = stdio.StdioTransport(sys.executable, ["-c", "import sys; sys.stdin.read()"], {}, None)

    async def connect(scope: anyio.CancelScope) -> None:
        with scope:
            async with transport:
                await asyncio.sleep(600)

    async def main() -> None:
        scope = anyio.CancelScope()
        task = asyncio.ensure_future(connect(scope))
        for _ in range(turns):
            await asyncio.sleep(0)
        # it runs while the loop does not
        time.sleep(0.1)  # noqa: ASYNC251 - a loop that is busy
        if how == "scope":
            scope.cancel()
        else:
            task.cancel()
            await asyncio.sleep(0)
            if how == "task twice":
                task.cancel()
        async with asyncio.timeout(20):
            await asyncio.wait([task])
            # (cancelled twice, it is not waited for)
            while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    # such as the database servers that other tests share
    before = children()
    asyncio.run(main())
    assert not servers() and children() <= before
