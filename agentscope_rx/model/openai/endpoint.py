"""Where requests go: base URL, key and query -> the URL and headers of a Chat Completions endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from agentscope_rx.errors import ConfigurationError

OPENAI_BASE_URL = "https://api.openai.com/v1"
_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server. `official` is OpenAI itself."""

    url: str
    official: bool
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None) -> Endpoint:
        """The endpoint under a base URL, `/chat/completions` appended and nothing else.

        | base_url                              | requests go to                                          |
        |---------------------------------------|---------------------------------------------------------|
        | `https://host/v1`, `https://host/v1/` | `https://host/v1/chat/completions`                      |
        | `https://host/api/paas/v4`            | `https://host/api/paas/v4/chat/completions`             |
        | `https://host`                        | `https://host/chat/completions`: no version is invented |
        | `https://host/x?api-version=1`        | `https://host/x/chat/completions?api-version=1`         |
        | `https://host/v1/chat/completions`    | itself                                                  |

        What is not given comes from OPENAI_BASE_URL and OPENAI_API_KEY; an empty key sends none.
        """
        base = (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_BASE_URL).strip()
        key = (os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key).strip()
        try:
            parts = urlsplit(base)
            host = parts.hostname
        except ValueError as error:
            raise ConfigurationError(f"base_url {base!r} is not a URL: {error}") from error
        if parts.scheme not in ("http", "https") or not host:
            raise ConfigurationError(f"base_url must be an http(s) URL such as {OPENAI_BASE_URL!r}, not {base!r}.")
        if key and not (key.isascii() and key.isprintable()):
            raise ConfigurationError("The API key has characters that a header cannot carry; was it copied whole?")
        official = host == "api.openai.com" or host.endswith(".api.openai.com")
        if official and not key:
            raise ConfigurationError(
                "No API key for OpenAI. Pass api_key=..., or set the environment variable OPENAI_API_KEY. "
                "(For another server pass base_url=... or set OPENAI_BASE_URL; then no key is needed.)"
            )
        path = parts.path.rstrip("/").removesuffix(_PATH)
        return cls(urlunsplit((parts.scheme, parts.netloc, path + _PATH, parts.query, "")), official, key or None)

    def url_with(self, query: Mapping[str, str]) -> str:
        """The URL with these query parameters in place of its own of the same names."""
        if not query:
            return self.url
        parts = urlsplit(self.url)
        kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query]
        return urlunsplit(parts._replace(query=urlencode([*kept, *query.items()])))

    def headers_with(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The authorization, and these headers over it."""
        given = {name.lower(): value for name, value in headers.items()}
        return {"authorization": f"Bearer {self.api_key}", **given} if self.api_key else given
