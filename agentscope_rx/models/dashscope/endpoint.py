"""Where requests go, and by which of the two endpoints: base URL, key, model name and content -> URL and headers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import SplitResult

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.wire.base_url import base_parts, is_host, secret, shown_url, url_with

DASHSCOPE_URL: Final = "https://dashscope.aliyuncs.com/api/v1"
"""Beijing: the default."""
DASHSCOPE_INTL_URL: Final = "https://dashscope-intl.aliyuncs.com/api/v1"
"""Singapore; its keys are its own."""

Kind = Literal["text", "multimodal"]
EndpointChoice = Literal["auto", "text", "multimodal"]

_PATHS: Mapping[Kind, str] = {
    "text": "/services/aigc/text-generation/generation",
    "multimodal": "/services/aigc/multimodal-generation/generation",
}
_MEDIA_MODEL = re.compile(r"-vl\b|^qvq|-omni\b|-ocr\b|-asr\b|-audio\b|kimi-k2\.[56]|^qwen2(\.5)?-vl")
_VERSION = re.compile(r"^qwen(\d+)(?:\.(\d+))?(-max)?")


def kind_of(model: str, *, media: bool) -> Kind:
    """The endpoint of `endpoint="auto"`.

    | the messages or the model                                        | endpoint                |
    |------------------------------------------------------------------|-------------------------|
    | image, audio or video anywhere in the messages                   | multimodal              |
    | -vl, -omni, -ocr, -asr or -audio in its name; qvq; kimi-k2.5, .6 | multimodal              |
    | qwen of version 3.5 or later, but not the -max of 3.5 to 3.7     | multimodal              |
    | anything else                                                    | text                    |

    Models take one of the two only ("url error, please check url" is what the wrong one says), and names say less
    than one would wish: for a model that the table gets wrong, give `endpoint` yourself.
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


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A DashScope server; the path of `base` ends before that of a service."""

    base: SplitResult = field(repr=False)
    api_key: str | None = field(default=None, repr=False)
    workspace: str | None = None

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, workspace: str | None) -> Endpoint:
        """The server under a base URL.

        | base_url                                | requests go to                                     |
        |-----------------------------------------|----------------------------------------------------|
        | `https://host/api/v1`                   | `https://host/api/v1/services/aigc/...`            |
        | `https://host`                          | `https://host/api/v1/services/aigc/...`            |
        | `https://host/x/services/aigc/...`      | `https://host/x/services/aigc/...`                 |
        | `https://{workspace_id}.region...`      | the host of the workspace                          |
        | `https://host/compatible-mode/v1`       | `ConfigurationError`: that speaks Chat Completions |

        What is not given comes from DASHSCOPE_BASE_URL or the older DASHSCOPE_HTTP_BASE_URL, DASHSCOPE_API_KEY, and
        DASHSCOPE_WORKSPACE or the older DASHSCOPE_WORKSPACE_ID; an empty key sends none.
        """
        base = base_url or _environment("DASHSCOPE_BASE_URL", "DASHSCOPE_HTTP_BASE_URL") or DASHSCOPE_URL
        workspace = workspace or _environment("DASHSCOPE_WORKSPACE", "DASHSCOPE_WORKSPACE_ID")
        if "{workspace_id}" in base:
            if not workspace:
                raise ConfigurationError(
                    f"base_url {shown_url(base)!r} wants the id of a workspace: pass workspace=..., or set "
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
        return cls(parts._replace(path=path), key, workspace)

    def url(self, kind: Kind, query: Mapping[str, str]) -> str:
        """Where a request of this kind goes, with these query parameters over those of the base URL."""
        return url_with(self.base, f"{self.base.path}{_PATHS[kind]}", query)

    def headers(self, given: Mapping[str, str], *, stream: bool, uploads: bool) -> dict[str, str]:
        """The headers, these over all others. `uploads`: the content has `oss://` addresses, to be looked up there."""
        headers: dict[str, str] = {}
        if self.api_key:
            headers["authorization"] = f"Bearer {self.api_key}"
        if self.workspace:
            headers["x-dashscope-workspace"] = self.workspace
        if stream:
            headers |= {"x-dashscope-sse": "enable", "x-accel-buffering": "no"}
        if uploads:
            headers["x-dashscope-ossresourceresolve"] = "enable"
        return headers | {name.lower(): value for name, value in given.items()}


def _environment(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)
