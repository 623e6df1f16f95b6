"""The transport of requests and answers: HTTP, server-sent events, and the errors for each status."""

from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.framing import ServerEvent
from agentscope_rx.models.transport.http import Framing, Transport
from agentscope_rx.models.transport.request import HttpRequest
from agentscope_rx.models.transport.status import http_error

__all__ = ["Framing", "HttpConfig", "HttpRequest", "ServerEvent", "Transport", "http_error"]
