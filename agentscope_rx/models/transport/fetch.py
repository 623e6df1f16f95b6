"""`fetched`: the bytes at an address that a server has named. The one place where such an address is asked.

A server that names an address of this machine, of its network or of a cloud's metadata would have us ask in its place.
So the name is looked up once, every address that it has must be public, and one of these is connected to: that the name
is looked up otherwise a moment later changes nothing. There is no key, no proxy (which would look the name up itself)
and no redirect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

from agentscope_rx.errors import ModelConnectionError, ProtocolError
from agentscope_rx.models.transport.http import HttpConfig, user_agent
from agentscope_rx.models.transport.status import BODY_SHOWN, http_error
from agentscope_rx.models.transport.tls import tls_context

MAX_FETCHED_BYTES = 50 * 1024 * 1024
"""The most that is fetched from one address."""

_PORTS = {"http": 80, "https": 443}
# metadata of Azure and of Oracle are at public addresses; fec0 is private, and in the others lies an IPv4 address
_NOT_PUBLIC = tuple(
    ip_network(each)
    for each in (
        *("168.63.129.16/32", "192.0.0.0/24"),
        *("fec0::/10", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"),
    )
)


async def fetched(url: str, config: HttpConfig, *, accept: str = "*/*", limit: int = MAX_FETCHED_BYTES) -> bytes:
    """The bytes of the answer to a GET; `ProtocolError` for an address that is not public, or more than `limit`."""
    try:
        where = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ProtocolError(f"The server named an address that is none: {error}") from error
    shown = f"{where.scheme}://{where.host:.100}"
    if where.scheme not in _PORTS or not where.host or where.userinfo:
        raise ProtocolError(f"The server named an address that is not fetched ({shown}): only http and https are.")
    broken: httpx.RequestError | None = None
    for address in await public_addresses(where.host, where.port or _PORTS[where.scheme], shown):
        try:
            async with _opened(where, address, config, accept) as response:
                return await _body(response, shown, limit)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            broken = error
        except httpx.RequestError as error:
            what = str(error) or type(error).__name__
            raise ModelConnectionError(f"The connection to {shown} broke off: {what}") from error
    raise ModelConnectionError(f"No connection to {shown}: {str(broken) or type(broken).__name__}") from broken


async def public_addresses(host: str, port: int, shown: str) -> list[str]:
    """What the name stands for; `ProtocolError` if any of it is not public."""
    try:
        found = [str(ip_address(host))]
    except ValueError:
        try:
            loop = asyncio.get_running_loop()
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ModelConnectionError(f"No connection to {shown}: {error}") from error
        # (a link-local IPv6 address has a zone behind it)
        found = list(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in infos))
    if not found or not all(is_public(ip_address(each)) for each in found):
        raise ProtocolError(
            f"The server named an address in a private network, on this machine or otherwise not public ({shown}), "
            "which is not fetched."
        )
    return found


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether anyone can reach this address: none that is private, loopback, link-local, shared, a group, metadata."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


@asynccontextmanager
async def _opened(where: httpx.URL, address: str, config: HttpConfig, accept: str) -> AsyncGenerator[httpx.Response]:
    # a client of its own: a connection to this address was checked for this name, and is for no other's
    async with httpx.AsyncClient(
        verify=await tls_context(config.verify, trust_env=config.trust_env),
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=config.connect_timeout),
    ) as client:
        headers = {
            "host": where.netloc.decode("ascii"),
            "accept": accept,
            # what is unpacked can be a thousand times what was sent
            "accept-encoding": "identity",
            "user-agent": user_agent(),
        }
        # the certificate is the name's, whichever of its addresses is asked
        extensions = {"sni_hostname": where.raw_host.decode("ascii")}
        url = where.copy_with(host=address)
        async with client.stream("GET", url, headers=headers, extensions=extensions) as response:
            yield response


async def _body(response: httpx.Response, shown: str, limit: int) -> bytes:
    if response.is_redirect:
        raise ProtocolError(f"The address that the server named ({shown}) redirects elsewhere, which is not followed.")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ProtocolError(
            f"What is at the address that the server named ({shown}) is packed, which was not asked for."
        )
    most = limit if response.is_success else 4 * BODY_SHOWN
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > most:
            break
    if not response.is_success:
        raise http_error(response.status_code, data[:most].decode("utf-8", "replace"), response.headers)
    if len(data) > limit:
        raise ProtocolError(f"What is at the address that the server named ({shown}) has more than {limit:,} bytes.")
    return bytes(data)
