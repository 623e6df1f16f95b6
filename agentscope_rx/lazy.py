"""What is made when it is first used: names of a package that need an extra or much time to import, and patterns.

Two threads that use it at once may both make it; they get equal things, and one is kept.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec


def import_lazily(package: str, modules: Mapping[str, str], name: str) -> object:
    """What the `__getattr__` of a package returns: `name` from its module, which is imported once."""
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value: object = getattr(import_module(modules[name]), name)
    setattr(sys.modules[package], name, value)
    return value


def leave_out_missing(names: list[str], needs: Mapping[str, str | tuple[str, ...]]) -> None:
    """Remove from an `__all__` the names whose packages are not installed: `from ... import *` asks for every name."""
    for name, packages in needs.items():
        if any(find_spec(each) is None for each in ((packages,) if isinstance(packages, str) else packages)):
            names.remove(name)


def pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> Callable[[], re.Pattern[str]]:
    """Gives a regular expression that is compiled at the first call.

    Compiling one takes up to five milliseconds, and most are for errors, or for what many runs do not use.
    """
    return cache(partial(re.compile, text, flags))
