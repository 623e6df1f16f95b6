"""`run`: one program to its end, or to the end of its time: nothing of it is left when it returns, however it returns.

It is the leader of a session of its own. When it has ended, when its time is over, when the call is cancelled: all of
its session is ended; where it has not ended by itself, its group is asked first (SIGTERM). On Linux that includes what
has left the session but kept the mark in its environment; elsewhere it is the process group; on Windows the process
alone. A process that does both (leave, and change its environment) is not found.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from agentscope_rx.errors import ToolError
from agentscope_rx.tool.builtin.output import Output

MARK = "AGENTSCOPE_RX_COMMAND"
"""The variable by which a command's processes are known."""
GRACE = 2.0
"""How long a command that is to end may take to do so by itself."""
SETTLE = 5.0
"""How long the system may take to end a process, and to deliver what it wrote last."""

_PASSES = 20


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. `exit_code` is minus the number of the signal that ended it, if one did."""

    exit_code: int | None
    timed_out: bool
    text: str
    total: int
    left_out: int


class _Child(asyncio.SubprocessProtocol):
    """What asyncio tells of the program."""

    def __init__(self, output: Output, mark: str) -> None:
        self.output = output
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()
        self._mark = mark
        self._transport: asyncio.SubprocessTransport | None = None
        self._abandoned = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        if self._abandoned:
            self.abandon()

    def abandon(self) -> None:
        """Nobody waits for it: it is ended as soon as it is there, and closed when it has ended."""
        self._abandoned = True
        if self._transport is not None:
            _Family(self._transport, self._mark).end()
            if self.exited.is_set():
                self._transport.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output.add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()
        if self._abandoned and self._transport is not None:
            self._transport.close()


_Starting = asyncio.Future[tuple[asyncio.SubprocessTransport, _Child]]


async def run(
    words: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float,
    max_output: int,
    show: Callable[[str], object] | None = None,
    given: bytes | None = None,
) -> Ended:
    """Runs the program `words[0]` (an absolute path) without a shell; `given` is its input, if any.

    Cancelling ends it, and returns when it has ended.
    """
    mark = secrets.token_hex(16)
    child = _Child(Output(max_output, show), mark)
    starting = asyncio.get_running_loop().subprocess_exec(
        lambda: child,
        *words,
        stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=cwd,
        env={**env, MARK: mark},
        start_new_session=True,
    )
    try:
        transport = await _started(asyncio.ensure_future(starting), child)
    except (OSError, ValueError) as error:
        raise ToolError(f"{os.path.basename(words[0])!r} could not be started: {error}.") from None
    family = _Family(transport, mark)
    timed_out = False
    try:
        if given is not None:
            stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
            stdin.write(given)
            stdin.close()
        timed_out = not await _within(timeout, child.exited)
        if timed_out:
            family.tell(signal.SIGTERM)
            await _within(GRACE, child.exited)
    except asyncio.CancelledError:
        family.tell(signal.SIGTERM)
        await _within(GRACE / 4, child.exited)
        raise
    finally:
        # whoever is left, also after an end in peace; a second cancellation comes here at once
        family.end()
        try:
            await _within(SETTLE, child.exited)
            await _within(SETTLE, child.silent)
        finally:
            transport.close()
    output = child.output
    return Ended(transport.get_returncode(), timed_out, output.text(), output.total, output.left_out)


async def _started(starting: _Starting, child: _Child) -> asyncio.SubprocessTransport:
    """The program, once it runs. Cancelled meanwhile, its family is ended.

    asyncio would end the program alone, and then wait for as long as anything that it has started keeps its output.
    """
    try:
        # it takes a few turns of the loop, whatever the program does
        return (await asyncio.shield(starting))[0]
    except asyncio.CancelledError:
        child.abandon()
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await _within(SETTLE, child.exited)
        raise


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Whether it happened in this time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class _Family:
    """A program and all that it has started."""

    def __init__(self, transport: asyncio.SubprocessTransport, mark: str) -> None:
        self._transport = transport
        self._pid = transport.get_pid()
        self._mark = f"{MARK}={mark}".encode()

    def tell(self, number: signal.Signals) -> None:
        """A signal to the process group while its leader lives (later its number may be another's)."""
        if self._transport.get_returncode() is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._pid, number)
            else:
                self._transport.terminate()

    def end(self) -> None:
        """End everybody, without asking."""
        seen = hasattr(os, "pidfd_open") and os.path.isdir("/proc/self")
        if seen:
            self._end_all()
        if seen and self._transport.get_returncode() is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._pid, signal.SIGKILL)
            else:
                self._transport.kill()

    def _end_all(self) -> None:
        # what is being ended may start others meanwhile: until nobody is found
        for _ in range(_PASSES):
            found = [pid for name in os.listdir("/proc") if name.isdigit() and self._mine(pid := int(name))]
            ended = [self._ended(pid) for pid in found]
            if not any(ended):
                return

    def _ended(self, pid: int) -> bool:
        try:
            # held on to, then looked at again: the number cannot have become another's
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not self._mine(pid):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
        except OSError:
            return False
        finally:
            os.close(handle)

    def _mine(self, pid: int) -> bool:
        """Whether this process is of the program's session, or has its mark; one that has ended already is not."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # behind the name, which may have anything in it: state, parent, group, session
                state, _, _, session, *_ = file.read().rpartition(b")")[2].split()
            if state in (b"Z", b"X"):
                return False
            if int(session) == self._pid:
                return True
            with open(f"/proc/{pid}/environ", "rb") as file:
                return self._mark in file.read().split(b"\0")
        except (OSError, ValueError):
            return False
