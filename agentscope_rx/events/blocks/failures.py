"""`kind_of`: the kind that AgentScope 2 has for an error."""

from __future__ import annotations

from agentscope_rx import errors
from agentscope_rx.events.blocks.values import ErrorKind
from agentscope_rx.events.kinds import ErrorEvent

_KINDS: tuple[tuple[tuple[type[Exception], ...], ErrorKind], ...] = (
    ((errors.AuthenticationError,), "authentication"),
    ((errors.PermissionDeniedError,), "permission"),
    ((errors.RateLimitError,), "rate_limit"),
    ((errors.ModelConnectionError, errors.ModelTimeoutError), "connection"),
    (
        (errors.BadRequestError, errors.NotFoundError, errors.ConfigurationError, errors.InvalidInputError),
        "invalid_request",
    ),
    ((errors.ModelError,), "upstream"),
    ((errors.AgentScopeError,), "internal"),
)
"""The first that fits counts."""


def kind_of(event: ErrorEvent) -> ErrorKind:
    """The kind of the error, by its class; by the name of the class, in an event that was read from JSON."""
    found = type(event.error) if event.error is not None else getattr(errors, event.error_type, None)
    if isinstance(found, type):
        for classes, kind in _KINDS:
            if issubclass(found, classes):
                return kind
    return "unknown"
