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

_SET_DEATH_SIGNAL = 1
_SET_SUBREAPER = 36


def main() -> None:
    """Run the command of the arguments to its end."""
    parent = int(sys.argv[1])
    os.set_inheritable(parent, False)
    signals = _signals()
    _control((_SET_DEATH_SIGNAL, signal.SIGTERM), (_SET_SUBREAPER, 1))
    here = os.stat(".")
    if sys.argv[2] not in ("-", f"{here.st_dev}:{here.st_ino}"):
        _leave(parent, b"moved")
    command, problem = _start(sys.argv[3:])
    # what the command writes to is to end with the command, and what it reads is its own
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    if problem:
        _leave(parent, b"error %d" % problem)
    status = _wait(command, parent, signals)
    status = _end_all(command, status)
    _leave(parent, b"exit %d" % (-signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)))


def _signals() -> int:
    """A descriptor from which the number of each signal that matters can be read."""
    signals, told = os.pipe()
    os.set_blocking(signals, False)
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
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


def _start(words: list[str]) -> tuple[int, int]:
    """The command's process and 0, or the error number because of which there is none."""
    failed, told = os.pipe()
    command = os.fork()
    if not command:
        try:
            # a group of its own, to be told to end; the session stays, by which it can be found if this process is gone
            os.setpgid(0, 0)
            _control((_SET_DEATH_SIGNAL, signal.SIGKILL))
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(words[0], words)  # noqa: S606 - the command that was allowed
        except OSError as error:
            os.write(told, b"%d" % (error.errno or 0))
        finally:
            os._exit(127)
    os.close(told)
    problem = os.read(failed, 20)
    os.close(failed)
    return command, int(problem or 0)


def _wait(command: int, parent: int, signals: int) -> int | None:
    """Until the command has ended (its status), or everything is to end (None)."""
    poll = select.poll()
    poll.register(parent, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while True:
        # orphans that have ended are taken off the table of processes
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == command:
                return ended[1]
        for descriptor, _ in poll.poll():
            if descriptor == signals:
                if any(number not in (signal.SIGCHLD, signal.SIGINT) for number in os.read(signals, 4096)):
                    return None
            elif not os.read(parent, 1):
                return None
            else:
                try:
                    os.killpg(command, signal.SIGTERM)
                except OSError:
                    # it has become another user's
                    continue


def _end_all(command: int, status: int | None) -> int | None:
    """Kill until there is no child any more; the command's status.

    What a killed process has started becomes a child of this one, and is killed in its turn.
    """
    while True:
        if not _kill_children():
            return status
        try:
            pid, how = os.waitpid(-1, 0)
            while pid:
                if pid == command:
                    status = how
                pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status


def _kill_children() -> bool:
    """Whether there was one that could be killed; in a namespace: everything in it, at one moment."""
    if os.getpid() == 1:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True
    killed = False
    for pid in _children():
        try:
            os.kill(pid, signal.SIGKILL)
            killed = True
        except ProcessLookupError:
            killed = True
        except PermissionError:
            # it has become another user: nothing can be done
            continue
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
        return 0


def _leave(parent: int, report: bytes) -> None:
    try:
        os.write(parent, report)
    finally:
        # (who wanted to know may be gone)
        os._exit(0)


if __name__ == "__main__":
    main()
