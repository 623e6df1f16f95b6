"""How requests get to providers and answers back: HTTP, server-sent events, and what an error status means."""

from agentscope_rx.model.transport.config import HttpConfig
from agentscope_rx.model.transport.http import Framing, HttpRequest, Transport
from agentscope_rx.model.transport.sse import ServerEvent
from agentscope_rx.model.transport.status import http_error

__all__ = ["Framing", "HttpConfig", "HttpRequest", "ServerEvent", "Transport", "http_error"]
