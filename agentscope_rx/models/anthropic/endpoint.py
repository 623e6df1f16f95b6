"""Where requests go: base URL, key and betas -> the endpoint of Messages."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.wire.base_url import base_parts, is_host, secret
from agentscope_rx.models.wire.endpoint import Endpoint, bearer

ANTHROPIC_DOMAIN = "anthropic.com"
ANTHROPIC_BASE_URL = f"https://api.{ANTHROPIC_DOMAIN}"
_PATH = "/messages"


def endpoint_of(
    base_url: str | None, api_key: str | None, auth_token: str | None, betas: Sequence[str] = ()
) -> Endpoint:
    """The endpoint under a base URL: `/v1/messages` of it, unless the base URL has the version or all of that already.

    Values that are not given come from ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, or else ANTHROPIC_AUTH_TOKEN. The key is
    sent as `x-api-key`, the token as a bearer. Only Anthropic itself needs one of them.
    """
    if api_key and auth_token:
        raise ConfigurationError("Give api_key or auth_token, not both: a request has one identity.")
    parts = base_parts(base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_BASE_URL, ANTHROPIC_BASE_URL)
    path = parts.path.removesuffix(_PATH)
    path = path if path.endswith("/v1") else f"{path}/v1"
    key = None if auth_token else secret(api_key, "ANTHROPIC_API_KEY")
    token = secret(auth_token, *(() if key or api_key is not None else ("ANTHROPIC_AUTH_TOKEN",)))
    if is_host(parts, ANTHROPIC_DOMAIN) and not (key or token):
        raise ConfigurationError(
            "No API key for Anthropic. Pass api_key=..., or set the environment variable ANTHROPIC_API_KEY. "
            "(For another server pass base_url=... or set ANTHROPIC_BASE_URL; then no key is needed.)"
        )
    headers = {"x-api-key": key} if key else bearer(token)
    if betas:
        headers["anthropic-beta"] = ",".join(betas)
    return Endpoint(parts._replace(path=path + _PATH), key, headers)
