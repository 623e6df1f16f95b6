"""Sessions: saved state, in this process, in files, and on database servers.

Stores in files and databases are imported when they are first named; those on servers need an extra each. Their
differences are listed in the look-up page "What stores guarantee". A store of your own takes `encode`, `decode`,
`StoredEntry` and the checks from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily, leave_out_missing
from agentscope_rx.parts import Part, PartState, PartStates
from agentscope_rx.session.entry import EntryKind, StoredEntry, check_key, check_name, check_names, decode, encode
from agentscope_rx.session.history import Checkpoint
from agentscope_rx.session.in_memory import InMemorySession
from agentscope_rx.session.lease import LeasePolicy, SessionLease, WhenHeld
from agentscope_rx.session.session import (
    ANY_VERSION,
    Expected,
    Items,
    ListTail,
    Saved,
    Session,
    Unchanging,
    check_expected,
)
from agentscope_rx.session.state_part import StatePart

if TYPE_CHECKING:
    from agentscope_rx.session.copying import copy_session
    from agentscope_rx.session.json_session import JsonSession
    from agentscope_rx.session.redis import RedisSession
    from agentscope_rx.session.sql import SqlSession
    from agentscope_rx.session.sqlite import SqliteSession
    from agentscope_rx.session.urls import open_session

_LAZY = {
    "JsonSession": "agentscope_rx.session.json_session",
    "RedisSession": "agentscope_rx.session.redis",
    "SqlSession": "agentscope_rx.session.sql",
    # sqlite3 would take part of the time that the library takes to import
    "SqliteSession": "agentscope_rx.session.sqlite",
    "copy_session": "agentscope_rx.session.copying",
    "open_session": "agentscope_rx.session.urls",
}

__all__ = [
    "ANY_VERSION",
    "Checkpoint",
    "EntryKind",
    "Expected",
    "InMemorySession",
    "Items",
    "JsonSession",
    "LeasePolicy",
    "ListTail",
    "Part",
    "PartState",
    "PartStates",
    "RedisSession",
    "Saved",
    "Session",
    "SessionLease",
    "SqlSession",
    "SqliteSession",
    "StatePart",
    "StoredEntry",
    "Unchanging",
    "WhenHeld",
    "check_expected",
    "check_key",
    "check_name",
    "check_names",
    "copy_session",
    "decode",
    "encode",
    "open_session",
]

leave_out_missing(__all__, {"RedisSession": "redis", "SqlSession": "sqlalchemy"})


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
