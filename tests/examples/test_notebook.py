"""The notebook runs in a real kernel, and has the outputs in its file that it has there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "notebook.ipynb"


def outputs(notebook: nbformat.NotebookNode) -> list[str]:
    """What each cell of code shows."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(each.get("text") or each["data"]["text/plain"] for each in cell.outputs) for cell in cells]


# (its client leaves sockets to the garbage collector, so it has a process of its own)
EXECUTE = """
import sys
import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
# sockets in the file system: nothing else on this machine can connect to the kernel
NotebookClient(notebook, km=KernelManager(kernel_name="python3", transport="ipc"), timeout=60).execute()
nbformat.write(notebook, sys.argv[2])
"""


def test_the_notebook_shows_what_its_file_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AGENTSCOPE_RX_MODEL", raising=False)
    executed = tmp_path / "executed.ipynb"
    subprocess.run([sys.executable, "-c", EXECUTE, NOTEBOOK, executed], check=True, timeout=100)
    saved = outputs(nbformat.read(NOTEBOOK, as_version=4))
    assert outputs(nbformat.read(executed, as_version=4)) == saved
    assert sum(map(bool, saved)) == 6
