"""Errors of models and providers."""

from __future__ import annotations

from agentscope_rx.errors.base import AgentScopeError, DeadlineError


class ModelError(AgentScopeError):
    """A call of a model failed; `model` and `provider` name it if known."""

    def __init__(self, message: str, *, model: str | None = None, provider: str | None = None) -> None:
        super().__init__(message)
        self.model = model
        self.provider = provider


class ModelConnectionError(ModelError):
    """No connection to the provider, or it ended before the answer was complete."""

    retryable = True


class ModelTimeoutError(ModelError, TimeoutError):
    """A deadline of a model call passed; `which` and `limit` as in `DeadlineError`."""

    retryable = True

    def __init__(self, which: str, limit: float, *, model: str | None = None, provider: str | None = None) -> None:
        super().__init__(str(DeadlineError(which, limit, f"Model {model or 'call'}")), model=model, provider=provider)
        self.which = which
        self.limit = limit


class ProtocolError(ModelError):
    """The provider's answer violates its wire format; `body` is the invalid part, shortened."""

    def __init__(
        self, message: str, *, body: str | None = None, model: str | None = None, provider: str | None = None
    ) -> None:
        super().__init__(message, model=model, provider=provider)
        self.body = body


class AnswerTooLargeError(ProtocolError):
    """The provider sent more than `limit` bytes; `setting` is the name of the limit."""

    def __init__(
        self, what: str, limit: int, setting: str, *, model: str | None = None, provider: str | None = None
    ) -> None:
        super().__init__(
            f"{what} is larger than {limit} bytes ({setting}). If that is expected, raise the limit: "
            f"Transport(HttpConfig({setting}=...)).",
            model=model,
            provider=provider,
        )
        self.limit = limit
        self.setting = setting


class EmptyResponseError(ModelError):
    """The model answered without text or tool call, or several times with thinking only.

    `finish_reason` is the provider's reason; `stage` is "reasoning", or None outside of a run. `thinking` counts the
    consecutive answers with thinking only.
    """

    retryable = True

    def __init__(
        self,
        *,
        model: str | None = None,
        finish_reason: str | None = None,
        stage: str | None = None,
        thinking: int = 0,
    ) -> None:
        where = "" if stage is None else f" in {stage}"
        what = f"answered with thinking only, {thinking} times in a row," if thinking else "answered without content"
        super().__init__(
            f"Model {model or '(unnamed)'} {what}{where} (finish reason: {finish_reason or 'none'}).", model=model
        )
        self.finish_reason = finish_reason
        self.stage = stage
        self.thinking = thinking


class CircuitOpenError(ModelError):
    """A model has failed too often and is not called for `retry_after` seconds; see `CircuitBreaker`."""

    def __init__(
        self, failures: int, retry_after: float, *, model: str | None = None, provider: str | None = None
    ) -> None:
        super().__init__(
            f"Model {model or '(unnamed)'} has failed {failures} times in a row; next call in {retry_after:g} s.",
            model=model,
            provider=provider,
        )
        self.retry_after = retry_after


class BadAnswerError(ModelError):
    """A check refused the complete answer; `reason` is the text of the check."""

    def __init__(self, reason: str, *, model: str | None = None, provider: str | None = None) -> None:
        super().__init__(
            f"The answer of model {model or '(unnamed)'} did not pass the check: {reason}",
            model=model,
            provider=provider,
        )
        self.reason = reason


class ContentFilterError(ModelError):
    """The provider's filter withheld the whole answer, or refused the prompt (`PromptFilterError`)."""


class PromptTooLongError(ModelError):
    """The least possible request has `tokens` tokens, more than `max_tokens`; nothing was sent.

    A provider that refuses a long request raises `ContextOverflowError` instead.
    """

    def __init__(self, *, tokens: int, max_tokens: int, model: str | None = None) -> None:
        super().__init__(
            "The least possible request (system message, tools, the last user message, the last step) has "
            f"{tokens} tokens, more than max_tokens={max_tokens}. Raise the limit, or make tools' results smaller.",
            model=model,
        )
        self.tokens = tokens
        self.max_tokens = max_tokens


class ModelHTTPError(ModelError):
    """The provider answered with an error: `status`, its own `code`, `body`, `request_id` and `retry_after` seconds."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        body: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        model: str | None = None,
        provider: str | None = None,
    ) -> None:
        super().__init__(message, model=model, provider=provider)
        self.status = status
        self.code = code
        self.body = body
        self.request_id = request_id
        self.retry_after = retry_after


class RedirectError(ModelHTTPError):
    """3xx that is not followed: to another origin, to another method, or in circles; `target` is the origin."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        target: str | None = None,
        model: str | None = None,
        provider: str | None = None,
    ) -> None:
        super().__init__(message, status=status, model=model, provider=provider)
        self.target = target


class BadRequestError(ModelHTTPError):
    """4xx: the request is invalid; a retry does not help."""


class ContextOverflowError(BadRequestError):
    """The conversation does not fit the model's context."""


class PromptFilterError(BadRequestError, ContentFilterError):
    """The provider's filter refused the prompt; there is no answer."""


class AuthenticationError(ModelHTTPError):
    """401: no key, or a wrong one."""


class PermissionDeniedError(ModelHTTPError):
    """403: the key may not do this."""


class NotFoundError(ModelHTTPError):
    """404: no such model or endpoint."""


class RateLimitError(ModelHTTPError):
    """429: too many requests; `retry_after` is the provider's time to wait, if it sent one."""

    retryable = True


class ServerError(ModelHTTPError):
    """5xx: the provider failed. 501 (not implemented) is not retried."""

    retryable = True


class OverloadedError(ServerError):
    """503 or 529: the provider is overloaded."""
