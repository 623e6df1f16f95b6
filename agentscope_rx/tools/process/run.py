"""`run`: runs one program, and ends every process that it has started before it returns, fails or is cancelled.

When the program has ended, when its time is over, or when the call is cancelled, all of its processes are killed. A
program that still runs then gets SIGTERM first, with its process group. Its processes are found like this:

| system             | processes that are ended                                                                        |
|--------------------|-------------------------------------------------------------------------------------------------|
| Linux, `namespace` | those in the PID namespace                                                                      |
| Linux              | every descendant, by a supervisor (see `supervised`); if that was killed: the session, the mark |
| macOS              | the process group                                                                               |
| Windows            | the process alone                                                                               |

The mark is a variable in the environment. A process that kills its supervisor, leaves the session and changes its
environment is not found, nor is one that another program (a service manager, a container's daemon) was asked to start.

Limits of memory and processes are held by the kernel and by a watchdog (see `limits`), on Linux; elsewhere by the
kernel alone, as far as it can.

psutil would not replace this: it finds children by their parent, which a process leaves by forking twice.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from agentscope_rx.errors import ToolError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive import ENGINE_WORKERS, on_worker
from agentscope_rx.tools.process.limits import Limits
from agentscope_rx.tools.process.supervised import Supervised, can_supervise, limited
from agentscope_rx.tools.process.watchdog import INTERVAL, Watchdog, can_watch

MARK = "AGENTSCOPE_RX_COMMAND"
"""The environment variable that marks a command's processes."""
GRACE = 2.0
"""How long a command may take to end by itself after SIGTERM."""
SETTLE = 5.0
"""How long the system may take to end a process, and to deliver its last output."""

_PASSES = 20
_HAS_PROC = hasattr(os, "pidfd_open") and os.path.isdir("/proc/self")
# colours, cursor movements, titles; then other control characters
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The end of a program. `exit_code` is minus the number of the signal that ended it, if one did.

    `text` is its output, both streams in order; of `total` bytes `left_out` are missing in the middle. `exceeded` is
    the limit for which the watchdog has ended it ("memory" or "processes"), or None.
    """

    exit_code: int | None
    timed_out: bool
    text: str
    total: int
    left_out: int
    exceeded: str | None = None


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The words that run a command in a namespace or sandbox, and the descriptors that they need.

    `user` is True if it has a user namespace, in which the processes of a user are counted for themselves.
    """

    words: Sequence[str] = ()
    descriptors: tuple[int, ...] = ()
    user: bool = False


NO_SANDBOX = Sandbox()


async def run(
    words: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    limits: Limits,
    show: Callable[[str], object] | None = None,
    given: bytes | None = None,
    sandbox: Sandbox = NO_SANDBOX,
) -> ProcessResult:
    """Run the program `words[0]` (an absolute path) without a shell; `given` is its standard input, if any.

    `sandbox` has the words that run it in a namespace. Cancelling ends the program, and returns when it has ended.
    """
    rlimits = limits.rlimits(sandbox=sandbox.user)
    try:
        supervised = Supervised(words, cwd, sandbox.words, rlimits) if can_supervise() else None
    except OSError as error:
        raise _start_error(words, error) from None
    mark = secrets.token_hex(16)
    protocol = _Protocol(Output(limits.output, show), f"{MARK}={mark}".encode(), supervised)
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: protocol,
            *(limited(words, rlimits) if supervised is None else supervised.words),
            stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=cwd,
            env={**env, MARK: mark},
            start_new_session=True,
            pass_fds=() if supervised is None else (*supervised.descriptors, *sandbox.descriptors),
        )
    )
    if supervised is not None:
        starting.add_done_callback(lambda _: supervised.started())
    try:
        return await _run(words, starting, protocol, limits, given, sandbox)
    finally:
        if supervised is not None:
            # not before: the number of its descriptor would be used again, and passed on
            starting.add_done_callback(lambda _: supervised.close())


async def _run(
    words: Sequence[str],
    starting: _Starting,
    protocol: _Protocol,
    limits: Limits,
    given: bytes | None,
    sandbox: Sandbox,
) -> ProcessResult:
    try:
        transport = await _started(starting, protocol)
    except (OSError, ValueError) as error:
        raise _start_error(words, error) from None
    tree = cast("_ProcessTree", protocol.tree)
    ended: str | None = None
    try:
        if given is not None:
            stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
            stdin.write(given)
            stdin.close()
        watchdog = _watchdog(transport, limits, sandbox) if protocol.supervised is not None else None
        ended = await _watched(limits.time, protocol.exited, watchdog)
        if ended == "time":
            tree.terminate()
            await _watched(GRACE, protocol.exited, watchdog)
    except asyncio.CancelledError:
        tree.terminate()
        await _within(GRACE / 4, protocol.exited)
        raise
    finally:
        # after a normal end, too, there may be other processes; a second cancellation comes here at once
        tree.kill()
        if ended not in (None, "time") and sandbox.words:
            # at once, and not by the supervisor, which may wait for its turn behind many; the kernel ends the others
            transport.kill()
        try:
            await _settled(protocol.exited)
            await _within(SETTLE, protocol.output_closed)
        finally:
            tree.kill_rest()
            transport.close()
    return _result(words, protocol, sandbox, ended)


