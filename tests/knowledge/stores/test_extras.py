"""A store whose packages are missing names its extra, and nothing else imports them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from agentscope_rx.errors import MissingExtraError
from tests.knowledge.stores.chunks import ROOT

STORES = "agentscope_rx.knowledge.stores"


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("sqlite_vec_store", "apsw", "sqlite-vec"),
        ("sqlite_vec_store", "sqlite_vec", "sqlite-vec"),
        ("qdrant_store", "qdrant_client", "qdrant"),
        ("pg_vector_store", "asyncpg", "pgvector"),
        ("pg_vector_store", "pgvector", "pgvector"),
    ],
)
def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str):
    for name in [each for each in sys.modules if each.startswith((f"{STORES}.", f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"agentscope-rx\[{extra}\]") as caught:
        import_module(f"{STORES}.{module}")
    assert caught.value.extra == extra


def test_the_room_imports_no_database():
    code = (
        "import sys, agentscope_rx, agentscope_rx.knowledge\n"
        "print({'apsw', 'asyncpg', 'numpy', 'pgvector', 'qdrant_client', 'sqlite3', 'sqlite_vec'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout == "set()\n"


def test_a_star_import_needs_no_extra():
    code = (
        "import sys\n"
        "missing = ('apsw', 'asyncpg', 'numpy', 'qdrant_client')\n"
        "sys.modules.update(dict.fromkeys(missing))\n"
        "import importlib.util as util\n"
        "real = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name in missing else real(name, *more)\n"
        "from agentscope_rx.knowledge import *\n"
        "print([each for each in dir() if each.endswith('ChunkStore')])"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.stdout == "['ChunkStore', 'InMemoryChunkStore']\n", found.stderr
