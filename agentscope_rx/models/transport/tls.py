"""`tls_context`: the certificates are loaded once, and never on an event loop.

Loading them takes 10 to 50 ms. All clients of a process share the contexts: one for each kind of checking, and for each
place where the environment says that the certificates are.
"""

from __future__ import annotations

import os
import ssl

import httpx

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import ENGINE_WORKERS, on_worker
from agentscope_rx.reactive.kernel.forking import new_lock

_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

_contexts: dict[tuple[object, ...], ssl.SSLContext] = {}
_lock = new_lock()


async def tls_context(verify: bool | ssl.SSLContext, *, trust_env: bool) -> ssl.SSLContext:
    """The context for this checking, the same each time; `ConfigurationError` if the certificates cannot be read."""
    if isinstance(verify, ssl.SSLContext):
        return verify
    places = tuple(os.environ.get(name) for name in _PLACES) if verify and trust_env else ()
    key = (verify, *places)
    context = _contexts.get(key)
    return context if context is not None else await on_worker(lambda: _made(key, verify, trust_env), ENGINE_WORKERS)


def _made(key: tuple[object, ...], verify: bool, trust_env: bool) -> ssl.SSLContext:
    # under the lock: who comes second waits for the first, on a thread of its own, and finds what that has made
    with _lock:
        if key not in _contexts:
            try:
                _contexts[key] = httpx.create_ssl_context(verify=verify, trust_env=trust_env)
            except OSError as error:
                raise ConfigurationError(
                    f"The certificates cannot be loaded: {error}. Where they are say {' and '.join(_PLACES)}."
                ) from error
        return _contexts[key]
