"""Where requests go: base URL, key, profile -> the endpoint, and the profile of the server there."""

from __future__ import annotations

import os
from urllib.parse import SplitResult, parse_qsl, quote

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.profiles import OPENAI, profile_named, profile_of
from agentscope_rx.models.wire.base_url import base_parts, is_host, secret
from agentscope_rx.models.wire.endpoint import Endpoint, bearer

CHAT = "/chat/completions"
RESPONSES = "/responses"
_EXAMPLE = "https://api.openai.com/v1"


def endpoint_of(
    base_url: str | None,
    api_key: str | None,
    *,
    profile: Profile | str | None = None,
    model: str = "",
    path: str = CHAT,
) -> tuple[Endpoint, Profile]:
    """The endpoint under a base URL: the path is appended and nothing else; and the profile of the server there.

    | base_url                              | requests go to                                          |
    |---------------------------------------|---------------------------------------------------------|
    | `https://host/v1`, `https://host/v1/` | `https://host/v1/chat/completions`                      |
    | `https://host/api/paas/v4`            | `https://host/api/paas/v4/chat/completions`             |
    | `https://host`                        | `https://host/chat/completions`: no version is invented |
    | `https://host/x?api-version=1`        | `https://host/x/chat/completions?api-version=1`         |
    | `https://host/v1/chat/completions`    | itself                                                  |

    A profile that is not given is guessed from the host. Anything else that is not given comes from the profile and its
    environment variable. With OpenAI, with unknown servers, and where OPENAI_BASE_URL names the server, it comes from
    OPENAI_BASE_URL and OPENAI_API_KEY; so a key of OpenAI is not sent to another known vendor. Azure: see `azure`.
    """
    known = profile_named(profile) if isinstance(profile, str) else profile
    named = os.environ.get("OPENAI_BASE_URL") if known is None or known.name in ("openai", "generic") else None
    parts = base_parts(base_url or named or _default_base(known or OPENAI), _EXAMPLE)
    known = known or profile_of(parts.hostname or "")
    variables = [known.key] if known.key else []
    if not base_url and named:
        variables.append("OPENAI_API_KEY")
    key = secret(api_key, *variables)
    if known.needs_key and not key and not (api_key is not None and known.auth == "api-key"):
        raise ConfigurationError(
            f"No API key for {known.title}. Pass api_key=..., or set the environment variable {known.key}. "
            "(For another server pass base_url=... or set OPENAI_BASE_URL; then no key is needed.)"
        )
    if known.name == "deepseek" and parts.path.startswith("/beta"):
        known = known.but(strict=True)
    if known.name == "azure":
        parts = azure(parts, model if path == CHAT else None)
    headers = {"api-key": key} if key and known.auth == "api-key" else bearer(key)
    return Endpoint(parts._replace(path=parts.path.removesuffix(path) + path), key, headers), known


def service_endpoint(base_url: str | None, api_key: str | None, path: str) -> Endpoint:
    """The endpoint of another service of OpenAI's protocol, such as embeddings; only OpenAI itself needs a key."""
    parts = base_parts(base_url or os.environ.get("OPENAI_BASE_URL") or _EXAMPLE, _EXAMPLE)
    key = secret(api_key, "OPENAI_API_KEY")
    if key is None and is_host(parts, "api.openai.com"):
        raise ConfigurationError(
            "No API key for OpenAI. Pass api_key=..., or set the environment variable OPENAI_API_KEY."
        )
    return Endpoint(parts._replace(path=parts.path.removesuffix(path) + path), key, bearer(key))


def _default_base(profile: Profile) -> str:
    base = profile.base_url
    if profile.auth == "api-key":
        base = base or os.environ.get("AZURE_OPENAI_ENDPOINT")
    if not base:
        raise ConfigurationError(f"The profile {profile.name!r} has no default address: pass base_url=...")
    return base


def azure(parts: SplitResult, deployment: str | None) -> SplitResult:
    """The base of a deployment at Azure; the version is in the query of base_url, or in OPENAI_API_VERSION.

    | base_url                        | version   | base                               |
    |---------------------------------|-----------|------------------------------------|
    | `https://name.openai.azure.com` | given     | `/openai/deployments/{deployment}` |
    | `https://name.openai.azure.com` | not given | `/openai/v1`, which needs none     |
    | with a path of its own          |           | itself                             |
    """
    versions = [value for name, value in parse_qsl(parts.query) if name == "api-version"]
    version = versions[0] if versions else os.environ.get("OPENAI_API_VERSION")
    if parts.path.removesuffix("/openai"):
        if "/deployments/" in parts.path and version and not versions:
            return parts._replace(query=f"api-version={quote(version)}")
        return parts
    if version is None:
        return parts._replace(path="/openai/v1")
    query = parts.query if versions else f"api-version={quote(version)}"
    # the Responses API finds the deployment by the model's name
    path = "/openai" if deployment is None else f"/openai/deployments/{quote(deployment, safe='')}"
    return parts._replace(path=path, query=query)
