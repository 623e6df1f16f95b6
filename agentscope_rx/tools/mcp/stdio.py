"""`Child`: a server's process as a transport of the SDK, which also knows how the process ended.

    open     start, in a process group of its own, on Linux under a supervisor (see `supervised`)
    end      close its input, wait, ask the group to end, wait, kill what is left

On Linux that is everything that the server has started, also once it has ended by itself; elsewhere its group.

The SDK has a stdio transport; it says nothing of the process, and a call that dies with its server should say how. Nor
does it bound a line: here a server that says too much is killed.
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
from agentscope_rx.tools.mcp.guard import guarded
from agentscope_rx.tools.mcp.limits import MAX_MESSAGE_BYTES, Excess, TooMuchError, lines
from agentscope_rx.tools.mcp.server_requests import ServerRequests
from agentscope_rx.tools.process.supervised import Supervised, can_supervise

GRACE_SECONDS = 2.0
"""How long a server may take to end by itself once its input is closed, and then once it is told to."""
LONG_LINE = 128 * 1024
"""From how many bytes on a message is parsed on a worker thread."""
LAST_LINES = 10
LAST_CHARACTERS = 800
_LAST_BYTES = 4 * LAST_CHARACTERS

_KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL

_Read = MemoryObjectReceiveStream[SessionMessage | Exception]
_Write = MemoryObjectSendStream[SessionMessage]

_running: set[Child] = set()


class Child:
    """One process, for one connection. For the library's loop."""

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
        self._held: Supervised | None = None
        self._said = b""
        self.excess = Excess(max_message_bytes)
        self._asked = ServerRequests(self.excess)
        self._told = asyncio.Event()
        self._open = self._streams()
        self._owner = os.getpid()
        call_after_fork(self)

    def after_fork(self) -> None:
        """The process is the parent's, and ends when that no longer holds its input: this one does not, either."""
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
        """Return when the process has ended, or says no more."""
        await self._told.wait()

    def words(self) -> str:
        """How the process ended, and the last that it wrote to its standard error."""
        status = self._status()
        how = ""
        if isinstance(status, OSError):
            how = f"It did not start: {type(status).__name__}: {status}."
        elif status is not None:
            how = (
                f"Its process was ended by {_signal_name(-status)}." if status < 0 else f"Its exit status is {status}."
            )
        text = self._said.decode(errors="replace").strip()
        said = "\n".join(line.rstrip() for line in text.splitlines()[-LAST_LINES:])[-LAST_CHARACTERS:]
        return f"{how} It said last:\n{said}".strip() if said else how

    def kill(self) -> None:
        """End the process and what it has started, at once."""
        if self._process is not None and self._owner == os.getpid():
            self._end_now(self._process)

    def ended(self, seconds: float) -> None:
        """Stand still until the process has ended, for so long at most."""
        if self._held is not None and self._owner == os.getpid():
            self._held.outcome(seconds)

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[_Read, _Write]]:
        process = self._process = await self._started()
        _running.add(self)
        heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, written = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hear, process, heard)
            tasks.start_soon(self._hear_errors, process)
            tasks.start_soon(self._tell, process, written, heard)
            try:
                yield read, write
            finally:
                with anyio.CancelScope(shield=True):
                    await self._end(process)
                tasks.cancel_scope.cancel()
                _running.discard(self)
                for stream in (read, write, heard, written):
                    stream.close()

    async def _started(self) -> asyncio.subprocess.Process:
        self._held = Supervised(self._command, self._cwd) if can_supervise() else None
        try:
            return await asyncio.create_subprocess_exec(
                *(self._command if self._held is None else self._held.words),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
                pass_fds=() if self._held is None else self._held.descriptors,
            )
        except BaseException:
            if self._held is not None:
                self._held.close()
            raise
        finally:
            if self._held is not None:
                self._held.started()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        if not await _exited(process):
            if self._held is None:
                _signal(process, signal.SIGTERM)
            else:
                self._held.terminate()
            await _exited(process)
        # what it has started and left behind goes as well
        self._end_now(process)
        if not await _exited(process):
            _signal(process, _KILL)
            await _exited(process)
        if self._held is not None:
            self._held.outcome()
            self._held.close()

    def _end_now(self, process: asyncio.subprocess.Process) -> None:
        if self._held is None:
            _signal(process, _KILL)
        else:
            self._held.kill()

    def _status(self) -> int | OSError | None:
        """How the server's process ended, or why it did not start."""
        said = None if self._held is None else self._held.outcome()
        return said if said is not None or self._process is None else self._process.returncode

    async def _hear(
        self, process: asyncio.subprocess.Process, heard: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None
        with heard:
            try:
                async for line in lines(_pieces(process.stdout), self.excess):
                    # a long one takes longer than the loop has
                    message = _message(line) if len(line) < LONG_LINE else await on_worker(partial(_message, line))
                    if isinstance(message, SessionMessage):
                        self._asked.heard(message.message)
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await heard.send(guarded(message))
            except TooMuchError:
                # it cannot be talked with any more
                self._told.set()
                self.kill()
                await _drained(process.stdout)
                return
            # the exit status is worth a moment: it says why
            with anyio.move_on_after(GRACE_SECONDS):
                await process.wait()
            self._told.set()

    async def _hear_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for piece in _pieces(process.stderr):
            self._said = (self._said + piece)[-_LAST_BYTES:]

    async def _tell(
        self,
        process: asyncio.subprocess.Process,
        written: MemoryObjectReceiveStream[SessionMessage],
        heard: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdin is not None
        with written:
            async for message in written:
                self._asked.told(message.message)
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()
                except OSError:
                    # what it has said meanwhile is read to the end
                    return


async def _pieces(stream: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    while piece := await stream.read(65536):
        yield piece


async def _drained(stream: asyncio.StreamReader) -> None:
    """Read to the end what a killed process has left in its pipe, which is not closed before."""
    with anyio.move_on_after(GRACE_SECONDS):
        while await stream.read(65536):
            pass


def _message(line: bytearray) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return ValueError(f"A line that is no message: {str(error)[:500]}")


async def _exited(process: asyncio.subprocess.Process) -> bool:
    # not `process.wait()`: that waits for its pipes, too, which a child of it may hold
    with anyio.move_on_after(GRACE_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110 - nothing tells
            await anyio.sleep(0.005)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """To the process and all of its group."""
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
    children = tuple(_running)
    for child in children:
        child.kill()
    for child in children:
        child.ended(GRACE_SECONDS)


atexit.register(_kill_all)
