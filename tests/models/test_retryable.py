"""What an error of any library says of another attempt."""

from __future__ import annotations

import email.message
import urllib.error
from typing import Any

import httpx
import pytest

from agentscope_rx.errors import RateLimitError, ToolError
from agentscope_rx.models.retryable import asked_wait, is_retryable


def of_httpx(status: int, **headers: str) -> Exception:
    request = httpx.Request("GET", "http://localhost")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(status, headers=headers))


class Answer:
    """As requests and aiohttp have them, near enough."""

    def __init__(self, status: Any, headers: Any, name: str = "status_code") -> None:
        setattr(self, name, status)
        self.headers = headers


class OfRequests(IOError):
    def __init__(self, status: Any, headers: Any = None) -> None:
        self.response = Answer(status, headers)


class OfAiohttp(Exception):
    def __init__(self, status: Any, headers: Any = None) -> None:
        self.status = status
        self.headers = headers


def of_urllib(status: int, **headers: str) -> Exception:
    message = email.message.Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    error = urllib.error.HTTPError("http://localhost", status, "x", message, None)
    # from 3.14 on it is a resource that is missed
    error.close()
    return error


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
def test_transient_statuses(status: int) -> None:
    for error in (of_httpx(status), OfRequests(status), OfAiohttp(status, {}), of_urllib(status)):
        assert is_retryable(error), error


@pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 409, 422, 600, 70])
def test_other_statuses(status: int) -> None:
    for error in (of_httpx(status), OfRequests(status), OfAiohttp(status, {}), of_urllib(status)):
        assert not is_retryable(error), error


class Odd(Exception):
    code = status = 503


class Says(Exception):
    retryable = False
    response = Answer(503, {})


@pytest.mark.parametrize(
    "error", [Odd(), Says(), OfRequests("503"), OfRequests(True), OfAiohttp(None, {}), SystemExit(503), ValueError()]
)
def test_what_only_looks_like_it(error: BaseException) -> None:
    assert not is_retryable(error)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (of_httpx(429, **{"Retry-After": "7"}), 7),
        (OfRequests(429, {"retry-after": 7}), 7),
        (OfAiohttp(429, {"RETRY-AFTER": "7"}), 7),
        (of_urllib(429, Retry_After="7"), 7),
        (of_httpx(503, **{"retry-after-ms": "1500"}), 1.5),
        (of_httpx(503), None),
        (RateLimitError("x", status=429, retry_after=3.0), 3),
        (ToolError("x"), None),
        (OfRequests(429, "retry-after: 7"), None),
        (OfRequests(429, type("H", (), {"items": lambda self: [1, 2]})()), None),
    ],
)
def test_how_long_it_asks_to_wait(error: Exception, seconds: float | None) -> None:
    assert asked_wait(error) == seconds
