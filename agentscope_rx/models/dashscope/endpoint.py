"""Where requests go: base URL and key -> the server; model name and content -> one of its two endpoints."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final, Literal

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.wire.base_url import base_parts, is_host, secret, shown_url
from agentscope_rx.models.wire.endpoint import Endpoint, bearer

DASHSCOPE_URL: Final = "https://dashscope.aliyuncs.com/api/v1"
"""Beijing: the default."""
DASHSCOPE_INTL_URL: Final = "https://dashscope-intl.aliyuncs.com/api/v1"
"""Singapore; its keys are its own."""

Kind = Literal["text", "multimodal"]
EndpointChoice = Literal["auto", "text", "multimodal"]

PATHS: Mapping[Kind, str] = {
    "text": "/services/aigc/text-generation/generation",
    "multimodal": "/services/aigc/multimodal-generation/generation",
}
_MEDIA_MODEL = re.compile(r"-vl\b|^qvq|-omni\b|-ocr\b|-asr\b|-audio\b|kimi-k2\.[56]|^qwen2(\.5)?-vl")
_VERSION = re.compile(r"^qwen(\d+)(?:\.(\d+))?(-max)?")


def kind_of(model: str, *, media: bool) -> Kind:
    """The endpoint of `endpoint="auto"`.

    | the messages or the model                                        | endpoint   |
    |------------------------------------------------------------------|------------|
    | image, audio or video anywhere in the messages                   | multimodal |
    | -vl, -omni, -ocr, -asr or -audio in its name; qvq; kimi-k2.5, .6 | multimodal |
    | qwen of version 3.5 or later, but not the -max of 3.5 to 3.7     | multimodal |
    | anything else                                                    | text       |

    A model takes one of the two only; the other answers "url error, please check url". Names are no sure sign: for a
    model that the table gets wrong, give `endpoint` yourself.
    """
    name = model.lower().rpartition("/")[2]
    if media or _MEDIA_MODEL.search(name):
        return "multimodal"
    found = _VERSION.match(name)
    if found is None:
        return "text"
    version = (int(found[1]), int(found[2] or 0))
    text_only = version < (3, 5) or (found[3] is not None and version < (3, 8))
    return "text" if text_only else "multimodal"


def endpoint_of(base_url: str | None, api_key: str | None, workspace: str | None) -> Endpoint:
    """The server under a base URL; its address ends before the path of a service, which is in `PATHS`.

    | base_url                           | requests go to                                     |
    |------------------------------------|----------------------------------------------------|
    | `https://host/api/v1`              | `https://host/api/v1/services/aigc/...`            |
    | `https://host`                     | `https://host/api/v1/services/aigc/...`            |
    | `https://host/x/services/aigc/...` | `https://host/x/services/aigc/...`                 |
    | `https://{workspace_id}.region...` | the host of the workspace                          |
    | `https://host/compatible-mode/v1`  | `ConfigurationError`: that speaks Chat Completions |

    Values that are not given come from DASHSCOPE_BASE_URL or the older DASHSCOPE_HTTP_BASE_URL, DASHSCOPE_API_KEY, and
    DASHSCOPE_WORKSPACE or the older DASHSCOPE_WORKSPACE_ID; an empty key sends none.
    """
    base = base_url or _environment("DASHSCOPE_BASE_URL", "DASHSCOPE_HTTP_BASE_URL") or DASHSCOPE_URL
    workspace = workspace or _environment("DASHSCOPE_WORKSPACE", "DASHSCOPE_WORKSPACE_ID")
    if "{workspace_id}" in base:
        if not workspace:
            raise ConfigurationError(
                f"base_url {shown_url(base)!r} needs the id of a workspace: pass workspace=..., or set "
                "DASHSCOPE_WORKSPACE."
            )
        base = base.replace("{workspace_id}", workspace)
    parts = base_parts(base, DASHSCOPE_URL)
    if "/compatible-mode/" in f"{parts.path}/":
        raise ConfigurationError(
            f"{shown_url(base)!r} speaks Chat Completions: use OpenAIChatModel(base_url=...) for it, or here the "
            f"base URL of the native API, such as {DASHSCOPE_URL!r}."
        )
    key = secret(api_key, "DASHSCOPE_API_KEY")
    if key is None and is_host(parts, "aliyuncs.com"):
        raise ConfigurationError(
            "No API key for DashScope. Pass api_key=..., or set the environment variable DASHSCOPE_API_KEY."
        )
    path = f"{parts.path}/".partition("/services/")[0].rstrip("/") or "/api/v1"
    headers = bearer(key)
    if workspace:
        headers["x-dashscope-workspace"] = workspace
    return Endpoint(parts._replace(path=path), key, headers)


def request_headers(*, stream: bool, uploads: bool) -> dict[str, str]:
    """The headers of one request. `uploads`: its content has `oss://` addresses, which the server is to look up."""
    headers = {"x-dashscope-sse": "enable", "x-accel-buffering": "no"} if stream else {}
    if uploads:
        headers["x-dashscope-ossresourceresolve"] = "enable"
    return headers


def _environment(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)
