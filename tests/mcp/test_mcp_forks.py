"""A forked child and MCP servers: it connects anew, to a process of its own, and the parent's connection goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, signal, sys
from agentscope_rx import Toolkit
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.tools.mcp import stdio
from tests.mcp.parts import far

def add(toolkit):
    return toolkit.call(ToolUseBlock("1", "add", {"a": 1, "b": 2})).run().text

def servers():
    return {child._process.pid for child in stdio._running}

signal.alarm(100)
with far() as toolkit:
    first = add(toolkit)
    (of_parent,) = servers()
    pid = os.fork()
    if not pid:
        signal.alarm(50)
        assert servers() == set()
        assert add(toolkit) == first
        (own,) = servers()
        assert own != of_parent
        # the usual exit: it ends its own server, and neither waits for that of the parent nor ends it
        os.environ["CHILD"] = "1"
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    os.kill(of_parent, 0)
    assert add(toolkit) == first and servers() == {of_parent}
    # an input that a child still holds does not keep the server from ending by itself
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(50)
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    (child,) = stdio._running
os.close(write)
assert os.waitpid(pid, 0)[1] == 0
assert child._process.returncode == 0, child._process.returncode
"""


def test_a_forked_child_has_connections_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=110)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
