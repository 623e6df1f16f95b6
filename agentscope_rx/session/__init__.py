"""Sessions: the port to saved state, a store in this process and one in files."""

from agentscope_rx.session.in_memory import InMemorySession
from agentscope_rx.session.json_session import JsonSession
from agentscope_rx.session.session import ANY_VERSION, Expected, Items, ListTail, Saved, Session, Unchanging

__all__ = [
    "ANY_VERSION",
    "Expected",
    "InMemorySession",
    "Items",
    "JsonSession",
    "ListTail",
    "Saved",
    "Session",
    "Unchanging",
]
