"""The pooled HTTP client: follows no redirect by itself, keeps no cookie, has no deadline but that of connecting."""

from __future__ import annotations

import ssl
from http.cookiejar import DefaultCookiePolicy

import httpx

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.redirect import redirected


def new_client(config: HttpConfig, context: ssl.SSLContext, proxy: httpx.Proxy | None) -> httpx.AsyncClient:
    """A client; `ConfigurationError` if a proxy, given or from the environment, cannot be used."""
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
        # (not the error's own words: there may be a password in them)
        raise ConfigurationError(
            f"The proxy cannot be used ({type(error).__name__}): check HttpConfig(proxy=...), or HTTP_PROXY, "
            "HTTPS_PROXY, ALL_PROXY and NO_PROXY in the environment. Proxies of the scheme socks5 need the package "
            "socksio."
        ) from None
    # requests of several keys share the client, and an answer could fill the memory with cookies
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


async def _check_redirect(response: httpx.Response) -> None:
    # here, because httpx goes on to read the address also where it does not follow, and would raise its own errors
    if response.has_redirect_location:
        target = redirected(response.request.method, response.request.url, response)
        response.headers["location"] = str(target)


async def close_client(client: httpx.AsyncClient) -> None:
    """Close its connections."""
    await client.aclose()
