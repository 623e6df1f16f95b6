"""Where requests go: a base URL, or a project, and a model -> the URL and headers of generateContent.

| given                         | requests go to                                                                   |
|-------------------------------|----------------------------------------------------------------------------------|
| nothing                       | generativelanguage.googleapis.com/v1beta/models/M:streamGenerateContent?alt=sse  |
| `base_url`                    | the same below that address; the version is appended if the address ends in none |
| `project`, perhaps `location` | LOCATION-aiplatform.googleapis.com/v1beta1/projects/P/locations/L/publishers/... |
"""

from __future__ import annotations

import os
import re

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.wire.base_url import base_parts, is_host, secret
from agentscope_rx.models.wire.endpoint import Endpoint

GEMINI_BASE_URL = "https://generativelanguage.googleapis.com"
_VERSION = re.compile(r"/v\d+[a-z0-9]*$")
_UNSAFE = re.compile(r"\.\.|[?&#\s]")


def endpoint_of(
    model: str, base_url: str | None, api_key: str | None, project: str | None, location: str | None
) -> Endpoint:
    """The endpoint of a model, without the method. The key comes from GEMINI_API_KEY or GOOGLE_API_KEY when not given.

    With `project` it is Vertex AI's, whose requests are signed with a token.
    """
    if _UNSAFE.search(model):
        raise ConfigurationError(f"{model!r} is not the name of a Gemini model.")
    vertex = project is not None
    if location is not None and not vertex:
        raise ConfigurationError("location= is for Vertex AI: pass project=..., too.")
    if vertex:
        where = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
        default = f"https://{'' if where == 'global' else where + '-'}aiplatform.googleapis.com"
        scope = f"/projects/{project}/locations/{where}"
        path, version = f"{scope}/{_publisher_path(model)}", "/v1beta1"
    else:
        default, version = GEMINI_BASE_URL, "/v1beta"
        path = f"/{model}" if model.startswith(("models/", "tunedModels/")) else f"/models/{model}"
    parts = base_parts(base_url or (not vertex and os.environ.get("GOOGLE_GEMINI_BASE_URL")) or default, default)
    key = None if vertex and api_key is None else secret(api_key, "GEMINI_API_KEY", "GOOGLE_API_KEY")
    if is_host(parts, "googleapis.com") and not vertex and not key:
        raise ConfigurationError(
            "No API key for Gemini. Pass api_key=..., or set the environment variable GEMINI_API_KEY. "
            "(Vertex AI takes project=... and token=...; another server, base_url=..., may need no key.)"
        )
    base = parts.path if _VERSION.search(parts.path) else parts.path + version
    return Endpoint(parts._replace(path=base + path), key, {"x-goog-api-key": key} if key else {})


def _publisher_path(model: str) -> str:
    if model.startswith(("publishers/", "models/", "projects/")):
        return model
    publisher, slash, name = model.partition("/")
    return f"publishers/{publisher}/models/{name}" if slash else f"publishers/google/models/{model}"
