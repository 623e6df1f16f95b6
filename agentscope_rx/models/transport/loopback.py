"""`asked_here`: what a server on this machine says to a GET. Only the path is sent: no key, no cookie, by no proxy."""

from __future__ import annotations

import httpx

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.transport.http import user_agent
from agentscope_rx.models.wire.json_size import load_json

MAX_ANSWER_BYTES = 4 * 1024 * 1024
LOOPBACK = "127.0.0.1"


async def asked_here(port: int, path: str) -> object:
    """The JSON of the answer; None if there is none, no success, or too much of it. There is no deadline."""
    if not path.startswith("/"):
        raise ConfigurationError(f"A path begins with '/', unlike {path!r}.")
    try:
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None) as client,  # noqa: S113
            client.stream(
                "GET",
                f"http://{LOOPBACK}:{port}{path}",
                # what is unpacked can be a thousand times what was sent
                headers={"accept-encoding": "identity", "user-agent": user_agent()},
            ) as response,
        ):
            if not response.is_success or response.headers.get("content-encoding", "identity") != "identity":
                return None
            data = bytearray()
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) > MAX_ANSWER_BYTES:
                    return None
            return load_json(data.decode("utf-8"))
    except (httpx.HTTPError, ValueError):
        return None
