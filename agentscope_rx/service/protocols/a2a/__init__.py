"""The protocol A2A 1.0 for agents. Needs the extra `a2a`."""

from importlib.util import find_spec

from agentscope_rx.errors import MissingExtraError

if find_spec("a2a") is None:
    raise MissingExtraError("a2a-sdk", "a2a")

from agentscope_rx.service.protocols.a2a.routes import a2a_routes

__all__ = ["a2a_routes"]