def _result(words: Sequence[str], protocol: _Protocol, sandbox: Sandbox, ended: str | None) -> ProcessResult:
    """How the process has ended; `ended` is the limit that has ended it. `ToolError` if it was not started."""
    tree = cast("_ProcessTree", protocol.tree)
    code = tree.exit_code()
    if isinstance(code, OSError):
        raise _start_error(words, code)
    output = protocol.output
    if sandbox.words and not tree.reported and ended is None and code is not None and code > 0:
        raise ToolError(f"The sandbox could not be started: {output.text().strip():.500}.")
    exceeded = None if ended == "time" else ended
    return ProcessResult(code, ended == "time", output.text(), output.total, output.left_out, exceeded)


def _watchdog(transport: asyncio.SubprocessTransport, limits: Limits, sandbox: Sandbox) -> Watchdog | None:
    """For the limits of all processes together, where the system shows them."""
    if (limits.memory is None and limits.processes is None) or not can_watch():
        return None
    # the supervisor and the process in between; the namespace's program before them
    return Watchdog(transport.get_pid(), 3 if sandbox.words else 2, limits)


async def _watched(seconds: float, event: asyncio.Event, watchdog: Watchdog | None) -> str | None:
    """None once the event is set, "time" after this time, or the limit that the watchdog finds exceeded."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        if await _within(left if watchdog is None else min(left, INTERVAL), event):
            return None
        if watchdog is not None and (exceeded := await on_worker(watchdog.exceeded, ENGINE_WORKERS)):
            return exceeded
    return "time"


def _start_error(words: Sequence[str], error: Exception) -> ToolError:
    return ToolError(f"{os.path.basename(words[0])!r} could not be started: {error}.")


async def _started(starting: _Starting, protocol: _Protocol) -> asyncio.SubprocessTransport:
    """The program, once it runs. If the call is cancelled meanwhile, its process tree is ended.

    asyncio would end the program alone, and then wait while any process that it has started keeps its output open.
    """
    try:
        # it takes a few turns of the loop, whatever the program does
        return (await asyncio.shield(starting))[0]
    except asyncio.CancelledError:
        protocol.abandon()
        await _begun(starting)
        # the loop ends, and has cancelled every task: also the one of asyncio that connects the pipes, for which
        # asyncio, having killed the program, would wait without end
        while not starting.done():
            starting.cancel()
            await asyncio.sleep(0)
        if protocol.tree is None:
            _kill_all(None, protocol.mark)
        if not starting.cancelled() and starting.exception() is None:
            await _settled(protocol.exited)
        raise


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """True if the event was set in this time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def _begun(starting: _Starting) -> None:
    """Wait for the program to start, also if cancelled again; not for long if the loop ends and has cancelled that."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE
    while not starting.done() and (left := until - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            ending = starting.cancelling()
            await asyncio.wait([starting], timeout=GRACE / 4 if ending else left)
            if ending:
                break


async def _settled(exited: asyncio.Event) -> None:
    """Wait for the end of a program that was killed, also if cancelled again: after a loop has ended, nothing waits."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE
    while not exited.is_set() and (left := until - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await _within(left, exited)


class _Protocol(asyncio.SubprocessProtocol):
    """Receives what asyncio reports of the program."""

    def __init__(self, output: Output, mark: bytes, supervised: Supervised | None) -> None:
        self.output = output
        self.exited = asyncio.Event()
        self.output_closed = asyncio.Event()
        self.tree: _ProcessTree | None = None
        self.mark = mark
        self.supervised = supervised
        self._transport: asyncio.SubprocessTransport | None = None
        self._abandoned = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.tree = _ProcessTree(self._transport, self.mark, self.supervised)
        if self._abandoned:
            self.abandon()

    def abandon(self) -> None:
        """End the program as soon as it has started, and close it when it has ended: its caller has left."""
        self._abandoned = True
        if self.supervised is not None:
            self.supervised.kill()
        if self._transport is not None and self.tree is not None:
            self.tree.kill()
            if self.exited.is_set():
                self._transport.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output.add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.output_closed.set()

    def process_exited(self) -> None:
        if self.tree is not None:
            self.tree.kill_rest()
        self.exited.set()
        if self._abandoned and self._transport is not None:
            self._transport.close()


_Starting = asyncio.Task[tuple[asyncio.SubprocessTransport, _Protocol]]


class _ProcessTree:
    """A program and all processes that it has started."""

    def __init__(self, transport: asyncio.SubprocessTransport, mark: bytes, supervised: Supervised | None) -> None:
        self._transport = transport
        self._pid = transport.get_pid()
        self._mark = mark
        self._supervised = supervised
        self._ended = False

    def terminate(self) -> None:
        """SIGTERM to the process group while its leader lives (later its number may be another group's)."""
        if self._supervised is not None:
            self._supervised.terminate()
        elif self._transport.get_returncode() is None:
            self._signal_group(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to all; with a supervisor they have ended when it has."""
        if self._supervised is None:
            self._kill()
        else:
            self._supervised.kill()

    def kill_rest(self) -> None:
        """Kill what is left if the supervisor has gone without a report. A second call does nothing."""
        if self._supervised is None or self._ended:
            return
        self._ended = True
        # the report takes milliseconds, unless the system cannot end a process
        if self._supervised.outcome(0.0 if self._transport.get_returncode() is not None else GRACE / 4) is None:
            self._kill()

    @property
    def reported(self) -> bool:
        """True if the supervisor has said how the command ended."""
        return self._supervised is not None and self._supervised.outcome() is not None

    def exit_code(self) -> int | OSError | None:
        """How the program ended, or why it did not start."""
        reported = None if self._supervised is None else self._supervised.outcome()
        return self._transport.get_returncode() if reported is None else reported

    def _kill(self) -> None:
        _kill_all(self._pid, self._mark)
        if not _HAS_PROC or self._transport.get_returncode() is None:
            self._signal_group(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._pid, number)
            elif number is signal.SIGTERM:
                self._transport.terminate()


def _kill_all(session: int | None, mark: bytes) -> None:
    """Kill the processes of the session, and those with the mark, where there is `/proc`."""
    if not _HAS_PROC:
        return
    # a process may start others before it is killed, so repeat until none is found
    for _ in range(_PASSES):
        found = [pid for name in os.listdir("/proc") if name.isdigit() and _contains(pid := int(name), session, mark)]
        killed = [_kill_process(pid, session, mark) for pid in found]
        if not any(killed):
            return


def _kill_process(pid: int, session: int | None, mark: bytes) -> bool:
    try:
        # a handle first, then the check: the number cannot become another process's in between
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _contains(pid, session, mark):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _contains(pid: int, session: int | None, mark: bytes) -> bool:
    """True for a running process of the program's session, or with its mark."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # behind the name, which may hold any bytes: state, parent, group, session
            state, _, _, leader, *_ = file.read().rpartition(b")")[2].split()
        if state in (b"Z", b"X"):
            return False
        if int(leader) == session:
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except (OSError, ValueError):
        return False


class Output:
    """A command's output in bounded memory: its beginning, its end, and how many bytes were between.

    `show` gets the bytes as text while they come, up to `limit` bytes.
    """

    def __init__(self, limit: int, show: Callable[[str], object] | None = None) -> None:
        self.total: int = 0
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._show = show
        self._room = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        self._progress(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def left_out(self) -> int:
        """How many bytes are neither in the beginning nor in the end."""
        return max(0, self.total - len(self._head) - min(len(self._tail), self._half))

    def text(self) -> str:
        """The whole output, or its beginning and its end with the size of the gap."""
        if b"\0" in self._head or b"\0" in self._tail:
            return f"(binary output, {self.total:,} bytes, not shown)"
        tail = bytes(self._tail[-self._half :])
        if not self.left_out:
            return _plain(bytes(self._head) + tail)
        head = _plain(bytes(self._head)).rstrip("\ufffd")
        return f"{head}\n... ({self.left_out:,} bytes left out) ...\n{_plain(tail).lstrip(chr(0xFFFD))}"

    def _progress(self, data: bytes) -> None:
        if self._show is None or self._room <= 0:
            return
        text = _clean(self._decoder.decode(data[: self._room]))
        self._room -= len(data)
        if self._room <= 0:
            text += "\n... (more, not shown)"
        if text:
            self._show(text)


def _plain(data: bytes) -> str:
    """Bytes for a terminal as text for a model."""
    return _clean(data.decode("utf-8", "replace"))


def _clean(text: str) -> str:
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
