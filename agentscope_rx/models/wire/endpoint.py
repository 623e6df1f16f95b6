"""`Endpoint`: a server that requests go to, and the headers that all of them have. Each provider finds its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from urllib.parse import SplitResult, urlunsplit

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.models.wire.base_url import is_host, url_with


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server: its address, which may have a query; the API key; the headers that every request has.

    Its `repr` shows none of them: all may hold secrets.
    """

    parts: SplitResult = field(repr=False)
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default=EMPTY, repr=False)  # pyright: ignore[reportAssignmentType]

    @property
    def url(self) -> str:
        """The address."""
        return urlunsplit(self.parts)

    def url_with(self, query: Mapping[str, str], path: str = "") -> str:
        """The address with `path` after its own, and these query parameters in place of its own of the same names."""
        if not (query or path):
            return self.url
        return url_with(self.parts, self.parts.path + path, query)

    def headers_with(self, given: Mapping[str, str]) -> dict[str, str]:
        """The headers of every request, replaced by those of `given` that have the same name; names in lower case."""
        return {**self.headers, **{name.lower(): value for name, value in given.items()}}

    def is_at(self, domain: str) -> bool:
        """True if the server is at this domain or one below it."""
        return is_host(self.parts, domain)


def bearer(key: str | None) -> dict[str, str]:
    """The header that carries the key as a bearer token; none without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}
