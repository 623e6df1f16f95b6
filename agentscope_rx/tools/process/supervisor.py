"""Runs one command and ends every process that it has started, however often they fork. A separate program, for Linux.

`supervised.py` runs it as a file, and it imports nothing of this library and no package. As a sub-reaper it becomes the
parent of each process below it whose own parent has ended, so that none can leave by forking, with a new session or
without. As the first process of a PID namespace it is that parent anyway, and ends all of them in one call.

    arguments   the descriptor of a socket, the folder ("device:inode" or "-"), limits ("DATA=1048576,CPU=2" or "-";
                "KEYRING=0" is an empty session keyring), the program, its arguments
                with "-" for the socket: the limits are set, and the program is run, no more
    socket  <-  b"T": SIGTERM to the command's group; the end: end everything now
    socket  ->  b"error 2": it could not be started (errno); b"moved": the folder was replaced by another;
                b"exit -9": how the command ended (minus the signal), once all of its processes have ended

It also ends everything when the process that started it ends: the socket is closed then, and the kernel sends SIGTERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import signal
import sys
import time

_SET_DEATH_SIGNAL = 1
_SET_DUMPABLE = 4
_SET_SUBREAPER = 36
_MOMENT = 0.001
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280, "armv7l": 311, "i686": 288}
"""The number of the system call, for which the C library has no function."""


def main() -> None:
    """Run the command that the arguments name, to its end."""
    if sys.argv[1] == "-":
        _limit(sys.argv[3])
        os.execv(sys.argv[4], sys.argv[4:])  # noqa: S606 - the command that was allowed
    parent = int(sys.argv[1])
    os.set_inheritable(parent, False)
    # a descriptor of a folder outside of a sandbox would lead out of it
    os.closerange(3, parent)
    os.closerange(parent + 1, os.sysconf("SC_OPEN_MAX"))
    signals = _signals()
    # not dumpable: the command, which has the same user, must not trace this process, or take its socket and report
    _control((_SET_DEATH_SIGNAL, signal.SIGTERM), (_SET_SUBREAPER, 1), (_SET_DUMPABLE, 0))
    folder = os.stat(".")
    if sys.argv[2] not in ("-", f"{folder.st_dev}:{folder.st_ino}"):
        _leave(parent, "moved")
    reports = _start(sys.argv[3], sys.argv[4:])
    # the command alone holds its input and output, so that they close when it ends
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    end = _wait(parent, signals, reports)
    _end_all()
    _leave(parent, end)


def _signals() -> int:
    """A descriptor from which the numbers of received signals can be read."""
    # the kernel removes orphans that have ended: this process might be too slow to wait for all of them
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signals, write = os.pipe()
    os.set_blocking(signals, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _ignore)
    return signals


def _ignore(number: int, frame: object) -> None:
    """Do nothing: the signal is read from the descriptor."""


def _control(*options: tuple[int, int]) -> None:
    """Set options of this process (`prctl`): a signal at the parent's end, and adoption of orphans."""
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in options:
        if libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
            raise OSError(ctypes.get_errno(), "prctl")


def _limit(limits: str) -> None:
    """Set limits of this process and of those that it starts, never above those that it has."""
    for each in limits.split(",") if limits != "-" else ():
        name, _, most = each.partition("=")
        if name == "KEYRING":
            _leave_keyring()
            continue
        try:
            which = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(which)[1]
            limit = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
            resource.setrlimit(which, (limit, limit))
        except (AttributeError, ValueError, OSError):
            # other systems have some of them only, and promise less
            if sys.platform == "linux":
                raise


def _leave_keyring() -> None:
    """Join a new session keyring: the kernel would hand on the keys of the caller's, also into a sandbox."""
    if os.uname().machine not in _KEYCTL:
        raise OSError(errno.ENOSYS, "keyctl")
    libc = ctypes.CDLL(None, use_errno=True)
    joined = libc.syscall(ctypes.c_long(_KEYCTL[os.uname().machine]), ctypes.c_long(1), None)
    # without keyrings, or where they are forbidden, there are none to leave
    if joined < 0 and ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM, errno.EACCES):
        raise OSError(ctypes.get_errno(), "keyctl")


def _start(limits: str, words: list[str]) -> int:
    """A descriptor with reports, in lines: the command's number, then how it ended, or why it did not start."""
    reports, write = os.pipe()
    if not os.fork():
        # a process in between waits for the command's status: the kernel discards that of this process's children
        try:
            _watch(limits, words, write)
        finally:
            os._exit(127)
    os.close(write)
    return reports


def _watch(limits: str, words: list[str], write: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    _control((_SET_DEATH_SIGNAL, signal.SIGKILL))
    command = os.fork()
    if not command:
        try:
            # a group of its own receives SIGTERM; the session stays, by which it is found without the supervisor
            os.setpgid(0, 0)
            _control((_SET_DEATH_SIGNAL, signal.SIGKILL))
            _limit(limits)
            os.execvp(words[0], words)  # noqa: S606 - the command that was allowed
        except OSError as error:
            os.write(write, b"error %d\n" % (error.errno or 0))
        finally:
            os._exit(127)
    os.write(write, b"pid %d\n" % command)
    for descriptor in range(3):
        os.close(descriptor)
    # WNOWAIT keeps the process's number from being used again
    ended = os.waitid(os.P_PID, command, os.WEXITED | os.WNOWAIT)
    if ended is not None:
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        os.write(write, b"exit %d\n" % code)
    signal.pause()


def _wait(parent: int, signals: int, reports: int) -> str:
    """Wait until the command has ended or is to be ended; gives the report for the parent."""
    poll = select.poll()
    for descriptor in (parent, signals, reports):
        poll.register(descriptor, select.POLLIN)
    command, received = 0, ""
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == reports:
                more = os.read(reports, 4096).decode()
                received += more
                for line in received.splitlines():
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
                    # the process runs as another user now
                    continue


def _end_all() -> None:
    """Kill children until there are none. The children of a killed process become children of this one."""
    seen: set[int] = set()
    while _has_children():
        killed, refused = _kill_children()
        if refused and not killed:
            # they run as another user now, and cannot be ended
            return
        if killed <= seen:
            # all of them have been killed already and are about to end
            time.sleep(_MOMENT)
        seen = killed


def _has_children() -> bool:
    """True while there are children, known for sure: the kernel's list may leave one out while another one ends."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _kill_children() -> tuple[set[int], bool]:
    """Kill all children and give their numbers, and whether one may not be killed. As PID 1 it kills every process."""
    if os.getpid() == 1:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return set(), False
        return {-1}, False
    killed: set[int] = set()
    refused = False
    for pid in _children():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            refused = True
            continue
        killed.add(pid)
    return killed, refused


def _children() -> list[int]:
    own = os.getpid()
    try:
        with open(f"/proc/self/task/{own}/children", "rb") as file:
            return [int(each) for each in file.read().split()]
    except FileNotFoundError:
        # a kernel without that file
        return [int(each) for each in os.listdir("/proc") if each.isdigit() and _parent(each) == own]


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # behind the name, which may hold any bytes: state, parent
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        # ended meanwhile
        return 0


def _leave(parent: int, report: str) -> None:
    try:
        os.write(parent, report.encode())
    finally:
        # (the parent may have ended)
        os._exit(0)


if __name__ == "__main__":
    main()
