"""The pooled HTTP client: its TLS context, its limits, and the redirects that a request may follow.

A request carries a key and a conversation. Both are meant for the origin (scheme, host and port) of `base_url`, so a
redirect to another origin is an error. That includes a redirect to https: the request was sent in clear text already.
A POST keeps its method: 301, 302 and 303 would make a GET of it, without the question.

Loading certificates takes 10 to 50 ms. It happens on a worker thread, once for each kind of verification and location
of certificates in the environment, and all clients of a process share the contexts.
"""

from __future__ import annotations

import os
import ssl
from http.cookiejar import DefaultCookiePolicy

import httpx

from agentscope_rx.errors import ConfigurationError, RedirectError
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.reactive import ENGINE_WORKERS, on_worker
from agentscope_rx.reactive.kernel.forking import new_lock

MAX_REDIRECTS = 5

_KEEPS_METHOD = frozenset((307, 308))
_PORTS = {"http": 80, "https": 443}
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

_contexts: dict[tuple[object, ...], ssl.SSLContext] = {}
_lock = new_lock()


def new_client(config: HttpConfig, context: ssl.SSLContext, proxy: httpx.Proxy | None) -> httpx.AsyncClient:
    """A client that follows no redirect by itself, keeps no cookie, and has no deadline but that of connecting.

    `ConfigurationError` if a proxy, given or from the environment, cannot be used.
    """
    try:
        client = httpx.AsyncClient(
            proxy=proxy,
            verify=context,
            trust_env=config.trust_env,
            follow_redirects=False,
            event_hooks={"response": [_check_redirect]},
            timeout=httpx.Timeout(None, connect=config.connect_timeout),
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=config.max_keepalive,
                keepalive_expiry=config.keepalive_seconds,
            ),
        )
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        # (without the error's text, which may hold a password)
        raise ConfigurationError(
            f"The proxy cannot be used ({type(error).__name__}): check HttpConfig(proxy=...), or HTTP_PROXY, "
            "HTTPS_PROXY, ALL_PROXY and NO_PROXY in the environment. Proxies of the scheme socks5 need the package "
            "socksio."
        ) from None
    # requests with different keys share the client, and an answer could fill the memory with cookies
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


async def _check_redirect(response: httpx.Response) -> None:
    # a hook, because httpx parses the address even if it does not follow it, and would raise its own errors
    if response.has_redirect_location:
        target = redirected(response.request.method, response.request.url, response)
        response.headers["location"] = str(target)


async def close_client(client: httpx.AsyncClient) -> None:
    """Close its connections."""
    await client.aclose()


async def tls_context(verify: bool | ssl.SSLContext, *, trust_env: bool) -> ssl.SSLContext:
    """The shared context for this kind of verification; `ConfigurationError` if the certificates cannot be read."""
    if isinstance(verify, ssl.SSLContext):
        return verify
    locations = tuple(os.environ.get(name) for name in _CERTIFICATE_VARIABLES) if verify and trust_env else ()
    key = (verify, *locations)
    context = _contexts.get(key)
    return context if context is not None else await on_worker(lambda: _load(key, verify, trust_env), ENGINE_WORKERS)


def _load(key: tuple[object, ...], verify: bool, trust_env: bool) -> ssl.SSLContext:
    # under the lock: a second caller waits on its own worker thread for the first one's result
    with _lock:
        if key not in _contexts:
            try:
                _contexts[key] = httpx.create_ssl_context(verify=verify, trust_env=trust_env)
            except OSError as error:
                names = " and ".join(_CERTIFICATE_VARIABLES)
                raise ConfigurationError(
                    f"The certificates cannot be loaded: {error}. Their location is set by {names}."
                ) from error
        return _contexts[key]


def redirected(method: str, url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """The address that a response redirects to; `RedirectError` if the request must not follow."""
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
    # the user name and password of the URL are the caller's, never the response's
    return target.copy_with(userinfo=url.userinfo)


def too_many(url: httpx.URL, status: int) -> RedirectError:
    """The error for redirects that do not end."""
    return RedirectError(
        f"HTTP {status}: {origin(url)} redirects more than {MAX_REDIRECTS} times; check base_url.",
        status=status,
        target=origin(url),
    )


def origin(url: httpx.URL) -> str:
    """Scheme, host and port; the port only if it is not the scheme's default."""
    host = url.raw_host.decode("ascii", "replace").lower()
    host = f"[{host}]" if ":" in host else host
    port = url.port if url.port != _PORTS.get(url.scheme) else None
    return f"{url.scheme}://{host[:260]}" + (f":{port}" if port is not None else "")
