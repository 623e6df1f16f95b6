"""Errors in the form of OpenAI's API, by which its clients choose what they raise.

    {"error": {"message": "...", "type": "invalid_request_error", "param": "n", "code": "unsupported_parameter"}}

| the run fails with                    | status |
|---------------------------------------|--------|
| an error of the service               | its own, see `agentscope_rx.service.failure` |
| `ContextOverflowError`                | 400, code `context_length_exceeded` |
| `ContentFilterError`                  | 400, code `content_filter` |
| `RateLimitError`, `OverloadedError`   | 429, 503 |
| `ModelTimeoutError`                   | 504 |
| another `ModelError`                  | 502 |
| `ApprovalNeededError`                 | 409, code `approval_required` |
| any other                             | 500 |
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse

from agentscope_rx.errors import AgentScopeError, InvalidInputError
from agentscope_rx.errors.model import (
    ContentFilterError,
    ContextOverflowError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
)
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.service.failure import UnknownAgentError, answer_to

_MODEL: tuple[tuple[type[ModelError], int, str | None], ...] = (
    (ContextOverflowError, 400, "context_length_exceeded"),
    (ContentFilterError, 400, "content_filter"),
    (RateLimitError, 429, "rate_limit_exceeded"),
    (OverloadedError, 503, None),
    (ModelTimeoutError, 504, None),
    (ModelError, 502, None),
)

_CODES: dict[type[Exception], str] = {UnknownAgentError: "model_not_found"}


class UnsupportedParameterError(InvalidInputError):
    """The endpoint cannot do what the parameter `param` asks for."""

    def __init__(self, param: str, why: str) -> None:
        super().__init__(f"Unsupported parameter '{param}': {why}")
        self.param = param


class UnknownResponseError(AgentScopeError):
    """There is no stored response of this id."""

    def __init__(self, id: str) -> None:
        super().__init__(f"There is no stored response {id!r:.200}. Its id is wrong, or it is no longer kept.")


class ApprovalNeededError(AgentScopeError):
    """The run waits for a person, whom this protocol has no way to ask. The run is over."""

    def __init__(self, calls: Sequence[ToolUseBlock]) -> None:
        names = ", ".join(call.name for call in calls)
        super().__init__(
            f"The agent needs a person's answer to {names:.200}, for which this protocol has no form. Use a protocol "
            "that has one, or an agent whose tools need no approval."
        )


def openai_error(error: Exception) -> JSONResponse:
    """The error as a response, with the status that tells OpenAI's clients whether to retry."""
    status, body, headers = _answer(error)
    return JSONResponse({"error": body}, status, headers)


def error_body(error: Exception) -> dict[str, object]:
    """The error as it stands in a stream: the value of `error`."""
    return _answer(error)[1]


async def answer_openai_error(request: Request, error: Exception) -> JSONResponse:
    """An exception handler of an application that serves this protocol alone."""
    return openai_error(error)


def _answer(error: Exception) -> tuple[int, dict[str, object], dict[str, str]]:
    param = error.param if isinstance(error, UnsupportedParameterError) else None
    headers: dict[str, str] = {}
    if isinstance(error, ModelError):
        status, code = next((status, code) for kind, status, code in _MODEL if isinstance(error, kind))
        # its text may name the provider's hosts and accounts
        message = f"The model of the agent failed: {type(error).__name__}."
    elif isinstance(error, ApprovalNeededError):
        status, code, message = 409, "approval_required", str(error)
    elif isinstance(error, UnknownResponseError):
        status, code, message = 404, "previous_response_not_found", str(error)
    else:
        status, kind, message, given = answer_to(error)
        headers.update(given)
        # a body that is no valid input has status 400 here
        status = 400 if status == 422 else status
        code = _CODES.get(type(error)) or _snake(kind)
    kind = "invalid_request_error" if status < 500 else "server_error"
    if status == 409:
        # OpenAI's clients repeat a request with this status by themselves
        headers["x-should-retry"] = "false" if isinstance(error, ApprovalNeededError) else "true"
    return status, {"message": message, "type": kind, "param": param, "code": code}, headers


def _snake(kind: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.removesuffix("Error")).lower()
