"""What error answers mean, in all the shapes that servers give them."""

from __future__ import annotations

import json

import httpx
import pytest

from agentscope_rx.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    ModelHTTPError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    PromptFilterError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.models.retryable import is_retryable, retry_after
from agentscope_rx.models.transport.status import answered_error, http_error


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
        (400, "too_many_prompt_tokens", "m", ContextOverflowError),
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
        ({"choices": None, "base_resp": {"status_code": 1004, "status_msg": "login fail"}}, 401),
        ({"choices": [], "base_resp": {"status_code": 1039, "status_msg": "tokens per minute"}}, 429),
        ({"choices": [], "base_resp": {"status_code": 0, "status_msg": ""}}, None),
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


# --- the vendors ---------------------------------------------------------------------------------------------------


def openai(message: str, code: str | None, type: str | None = "invalid_request_error") -> dict[str, object]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def anthropic(message: str, type: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}


def gemini(status: int, message: str, code: str, *details: dict[str, object]) -> dict[str, object]:
    return {"error": {"code": status, "message": message, "status": code, "details": list(details)}}


def dashscope(message: str, code: str) -> dict[str, object]:
    return {"code": code, "message": message, "request_id": "req_1"}


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
WRONG_KEY = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
}
NO_SUBSCRIPTION = "Access denied due to invalid subscription key or wrong API endpoint."

