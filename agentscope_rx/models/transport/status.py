"""Converts an error response (status, headers and body) to an error of the `ModelHTTPError` tree.

Wire formats differ in the location of the message and the code; all known locations are searched. Error objects with
status 200, in a stream or instead of one, are converted in the same way.
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
from agentscope_rx.lazy import pattern
from agentscope_rx.messages.frozen import encodable
from agentscope_rx.models.retryable import TRANSIENT, retry_after
from agentscope_rx.models.wire.json_size import load_json, shown_json

BODY_SHOWN = 2000
"""The characters that an error keeps of a body, or of the message in it."""

_NAME_SHOWN = 200
_UPSTREAM_SHOWN = 500

_TRANSIENT = TRANSIENT | {409}
_OVERFLOW = pattern(
    r"context_length_exceeded|context_window_exceeded|exceed_context_size|maximum context length|context window"
    r"|context length|available context size|too many tokens|prompt is too long|input is too long"
    r"|reduce the length|range of input length|exceed context limit|input token count|too_many_prompt_tokens"
    # xAI, vLLM; Moonshot; Z.ai; SiliconFlow; Copilot; Volcano Engine
    r"|maximum (?:prompt|input|model) length|exceeded model token limit|prompt exceeds max length|prompt 超长"
    r"|max_seq_len|max_prompt_tokens|exceed max message tokens"
    # Text Generation Inference; llama.cpp, in the middle of an answer; Gemini, of pictures
    r"|`inputs` must have less than|`max_new_tokens` must be <=|context size has been exceeded"
    r"|request payload size exceeds|request_too_large",
    re.IGNORECASE,
)
# llama.cpp and Ollama, with status 500
_LOCAL = pattern(
    r"exceeds the available context size|context size has been exceeded|input length exceeds", re.IGNORECASE
)
# a request above the tokens of a whole minute: to wait does not help
_LARGE = pattern(r"request too large", re.IGNORECASE)
# in the code, or in the message for a vendor without codes (DeepSeek)
_FILTERED = pattern(
    r"content_?filter|content_?policy_?violation|data_?inspection|ResponsibleAIPolicyViolation|moderation_blocked"
    r"|Content Exists Risk",
    re.IGNORECASE,
)
# MiniMax responds with status 200 and its own numbers
_NUMBERED = {1002: 429, 1004: 401, 1008: 402, 1026: 400, 1027: 400, 1039: 429, 1042: 400, 2013: 400, 2049: 401}
_SPENT = pattern(r"insufficient_quota|insufficient_balance|billing|credit balance", re.IGNORECASE)
# Google sends 400 instead of 401
_WRONG_KEY = pattern(r"api.?key (not valid|expired)", re.IGNORECASE)
_STATUS_IN_TEXT = pattern(r"<([45]\d\d)>")
_STATUS_OF = (
    (pattern(r"rate.?limit|too.?many.?requests|quota|throttl|429", re.IGNORECASE), 429),
    (pattern(r"overload|unavailable|capacity|insufficient_system_resource", re.IGNORECASE), 503),
    (pattern(r"invalid.?api.?key|authenticat|unauthorized", re.IGNORECASE), 401),
    (pattern(r"permission|forbidden|access.?denied|arrear", re.IGNORECASE), 403),
    (pattern(r"not.?(found|exist)", re.IGNORECASE), 404),
    (
        pattern(
            r"invalid|bad.?request|too_large|context_length|content_filter|inspection|unsupported|tool_use_failed",
            re.IGNORECASE,
        ),
        400,
    ),
)
_SECONDS = pattern(r"\d+(\.\d+)?s")
_REQUEST_IDS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "cf-ray")


JsonMap = Mapping[str, object]


class ErrorDetails(NamedTuple):
    """The description of an error in a response body."""

    message: str
    code: str | None
    status: int | None
    request_id: str | None = None
    retry_after: float | None = None
    upstream: str = ""
    """The error of the provider behind a gateway."""
    quota: str = ""
    """The names of exhausted quotas (Google's), which include their period."""

    @property
    def text(self) -> str:
        """The message and the upstream error."""
        return f"{self.message} {self.upstream}".rstrip()


def http_error(status: int, body: str, headers: Mapping[str, str] | None = None) -> ModelHTTPError:
    """The error for a response with this status; its text has the status and the provider's message."""
    details = error_details(_json(body)) or ErrorDetails(body.strip()[:500] or "no explanation", None, None)
    return _error(f"HTTP {status}: {details.text}", status, details, body, headers or {})


def answered_error(answer: Mapping[str, object]) -> ModelHTTPError | None:
    """The error in an answer with status 200: an `error` object, or a message instead of content; or None."""
    error = answer.get("error") or _numbered(answer)
    if not error and (answer.get("choices") is not None or answer.get("object") not in (None, "error")):
        return None
    details = error_details(answer)
    if details is None:
        return None
    body = shown_json(answer)
    return _error(f"The answer is an error: {details.text}", details.status or _guess(details), details, body, {})


def error_details(answer: object) -> ErrorDetails | None:
    """Message, code and status from an error body of any known format; None if it has no error."""
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
    # DashScope's messages begin with the status of the upstream server: "<400> InternalError.Algo..."
    prefix = _STATUS_IN_TEXT().match(message)
    status = _status(fields) or _status(outer) or (int(prefix[1]) if prefix else None)
    number = fields.get("status_code") if fields is not outer else None
    if isinstance(number, int) and number >= 1000:
        code, status = str(number), _NUMBERED.get(number, 500)
    request_id = _first(outer, "request_id") or _first(fields, "request_id")
    delay, quota = _details(fields)
    return ErrorDetails(message[:BODY_SHOWN], _cut(code), status, _cut(request_id), delay, _upstream(fields), quota)


def _cut(name: str | None) -> str | None:
    return None if name is None else name[:_NAME_SHOWN]


def _numbered(answer: JsonMap) -> JsonMap | None:
    """The status part of an answer of MiniMax, if it reports an error."""
    part = answer.get("base_resp")
    return cast("JsonMap", part) if isinstance(part, Mapping) and cast("JsonMap", part).get("status_code") else None


def _upstream(fields: JsonMap) -> str:
    """The error of the server behind a gateway, in OpenRouter's format."""
    about = fields.get("metadata")
    if not isinstance(about, Mapping):
        return ""
    known = cast("JsonMap", about)
    raw, name = known.get("raw"), known.get("provider_name")
    if not raw:
        return ""
    text = raw if isinstance(raw, str) else shown_json(raw)
    return f"({name}: {text[:_UPSTREAM_SHOWN]})" if isinstance(name, str) else f"({text[:_UPSTREAM_SHOWN]})"


def _details(fields: JsonMap) -> tuple[float | None, str]:
    """The delay in Google's RetryInfo in seconds, and the ids of exhausted quotas."""
    delay: float | None = None
    quotas: list[str] = []
    for detail in _maps(fields.get("details")):
        value = detail.get("retryDelay")
        if isinstance(value, str) and _SECONDS().fullmatch(value):
            delay = float(value[:-1])
        quotas += [id for each in _maps(detail.get("violations")) if isinstance(id := each.get("quotaId"), str)]
    return delay, " ".join(quotas)


def _maps(value: object) -> list[JsonMap]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonMap", item) for item in items if isinstance(item, Mapping)]


def _error(text: str, status: int, details: ErrorDetails, body: str, headers: Mapping[str, str]) -> ModelHTTPError:
    headers = {name.lower(): value for name, value in headers.items()}
    error = _kind(status, details)(
        text,
        status=status,
        code=encodable(details.code) if details.code else None,
        body=encodable(body[:BODY_SHOWN]),
        request_id=_cut(next((headers[name] for name in _REQUEST_IDS if headers.get(name)), details.request_id)),
        retry_after=details.retry_after if (delay := retry_after(headers)) is None else delay,
    )
    error.retryable = _retryable(error, details, headers)
    return error


def _kind(status: int, details: ErrorDetails) -> type[ModelHTTPError]:
    if _is_overflow(status, f"{details.code} {details.text}"):
        return ContextOverflowError
    if status in (400, 403, 422) and _FILTERED().search(f"{details.code} {details.message}"):
        return PromptFilterError
    if status == 400 and _WRONG_KEY().search(details.message):
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


def _is_overflow(status: int, text: str) -> bool:
    """True if a shorter request may succeed, and the same one never does."""
    sign = {400: _OVERFLOW, 422: _OVERFLOW, 429: _LARGE, 500: _LOCAL}.get(status)
    return status == 413 or (sign is not None and sign().search(text) is not None)


def _retryable(error: ModelHTTPError, details: ErrorDetails, headers: Mapping[str, str]) -> bool:
    advice = headers.get("x-should-retry")
    if advice in ("true", "false"):
        return advice == "true"
    if isinstance(error, RateLimitError):
        if "perday" in details.quota.lower():
            # (although it asks to wait some seconds)
            return False
        if details.quota or details.retry_after is not None:
            # Google's message mentions billing for each of its quotas
            return True
        # an empty account stays empty; the upstream error is about the account of the gateway
        return not _SPENT().search(f"{details.code} {details.message}")
    if error.status == 501 or isinstance(error, ContextOverflowError):
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


def _guess(details: ErrorDetails) -> int:
    """The most likely status of an error without one; 500 if there is no indication."""
    for sign, status in _STATUS_OF:
        if details.code and sign().search(details.code):
            return status
    return 400 if _OVERFLOW().search(f"{details.code} {details.message}") else 500


def _json(body: str) -> object:
    for text in (body, _event_data(body)):
        try:
            return load_json(text)
        except (ValueError, RecursionError):
            continue
    return None


def _event_data(body: str) -> str:
    """The data of an event: some servers send an error as one, with any content type."""
    return "".join(line[5:] for line in body.splitlines() if line.startswith("data:"))
