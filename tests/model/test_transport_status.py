"""What error answers mean, in all the shapes that servers give them."""

from __future__ import annotations

import json

import pytest

from agentscope_rx.errors import BadRequestError, ContextOverflowError, ModelHTTPError, RateLimitError, ServerError
from agentscope_rx.model.retryable import retry_after
from agentscope_rx.model.transport.status import answered_error, http_error


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, "m", "c"),
        ({"error": {"message": "m", "type": "t", "code": None}}, "m", "t"),
        ({"error": {"message": "m", "code": 401}}, "m", "401"),
        ({"error": "m"}, "m", None),
        ({"error": "m", "code": "c"}, "m", "c"),
        ([{"error": {"message": "m", "status": "INVALID"}}], "m", "INVALID"),
        ({"errors": [{"message": "m"}]}, "m", None),
        ({"message": "m", "code": "c"}, "m", "c"),
        ({"detail": "m"}, "m", None),
        ({"detail": [{"loc": ["body"], "msg": "m"}]}, '"msg": "m"', None),
        ({"error": {"odd": "m"}}, '"odd": "m"', None),
        ({}, "{}", None),
    ],
)
def test_the_message_and_code_of_an_error(body: object, message: str, code: str | None) -> None:
    error = http_error(418, json.dumps(body))
    assert str(error).startswith("HTTP 418: ")
    assert message in str(error)
    assert error.code == code


@pytest.mark.parametrize(("body", "said"), [("", "no explanation"), ("<html>", "<html>"), ("x" * 9999, "x" * 500)])
def test_a_body_that_is_not_json_is_its_own_message(body: str, said: str) -> None:
    error = http_error(500, body)
    assert str(error) == f"HTTP 500: {said}"
    assert error.body == body[:2000]


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (400, "context_length_exceeded", "m", ContextOverflowError),
        (400, None, "This model's maximum context length is 8192 tokens", ContextOverflowError),
        (413, None, "prompt is too long", ContextOverflowError),
        (400, "exceed_context_size_error", "m", ContextOverflowError),
        (400, "invalid_value", "m", BadRequestError),
        (500, None, "maximum context length", ServerError),
    ],
)
def test_a_conversation_too_long_is_told_apart(
    status: int, code: str | None, message: str, kind: type[ModelHTTPError]
) -> None:
    assert type(http_error(status, json.dumps({"error": {"message": message, "code": code}}))) is kind


@pytest.mark.parametrize(
    ("headers", "code", "retryable"),
    [
        ({}, None, True),
        ({}, "insufficient_quota", False),
        ({"X-Should-Retry": "false"}, None, False),
        ({"x-should-retry": "true"}, "insufficient_quota", True),
    ],
)
def test_whether_another_attempt_may_help(headers: dict[str, str], code: str | None, retryable: bool) -> None:
    error = http_error(429, json.dumps({"error": {"message": "m", "code": code}}), headers)
    assert isinstance(error, RateLimitError)
    assert error.retryable is retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "Wed, 21 Oct 2015 07:27:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_how_long_the_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"error": {"message": "m", "code": 429}}, 429),
        ({"error": {"message": "m", "code": "429"}}, 429),
        ({"error": {"message": "m", "type": "rate_limit_error"}}, 429),
        ({"error": {"message": "m", "type": "overloaded_error"}}, 503),
        ({"error": {"message": "m", "code": "invalid_api_key"}}, 401),
        ({"error": {"message": "m", "type": "permission_error"}}, 403),
        ({"error": {"message": "m", "type": "not_found_error"}}, 404),
        ({"error": {"message": "m", "type": "invalid_request_error"}}, 400),
        ({"error": {"message": "the prompt is too long"}}, 400),
        ({"error": {"message": "m"}}, 500),
        ({"code": "Throttling.RateQuota", "message": "m"}, 429),
        ({"code": "Model.NotExist", "message": "m"}, 404),
        ({"code": "AccessDenied", "message": "m"}, 403),
        ({"code": "DataInspectionFailed", "message": "m"}, 400),
        ({"code": "InternalError", "message": "<503> InternalError.Algo: m"}, 503),
        ({"choices": []}, None),
        ({"object": "chat.completion.chunk", "message": "m"}, None),
        ({"type": "ping"}, None),
        ({}, None),
    ],
)
def test_an_error_with_status_200(answer: dict[str, object], status: int | None) -> None:
    error = answered_error(answer)
    assert (error.status if error else None) == status


def test_the_body_may_be_an_event_and_names_the_request() -> None:
    data = '{"code":"InvalidParameter","message":"no","request_id":"r1"}'
    error = http_error(400, f"id:1\nevent:error\n:HTTP_STATUS/400\ndata:{data}\n\n")
    assert (str(error), error.code, error.request_id) == ("HTTP 400: no", "InvalidParameter", "r1")
    assert http_error(400, data, {"x-request-id": "r2"}).request_id == "r2"
