"""The supervisor's report: a command in a sandbox cannot write it, and what is no report is an error."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.backends import BubblewrapBackend
from agentscope_rx.tools.process.supervised import Supervised
from agentscope_rx.tools.shell import PythonTool
from tests.tools.calling import use

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="supervisors of Linux")

TAKE_IT = """
import ctypes
library = ctypes.CDLL(None, use_errno=True)
process = library.syscall(434, 1, 0)
print("opened", process >= 0)
taken = [number for number in range(64) if library.syscall(438, process, number, 0) >= 0]
print("taken", taken)
print("traced", library.ptrace(0x4206, 1, None, None) == 0)
"""


def test_a_sandboxed_command_cannot_take_the_supervisors_socket(tmp_path: Path) -> None:
    try:
        backend = BubblewrapBackend(tmp_path)
    except ConfigurationError as error:
        pytest.skip(str(error))
    toolkit = Toolkit([PythonTool(backend=backend, allow=True, requires_approval=False)])
    result = toolkit.call(use("run_python", code=TAKE_IT)).run().text
    assert result == "opened True\ntaken []\ntraced False\n(exit code 0)"


@pytest.mark.parametrize("report", [b"exit abc", b"exit 0exit 0", b"error x", b"exit " + b"9" * 50, b"exit \xff"])
def test_what_is_no_report_is_an_error(tmp_path: Path, report: bytes) -> None:
    held = Supervised(["/bin/true"], tmp_path)
    try:
        with socket.socket(fileno=held.descriptors[0]) as theirs:
            theirs.send(report)
            outcome = held.outcome()
            theirs.detach()
        assert isinstance(outcome, OSError) and "tampered" in str(outcome)
    finally:
        held.close()