VENDORS = [
    # OpenAI, and what speaks its protocol
    (401, openai("Incorrect API key provided: sk-x.", "invalid_api_key"), AuthenticationError, "invalid_api_key"),
    (403, openai("Country not supported", "unsupported_country_region_territory", "request_forbidden"),
     PermissionDeniedError, "unsupported_country_region_territory"),
    (404, openai("The model `x` does not exist", "model_not_found"), NotFoundError, "model_not_found"),
    (400, openai("Unknown parameter: 'x'.", "unknown_parameter"), BadRequestError, "unknown_parameter"),
    (422, {"detail": [{"loc": ["body", "x"], "msg": "field required"}]}, BadRequestError, None),
    (400, openai("This model's maximum context length is 128000 tokens.", "context_length_exceeded"),
     ContextOverflowError, "context_length_exceeded"),
    (400, openai("Your input exceeds the context window of this model.", "context_length_exceeded"),
     ContextOverflowError, "context_length_exceeded"),
    (429, openai("Rate limit reached for gpt", "rate_limit_exceeded", "tokens"), RateLimitError, "rate_limit_exceeded"),
    (500, openai("The server had an error", None, "server_error"), ServerError, "server_error"),
    (503, openai("The engine is currently overloaded", None, "service_unavailable"),
     OverloadedError, "service_unavailable"),
    # Azure
    (401, {"statusCode": 401, "message": "Unauthorized. Access token is missing."}, AuthenticationError, None),
    (401, {"error": {"code": "401", "message": NO_SUBSCRIPTION}}, AuthenticationError, "401"),
    (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}},
     NotFoundError, "DeploymentNotFound"),
    (429, {"error": {"code": "RateLimitReached", "message": "Please retry after 8 seconds."}},
     RateLimitError, "RateLimitReached"),
    (400, {"error": {"message": "The response was filtered", "type": None, "param": "prompt", "code": "content_filter",
                     "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
     PromptFilterError, "content_filter"),
    # Anthropic
    (400, anthropic("max_tokens: Field required", "invalid_request_error"), BadRequestError, "invalid_request_error"),
    (400, anthropic("prompt is too long: 205000 tokens > 200000 maximum", "invalid_request_error"),
     ContextOverflowError, "invalid_request_error"),
    (400, anthropic("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
                    "invalid_request_error"), ContextOverflowError, "invalid_request_error"),
    (401, anthropic("invalid x-api-key", "authentication_error"), AuthenticationError, "authentication_error"),
    (403, anthropic("no permission", "permission_error"), PermissionDeniedError, "permission_error"),
    (404, anthropic("model: x", "not_found_error"), NotFoundError, "not_found_error"),
    (413, anthropic("Request exceeds the maximum size", "request_too_large"),
     ContextOverflowError, "request_too_large"),
    (429, anthropic("This request would exceed your rate limit", "rate_limit_error"),
     RateLimitError, "rate_limit_error"),
    (500, anthropic("Internal server error", "api_error"), ServerError, "api_error"),
    (504, anthropic("Request timed out", "timeout_error"), ServerError, "timeout_error"),
    (529, anthropic("Overloaded", "overloaded_error"), OverloadedError, "overloaded_error"),
    # Gemini
    (400, gemini(400, "API key not valid.", "INVALID_ARGUMENT", WRONG_KEY), AuthenticationError, "INVALID_ARGUMENT"),
    (400, gemini(400, "Invalid value at 'contents'", "INVALID_ARGUMENT"), BadRequestError, "INVALID_ARGUMENT"),
    (400, gemini(400, "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
                 "INVALID_ARGUMENT"), ContextOverflowError, "INVALID_ARGUMENT"),
    (403, gemini(403, "The caller does not have permission", "PERMISSION_DENIED"),
     PermissionDeniedError, "PERMISSION_DENIED"),
    (404, gemini(404, "models/x is not found", "NOT_FOUND"), NotFoundError, "NOT_FOUND"),
    (429, gemini(429, "You exceeded your current quota.", "RESOURCE_EXHAUSTED", RETRY_INFO),
     RateLimitError, "RESOURCE_EXHAUSTED"),
    (500, gemini(500, "An internal error has occurred.", "INTERNAL"), ServerError, "INTERNAL"),
    (503, [gemini(503, "The model is overloaded.", "UNAVAILABLE")], OverloadedError, "UNAVAILABLE"),
    (504, gemini(504, "Deadline expired", "DEADLINE_EXCEEDED"), ServerError, "DEADLINE_EXCEEDED"),
    # DashScope
    (401, dashscope("Invalid API-key provided.", "InvalidApiKey"), AuthenticationError, "InvalidApiKey"),
    (403, dashscope("Model access denied.", "Model.AccessDenied"), PermissionDeniedError, "Model.AccessDenied"),
    (404, dashscope("Model not exist.", "ModelNotFound"), NotFoundError, "ModelNotFound"),
    (400, dashscope("Range of input length should be [1, 30720]", "InvalidParameter"),
     ContextOverflowError, "InvalidParameter"),
    (400, dashscope("Input data may contain inappropriate content.", "DataInspectionFailed"),
     PromptFilterError, "DataInspectionFailed"),
    (429, dashscope("Requests rate limit exceeded", "Throttling.RateQuota"), RateLimitError, "Throttling.RateQuota"),
    (500, dashscope("An internal error has occured", "InternalError"), ServerError, "InternalError"),
    (503, dashscope("Model is unavailable", "ModelUnavailable"), OverloadedError, "ModelUnavailable"),
    # Ollama
    (400, {"error": "registry.ollama.ai/library/x does not support tools"}, BadRequestError, None),
    (401, {"error": "unauthorized"}, AuthenticationError, None),
    (404, {"error": "model 'x' not found"}, NotFoundError, None),
    (500, {"error": "llama runner process has terminated"}, ServerError, None),
    (503, {"error": "server busy, please try again. maximum pending requests exceeded"}, OverloadedError, None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind", "code"), VENDORS)
def test_a_status_means_the_same_from_every_server(
    status: int, body: object, kind: type[ModelHTTPError], code: str | None
) -> None:
    error = http_error(status, json.dumps(body), {"X-Request-Id": "req_2"})
    assert (type(error), error.status, error.code) == (kind, status, code)
    assert error.retryable is (status in (429, 500, 503, 504, 529))
    assert error.body == json.dumps(body) and error.request_id == "req_2"
    assert http_error(status, json.dumps(body)).request_id == ("req_1" if "req_1" in json.dumps(body) else None)


@pytest.mark.parametrize(
    ("body", "headers", "seconds"),
    [
        (gemini(429, "m", "RESOURCE_EXHAUSTED", RETRY_INFO), {}, 34.5),
        (gemini(429, "m", "RESOURCE_EXHAUSTED", RETRY_INFO), {"Retry-After": "2"}, 2.0),
        (gemini(429, "m", "RESOURCE_EXHAUSTED", {"retryDelay": "soon"}), {}, None),
        (openai("m", "rate_limit_exceeded"), {"retry-after-ms": "250"}, 0.25),
        (anthropic("m", "rate_limit_error"), {"retry-after": "9"}, 9.0),
    ],
)
def test_how_long_a_vendor_asks_to_wait(
    body: dict[str, object], headers: dict[str, str], seconds: float | None
) -> None:
    error = http_error(429, json.dumps(body), headers)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, openai("You exceeded your current quota, please check your billing details", "insufficient_quota")),
        (400, dashscope("Access denied, please make sure your account is in good standing.", "Arrearage")),
        (402, {"error": {"message": "Insufficient Balance", "type": "unknown_error", "code": "invalid_request_error"}}),
        (400, anthropic("Your credit balance is too low to access the API", "invalid_request_error")),
    ],
)
def test_no_waiting_fills_an_empty_account(status: int, body: dict[str, object]) -> None:
    assert http_error(status, json.dumps(body)).retryable is False


