"""What an error answer means: status, headers and body -> one error of the `ModelHTTPError` tree.

The wire formats differ in where they put the message and the code; this looks in all the places known. It is used for
error statuses and for error objects that come with status 200, in a stream or instead of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from agentscope_rx.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelHTTPError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    PromptFilterError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.messages.frozen import encodable
from agentscope_rx.models.retryable import TRANSIENT, retry_after
from agentscope_rx.models.wire.json_size import load_json, shown_json

BODY_SHOWN = 2000
"""How many characters of a body, or of the message in it, an error keeps."""

_NAME_SHOWN = 200
_BEHIND_SHOWN = 500

_TRANSIENT = TRANSIENT | {409}
_OVERFLOW = re.compile(
    r"context_length_exceeded|context_window_exceeded|exceed_context_size|maximum context length|context window"
    r"|context length|available context size|too many tokens|prompt is too long|input is too long"
    r"|reduce the length|range of input length|exceed context limit|input token count|too_many_prompt_tokens",
    re.IGNORECASE,
)
# in the code, or where a vendor has none (DeepSeek) in the words
_FILTERED = re.compile(
    r"content_?filter|content_?policy_?violation|data_?inspection|ResponsibleAIPolicyViolation|moderation_blocked"
    r"|Content Exists Risk",
    re.IGNORECASE,
)
# MiniMax answers with status 200 and numbers of its own
_NUMBERED = {1002: 429, 1004: 401, 1008: 402, 1026: 400, 1027: 400, 1039: 429, 1042: 400, 2013: 400, 2049: 401}
_SPENT = re.compile(r"insufficient_quota|insufficient_balance|billing|credit balance", re.IGNORECASE)
# Google says 400 where others say 401
_WRONG_KEY = re.compile(r"api.?key (not valid|expired)", re.IGNORECASE)
_TOLD_STATUS = re.compile(r"<([45]\d\d)>")
_STATUS_OF = (
    (re.compile(r"rate.?limit|too.?many.?requests|quota|throttl|429", re.IGNORECASE), 429),
    (re.compile(r"overload|unavailable|capacity|insufficient_system_resource", re.IGNORECASE), 503),
    (re.compile(r"invalid.?api.?key|authenticat|unauthorized", re.IGNORECASE), 401),
    (re.compile(r"permission|forbidden|access.?denied|arrear", re.IGNORECASE), 403),
    (re.compile(r"not.?(found|exist)", re.IGNORECASE), 404),
    (
        re.compile(
            r"invalid|bad.?request|context_length|content_filter|inspection|unsupported|tool_use_failed", re.IGNORECASE
        ),
        400,
    ),
)
_SECONDS = re.compile(r"\d+(\.\d+)?s")
_REQUEST_IDS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "cf-ray")


JsonMap = Mapping[str, object]


class Complaint(NamedTuple):
    """What a provider says about a failure."""

    message: str
    code: str | None
    status: int | None
    request_id: str | None = None
    retry_after: float | None = None
    behind: str = ""
    """What the provider behind the provider said."""
    quota: str = ""
    """The quotas that are used up, by Google's names, each of which says for how long it counts."""

    @property
    def text(self) -> str:
        """All that is said."""
        return f"{self.message} {self.behind}".rstrip()


def http_error(status: int, body: str, headers: Mapping[str, str] | None = None) -> ModelHTTPError:
    """The error for an answer with this status; its text has the status and the provider's own message."""
    said = complaint(_json(body)) or Complaint(body.strip()[:500] or "no explanation", None, None)
    return _error(f"HTTP {status}: {said.text}", status, said, body, headers or {})


def answered_error(answer: Mapping[str, object]) -> ModelHTTPError | None:
    """The error that an answer with status 200 is, or None: an `error` object, or a message where content should be."""
    told = answer.get("error") or _numbered(answer)
    if not told and (answer.get("choices") is not None or answer.get("object") not in (None, "error")):
        return None
    said = complaint(answer)
    if said is None:
        return None
    body = shown_json(answer)
    return _error(f"The answer is an error: {said.text}", said.status or _guess(said), said, body, {})


def complaint(answer: object) -> Complaint | None:
    """Message, code and status out of an error body of any known shape; None if it complains of nothing."""
    if isinstance(answer, list):
        items = cast("list[object]", answer)
        answer = items[0] if items else None
    if not isinstance(answer, Mapping):
        return None
    outer = cast("Mapping[str, object]", answer)
    inner: object = outer.get("error") or outer.get("errors") or _numbered(outer)
    if isinstance(inner, list):
        inner = cast("list[object]", inner)[0]
    fields: Mapping[str, object] = outer
    if isinstance(inner, Mapping):
        fields = cast("Mapping[str, object]", inner)
    message = inner if isinstance(inner, str) else _message(fields) or _message(outer)
    if not message:
        if not inner:
            return None
        message = shown_json(cast("object", inner))[:500]
    code = _first(fields, "code", "type", "status") or _first(outer, "code", "type")
    if code is not None and code.isdigit():
        # Google's `code` is the status, and its `status` the code
        code = _first(fields, "status") or code
    # DashScope's messages begin with the status of the server behind the server: "<400> InternalError.Algo..."
    told = _TOLD_STATUS.match(message)
    status = _status(fields) or _status(outer) or (int(told[1]) if told else None)
    number = fields.get("status_code") if fields is not outer else None
    if isinstance(number, int) and number >= 1000:
        code, status = str(number), _NUMBERED.get(number, 500)
    request_id = _first(outer, "request_id") or _first(fields, "request_id")
    asked, quota = _details(fields)
    return Complaint(message[:BODY_SHOWN], _cut(code), status, _cut(request_id), asked, _behind(fields), quota)


