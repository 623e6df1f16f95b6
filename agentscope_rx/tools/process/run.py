"""`run`: one program to its end, or to the end of its time: nothing of it is left when it returns, however it returns.

When it has ended, when its time is over, when the call is cancelled: everything that it has started is ended; where the
program has not ended by itself, its group is asked first (SIGTERM). How "everything" is found:

| system             | found is                                                                                        |
|--------------------|-------------------------------------------------------------------------------------------------|
| Linux, `namespace` | what is in the PID namespace                                                                    |
| Linux              | every descendant, by a supervisor (see `supervised`); if that was killed: the session, the mark |
| macOS              | the process group                                                                               |
| Windows            | the process alone                                                                               |

The mark is a variable in the environment. A process that kills its supervisor, leaves the session and changes its
environment is not found, nor is what another program (a service manager, a container's daemon) was asked to start.
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
from agentscope_rx.tools.process.output_buffer import Output
from agentscope_rx.tools.process.supervised import Supervised, can_supervise

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

    def __init__(self, output: Output, mark: str, held: Supervised | None) -> None:
        self.output = output
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()
        self.family: _Family | None = None
        self._mark = mark
        self._held = held
        self._transport: asyncio.SubprocessTransport | None = None
        self._abandoned = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.family = _Family(self._transport, self._mark, self._held)
        if self._abandoned:
            self.abandon()

    def abandon(self) -> None:
        """Nobody waits for it: it is ended as soon as it is there, and closed when it has ended."""
        self._abandoned = True
        if self._transport is not None and self.family is not None:
            self.family.end()
            if self.exited.is_set():
                self._transport.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output.add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.silent.set()

    def process_exited(self) -> None:
        if self.family is not None:
            self.family.left()
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
    namespace: Sequence[str] = (),
) -> Ended:
    """Runs the program `words[0]` (an absolute path) without a shell; `given` is its input, if any.

    `namespace` are the words that run it in a PID namespace (see `supervised`). Cancelling ends it, and returns when it
    has ended.
    """
    try:
        held = Supervised(words, cwd, namespace) if can_supervise() else None
    except OSError as error:
        raise _unstarted(words, error) from None
    mark = secrets.token_hex(16)
    child = _Child(Output(max_output, show), mark, held)
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: child,
            *(words if held is None else held.words),
            stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=cwd,
            env={**env, MARK: mark},
            start_new_session=True,
            pass_fds=() if held is None else held.descriptors,
        )
    )
    if held is not None:
        starting.add_done_callback(lambda _: held.started())
    try:
        return await _run(words, starting, child, timeout, given)
    finally:
        if held is not None:
            # not before: the number of its descriptor would be passed on, and be another's
            starting.add_done_callback(lambda _: held.close())


async def _run(words: Sequence[str], starting: _Starting, child: _Child, timeout: float, given: bytes | None) -> Ended:
    try:
        transport = await _started(starting, child)
    except (OSError, ValueError) as error:
        raise _unstarted(words, error) from None
    family = cast("_Family", child.family)
    timed_out = False
    try:
        if given is not None:
            stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
            stdin.write(given)
            stdin.close()
        timed_out = not await _within(timeout, child.exited)
        if timed_out:
            family.ask()
            await _within(GRACE, child.exited)
    except asyncio.CancelledError:
        family.ask()
        await _within(GRACE / 4, child.exited)
        raise
    finally:
        # whoever is left, also after an end in peace; a second cancellation comes here at once
        family.end()
        try:
            await _within(SETTLE, child.exited)
            await _within(SETTLE, child.silent)
        finally:
            family.left()
            transport.close()
    code = family.exit_code()
    if isinstance(code, OSError):
        raise _unstarted(words, code)
    output = child.output
    return Ended(code, timed_out, output.text(), output.total, output.left_out)


def _unstarted(words: Sequence[str], error: Exception) -> ToolError:
    return ToolError(f"{os.path.basename(words[0])!r} could not be started: {error}.")


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

    def __init__(self, transport: asyncio.SubprocessTransport, mark: str, held: Supervised | None) -> None:
        self._transport = transport
        self._pid = transport.get_pid()
        self._mark = f"{MARK}={mark}".encode()
        self._held = held
        self._ended = False

    def ask(self) -> None:
        """SIGTERM to the process group while its leader lives (later its number may be another's)."""
        if self._held is not None:
            self._held.ask()
        elif self._transport.get_returncode() is None:
            self._signal_group(signal.SIGTERM)

    def end(self) -> None:
        """End everybody, without asking; with a supervisor they have ended when it has."""
        if self._held is None:
            self._kill()
        else:
            self._held.end()

    def left(self) -> None:
        """End who is left though nobody waits any more, or though the supervisor was killed. Again is nothing."""
        if self._held is None or self._ended:
            return
        self._ended = True
        # it takes milliseconds, unless the system cannot end a process
        if self._held.outcome(0.0 if self._transport.get_returncode() is not None else GRACE / 4) is None:
            self._kill()

    def exit_code(self) -> int | OSError | None:
        """How the program ended, or why it did not start."""
        said = None if self._held is None else self._held.outcome()
        return self._transport.get_returncode() if said is None else said

    def _kill(self) -> None:
        seen = hasattr(os, "pidfd_open") and os.path.isdir("/proc/self")
        if seen:
            self._end_all()
        if not seen or self._transport.get_returncode() is None:
            self._signal_group(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._pid, number)
            elif number is signal.SIGTERM:
                self._transport.terminate()

    def _end_all(self) -> None:
        # what is being ended may start others meanwhile: until nobody is found
        for _ in range(_PASSES):
            found = [pid for name in os.listdir("/proc") if name.isdigit() and self._mine(pid := int(name))]
            ended = [self._killed(pid) for pid in found]
            if not any(ended):
                return

    def _killed(self, pid: int) -> bool:
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
