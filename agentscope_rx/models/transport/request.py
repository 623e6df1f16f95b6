"""A request as a value, and what its errors must not show."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Literal

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.secrets import Secrets
from agentscope_rx.models.wire.base_url import shown_url

if TYPE_CHECKING:
    import httpx

OnHeaders = Callable[[Mapping[str, str]], object]
"""Called with the headers of a response."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One POST of a JSON body, or a GET."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    method: Literal["POST", "GET"] = "POST"

    def __repr__(self) -> str:
        # without the body, which is a conversation, and the query, which may hold a key
        return f"HttpRequest({self.method} {shown_url(self.url)}, {len(self.body)} bytes)"


class LastParsed:
    """The address and the headers of the last request, as given and as parsed: most requests have the same."""

    __slots__ = ("headers", "url")

    def __init__(self) -> None:
        self.headers: tuple[tuple[object, ...], httpx.Headers] | None = None
        self.url: tuple[str, httpx.URL] | None = None


def secrets_of(request: HttpRequest, config: HttpConfig) -> Secrets:
    """The keys and passwords of the request and of its proxy."""
    return Secrets(request.url, request.headers, config.proxy)


@contextmanager
def hiding(request: HttpRequest, config: HttpConfig) -> Generator[None]:
    """Removes the request's keys and passwords from errors raised in the block."""
    try:
        yield
    except Exception as error:
        secrets_of(request, config).hide_in(error)
        raise


@cache
def user_agent() -> str:
    """The User-Agent header."""
    # here, because it brings a parser of mails, which takes as long to import as ten modules
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"agentscope-rx/{version('agentscope-rx')}"
    except PackageNotFoundError:
        return "agentscope-rx"
