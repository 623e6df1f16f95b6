"""`Mem0LongTermMemory`: memories kept by mem0, on its platform or on a server of your own.

| `api`         | record                  | retrieve                       | key                        |
|---------------|-------------------------|--------------------------------|----------------------------|
| "v3"          | POST /v3/memories/add/  | POST /v3/memories/search/      | `Authorization: Token ...` |
| "v1"          | POST /v1/memories/      | POST /v2/memories/search/      | `Authorization: Token ...` |
| "self_hosted" | POST /memories          | POST /search                   | `X-API-Key: ...`           |

User, agent and session are mem0's `user_id`, `agent_id` and `run_id`. mem0 finds all memories of a user, also those of
other agents and sessions; what the scope does not see is left out here. The platform distils in the background, so a
record may be found some seconds later. It needs no package beyond httpx, which the library has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeVar, cast

from agentscope_rx.errors import (
    ConfigurationError,
    InvalidInputError,
    LongTermMemoryServiceError,
    ModelError,
    ModelHTTPError,
)
from agentscope_rx.long_term_memory.note import MAX_NAME, NO_SCOPE, MemoryScope, Note, NoteSource
from agentscope_rx.long_term_memory.port import LIMIT, LongTermMemory, check_limit, check_messages
from agentscope_rx.long_term_memory.scoping import check_scope
from agentscope_rx.messages import Msg, MsgRole
from agentscope_rx.messages.queries import Query, query_text
from agentscope_rx.models.checks import check_one_of, check_seconds
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wire.base_url import base_parts, secret, url_with
from agentscope_rx.models.wire.json_codec import JsonObject, encode_json, malformed, object_in, objects_in, text_in
from agentscope_rx.reactive import Flow, catch, concat_map, defer, just, then, throw, timeout

T = TypeVar("T")

Mem0Api = Literal["v3", "v1", "self_hosted"]

PLATFORM = "https://api.mem0.ai"
_PATHS: dict[Mem0Api, tuple[str, str]] = {
    "v3": ("/v3/memories/add/", "/v3/memories/search/"),
    "v1": ("/v1/memories/", "/v2/memories/search/"),
    "self_hosted": ("/memories", "/search"),
}
_MORE = 3
"""So many times the limit is asked for, because some memories are of other agents or sessions."""


class Mem0LongTermMemory(LongTermMemory):
    """Records to and retrieves from mem0, on its platform or on a server of your own.

    | `api` | record | retrieve | key |
    |---|---|---|---|
    | "v3" | POST /v3/memories/add/ | POST /v3/memories/search/ | `Authorization: Token ...` |
    | "v1" | POST /v1/memories/ | POST /v2/memories/search/ | `Authorization: Token ...` |
    | "self_hosted" | POST /memories | POST /search | `X-API-Key: ...` |

    `api_key` comes from MEM0_API_KEY when not given; only the platform requires one. `base_url` is needed for a server
    of your own. `infer=False` stores the messages as they are. `timeout` are the seconds of one request. `scope` fills
    in the names that the scope of a call lacks; mem0 needs at least one of user, agent and session (its `run_id`).

    The platform distils in the background, so a record may be found some seconds later. Errors and unreadable answers
    are a `LongTermMemoryServiceError`, never an empty result. No package is needed.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        api: Mem0Api = "v3",
        scope: MemoryScope | None = None,
        infer: bool = True,
        timeout: float | None = 60.0,
        transport: Transport | None = None,
    ) -> None:
        check_one_of("api", api, tuple(_PATHS), optional=False)
        check_seconds("timeout", timeout, optional=True)
        if base_url is None and api == "self_hosted":
            raise ConfigurationError("api='self_hosted' needs the address of the server: base_url='http://...'.")
        key = secret(api_key, "MEM0_API_KEY")
        if key is None and api != "self_hosted":
            raise ConfigurationError("mem0's platform needs a key: Mem0LongTermMemory(api_key=...), or MEM0_API_KEY.")
        parts = base_parts(base_url or PLATFORM, PLATFORM)
        record, search = _PATHS[api]
        root = parts.path.rstrip("/")
        self.api: Mem0Api = api
        self.scope: MemoryScope = check_scope("scope", scope) or NO_SCOPE
        self._record_url = url_with(parts, root + record, {})
        self._search_url = url_with(parts, root + search, {})
        self._headers: dict[str, str] = {}
        if key is not None:
            self._headers = {"X-API-Key": key} if api == "self_hosted" else {"Authorization": f"Token {key}"}
        self._infer = infer
        self._timeout = timeout
        self._transport = transport or Transport()

    def __repr__(self) -> str:
        return f"Mem0LongTermMemory({self.api!r})"

    def record(
        self, messages: Sequence[Msg], *, scope: MemoryScope | None = None, source: NoteSource | None = None
    ) -> Flow[None]:
        def begin() -> Flow[None]:
            said = [_wire(message) for message in check_messages(messages) if message.text.strip()]
            if not said:
                return just(None)
            ids = self._ids(scope)
            body: dict[str, object] = {"messages": said, "infer": self._infer}
            body |= {"filters": ids} if self.api == "v3" else ids
            if source is not None:
                body["metadata"] = {"source": _source_json(source)}
            return self._post(self._record_url, body).pipe(then(lambda: just(None)))

        return defer(begin)

    def retrieve(self, query: Query, limit: int = LIMIT, *, scope: MemoryScope | None = None) -> Flow[tuple[Note, ...]]:
        def begin() -> Flow[tuple[Note, ...]]:
            check_limit(limit)
            text = query_text(query)
            if not text:
                return just(())
            ids = self._ids(scope)
            # the widest of them: facts of the user are sought in every session
            widest = dict([next(iter(ids.items()))])
            body: dict[str, object] = {"query": text, "top_k": _MORE * limit, "filters": widest}
            if self.api == "v1":
                body["filters"] = {"AND": [widest]}
            elif self.api == "self_hosted":
                body |= widest
            seen = self._scope(scope)
            return self._post(self._search_url, body).pipe(
                concat_map(lambda answer: just(_notes(answer, seen)[:limit])), catch(_as_service_error)
            )

        return defer(begin)

    def _post(self, url: str, body: Mapping[str, object]) -> Flow[object]:
        request = HttpRequest(url, encode_json(body).encode("utf-8", "replace"), self._headers)
        answer = self._transport.request(request)
        if self._timeout is not None:
            answer = answer.pipe(timeout(total=self._timeout, error=_late))
        return answer.pipe(catch(_as_service_error))

    def _scope(self, scope: MemoryScope | None) -> MemoryScope:
        check_scope("scope", scope)
        return self.scope if scope is None else scope.over(self.scope)

    def _ids(self, scope: MemoryScope | None) -> dict[str, str]:
        given = self._scope(scope)
        named = {"user_id": given.user, "agent_id": given.agent, "run_id": given.session}
        ids = {name: value for name, value in named.items() if value is not None}
        if not ids:
            raise InvalidInputError(
                "mem0 needs to know whose memories are meant: give scope=MemoryScope(user=...), a user_id in the "
                "context of the call, or Mem0LongTermMemory(scope=...)."
            )
        return ids


