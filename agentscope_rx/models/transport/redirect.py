"""Where an answer with a 3xx status leads: to another path of the same origin, or nowhere.

A request carries a key and a conversation. Both were meant for the origin (scheme, host and port) of `base_url`, so a
redirect to another one is an error, that to https as well: what it repeats was sent in clear already. A POST keeps its
method: 301, 302 and 303 would make a GET of it, which asks nothing.
"""

from __future__ import annotations

import httpx

from agentscope_rx.errors import RedirectError

MAX_REDIRECTS = 5

_KEEPS_METHOD = frozenset((307, 308))
_PORTS = {"http": 80, "https": 443}


def redirected(method: str, url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """The address that the answer to a request leads to; `RedirectError` if the request must not follow."""
    status = response.status_code
    try:
        target = url.join(response.headers["location"])
    except (httpx.InvalidURL, ValueError) as error:
        raise RedirectError(
            f"HTTP {status}: {origin(url)} redirects to an address that cannot be read; check base_url.", status=status
        ) from error
    if origin(target) != origin(url):
        raise RedirectError(
            f"HTTP {status}: {origin(url)} redirects to {origin(target)}. Requests with a key and a conversation do "
            "not follow to another origin; if that is the server's new address, set base_url to it.",
            status=status,
            target=origin(target),
        )
    if method != "GET" and status not in _KEEPS_METHOD:
        raise RedirectError(
            f"HTTP {status}: {origin(url)} redirects to the path {target.path[:200]!r}, which makes a GET of a POST. "
            "Set base_url to the address that it leads to.",
            status=status,
            target=origin(target),
        )
    # the name and password in the URL are the caller's, never the answer's
    return target.copy_with(userinfo=url.userinfo)


def too_many(url: httpx.URL, status: int) -> RedirectError:
    """The error for redirects that do not end."""
    return RedirectError(
        f"HTTP {status}: {origin(url)} redirects more than {MAX_REDIRECTS} times; check base_url.",
        status=status,
        target=origin(url),
    )


def origin(url: httpx.URL) -> str:
    """Scheme, host and port; the port only where it is not the scheme's own."""
    host = url.raw_host.decode("ascii", "replace").lower()
    host = f"[{host}]" if ":" in host else host
    port = url.port if url.port != _PORTS.get(url.scheme) else None
    return f"{url.scheme}://{host[:260]}" + (f":{port}" if port is not None else "")
