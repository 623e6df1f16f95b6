"""`Clients`: how many requests each client has open, and has sent in the last minute.

A bucket a client: it holds `per_minute` requests, each one takes one out, and it fills up again within a minute.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentscope_rx.errors import TooManyRequestsError

if TYPE_CHECKING:
    from starlette.types import Scope

REMEMBERED = 10_000
"""How many clients are remembered; the one that was silent for longest is forgotten first."""


def client_of(scope: Scope) -> str:
    """The sender of a request: an IPv4 address, an IPv6 network (one machine has a whole one), or the server's name."""
    client = scope.get("client")
    if not client:
        return ""
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), 64), strict=False))


class _Client:
    __slots__ = ("left", "open", "seen")

    def __init__(self, left: float, seen: float) -> None:
        self.left = left
        self.seen = seen
        self.open = 0


class Clients:
    """The clients of one guard. For one loop."""

    def __init__(self, at_once: int | None, per_minute: int | None) -> None:
        self._at_once = at_once
        self._per_minute = per_minute
        self._known: OrderedDict[str, _Client] = OrderedDict()

    @contextmanager
    def admitted(self, name: str) -> Generator[None]:
        """Admit one request for the length of the block, or raise `TooManyRequestsError`."""
        client = self._client(name)
        if self._at_once is not None and client.open >= self._at_once:
            raise TooManyRequestsError(
                f"This client has {client.open} requests open; it may have {self._at_once}.", limit=self._at_once
            )
        if self._per_minute is not None:
            if client.left < 1:
                raise TooManyRequestsError(
                    f"This client sends too many requests; it may send {self._per_minute} a minute.",
                    limit=self._per_minute,
                )
            client.left -= 1
        client.open += 1
        try:
            yield
        finally:
            client.open -= 1

    def _client(self, name: str) -> _Client:
        now = asyncio.get_running_loop().time()
        full = float(self._per_minute or 0)
        client = self._known.get(name)
        if client is None:
            client = self._known[name] = _Client(full, now)
            self._forget_one()
        client.left = min(full, client.left + (now - client.seen) * full / 60)
        client.seen = now
        self._known.move_to_end(name)
        return client

    def _forget_one(self) -> None:
        if len(self._known) > REMEMBERED:
            # (a client with open requests stays: forgetting it would forget their number)
            for name, client in self._known.items():
                if not client.open:
                    del self._known[name]
                    return