def _cut(name: str | None) -> str | None:
    return None if name is None else name[:_NAME_SHOWN]


def _numbered(answer: JsonMap) -> JsonMap | None:
    """The part of an answer of MiniMax that says how it went, if it went wrong."""
    told = answer.get("base_resp")
    return cast("JsonMap", told) if isinstance(told, Mapping) and cast("JsonMap", told).get("status_code") else None


def _behind(fields: JsonMap) -> str:
    """What the server behind a gateway said, as OpenRouter tells it; it says itself that the provider failed."""
    about = fields.get("metadata")
    if not isinstance(about, Mapping):
        return ""
    known = cast("JsonMap", about)
    raw, name = known.get("raw"), known.get("provider_name")
    if not raw:
        return ""
    text = raw if isinstance(raw, str) else shown_json(raw)
    return f"({name}: {text[:_BEHIND_SHOWN]})" if isinstance(name, str) else f"({text[:_BEHIND_SHOWN]})"


def _details(fields: JsonMap) -> tuple[float | None, str]:
    """Seconds to wait that the body asks for, as Google's RetryInfo does, and the ids of quotas that are used up."""
    delay: float | None = None
    quotas: list[str] = []
    for detail in _maps(fields.get("details")):
        asked = detail.get("retryDelay")
        if isinstance(asked, str) and _SECONDS.fullmatch(asked):
            delay = float(asked[:-1])
        quotas += [id for each in _maps(detail.get("violations")) if isinstance(id := each.get("quotaId"), str)]
    return delay, " ".join(quotas)


def _maps(value: object) -> list[JsonMap]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonMap", item) for item in items if isinstance(item, Mapping)]


def _error(text: str, status: int, said: Complaint, body: str, headers: Mapping[str, str]) -> ModelHTTPError:
    headers = {name.lower(): value for name, value in headers.items()}
    error = _kind(status, said)(
        text,
        status=status,
        code=encodable(said.code) if said.code else None,
        body=encodable(body[:BODY_SHOWN]),
        request_id=_cut(next((headers[name] for name in _REQUEST_IDS if headers.get(name)), said.request_id)),
        retry_after=said.retry_after if (asked := retry_after(headers)) is None else asked,
    )
    error.retryable = _retryable(error, said, headers)
    return error


def _kind(status: int, said: Complaint) -> type[ModelHTTPError]:
    if status in (400, 413, 422) and _OVERFLOW.search(f"{said.code} {said.text}"):
        return ContextOverflowError
    if status in (400, 403, 422) and _FILTERED.search(f"{said.code} {said.message}"):
        return PromptFilterError
    if status == 400 and _WRONG_KEY.search(said.message):
        return AuthenticationError
    exact: dict[int, type[ModelHTTPError]] = {
        401: AuthenticationError,
        403: PermissionDeniedError,
        404: NotFoundError,
        429: RateLimitError,
        503: OverloadedError,
        529: OverloadedError,
    }
    if status in exact:
        return exact[status]
    if status >= 500:
        return ServerError
    return BadRequestError if status >= 400 else ModelHTTPError


def _retryable(error: ModelHTTPError, said: Complaint, headers: Mapping[str, str]) -> bool:
    told = headers.get("x-should-retry")
    if told in ("true", "false"):
        return told == "true"
    if isinstance(error, RateLimitError):
        if "perday" in said.quota.lower():
            # (it is asked to wait some seconds there, too)
            return False
        if said.quota or said.retry_after is not None:
            # Google's words on billing are the same for each of its quotas
            return True
        # no waiting fills an empty account; what the server behind a gateway says of its own is not ours
        return not _SPENT.search(f"{said.code} {said.message}")
    if error.status == 501:
        return False
    return error.retryable or error.status in _TRANSIENT


def _message(fields: Mapping[str, object]) -> str | None:
    for name in ("message", "detail", "msg", "error_msg", "error_message", "status_msg"):
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
        if value and isinstance(value, (Mapping, list)):
            return shown_json(cast("object", value))[:500]
    return None


def _first(fields: Mapping[str, object], *names: str) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value)
    return None


def _status(fields: Mapping[str, object]) -> int | None:
    for name in ("status_code", "http_status", "status", "code"):
        value = fields.get(name)
        if isinstance(value, str) and len(value) == 3 and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return None


def _guess(said: Complaint) -> int:
    """The status that an error without one most likely means; a failure of the server's own if nothing tells."""
    for pattern, status in _STATUS_OF:
        if said.code and pattern.search(said.code):
            return status
    return 400 if _OVERFLOW.search(said.message) else 500


def _json(body: str) -> object:
    for text in (body, _event_data(body)):
        try:
            return load_json(text)
        except (ValueError, RecursionError):
            continue
    return None


def _event_data(body: str) -> str:
    """The data of an event: some servers put an error into one, whatever they call the content."""
    return "".join(line[5:] for line in body.splitlines() if line.startswith("data:"))
