"""`HttpConfig`: connection settings, and the limits on the size of an answer."""

from __future__ import annotations

import ssl
from dataclasses import fields
from urllib.parse import urlsplit

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.wire.base_url import without_userinfo

MIB = 1024 * 1024

_PROXIES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Connection settings and limits. The defaults are httpx's: proxies from the environment, certificates verified.

    `proxy` is a URL; `trust_env=False` ignores proxies of the environment. `verify=False` disables certificate
    verification, an `SSLContext` replaces it. `connect_timeout` is in seconds. At most `max_keepalive` idle connections
    stay open, for `keepalive_seconds`. Configurations with
    the same connection settings share connections. Certificates are loaded once per process; `SSL_CERT_FILE` and
    `SSL_CERT_DIR` select others. Cookies are not kept. A header that cannot be sent is a `ConfigurationError` that
    names it. Redirects are followed within the origin, at most five times, with the method kept; any other is a
    `RedirectError`, and nothing is sent there. Keys, tokens and passwords that a server echoes appear as `***` in
    errors.

    The limits are bytes after decompression; an answer beyond one fails with `AnswerTooLargeError`:

    | limit              | bounds                                                        |
    |--------------------|---------------------------------------------------------------|
    | `max_event_bytes`  | a line, an event, a JSON document (which may hold a picture)  |
    | `max_answer_bytes` | a whole answer: a stream from beginning to end, an audio file |
    | `max_error_bytes`  | the body of an error status; the rest is not read (no error)  |
    """

    proxy: str | None = None
    verify: bool | ssl.SSLContext = True
    trust_env: bool = True
    connect_timeout: float = 30.0
    max_keepalive: int = 5
    keepalive_seconds: float = 30.0
    max_event_bytes: int = 64 * MIB
    max_answer_bytes: int = 256 * MIB
    max_error_bytes: int = MIB

    def __post_init__(self) -> None:
        if self.proxy is not None:
            _check_proxy(self.proxy)
        if not isinstance(self.verify, (bool, ssl.SSLContext)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"verify must be True, False or an ssl.SSLContext, not {self.verify!r:.60}. "
                "For certificates of your own: ssl.create_default_context(cafile=...)."
            )
        for name in ("max_event_bytes", "max_answer_bytes", "max_error_bytes"):
            value: object = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigurationError(f"{name} must be a whole number of bytes, at least 1, not {value!r:.60}.")
        for name in ("connect_timeout", "keepalive_seconds"):
            seconds: object = getattr(self, name)
            if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds > 0:
                raise ConfigurationError(f"{name} must be more than 0 seconds, not {seconds!r:.60}.")

    @property
    def connection(self) -> tuple[object, ...]:
        """The settings that two configurations must share to share connections: all but the limits."""
        return (
            self.proxy,
            self.verify,
            self.trust_env,
            self.connect_timeout,
            self.max_keepalive,
            self.keepalive_seconds,
        )

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        if self.proxy is not None:
            given["proxy"] = without_userinfo(self.proxy)
        return f"HttpConfig({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def _check_proxy(proxy: object) -> None:
    if isinstance(proxy, str):
        try:
            parts = urlsplit(proxy)
            if parts.scheme in _PROXIES and parts.hostname and (parts.port is None or parts.port > 0):
                return
        except ValueError:
            pass
    # (without the URL: it may hold a password in a part that cannot be parsed)
    raise ConfigurationError(
        "proxy must be a URL with a host and one of the schemes "
        f"{', '.join(_PROXIES)}, such as 'http://user:password@proxy.example:8080'; special characters in the "
        "password are percent-encoded."
    )