# --- the wire ---------------------------------------------------------------------------------------------------------


def _wire(message: Msg) -> dict[str, str]:
    speaks = message.role in (MsgRole.USER, MsgRole.SYSTEM)
    return {"role": "user" if speaks else "assistant", "content": message.text}


def _notes(answer: object, scope: MemoryScope) -> tuple[Note, ...]:
    """The memories of an answer that the scope sees, best first; a `ProtocolError` for anything else."""
    # (an older server answers with the list alone)
    found: object = cast("JsonObject", answer).get("results") if isinstance(answer, Mapping) else answer
    if not isinstance(found, list):
        raise malformed("there is no list of results", found)
    items = objects_in({"results": cast("object", found)}, "results")
    notes = [note for item in items if (note := _note(item, scope)) is not None]
    notes.sort(key=lambda note: -note.score)
    return tuple(notes)


def _note(item: JsonObject, scope: MemoryScope) -> Note | None:
    text, id = text_in(item, "memory"), text_in(item, "id")
    if text is None or id is None:
        raise malformed("a result needs an id and a memory", item)
    stored = MemoryScope(
        user=_name(item, "user_id", scope.user), agent=_name(item, "agent_id"), session=_name(item, "run_id")
    )
    if not scope.sees(stored) or not text.strip():
        return None
    score = item.get("score")
    known = isinstance(score, (int, float)) and not isinstance(score, bool) and math.isfinite(score)
    return Note(
        text=text,
        id=id,
        score=float(cast("float", score)) if known else 0.0,
        source=_source_of(object_in(item, "metadata") or {}),
        created=_moment(item, "created_at"),
        updated=_moment(item, "updated_at") or _moment(item, "created_at"),
        scope=stored,
    )


def _name(item: JsonObject, field: str, default: str | None = None) -> str | None:
    found = text_in(item, field)
    return found[:MAX_NAME] if found and found.strip() else default


def _moment(item: JsonObject, field: str) -> datetime | None:
    text = text_in(item, field)
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError as error:
        raise malformed(f"{field!r} must be a time in ISO 8601", item) from error
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def _source_json(source: NoteSource) -> dict[str, object]:
    return {
        "session_key": source.session_key,
        "run_id": source.run_id,
        "message_ids": list(source.message_ids),
        "agent": source.agent,
        "at": None if source.at is None else source.at.isoformat(),
    }


def _source_of(metadata: JsonObject) -> NoteSource | None:
    """The source that a record has left; None for a memory that another program has stored."""
    source = metadata.get("source")
    if not isinstance(source, Mapping):
        return None
    fields = cast("JsonObject", source)
    ids = fields.get("message_ids")
    return NoteSource(
        session_key=text_in(fields, "session_key"),
        run_id=text_in(fields, "run_id"),
        message_ids=tuple(str(id) for id in cast("list[object]", ids)) if isinstance(ids, list) else (),
        agent=text_in(fields, "agent"),
        at=_moment(fields, "at"),
    )


# --- errors -----------------------------------------------------------------------------------------------------------


def _late(which: str, limit: float) -> Exception:
    return LongTermMemoryServiceError("mem0", f"no answer within {limit:g} s", retryable=True)


def _as_service_error(error: Exception) -> Flow[T]:
    """The transport's errors are those of models: here they are the service's."""
    if not isinstance(error, ModelError):
        return throw(error)
    status = error.status if isinstance(error, ModelHTTPError) else None
    failure = LongTermMemoryServiceError("mem0", str(error), status=status, retryable=error.retryable)
    failure.__cause__ = error
    return throw(failure)
