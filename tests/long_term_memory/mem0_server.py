"""A server that speaks mem0's protocols on loopback, and keeps the memories of each key apart."""

from __future__ import annotations

from itertools import count
from typing import Any

from tests.support.json_server import JsonServer

SCOPES = ("user_id", "agent_id", "run_id")
RECORDS = ("/v3/memories/add/", "/v1/memories/", "/memories")
SEARCHES = ("/v3/memories/search/", "/v2/memories/search/", "/search")


class Mem0Server:
    """Finds memories by the words of the query. Strict about its requests, as mem0 is."""

    def __init__(self) -> None:
        self.kept: dict[str, list[dict[str, Any]]] = {}
        self.ids = count(1)
        self.http = JsonServer(self.answer)

    def key(self) -> str:
        """The key of the request in progress."""
        headers = self.http.asked[-1].headers
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Token ")

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        own = self.kept.setdefault(self.key(), [])
        if not self.key():
            return 401, {"detail": "Invalid API key"}
        if path in RECORDS:
            return self.record(path, body, own)
        if path in SEARCHES:
            return self.search(path, body, own)
        return 404, {"detail": f"no such path {path}"}

    def record(self, path: str, body: dict[str, Any], own: list[dict[str, Any]]) -> Any:
        ids = body.get("filters") if path.startswith("/v3") else {k: body[k] for k in SCOPES if k in body}
        if not ids or not all(set(each) == {"role", "content"} for each in body["messages"]):
            return 400, {"error": "At least one of user_id, agent_id, app_id or run_id is required."}
        for message in body["messages"]:
            assert message["role"] in ("user", "assistant")
            made = {"id": f"m{next(self.ids)}", "memory": message["content"], "metadata": body.get("metadata"), **ids}
            own.append(made | {"created_at": "2026-01-02T03:04:05.678-08:00", "updated_at": "2026-01-03T03:04:05Z"})
        return {"results": [], "status": "PENDING", "event_id": "e1"}

    def search(self, path: str, body: dict[str, Any], own: list[dict[str, Any]]) -> Any:
        filters = body["filters"]
        if path.startswith("/v2"):
            (filters,) = filters["AND"]
        elif path.startswith("/v3") and any(name in body for name in SCOPES):
            return 400, {"error": "Top-level entity parameters are not supported"}
        if not filters or not body["query"].strip():
            return 400, {"error": "filters and query are required"}
        words = [word.strip("?.!").lower() for word in body["query"].split()]
        found = [
            each | {"score": sum(word in each["memory"].lower() for word in words) / len(words)}
            for each in own
            if all(each.get(name) == value for name, value in filters.items())
        ]
        hits = sorted((each for each in found if each["score"]), key=lambda each: -each["score"])
        return {"results": hits[: body["top_k"]]}
