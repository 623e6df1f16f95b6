"""HTTP requests that are refused before they are processed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from agentscope_rx.errors.base import AgentScopeError


class RequestError(AgentScopeError):
    """A request was refused before it was processed; `status` and `headers` are those of the response."""

    status: ClassVar[int] = 400
    headers: ClassVar[Mapping[str, str]] = MappingProxyType({})


class UnknownHostError(RequestError):
    """The request names a host that is not the application's, such as after a DNS rebinding."""

    status = 421


class ForeignOriginError(RequestError):
    """A web page of another origin sent the request."""

    status = 403


class RemoteClientError(RequestError):
    """No token is set, and the request comes from another machine."""

    status = 403


class UnauthorizedError(RequestError):
    """The request carries no token, or a wrong one."""

    status = 401
    headers: ClassVar[Mapping[str, str]] = MappingProxyType({"www-authenticate": "Bearer"})


class MediaTypeError(RequestError):
    """The body is not declared as JSON."""

    status = 415
    headers: ClassVar[Mapping[str, str]] = MappingProxyType({"connection": "close"})


class BodyTooLargeError(RequestError):
    """The body has more bytes or JSON values than `limit`."""

    status = 413
    headers: ClassVar[Mapping[str, str]] = MappingProxyType({"connection": "close"})

    def __init__(self, message: str, *, limit: int) -> None:
        super().__init__(message)
        self.limit = limit


class BodyTimeoutError(RequestError):
    """The body did not arrive within `seconds`."""

    status = 408
    headers: ClassVar[Mapping[str, str]] = MappingProxyType({"connection": "close"})
    retryable = True

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The body of the request did not arrive within {seconds:g} s.")
        self.seconds = seconds


class TooManyRequestsError(RequestError):
    """The client has more open requests, or more in the last minute, than `limit`."""

    status = 429
    headers: ClassVar[Mapping[str, str]] = MappingProxyType({"retry-after": "1"})
    retryable = True

    def __init__(self, message: str, *, limit: int) -> None:
        super().__init__(message)
        self.limit = limit