MINUTE = "GenerateContentInputTokensPerModelPerMinute-FreeTier"
DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
BILLING = "You exceeded your current quota, please check your plan and billing details."


def quotas(*ids: str) -> dict[str, object]:
    return {"violations": [{"quotaId": id} for id in ids]}


@pytest.mark.parametrize(
    ("details", "retryable"),
    [
        ([quotas(MINUTE), RETRY_INFO], True),
        ([quotas(MINUTE)], True),
        ([RETRY_INFO], True),
        # it names seconds there, too, after which it refuses again until the day is over
        ([quotas(MINUTE, DAY), RETRY_INFO], False),
        ([quotas(DAY)], False),
        ([{"links": []}], False),
    ],
)
def test_quota_ids_decide_before_words(details: list[dict[str, object]], retryable: bool) -> None:
    body = {"error": {"code": 429, "message": BILLING, "status": "RESOURCE_EXHAUSTED", "details": details}}
    error = http_error(429, json.dumps(body))
    assert isinstance(error, RateLimitError)
    assert error.retryable is retryable


def test_what_the_server_behind_a_gateway_said_is_in_the_text() -> None:
    about = {"raw": json.dumps({"error": {"message": BILLING}}), "provider_name": "Google"}
    error = http_error(
        429, json.dumps({"error": {"message": "Provider returned error", "code": 429, "metadata": about}})
    )
    assert str(error) == f"HTTP 429: Provider returned error (Google: {about['raw']})"
    assert error.retryable, "the account that is empty is the gateway's own matter"
    about = {"raw": {"error": {"message": "prompt is too long"}}}
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": about}}
    assert type(http_error(400, json.dumps(body))) is ContextOverflowError
    assert "prompt is too long" in str(answered_error(body))


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "The response was filtered due to the prompt", "code": "content_filter"}},
        {"error": {"message": "m", "type": "content_policy_violation"}},
        {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}},
        {"code": "data_inspection_failed", "message": "m"},
    ],
)
def test_a_prompt_that_a_filter_refused(body: dict[str, object]) -> None:
    error = http_error(400, json.dumps(body))
    assert isinstance(error, PromptFilterError)
    assert isinstance(error, ContentFilterError)
    assert isinstance(error, BadRequestError)
    assert error.status == 400
    assert not error.retryable


def test_what_a_server_cannot_do_is_not_asked_again() -> None:
    error = http_error(501, json.dumps({"error": {"message": "not implemented"}}))
    assert isinstance(error, ServerError)
    assert not error.retryable
    request = httpx.Request("POST", "http://x")
    for status, again in ((501, False), (500, True), (502, True)):
        foreign = httpx.HTTPStatusError("m", request=request, response=httpx.Response(status, request=request))
        assert is_retryable(foreign) is again
