"""The environment of a command: a few harmless variables, an empty HOME of its own, and the caller's variables.

Programs read settings and code from well-known places. A file that a tool writes there must not run:

| where                                       | why it is not read                                                     |
|---------------------------------------------|------------------------------------------------------------------------|
| `.profile`, `.gdbinit`, `.npmrc` (in HOME)  | HOME is a new folder outside of the workspace, for one command         |
| `usercustomize.py`, the user's packages     | the same; and `PYTHONNOUSERSITE`                                       |
| `HEAD`, `objects`, `refs`, `config`         | git takes a folder for a bare repository only if it is told so         |
| git's hooks, `core.fsmonitor`               | switched off, also those of the repository                             |
| git's settings of the system and the user   | not read                                                               |
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import on_worker

_VARIABLES = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
}
_GIT = (
    # files that look like a repository are not used as one (git 2.38 and later)
    ("safe.bareRepository", "explicit"),
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
)
"""Settings of git that override those of a repository."""
_NEEDED = ("SYSTEMROOT", "PATHEXT", "COMSPEC")
"""Without these no program starts on Windows."""


def environment(path: str, env: Mapping[str, str] | None) -> dict[str, str]:
    """The variables of a command without HOME (see `with_home`). The caller's override the others."""
    needed = {name: os.environ[name] for name in _NEEDED if os.name == "nt" and name in os.environ}
    given = dict(env or {})
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name or "\0" in name + value:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"env takes names and values that are text; {name!r:.60} or its value is not.")
    return {**needed, **_VARIABLES, "PATH": path, **_git_settings(given)}


def _git_settings(given: dict[str, str]) -> dict[str, str]:
    """The caller's variables, with the settings of git above before the caller's own: git uses the last one."""
    count = given.get("GIT_CONFIG_COUNT", "0")
    if not (count.isascii() and count.isdigit()):
        raise ConfigurationError(f"GIT_CONFIG_COUNT in env must be a number of settings, not {count!r:.60}.")
    settings = list(_GIT)
    for index in range(int(count)):
        try:
            settings.append((given.pop(f"GIT_CONFIG_KEY_{index}"), given.pop(f"GIT_CONFIG_VALUE_{index}")))
        except KeyError as error:
            raise ConfigurationError(f"GIT_CONFIG_COUNT in env is {count}, and {error.args[0]} is missing.") from None
    for index, (key, value) in enumerate(settings):
        given[f"GIT_CONFIG_KEY_{index}"], given[f"GIT_CONFIG_VALUE_{index}"] = key, value
    return {**given, "GIT_CONFIG_COUNT": str(len(settings))}


@asynccontextmanager
async def with_home(env: Mapping[str, str], root: Path) -> AsyncGenerator[Mapping[str, str]]:
    """The environment with a HOME that is empty, outside of `root`, and removed at the end; the caller's, if given."""
    if "HOME" in env:
        yield env
        return
    where = _outside(root)
    if where is None:
        # a HOME that is empty and cannot be written
        yield _homed(env, os.devnull)
        return
    home = tempfile.TemporaryDirectory(prefix="agentscope-rx-home-", dir=where, ignore_cleanup_errors=True)
    try:
        yield _homed(env, home.name)
    finally:
        if _empty(home.name):
            home.cleanup()
        else:
            # it may hold many files
            await on_worker(home.cleanup)


def _empty(folder: str) -> bool:
    try:
        return not os.listdir(folder)
    except OSError:
        # the command has removed it, or what it has put there in its place
        return False


def _homed(env: Mapping[str, str], home: str) -> dict[str, str]:
    names = ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA") if os.name == "nt" else ("HOME",)
    return {**dict.fromkeys(names, home), **env}


def _outside(root: Path) -> str | None:
    """A folder for temporary files outside of the workspace; None if there is none."""
    for folder in (tempfile.gettempdir(), "/var/tmp", "/dev/shm", "/tmp"):  # noqa: S108 - a private folder is made there
        found = os.path.realpath(folder)
        if not Path(found).is_relative_to(root) and os.access(found, os.W_OK | os.X_OK):
            return found
    return None
