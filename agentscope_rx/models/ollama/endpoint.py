"""Where requests go: a host as OLLAMA_HOST gives it -> the URL and headers of `/api/chat`."""

from __future__ import annotations

import os

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.wire.base_url import base_parts, is_host, secret
from agentscope_rx.models.wire.endpoint import Endpoint, bearer

OLLAMA_URL = "http://127.0.0.1:11434"
_PATH = "/api/chat"
_PORTS = {"http": 80, "https": 443}


def endpoint_of(base_url: str | None, api_key: str | None) -> Endpoint:
    """`/api/chat` of the server that the official client finds by this base URL.

    | base_url                  | server                             |
    |---------------------------|------------------------------------|
    | nothing                   | `http://127.0.0.1:11434`           |
    | `1.2.3.4`, `box`          | `http://1.2.3.4:11434`, ...        |
    | `:5000`                   | `http://127.0.0.1:5000`            |
    | `http://box`              | `http://box:80`                    |
    | `https://ollama.com`      | `https://ollama.com:443`           |
    | `box:5000/path/`          | `http://box:5000/path`             |
    | `box/api`, `.../api/chat` | `http://box:11434`: they are added |

    Values that are not given come from OLLAMA_HOST and OLLAMA_API_KEY; only ollama.com needs a key.
    """
    given = (base_url or os.environ.get("OLLAMA_HOST") or OLLAMA_URL).strip()
    scheme, _, rest = given.rpartition("://")
    if rest.startswith((":", "/")):
        rest = f"127.0.0.1{rest}"
    parts = base_parts(f"{scheme or 'http'}://{rest}", OLLAMA_URL)
    port = parts.port or (_PORTS[parts.scheme] if scheme else 11434)
    account, at, _ = parts.netloc.rpartition("@")
    host = parts.hostname or ""
    netloc = f"{account}{at}[{host}]:{port}" if ":" in host else f"{account}{at}{host}:{port}"
    path = parts.path.removesuffix("/chat").removesuffix("/api")
    key = secret(api_key, "OLLAMA_API_KEY")
    if key is None and is_host(parts, "ollama.com"):
        raise ConfigurationError(
            "No API key for ollama.com. Pass api_key=..., or set the environment variable OLLAMA_API_KEY. "
            "(Your own server needs none.)"
        )
    return Endpoint(parts._replace(netloc=netloc, path=path + _PATH), key, bearer(key))
