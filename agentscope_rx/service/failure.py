"""Errors over HTTP: before a stream begins, a status and `{"error": {"type", "message"}}`.

| error                                     | status | means                                          |
|-------------------------------------------|--------|------------------------------------------------|
| `MalformedBodyError`                      | 400    | the body is not JSON                           |
| `InvalidInputError`                       | 422    | the body is JSON, but no valid input           |
| `UnknownRunError`                         | 404    | no such run, or it is no longer kept           |
| `UnknownAgentError`                       | 404    | no agent of that name                          |
| `AgentBusyError`                          | 409    | the agent is running; that run goes on         |
| `ConversationLeasedError`                 | 409    | another process is running in the conversation |
| `QueuedCallInterruptedError`              | 409    | interrupted while it waited for its turn       |
| `RunEndedError`                           | 409    | input for a run that has ended                 |
| `RunElsewhereError`                       | 409    | input for a run of another process             |
| `InboxFullError`                          | 429    | too many inputs wait for the run               |
| `EventsGoneError`                         | 410    | the log has dropped events the client missed   |
| `RunLostError`                            | 410    | the process that had the run is gone           |
| `TooManyRunsError`                        | 503    | the limit of live runs is reached              |
| `ServiceStoppingError`, `RunStoppedError`, `AgentShuttingDownError` | 503 | the application is shutting down |
| `RequestError`                            | its own | refused by a guard, see `errors.request`      |
| any other                                 | 500    | logged; the answer names only its type         |

After that an error is the last event, of type `error`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from agentscope_rx.errors import (
    AgentBusyError,
    AgentScopeError,
    AgentShuttingDownError,
    ConversationLeasedError,
    EventsGoneError,
    InboxFullError,
    InvalidInputError,
    QueuedCallInterruptedError,
    RequestError,
    RunEndedError,
    RunStoppedError,
)


class ServiceError(AgentScopeError):
    """The base of the errors of runs behind HTTP."""


class UnknownRunError(ServiceError):
    """There is no run with the id `run_id`: it never existed, or it ended too long ago; or another process has it."""

    def __init__(self, run_id: str, *, elsewhere: bool = False) -> None:
        text = f"There is no run {run_id!r}. Its id is wrong, or it has ended and is no longer kept."
        if elsewhere:
            text += " If another process has it, only that one can answer: the host has no relay."
        super().__init__(text)
        self.run_id = run_id


class RunElsewhereError(ServiceError):
    """Another process has the run `run_id`, and what was asked for can be done only there."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"Run {run_id} is in another process, which alone can give it input. Wait for its end.")
        self.run_id = run_id


class RunLostError(ServiceError):
    """The process that had the run `run_id` gives no sign of life. A further run of its conversation goes on."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"The process that had run {run_id} gives no sign of life. If it was a run of a stored conversation, a "
            "further one goes on where it was cut off."
        )
        self.run_id = run_id


class UnknownAgentError(ServiceError):
    """The service has no agent of the name `name`; `names` are those that it has."""

    def __init__(self, name: str | None, names: tuple[str, ...]) -> None:
        known = ", ".join(names)
        if name is None:
            super().__init__(f"The request names no agent. The service has {known:.500}.")
        else:
            super().__init__(f"There is no agent {name!r:.200}. The service has {known:.500}.")
        self.name = name
        self.names = names


class ServiceStoppingError(ServiceError):
    """The application is shutting down and begins no further run."""

    retryable = True

    def __init__(self) -> None:
        super().__init__("The service is shutting down.")


class TooManyRunsError(ServiceError):
    """The limit of live runs is reached; try again when one of them has ended."""

    retryable = True

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} runs are live, which is the limit (max_live_runs). Try again later.")
        self.limit = limit


class MalformedBodyError(InvalidInputError):
    """The body of a request is not JSON."""


_log = logging.getLogger("agentscope_rx")

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (MalformedBodyError, 400),
    (InvalidInputError, 422),
    (UnknownRunError, 404),
    (UnknownAgentError, 404),
    (AgentBusyError, 409),
    (ConversationLeasedError, 409),
    (QueuedCallInterruptedError, 409),
    (RunEndedError, 409),
    (RunElsewhereError, 409),
    (InboxFullError, 429),
    (EventsGoneError, 410),
    (RunLostError, 410),
    (TooManyRunsError, 503),
    (ServiceStoppingError, 503),
    (RunStoppedError, 503),
    (AgentShuttingDownError, 503),
)


class Answer(NamedTuple):
    """What a client is told of an error, in whatever form."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str]


def answer_to(error: Exception) -> Answer:
    """The status and the words for this error.

    With status 500 they have only the type of the error, because its text may name paths and hosts.
    """
    kind, message = type(error).__name__, str(error)
    headers: dict[str, str] = {}
    if isinstance(error, RequestError):
        status = error.status
        headers.update(error.headers)
    elif isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
        headers.update(error.headers or {})
    else:
        status = next((status for known, status in _STATUS if isinstance(error, known)), 500)
    if status == 503:
        headers.setdefault("retry-after", "5")
    if status == 500:
        # the traceback is only in the log
        _log.error("answered with 500: %s", error, exc_info=error)
        message = "The service failed. See its log."
    return Answer(status, kind, message, headers)


def error_response(error: Exception) -> JSONResponse:
    """The error as a JSON response with its status: see `answer_to`."""
    status, kind, message, headers = answer_to(error)
    return JSONResponse({"error": {"type": kind, "message": message}}, status, headers)


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """An exception handler that answers errors: `Starlette(exception_handlers={AgentScopeError: answer_error})`."""
    return error_response(error)
