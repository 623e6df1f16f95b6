"""Sessions: the port to saved state, a store in this process, one in a SQLite file and one in a folder."""

from agentscope_rx.session.history import Checkpoint
from agentscope_rx.session.in_memory import InMemorySession
from agentscope_rx.session.json_session import JsonSession
from agentscope_rx.session.session import ANY_VERSION, Expected, Items, ListTail, Saved, Session, Unchanging
from agentscope_rx.session.sqlite import SqliteSession
from agentscope_rx.session.urls import open_session

__all__ = [
    "ANY_VERSION",
    "Checkpoint",
    "Expected",
    "InMemorySession",
    "Items",
    "JsonSession",
    "ListTail",
    "Saved",
    "Session",
    "SqliteSession",
    "Unchanging",
    "open_session",
]
