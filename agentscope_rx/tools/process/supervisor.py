"""Runs one command and ends all that it has started, however often that has forked. A program of its own, for Linux.

It is run as a file by `supervised.py` and imports nothing of this library. As a sub-reaper it becomes the parent of
each process below it whose own parent has ended, so that none can leave by forking, with a new session or without. As
the first process of a PID namespace (see `supervised`) it is that by itself, and ends all of them in one call.

    arguments   the descriptor of a socket, the folder ("device:inode" or "-"), the program, its arguments
    socket  <-  b"T": SIGTERM to the command's group; the end: end everything now
    socket  ->  b"error 2": it could not be started (errno); b"moved": the folder is another one;
                b"exit -9": how the command ended (minus the signal), once nothing is left of it

It ends everything, too, when the process that started it ends: the socket ends then, and the kernel tells it (SIGTERM).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

_SET_DEATH_SIGNAL = 1
_SET_SUBREAPER = 36
_MOMENT = 0.001


def main() -> None:
    """Run the command of the arguments to its end."""
    parent = int(sys.argv[1])
    os.set_inheritable(parent, False)
    signals = _signals()
    _control((_SET_DEATH_SIGNAL, signal.SIGTERM), (_SET_SUBREAPER, 1))
    here = os.stat(".")
    if sys.argv[2] not in ("-", f"{here.st_dev}:{here.st_ino}"):
        _leave(parent, "moved")
    told = _start(sys.argv[3:])
    # what the command writes to is to end with the command, and what it reads is its own
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    end = _wait(parent, signals, told)
    _end_all()
    _leave(parent, end)


def _signals() -> int:
    """A descriptor from which the number of each signal that matters can be read."""
    # orphans that have ended are never on the table of processes: this process may be too slow to take them off
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signals, told = os.pipe()
    os.set_blocking(signals, False)
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _heard)
    return signals


def _heard(number: int, frame: object) -> None:
    """Nothing: it is read from the descriptor."""


def _control(*options: tuple[int, int]) -> None:
    """Of the kernel: to be told of the end of the parent, to be given orphans."""
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in options:
        if libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
            raise OSError(ctypes.get_errno(), "prctl")


def _start(words: list[str]) -> int:
    """A descriptor that tells the command's number and how it ends, or why it does not start, in lines."""
    told, tell = os.pipe()
    if not os.fork():
        # a process in between, to fetch the command's status: this one's children are fetched by the kernel
        try:
            _watch(words, tell)
        finally:
            os._exit(127)
    os.close(tell)
    return told


def _watch(words: list[str], tell: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    _control((_SET_DEATH_SIGNAL, signal.SIGKILL))
    command = os.fork()
    if not command:
        try:
            # a group of its own, to be told to end; the session stays: by that it is found if the supervisor is gone
            os.setpgid(0, 0)
            _control((_SET_DEATH_SIGNAL, signal.SIGKILL))
            os.execvp(words[0], words)  # noqa: S606 - the command that was allowed
        except OSError as error:
            os.write(tell, b"error %d\n" % (error.errno or 0))
        finally:
            os._exit(127)
    os.write(tell, b"pid %d\n" % command)
    for descriptor in range(3):
        os.close(descriptor)
    # it stays on the table: its number is not to become another's
    ended = os.waitid(os.P_PID, command, os.WEXITED | os.WNOWAIT)
    if ended is not None:
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        os.write(tell, b"exit %d\n" % code)
    signal.pause()


def _wait(parent: int, signals: int, told: int) -> str:
    """Until the command has ended, or everything is to end: what is to be reported."""
    poll = select.poll()
    for descriptor in (parent, signals, told):
        poll.register(descriptor, select.POLLIN)
    command, heard = 0, ""
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == told:
                more = os.read(told, 4096).decode()
                heard += more
                for line in heard.splitlines():
                    if line.startswith("pid"):
                        command = int(line[4:])
                    else:
                        return line
                if not more:
                    # the command has killed the process in between
                    return f"exit {-signal.SIGKILL}"
            elif descriptor == signals:
                if any(number != signal.SIGINT for number in os.read(signals, 4096)):
                    return f"exit {-signal.SIGKILL}"
            elif not os.read(parent, 1):
                return f"exit {-signal.SIGKILL}"
            elif command:
                try:
                    os.killpg(command, signal.SIGTERM)
                except OSError:
                    # it has become another user's
                    continue


def _end_all() -> None:
    """Kill until there is no child any more. What a killed process has started becomes a child, and is killed."""
    seen: set[int] = set()
    while killed := _kill_children():
        if killed <= seen:
            # they have all been killed before, and are on their way
            time.sleep(_MOMENT)
        seen = killed


def _kill_children() -> set[int]:
    """The children that could be killed; in a namespace everything in it is, at one moment."""
    if os.getpid() == 1:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return set()
        return {-1}
    killed: set[int] = set()
    for pid in _children():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            # it has become another user: nothing can be done
            continue
        killed.add(pid)
    return killed


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:
            return [int(each) for each in file.read().split()]
    except FileNotFoundError:
        # a kernel without that file
        return [int(each) for each in os.listdir("/proc") if each.isdigit() and _parent(each) == me]


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # behind the name, which may have anything in it: state, parent
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        # ended meanwhile
        return 0


def _leave(parent: int, report: str) -> None:
    try:
        os.write(parent, report.encode())
    finally:
        # (who wanted to know may be gone)
        os._exit(0)


if __name__ == "__main__":
    main()
