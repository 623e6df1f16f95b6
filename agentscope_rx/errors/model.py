"""Between us and a model."""

from __future__ import annotations

from agentscope_rx.errors.base import AgentScopeError, DeadlineError


class ModelError(AgentScopeError):
    """Something went wrong between us and a model; `model` and `provider` name it where known."""

    def __init__(self, message: str, *, model: str | None = None, provider: str | None = None) -> None:
        super().__init__(message)
        self.model = model
        self.provider = provider


class ModelConnectionError(ModelError):
    """No connection to the provider, or it broke off before the answer was whole."""

    retryable = True


class ModelTimeoutError(ModelError, TimeoutError):
    """A deadline of a model call passed; `which` and `limit` as in `DeadlineError`."""

    retryable = True

    def __init__(self, which: str, limit: float, *, model: str | None = None, provider: str | None = None) -> None:
        super().__init__(str(DeadlineError(which, limit, f"Model {model or 'call'}")), model=model, provider=provider)
        self.which = which
        self.limit = limit


class ProtocolError(ModelError):
    """The provider sent what its wire format does not allow; `body` is the offending part, cut."""

    def __init__(
        self, message: str, *, body: str | None = None, model: str | None = None, provider: str | None = None
    ) -> None:
        super().__init__(message, model=model, provider=provider)
        self.body = body


class AnswerTooLargeError(ProtocolError):
    """The provider sent more than a limit allows; `limit` are its bytes, `setting` is the limit's name."""

    def __init__(
        self, what: str, limit: int, setting: str, *, model: str | None = None, provider: str | None = None
    ) -> None:
        super().__init__(
            f"{what} is larger than {limit} bytes ({setting}). If that is right, allow more: "
            f"Transport(HttpConfig({setting}=...)).",
            model=model,
            provider=provider,
        )
        self.limit = limit
        self.setting = setting


class EmptyResponseError(ModelError):
    """The model ended without text or tool call, or went on thinking and nothing else.

    `finish_reason` is its reason; `stage` is what it was asked for: "reasoning", or None outside of a run. `thinking`
    counts the answers on end that were thinking alone.
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
        what = f"only thought, {thinking} times on end" if thinking else "answered without content"
        super().__init__(
            f"Model {model or '(unnamed)'} {what}{where} (finish reason: {finish_reason or 'none'}).", model=model
        )
        self.finish_reason = finish_reason
        self.stage = stage
        self.thinking = thinking


class CircuitOpenError(ModelError):
    """A model that has failed too often is not asked, for `retry_after` seconds yet; see `CircuitBreaker`."""

    def __init__(
        self, failures: int, retry_after: float, *, model: str | None = None, provider: str | None = None
    ) -> None:
        super().__init__(
            f"Model {model or '(unnamed)'} has failed {failures} times on end; it is asked again in {retry_after:g} s.",
            model=model,
            provider=provider,
        )
        self.retry_after = retry_after


class BadAnswerError(ModelError):
    """A whole answer that a check of yours refused; `reason` is what the check said."""

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
    """What cannot be left out of a request counts `tokens`, more than `max_tokens`; nothing was sent.

    (That a provider refuses what is too long is a `ContextOverflowError`.)
    """

    def __init__(self, *, tokens: int, max_tokens: int, model: str | None = None) -> None:
        super().__init__(
            "The least that must be sent (system message, tools, the last user message, the last step) counts "
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
    """3xx to where a request does not follow: another origin, another method, in circles; `target` is the origin."""

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
    """4xx: the request itself is wrong; sending it again will not help."""


class ContextOverflowError(BadRequestError):
    """The conversation does not fit the model's context."""


class PromptFilterError(BadRequestError, ContentFilterError):
    """The provider's filter refused the prompt: it was not answered at all."""


class AuthenticationError(ModelHTTPError):
    """401: no key, or a wrong one."""


class PermissionDeniedError(ModelHTTPError):
    """403: the key may not do this."""


class NotFoundError(ModelHTTPError):
    """404: no such model or endpoint."""


class RateLimitError(ModelHTTPError):
    """429: too many requests; `retry_after` says how long to wait where the provider did."""

    retryable = True


class ServerError(ModelHTTPError):
    """5xx: the provider failed. (501, which says that it cannot do this at all, is not retried.)"""

    retryable = True


class OverloadedError(ServerError):
    """503 or 529: the provider is overloaded."""
