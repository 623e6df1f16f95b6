"""GET requests outside a provider's API: an address that a server named, or a server on this machine.

`fetched` guards against server-side request forgery. An address named by a server could point to this machine, to its
network or to a cloud's metadata service. So the host name is resolved once, all its addresses must be public, and the
connection goes to one of these: a different DNS answer a moment later has no effect. The request has no key, uses no
proxy (which would resolve the name itself) and follows no redirect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

from agentscope_rx.errors import ConfigurationError, ModelConnectionError, ProtocolError
from agentscope_rx.models.transport.client import tls_context
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.request import user_agent
from agentscope_rx.models.transport.status import BODY_SHOWN, http_error
from agentscope_rx.models.wire.json_size import load_json

MAX_FETCHED_BYTES = 50 * 1024 * 1024
"""The maximum size of one file."""

LOOPBACK = "127.0.0.1"
MAX_LOOPBACK_BYTES = 4 * 1024 * 1024

_PORTS = {"http": 80, "https": 443}
# metadata services of Azure and Oracle have public addresses; fec0 is private; the others embed an IPv4 address
_NOT_PUBLIC = tuple(
    ip_network(each)
    for each in (
        *("168.63.129.16/32", "192.0.0.0/24"),
        *("fec0::/10", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"),
    )
)


async def fetched(url: str, config: HttpConfig, *, accept: str = "*/*", limit: int = MAX_FETCHED_BYTES) -> bytes:
    """The body of the response to a GET; `ProtocolError` if an address is not public or the body exceeds `limit`."""
    try:
        where = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ProtocolError(f"The server named an invalid address: {error}") from error
    shown = f"{where.scheme}://{where.host:.100}"
    if where.scheme not in _PORTS or not where.host or where.userinfo:
        raise ProtocolError(
            f"The server named an address that is not fetched ({shown}): only http and https are supported."
        )
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
    """The addresses of a host; `ProtocolError` if any of them is not public."""
    try:
        found = [str(ip_address(host))]
    except ValueError:
        try:
            loop = asyncio.get_running_loop()
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ModelConnectionError(f"No connection to {shown}: {error}") from error
        # (a link-local IPv6 address ends in a zone)
        found = list(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in infos))
    if not found or not all(is_public(ip_address(each)) for each in found):
        raise ProtocolError(
            f"The server named an address in a private network, on this machine or otherwise not public ({shown}), "
            "which is not fetched."
        )
    return found


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """True for a public address: not private, loopback, link-local, shared, multicast or of a metadata service."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


@asynccontextmanager
async def _opened(where: httpx.URL, address: str, config: HttpConfig, accept: str) -> AsyncGenerator[httpx.Response]:
    # its own client: the address was verified for this host name only, so the connection must not be shared
    async with httpx.AsyncClient(
        verify=await tls_context(config.verify, trust_env=config.trust_env),
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=config.connect_timeout),
    ) as client:
        headers = {
            "host": where.netloc.decode("ascii"),
            "accept": accept,
            # a compressed body can expand a thousandfold
            "accept-encoding": "identity",
            "user-agent": user_agent(),
        }
        # the certificate is checked against the host name
        extensions = {"sni_hostname": where.raw_host.decode("ascii")}
        url = where.copy_with(host=address)
        async with client.stream("GET", url, headers=headers, extensions=extensions) as response:
            yield response


async def _body(response: httpx.Response, shown: str, limit: int) -> bytes:
    if response.is_redirect:
        raise ProtocolError(f"The address that the server named ({shown}) redirects elsewhere, which is not followed.")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ProtocolError(
            f"The file at the address that the server named ({shown}) is compressed, against the request."
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
        raise ProtocolError(f"The file at the address that the server named ({shown}) has more than {limit:,} bytes.")
    return bytes(data)


async def get_loopback(port: int, path: str) -> object:
    """The JSON answer of a server on this machine to a GET, without key, cookie or proxy.

    None for an error status, for a body that is not JSON, or of more than `MAX_LOOPBACK_BYTES`. There is no deadline.
    """
    if not path.startswith("/"):
        raise ConfigurationError(f"A path must begin with '/', not be {path!r}.")
    try:
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None) as client,  # noqa: S113
            client.stream(
                "GET",
                f"http://{LOOPBACK}:{port}{path}",
                # a compressed body can expand a thousandfold
                headers={"accept-encoding": "identity", "user-agent": user_agent()},
            ) as response,
        ):
            if not response.is_success or response.headers.get("content-encoding", "identity") != "identity":
                return None
            data = bytearray()
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) > MAX_LOOPBACK_BYTES:
                    return None
            return load_json(data.decode("utf-8"))
    except (httpx.HTTPError, ValueError):
        return None
