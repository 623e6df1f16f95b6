"""Errors in A2A's form, before a task has begun.

| error                                    | of the protocol                |
|------------------------------------------|--------------------------------|
| `MalformedBodyError`                     | parse error                    |
| `InvalidInputError`, `UnknownAgentError` | invalid params                 |
| `RunEndedError`, `InboxFullError`        | unsupported operation          |
| any other                                | internal error, without a text that may name paths and hosts |
"""

from __future__ import annotations

from a2a.server.jsonrpc_models import JSONParseError, JSONRPCError
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import A2AError, InternalError, InvalidParamsError, InvalidRequestError, UnsupportedOperationError
from starlette.responses import JSONResponse

from agentscope_rx.service.failure import MalformedBodyError, answer_to


def protocol_error(error: Exception) -> A2AError:
    """The error as one of the protocol."""
    if isinstance(error, A2AError):
        return error
    answer = answer_to(error)
    if isinstance(error, MalformedBodyError):
        return InvalidRequestError(answer.message)
    if answer.status in (404, 422):
        return InvalidParamsError(answer.message)
    return (
        UnsupportedOperationError(answer.message) if answer.status in (409, 410, 429) else InternalError(answer.message)
    )


def rpc_error(id: str | int | None, error: Exception) -> dict[str, object]:
    """The error as a response of JSON-RPC."""
    if isinstance(error, MalformedBodyError):
        parse: A2AError | JSONRPCError = JSONParseError(message=str(error))
        return build_error_response(id, parse)
    return build_error_response(id, protocol_error(error))


def rest_error(error: Exception) -> JSONResponse:
    """The error with its status."""
    payload = build_rest_error_payload(protocol_error(error))
    return JSONResponse(payload, int(payload["error"]["code"]))


def rest_body(error: Exception) -> dict[str, object]:
    """The error as it stands in a stream."""
    return build_rest_error_payload(protocol_error(error))
