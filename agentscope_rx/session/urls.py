"""Stores by name: `open_session` takes a path or a URL, as a configuration file or a command line has it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, cast

from agentscope_rx.errors import ConfigurationError, MissingExtraError
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.session.in_memory import InMemorySession
from agentscope_rx.session.json_session import JsonSession
from agentscope_rx.session.session import Session

SQLITE_ENDINGS = (".db", ".db3", ".sqlite", ".sqlite3")
_OPTIONS = re.compile(r"\?\w+=")
# one letter is a drive of Windows
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.-]+)(\+[A-Za-z0-9_.-]+)?:")


class _Server(NamedTuple):
    """The class of a store on a server, and the extra with its packages."""

    module: str
    name: str
    extra: str


_REDIS = _Server("agentscope_rx.session.redis", "RedisSession", "redis")
_SQL = _Server("agentscope_rx.session.sql", "SqlSession", "sql")
_SERVERS = {
    "redis": _REDIS,
    "rediss": _REDIS,
    "unix": _REDIS,
    "postgresql": _SQL,
    "postgres": _SQL,
    "mysql": _SQL,
    "mariadb": _SQL,
}
_KNOWN = (
    "a path that ends in .db or .sqlite, sqlite:PATH, a folder, json:FOLDER, memory:NAME, redis://..., rediss://..., "
    "unix://..., postgresql://..., mysql://... and mariadb://..."
)

_in_memory: dict[str, InMemorySession] = {}
_lock = new_lock()


def open_session(place: str | os.PathLike[str]) -> Session:
    """The store of this path or URL: the same text gives an equal store.

    | place                                                   | store                                               |
    |---------------------------------------------------------|-----------------------------------------------------|
    | `chat.db`, `chat.sqlite`, `sqlite:chat`, `sqlite:///chat.db` | `SqliteSession`; `sqlite:////chat.db` is absolute |
    | `conversations`, `json:conversations`                   | `JsonSession` in this folder; `json:` in its default |
    | `memory:`, `memory:NAME`                                | an `InMemorySession`, kept as long as the process   |
    | `redis://...`, `rediss://...`, `unix://...` (a socket)  | `RedisSession`, of the extra `redis`                |
    | `postgresql://...`, `mysql://...`, `mariadb://...`, `sqlite+aiosqlite://...` | `SqlSession`, of the extra `sql` |

    Nothing is opened or made before the first operation. `ConfigurationError` for any other text.
    """
    text = os.fspath(place)
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"A store is a path or a URL, not {place!r:.60}. Known are {_KNOWN}.")
    found = _SCHEME.match(text) if isinstance(place, str) else None
    if found is None:
        return _at_path(text)
    scheme, driver, rest = found[1].lower(), found[2], text[found.end() :]
    if driver is None and scheme == "sqlite":
        return _in_sqlite(_sqlite_path(rest))
    if driver is None and scheme == "json":
        return JsonSession(rest.removeprefix("//") or None)
    if driver is None and scheme == "memory":
        with _lock:
            return _in_memory.setdefault(rest.removeprefix("//"), InMemorySession())
    server = _SQL if scheme == "sqlite" else _SERVERS.get(scheme)
    if server is None or (driver is not None and server is not _SQL):
        raise ConfigurationError(
            f"There is no store for {scheme + (driver or '')!r}. Known are {_KNOWN}. "
            "(A path with a colon is written after json: or sqlite:.)"
        )
    return _on_server(server, text)


def names_store(text: str) -> bool:
    """True for a URL and for a path of a SQLite file: what stands for a store wherever a plain name could stand."""
    return _SCHEME.match(text) is not None or text.lower().endswith(SQLITE_ENDINGS)


def _at_path(text: str) -> Session:
    path = Path(os.path.expanduser(text))
    if text.lower().endswith(SQLITE_ENDINGS) and not path.is_dir():
        return _in_sqlite(text)
    if path.is_file():
        raise ConfigurationError(
            f"{text} is a file, and its name does not end in {', '.join(SQLITE_ENDINGS)}. "
            f"If it is a SQLite file write sqlite:{text}; otherwise name a folder."
        )
    return JsonSession(text)


def _in_sqlite(path: str) -> Session:
    # imported here: see session/__init__.py
    from agentscope_rx.session.sqlite import SqliteSession

    return SqliteSession(path)


def _sqlite_path(rest: str) -> str:
    """The path as SQLAlchemy has it: `sqlite:///a.db` is relative, `sqlite:////a.db` absolute."""
    path = rest.removeprefix("///") if rest.startswith("///") else rest
    if path.startswith("//") or not path.strip():
        raise ConfigurationError(f"sqlite:{rest} names no file. Write sqlite:///chat.db, or sqlite:////tmp/chat.db.")
    if rest.startswith("//") and _OPTIONS.search(path):
        raise ConfigurationError(
            f"sqlite:{rest} has options, and there are none. If the file is named so write sqlite:{path}."
        )
    return path


def _on_server(server: _Server, url: str) -> Session:
    # imported here: it needs the packages of an extra
    try:
        module = import_module(server.module)
    except ModuleNotFoundError as error:
        if isinstance(error, MissingExtraError):
            raise
        raise MissingExtraError(error.name or server.module, server.extra) from error
    return cast("Callable[[str], Session]", getattr(module, server.name))(url)
