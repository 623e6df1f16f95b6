"""`StdioTransport`: a server's process as a transport of the SDK, which also reports how the process ended.

    open     start, in a process group of its own, on Linux under a supervisor (see `supervised`)
    end      close its input, wait, send SIGTERM to the group, wait, kill the rest

The rest is every process that the server has started on Linux, also if the server has ended by itself; elsewhere its
group.

The SDK has a stdio transport, but it does not report the process's end, which explains why a call failed. Nor does it
limit the length of a line: here a server that goes beyond a limit is killed.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from agentscope_rx.reactive import on_worker
from agentscope_rx.reactive.kernel.forking import call_after_fork, keep_inherited
from agentscope_rx.tools.mcp.limits import MAX_MESSAGE_BYTES, Excess, ServerRequests, TooMuchError, limited, lines
from agentscope_rx.tools.process.supervised import Supervised, can_supervise

GRACE_SECONDS = 2.0
"""How long a server may take to end after its input is closed, and again after SIGTERM."""
LONG_LINE = 128 * 1024
"""Messages of this many bytes or more are parsed on a worker thread."""
LAST_LINES = 10
LAST_CHARACTERS = 800
_LAST_BYTES = 4 * LAST_CHARACTERS

_KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL

_Read = MemoryObjectReceiveStream[SessionMessage | Exception]
_Write = MemoryObjectSendStream[SessionMessage]

_running: set[StdioTransport] = set()


class StdioTransport:
    """One process, for one connection. Used on the library's loop."""

    def __init__(
        self,
        command: str,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: str | Path | None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._command = (command, *args)
        self._env = {**get_default_environment(), **env}
        self._cwd = cwd
        self._process: asyncio.subprocess.Process | None = None
        self._supervised: Supervised | None = None
        self._stderr = b""
        self.excess: Excess = Excess(max_message_bytes)
        self._requests = ServerRequests(self.excess)
        self._ended = asyncio.Event()
        self._open = self._streams()
        self._owner = os.getpid()
        call_after_fork(self)

    def after_fork(self) -> None:
        """Close this copy of the pipe: the server belongs to the parent, and ends when all copies are closed."""
        keep_inherited(self)
        _running.discard(self)
        if self._process is not None and self._process.stdin is not None:
            pipe: IO[bytes] = self._process.stdin.get_extra_info("pipe")
            pipe.close()

    async def __aenter__(self) -> tuple[_Read, _Write]:
        return await self._open.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._open.__aexit__(kind, error, trace)

    async def wait(self) -> None:
        """Return when the process has ended or was killed."""
        await self._ended.wait()

    def words(self) -> str:
        """How the process ended, and the last lines of its standard error."""
        status = self._status()
        how = ""
        if isinstance(status, OSError):
            how = f"It did not start: {type(status).__name__}: {status}."
        elif status is not None:
            how = (
                f"Its process was ended by {_signal_name(-status)}." if status < 0 else f"Its exit status is {status}."
            )
        text = self._stderr.decode(errors="replace").strip()
        last = "\n".join(line.rstrip() for line in text.splitlines()[-LAST_LINES:])[-LAST_CHARACTERS:]
        return f"{how} Its last words on standard error:\n{last}".strip() if last else how

    def kill(self) -> None:
        """Kill the process and every process that it has started."""
        if self._process is not None and self._owner == os.getpid():
            self._kill(self._process)

    def wait_blocking(self, seconds: float) -> None:
        """Block this thread until the process has ended, for at most so many seconds."""
        if self._supervised is not None and self._owner == os.getpid():
            self._supervised.outcome(seconds)

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[_Read, _Write]]:
        process = self._process = await self._started()
        _running.add(self)
        received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, written = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._receive, process, received)
            tasks.start_soon(self._receive_stderr, process)
            tasks.start_soon(self._send, process, written)
            try:
                yield read, write
            finally:
                try:
                    with anyio.CancelScope(shield=True):
                        # a task's second cancellation does not wait for this
                        await asyncio.shield(asyncio.ensure_future(self._end(process)))
                finally:
                    tasks.cancel_scope.cancel()
                    _running.discard(self)
                    for stream in (read, write, received, written):
                        stream.close()

    async def _started(self) -> asyncio.subprocess.Process:
        """The process, once it runs. A cancellation meanwhile ends it, with all that it has started.

        asyncio would end the supervisor alone, and wait while other processes hold its pipes. A scope of anyio cancels
        that wait again and again, which leaves the pipes open.
        """
        self._supervised = Supervised(self._command, self._cwd) if can_supervise() else None
        starting = asyncio.ensure_future(self._start())
        with anyio.CancelScope(shield=True):
            try:
                # it takes a few turns of the loop, whatever the server does
                await asyncio.shield(starting)
            except asyncio.CancelledError:
                # a second cancellation does not wait for this
                await asyncio.shield(asyncio.ensure_future(self._abandon(starting)))
                raise
        return starting.result()

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *(self._command if self._supervised is None else self._supervised.words),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
                pass_fds=() if self._supervised is None else self._supervised.descriptors,
            )
        except BaseException:
            if self._supervised is not None:
                self._supervised.close()
            raise
        finally:
            if self._supervised is not None:
                self._supervised.started()

    async def _abandon(self, starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
        """End a process whose caller has left as soon as it has started."""
        await asyncio.wait([starting])
        if starting.cancelled() or starting.exception() is not None:
            return
        process = starting.result()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.close()
        self._kill(process)
        await _drained(process.stdout)
        await _drained(process.stderr)
        await self._end(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        if not await _exited(process):
            if self._supervised is None:
                _signal(process, signal.SIGTERM)
            else:
                self._supervised.terminate()
            await _exited(process)
        # also the processes that it has started and left behind
        self._kill(process)
        if not await _exited(process):
            _signal(process, _KILL)
            await _exited(process)
        if self._supervised is not None:
            self._supervised.outcome()
            self._supervised.close()

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        if self._supervised is None:
            _signal(process, _KILL)
        else:
            self._supervised.kill()

    def _status(self) -> int | OSError | None:
        """How the server's process ended, or why it did not start."""
        reported = None if self._supervised is None else self._supervised.outcome()
        return reported if reported is not None or self._process is None else self._process.returncode

    async def _receive(
        self, process: asyncio.subprocess.Process, received: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None
        with received:
            try:
                async for line in lines(_pieces(process.stdout), self.excess):
                    # parsing a long message would block the loop
                    message = _message(line) if len(line) < LONG_LINE else await on_worker(partial(_message, line))
                    if isinstance(message, SessionMessage):
                        self._requests.received(message.message)
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await received.send(limited(message))
            except TooMuchError:
                # it sends more than may be read, so that no exchange is possible
                self._ended.set()
                self.kill()
                await _drained(process.stdout)
                return
            # wait a moment for the exit status, which explains the end
            with anyio.move_on_after(GRACE_SECONDS):
                await process.wait()
            self._ended.set()

    async def _receive_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for piece in _pieces(process.stderr):
            self._stderr = (self._stderr + piece)[-_LAST_BYTES:]

    async def _send(
        self, process: asyncio.subprocess.Process, written: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        assert process.stdin is not None
        with written:
            async for message in written:
                self._requests.sent(message.message)
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()
                except OSError:
                    # its output is still read to the end
                    return


async def _pieces(stream: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    while piece := await stream.read(65536):
        yield piece


async def _drained(stream: asyncio.StreamReader) -> None:
    """Read the rest of a killed process's output: its pipe is closed only then."""
    with anyio.move_on_after(GRACE_SECONDS):
        while await stream.read(65536):
            pass


def _message(line: bytearray) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return ValueError(f"A line that is no JSON-RPC message: {str(error)[:500]}")


async def _exited(process: asyncio.subprocess.Process) -> bool:
    # not `process.wait()`: it also waits for the pipes, which a child of the process may hold
    with anyio.move_on_after(GRACE_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110 - nothing tells
            await anyio.sleep(0.005)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to the process and its group."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _kill_all() -> None:
    running = tuple(_running)
    for transport in running:
        transport.kill()
    for transport in running:
        transport.wait_blocking(GRACE_SECONDS)


atexit.register(_kill_all)
