"""The two bindings of the protocol over HTTP: JSON-RPC, and HTTP+JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
)
from a2a.utils.constants import VERSION_HEADER
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InvalidRequestError,
    MethodNotFoundError,
    PushNotificationNotSupportedError,
    VersionNotSupportedError,
)
from a2a.utils.proto_utils import parse_params
from google.protobuf.json_format import ParseError
from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.service.bodies import read_json
from agentscope_rx.service.protocols.a2a.failures import rest_body, rest_error, rpc_error
from agentscope_rx.service.protocols.a2a.service import TaskService
from agentscope_rx.service.protocols.a2a.streams import Refused, stream_of
from agentscope_rx.service.protocols.a2a.tasks import HostedTask
from agentscope_rx.service.protocols.a2a.wire import from_json, to_json
from agentscope_rx.service.protocols.whole import WholeResponse

Endpoint = Callable[[Request], Awaitable[Response]]
_PUSH = frozenset({
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
})  # fmt: skip


class Binding:
    """What both bindings do; they differ in the form of a result and of an error."""

    def __init__(
        self,
        service: TaskService,
        request: Request,
        result: Callable[[dict[str, object]], dict[str, object]],
        refused: Callable[[Exception], JSONResponse],
        failure: Callable[[Exception], dict[str, object]],
    ) -> None:
        self._service = service
        self._request = request
        self._result = result
        self._refused = refused
        self._failure = failure

    async def send(self, given: object) -> Response:
        """The task when its run has ended, or as it is now if the client does not wait."""
        params = from_json(given, SendMessageRequest)
        task = self._service.send(self._request, params)
        run = task.run
        configuration = params.configuration
        history = configuration.history_length if configuration.HasField("history_length") else None

        def answer() -> Response:
            return self._json(SendMessageResponse(task=task.snapshot(history)))

        if run is None or run.handle is not None:
            return answer()
        if configuration.return_immediately:
            try:
                # the run begins with its first reader, and goes on without one
                await run.leave(run.follow())
            except Exception as error:
                return self._refusal(task)(error)
            return answer()
        return WholeResponse(run, lambda event: None, answer, self._refusal(task))

    async def stream(self, given: object) -> Response:
        """The task, and its updates until its run has ended."""
        return self._follow(self._service.send(self._request, from_json(given, SendMessageRequest)))

    async def subscribe(self, given: object) -> Response:
        """The task as it is now, and its further updates."""
        return self._follow(self._service.subscribed(self._request, from_json(given, SubscribeToTaskRequest)))

    async def get(self, given: object) -> Response:
        """The task as it is now."""
        return self._json(self._service.get(self._request, from_json(given, GetTaskRequest)))

    async def list(self, given: object) -> Response:
        """A page of tasks."""
        return self._json(self._service.list(self._request, from_json(given, ListTasksRequest)))

    async def cancel(self, given: object) -> Response:
        """The task after its end."""
        return self._json(await self._service.cancel(self._request, from_json(given, CancelTaskRequest)))

    def _follow(self, task: HostedTask) -> Response:
        return stream_of(task, self._result, self._failure, self._refusal(task))

    def _refusal(self, task: HostedTask) -> Callable[[Exception], Response]:
        return lambda error: Refused(task, error, self._refused(error))

    def _json(self, message: Message) -> JSONResponse:
        return JSONResponse(self._result(to_json(message)))


def rpc_endpoint(service: TaskService) -> Endpoint:
    """The endpoint of JSON-RPC. A request with an error is answered with 200, as the binding says."""

    async def answer(request: Request) -> Response:
        id: str | int | None = None
        try:
            body = await read_json(request)
            if not isinstance(body, dict):
                raise InvalidRequestError("A request must be an object. Batches are not supported.")
            call = cast("dict[str, object]", body)
            given = call.get("id")
            if isinstance(given, bool) or not (given is None or isinstance(given, (str, int))):
                raise InvalidRequestError("id must be a string or an integer.")
            id = given
            method = call.get("method")
            if call.get("jsonrpc") != "2.0" or not isinstance(method, str):
                raise InvalidRequestError("jsonrpc must be '2.0', and method a string.")
            if method in _PUSH:
                raise PushNotificationNotSupportedError
            if method == "GetExtendedAgentCard":
                raise ExtendedAgentCardNotConfiguredError
            _check_version(request)
            binding = Binding(
                service,
                request,
                lambda result: {"jsonrpc": "2.0", "id": id, "result": result},
                lambda error: JSONResponse(rpc_error(id, error)),
                lambda error: rpc_error(id, error),
            )
            operations = {
                "SendMessage": binding.send,
                "SendStreamingMessage": binding.stream,
                "SubscribeToTask": binding.subscribe,
                "GetTask": binding.get,
                "ListTasks": binding.list,
                "CancelTask": binding.cancel,
            }
            if method not in operations:
                raise MethodNotFoundError(f"There is no method {method!r:.80}.")
            return await operations[method](call.get("params", {}))
        except Exception as error:
            return JSONResponse(rpc_error(id, error))

    return answer


def rest_endpoint(service: TaskService, operation: Callable[[Binding, object], Awaitable[Response]]) -> Endpoint:
    """The endpoint of one operation of HTTP+JSON."""

    async def answer(request: Request) -> Response:
        try:
            _check_version(request)
            binding = Binding(
                service,
                request,
                lambda result: result,
                rest_error,
                rest_body,
            )
            given = dict(request.path_params) if request.method == "GET" or "id" in request.path_params else {}
            if not given and request.method == "POST":
                return await operation(binding, await read_json(request))
            return await operation(binding, {**given, **_query(request)})
        except Exception as error:
            return rest_error(error)

    return answer


def _query(request: Request) -> dict[str, object]:
    if not request.query_params:
        return {}
    params = ListTasksRequest()
    try:
        parse_params(request.query_params, params)
    except (ParseError, ValueError) as error:
        raise InvalidInputError(f"The query is invalid: {error!s:.300}") from None
    return to_json(params)


def _check_version(request: Request) -> None:
    version = request.headers.get(VERSION_HEADER) or "0.3"
    if version.partition(".")[0] != "1":
        raise VersionNotSupportedError(f"A2A {version:.20} is not supported. The header {VERSION_HEADER} must be 1.0.")
