"""`TaskService`: the operations of the protocol, for one agent of a host. Both bindings call them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import (
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from starlette.requests import Request

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Msg
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.a2a.parts import input_of
from agentscope_rx.service.protocols.a2a.tasks import OVER, HostedTask, Tasks
from agentscope_rx.service.runs.live_run import OnDisconnectChoice

CANCEL_SECONDS = 10.0
LISTED = 50


class TaskService:
    """The tasks of one agent."""

    def __init__(
        self,
        host: AgentHost,
        name: str,
        tasks: Tasks,
        *,
        on_disconnect: OnDisconnectChoice,
        output: object,
        grace: float,
    ) -> None:
        self._host = host
        self._name = name
        self._tasks = tasks
        self._on_disconnect: OnDisconnectChoice = on_disconnect
        self._output = output
        self._grace = grace

    def send(self, request: Request, params: SendMessageRequest) -> HostedTask:
        """The task that this message begins, answers, or is added to. Its new run begins with its first reader."""
        message = params.message
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        if not message.message_id:
            raise InvalidInputError("The message has no messageId.")
        if not message.task_id:
            input = input_of(message, {})
            task = self._tasks.new(self._owner(request), message.context_id)
        else:
            task = self._find(request, message.task_id)
            if message.context_id and message.context_id != task.context_id:
                raise InvalidInputError(f"The task {task.id!r} belongs to another context.")
            if task.state in OVER:
                raise UnsupportedOperationError(f"The task {task.id!r} is over. Begin another one in its context.")
            input = input_of(message, task.waiting)
            if task.state == TaskState.TASK_STATE_WORKING and task.run is not None:
                task.run.enqueue([each for each in input if isinstance(each, Msg)])
                task.hear(message)
                return task
        task.hear(message)
        try:
            run = self._host.begin(
                self._name,
                input,
                user=task.owner[1],
                session_id=task.context_id,
                through=task.watch,
                on_disconnect=self._on_disconnect,
                output=self._output,  # pyright: ignore[reportArgumentType]
            )
        except Exception as error:
            if not task.waiting:
                task.refuse(error)
            raise
        task.work(run)
        return task

    def get(self, request: Request, params: GetTaskRequest) -> Task:
        """The task as it is now."""
        history = params.history_length if params.HasField("history_length") else None
        return self._find(request, params.id).snapshot(_length(history))

    def subscribed(self, request: Request, params: SubscribeToTaskRequest) -> HostedTask:
        """The task, if there is something to follow."""
        task = self._find(request, params.id)
        if task.state in OVER:
            raise UnsupportedOperationError(f"The task {task.id!r} is over: there is nothing to follow. Get it.")
        return task

    def list(self, request: Request, params: ListTasksRequest) -> ListTasksResponse:
        """The tasks of this user, the last one first, in pages."""
        size = params.page_size if params.HasField("page_size") else LISTED
        token = params.page_token or "0"
        if not (1 <= size <= 100) or not (token.isascii() and token.isdigit() and len(token) < 10):
            raise InvalidInputError("pageSize must be from 1 to 100, and pageToken one of an answer.")
        begin = int(token)
        found = [
            each
            for each in self._tasks.of(self._owner(request))
            if params.context_id in ("", each.context_id)
            and params.status in (TaskState.TASK_STATE_UNSPECIFIED, each.state)
        ]
        shown = found[begin : begin + size]
        history = _length(params.history_length if params.HasField("history_length") else 0)
        return ListTasksResponse(
            tasks=[each.snapshot(history, artifacts=params.include_artifacts) for each in shown],
            next_page_token=str(begin + size) if begin + size < len(found) else "",
            page_size=size,
            total_size=len(found),
        )

    async def cancel(self, request: Request, params: CancelTaskRequest) -> Task:
        """Interrupt the run, and return the task when it has ended. A run that does not end in time is stopped."""
        task = self._find(request, params.id)
        if task.state in OVER:
            raise TaskNotCancelableError(f"The task {task.id!r} is over.")
        run = task.run
        if run is not None and task.state == TaskState.TASK_STATE_WORKING:
            task.canceling = True
            run.interrupt()
            try:
                async with asyncio.timeout(self._grace):
                    await run.gone.wait()
            except TimeoutError:
                await run.stop("The task was canceled.")
        task.cancel()
        return task.snapshot()

    def _owner(self, request: Request) -> tuple[str, str]:
        return self._name, self._host.user_of(request)

    def _find(self, request: Request, id: str) -> HostedTask:
        if not id:
            raise TaskNotFoundError("The request names no task.")
        return self._tasks.find(self._owner(request), id)


Operation = Callable[[Request], object]


def _length(history: int | None) -> int | None:
    if history is not None and history < 0:
        raise InvalidInputError("historyLength must be at least 0.")
    return history
