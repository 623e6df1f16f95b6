"""What a failure is over HTTP, before a stream has begun: a status, and `{"error": {"type", "message"}}`.

| error                                     | status | means                                          |
|-------------------------------------------|--------|------------------------------------------------|
| `MalformedBodyError`                      | 400    | the body is not JSON                           |
| `InvalidInputError`                       | 422    | it is, but not what an agent takes             |
| `UnknownRunError`                         | 404    | no such run, or it ended too long ago          |
| `AgentBusyError`                          | 409    | the agent is running; that run is untouched    |
| `EventsGoneError`                         | 410    | the log no longer holds what the client missed |
| `TooManyRunsError`                        | 503    | as many runs are live as may be                |
| `ServiceStoppingError`, `RunStoppedError` | 503    | the application shuts down                     |
| `RequestError`                            | its own | refused by a guard, see `errors.request`      |
| any other                                 | 500    | it is logged; the answer does not say what     |

Once a stream has begun, a failure is its last event, of type `error`.
"""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from agentscope_rx.errors import AgentBusyError, AgentScopeError, InvalidInputError, RequestError


class ServiceError(AgentScopeError):
    """Something that only a run behind HTTP can fail with."""


class UnknownRunError(ServiceError):
    """No run of this id is kept: it never was, or it ended too long ago. `run_id` names it."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no run {run_id!r}. It never was, or it has ended and is no longer kept.")
        self.run_id = run_id


class EventsGoneError(ServiceError):
    """The log no longer holds the events after `after` (None: the first ones); `first` is the oldest that is kept."""

    def __init__(self, run_id: str, after: int | None, first: int | None) -> None:
        asked = "its beginning" if after is None else f"what follows event {after}"
        super().__init__(f"Run {run_id} no longer has {asked}: the oldest event kept is {first}.")
        self.run_id = run_id
        self.after = after
        self.first = first


class RunStoppedError(ServiceError):
    """The service stopped the run: it was asked to, its last client left, or the application shuts down."""


class ServiceStoppingError(ServiceError):
    """The application shuts down and begins no further run."""

    retryable = True

    def __init__(self) -> None:
        super().__init__("The service is shutting down.")


class TooManyRunsError(ServiceError):
    """As many runs are live as may be; `limit` is how many. A further one can begin when one of them has ended."""

    retryable = True

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} runs are live, and no more are begun (max_live_runs). Try again later.")
        self.limit = limit


class MalformedBodyError(InvalidInputError):
    """The body of a request is not JSON."""


_log = logging.getLogger("agentscope_rx")

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (MalformedBodyError, 400),
    (InvalidInputError, 422),
    (UnknownRunError, 404),
    (AgentBusyError, 409),
    (EventsGoneError, 410),
    (TooManyRunsError, 503),
    (ServiceStoppingError, 503),
    (RunStoppedError, 503),
)


def error_response(error: Exception) -> JSONResponse:
    """The error as a JSON response with the status that it stands for.

    Of an error that is the service's own (500) the answer says nothing but that: the words may name paths and hosts.
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
    if isinstance(error, TooManyRunsError):
        headers["retry-after"] = "5"
    if status == 500:
        # nobody else will hear where it came from
        _log.error("answered with 500: %s", error, exc_info=error)
        message = "The service failed. Its log says why."
    return JSONResponse({"error": {"type": kind, "message": message}}, status, headers)


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """`error_response` as an exception handler: `Starlette(exception_handlers={AgentScopeError: answer_error})`."""
    return error_response(error)
