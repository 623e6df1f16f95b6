"""Where requests go, and under whose name: base URL and key -> the URL and headers of a Messages endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.wire.base_url import base_parts, is_host, secret, url_with

ANTHROPIC_BASE_URL = "https://api.anthropic.com"
_PATH = "/messages"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server. `official` is Anthropic itself."""

    parts: SplitResult = field(repr=False)
    official: bool
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, auth_token: str | None) -> Endpoint:
        """The endpoint under a base URL: `/v1/messages` of it, whether or not it names the version or all of it.

        What is not given comes from ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, or else ANTHROPIC_AUTH_TOKEN. The key goes
        out as `x-api-key`, the token as a bearer; only Anthropic itself must have one.
        """
        if api_key and auth_token:
            raise ConfigurationError("Give api_key or auth_token, not both: a request is made under one name.")
        base = base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_BASE_URL
        parts = base_parts(base, ANTHROPIC_BASE_URL)
        path = parts.path.removesuffix(_PATH)
        path = path if path.endswith("/v1") else f"{path}/v1"
        key = None if auth_token else secret(api_key, "ANTHROPIC_API_KEY")
        token = secret(auth_token, *(() if key or api_key is not None else ("ANTHROPIC_AUTH_TOKEN",)))
        official = is_host(parts, "anthropic.com")
        if official and not (key or token):
            raise ConfigurationError(
                "No API key for Anthropic. Pass api_key=..., or set the environment variable ANTHROPIC_API_KEY. "
                "(For another server pass base_url=... or set ANTHROPIC_BASE_URL; then no key is needed.)"
            )
        return cls(parts._replace(path=path + _PATH), official, key, token)

    def url_with(self, query: Mapping[str, str]) -> str:
        """The URL with these query parameters in place of its own of the same names."""
        return url_with(self.parts, self.parts.path, query)

    def headers_with(self, version: str, betas: Sequence[str], headers: Mapping[str, str]) -> dict[str, str]:
        """The key, the version and the betas, and these headers over them."""
        own = {"anthropic-version": version}
        if self.api_key:
            own["x-api-key"] = self.api_key
        if self.auth_token:
            own["authorization"] = f"Bearer {self.auth_token}"
        if betas:
            own["anthropic-beta"] = ",".join(betas)
        return own | {name.lower(): value for name, value in headers.items()}
