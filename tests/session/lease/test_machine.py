"""Real processes: which have ended, and what a forked child holds."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from agentscope_rx.errors import ConversationLeasedError
from agentscope_rx.session import InMemorySession, SessionLease
from agentscope_rx.session.lease import Machine, Process
from tests.support.signals import child

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


def process_of(pid: int) -> Process:
    from agentscope_rx.session.lease.machine import _start_of

    own = Machine().process()
    return Process(own.host, own.boot, own.space, pid, _start_of(pid) or "")


def test_this_process_lives_and_is_itself():
    machine = Machine()
    own = machine.process()
    assert own == Machine().process() and own.pid == os.getpid() and own.boot and own.space
    assert not machine.has_ended(own)
    assert "process" in str(own) and machine.uptime() > 0


def test_a_killed_process_that_is_a_zombie_has_ended():
    with child([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        machine, process = Machine(), process_of(started.pid)
        assert not machine.has_ended(process)
        started.kill()
        # without a wait() it stays as a zombie
        os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
        assert machine.has_ended(process)
    assert machine.has_ended(process)


def test_another_process_with_the_same_id_is_not_the_holder():
    own = Machine().process()
    assert Machine().has_ended(Process(own.host, own.boot, own.space, own.pid, "1"))
    assert Machine().has_ended(Process(own.host, own.boot, own.space, 2**22 + 1, own.start))


def test_ids_of_another_namespace_or_boot_say_nothing():
    own = Machine().process()
    for boot, space in ((own.boot, "pid:[1]"), ("another boot", own.space), (None, None)):
        assert not Machine().has_ended(Process(own.host, boot, space, 2**22 + 1, "1"))


def test_a_process_that_is_hidden_is_not_dead(monkeypatch, tmp_path):
    """/proc may be mounted with hidepid: an entry that is missing is no proof."""
    from agentscope_rx.session.lease import machine

    with child([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        process, here = process_of(started.pid), Machine()
        here.process()
        monkeypatch.setattr(machine, "_PROC", tmp_path)
        assert not here.has_ended(process)
        started.kill()
        started.wait()
        assert here.has_ended(process)


def test_without_proc_every_process_is_of_another_machine(monkeypatch, tmp_path):
    from agentscope_rx.session.lease import machine

    monkeypatch.setattr(machine, "_PROC", tmp_path)
    own = Machine().process()
    assert (own.boot, own.space) == (None, None)
    assert not Machine().has_ended(own)


FORK = """
import os
from agentscope_rx.session import JsonSession, SessionLease
from agentscope_rx.errors import ConversationLeasedError

lease = SessionLease(JsonSession({root!r}), "k")
other = SessionLease(JsonSession({root!r}), "k")
lease.acquire().run()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        assert not lease.held and lease.token is None
        for each in (lease, other):
            try:
                each.acquire().run()
            except ConversationLeasedError as error:
                assert error.pid == os.getppid(), error
            else:
                raise AssertionError("acquired")
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(pid, 0)[1] == 0
assert lease.held
lease.release().run()
pid = os.fork()
if pid == 0:
    # a child that dies with the lease
    assert lease.acquire().run() == 2
    os._exit(0)
os.waitpid(pid, 0)
assert lease.acquire().run() == 3
lease.release().run()
print("ok")
"""


def test_a_forked_child_does_not_hold_its_parents_lease(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", FORK.format(root=str(tmp_path))]
    found = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert found.stdout == "ok\n", found.stderr


def test_a_real_lease_is_refused_and_released():
    session = InMemorySession()
    one, other = SessionLease(session, "k"), SessionLease(session, "k")
    assert one.acquire().run() == 1
    with pytest.raises(ConversationLeasedError) as caught:
        other.acquire().run()
    assert caught.value.pid == os.getpid()
    one.release().run()
    assert other.acquire().run() == 2
    other.release().run()
    assert time.monotonic() > 0
