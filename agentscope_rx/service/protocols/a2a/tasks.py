"""`HostedTask` and `Tasks`: the tasks of the clients, each with the run that works on it.

    submitted -> working -> completed | failed | canceled | rejected
                    ^  |
                    |  v
               input-required              the next message of the task answers, with another run

A task sees each event of its runs before the log has it, whether or not a client follows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from uuid import uuid4

from a2a.types import Artifact, Message, Part, StreamResponse, Task, TaskState, TaskStatus
from a2a.utils.errors import TaskNotFoundError
from reactivex import operators as ops

from agentscope_rx.errors import RunStoppedError
from agentscope_rx.events import ErrorEvent, Event
from agentscope_rx.reactive import Flow, catch, empty, flow, just
from agentscope_rx.service.failure import TooManyRunsError
from agentscope_rx.service.protocols.a2a.parts import Waiting
from agentscope_rx.service.protocols.a2a.updates import Updates
from agentscope_rx.service.runs.live_run import LiveRun

OVER = frozenset({
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
})  # fmt: skip
"""The states in which a task stays."""
MAX_TASKS = 1000


class HostedTask:
    """One task: its state, its artifacts, the messages of its client, and the run in progress."""

    def __init__(self, id: str, context_id: str, owner: tuple[str, str]) -> None:
        self.id = id
        self.context_id = context_id
        self.owner = owner
        """The agent and the user, who alone can reach it."""
        self.run: LiveRun | None = None
        self.position: int = 0
        """How many events of the run it has seen."""
        self.updates: Updates = Updates(id, context_id)
        self.canceling: bool = False
        self._status: TaskStatus = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        self._before: tuple[TaskStatus, Waiting] | None = None
        """What the task asked for before the run in progress."""
        self._history: list[Message] = []
        self._artifacts: dict[str, Artifact] = {}
        self._texts: dict[str, list[str]] = {}

    @property
    def state(self) -> TaskState:
        """The state that clients see."""
        return self._status.state

    @property
    def waiting(self) -> Waiting:
        """The calls that wait for the client."""
        return self.updates.waiting if self.state == TaskState.TASK_STATE_INPUT_REQUIRED else {}

    def hear(self, message: Message) -> None:
        """Keep a message of the client."""
        kept = Message()
        kept.CopyFrom(message)
        kept.task_id, kept.context_id = self.id, self.context_id
        self._history.append(kept)

    def work(self, run: LiveRun) -> None:
        """This run works on the task from now on."""
        self._before = (self._status, self.waiting) if self.waiting else None
        self.run = run
        self.position = 0
        self.updates.waiting = {}
        self._take(self.updates.status(TaskState.TASK_STATE_WORKING, []))
        run.ended.listen(self._stopped)

    def watch(self, events: Flow[Event]) -> Flow[Event]:
        """The events of a run, which the task sees first. An error is the last event: the task keeps it.

        Signals: the events; an `ErrorEvent` for an error that had none. No error.
        Cancels: the run.
        """
        failed: list[ErrorEvent] = []

        def see(event: Event) -> None:
            if isinstance(event, ErrorEvent) and not event.depth:
                failed.append(event)
            self.position += 1
            for update in self.updates.see(event):
                self._take(update)

        def end(error: Exception) -> Flow[Event]:
            if failed:
                return empty()
            event = ErrorEvent.of(error)
            see(event)
            return just(event)

        return flow(events.pipe(ops.do_action(see), catch(end)))

    def refuse(self, error: Exception) -> None:
        """The run could not begin. A task that has asked its client still does: the answer may come again."""
        if self._before is None:
            self._take(self.updates.failed(error))
        else:
            self._status, self.updates.waiting = self._before

    def cancel(self) -> None:
        """The task is over, unless it is already."""
        if self.state not in OVER:
            self._take(self.updates.status(TaskState.TASK_STATE_CANCELED, []))

    def snapshot(self, history: int | None = None, *, artifacts: bool = True) -> Task:
        """The task as it is now, with its last `history` messages."""
        shown: Sequence[Message] = self._history if history is None else self._history[len(self._history) - history :]
        made = Task(id=self.id, context_id=self.context_id, status=self._status, history=shown if history != 0 else ())
        if artifacts:
            for id, artifact in self._artifacts.items():
                text = "".join(self._texts.get(id, ()))
                made.artifacts.append(artifact)
                if text:
                    made.artifacts[-1].parts.insert(0, Part(text=text))
        return made

    def _take(self, update: StreamResponse) -> None:
        if update.HasField("status_update"):
            self._status = update.status_update.status
            return
        given = update.artifact_update
        id = given.artifact.artifact_id
        if not given.append or id not in self._artifacts:
            self._artifacts[id] = Artifact(artifact_id=id, name=given.artifact.name)
            self._texts[id] = []
        for part in given.artifact.parts:
            if part.HasField("text"):
                # joined when it is read: a text that grows by copies would cost its square
                self._texts[id].append(part.text)
            else:
                self._artifacts[id].parts.append(part)

    def _stopped(self) -> None:
        # a run that was stopped from outside has no last event
        if self.state == TaskState.TASK_STATE_WORKING:
            if self.canceling:
                self.cancel()
            else:
                self._take(self.updates.failed(RunStoppedError("The run was stopped.")))


class Tasks:
    """The tasks by id: the last `limit` of them, and each that is in progress."""

    def __init__(self, limit: int = MAX_TASKS) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, HostedTask] = OrderedDict()

    def new(self, owner: tuple[str, str], context_id: str) -> HostedTask:
        """Another task; the oldest ones that are not in progress make room for it."""
        if len(self._kept) >= self._limit:
            idle = next((id for id, each in self._kept.items() if each.state != TaskState.TASK_STATE_WORKING), None)
            if idle is None:
                raise TooManyRunsError(self._limit)
            del self._kept[idle]
        id = str(uuid4())
        task = self._kept[id] = HostedTask(id, context_id or str(uuid4()), owner)
        return task

    def find(self, owner: tuple[str, str], id: str) -> HostedTask:
        """The task of this id; `TaskNotFoundError` if there is none of this owner."""
        task = self._kept.get(id)
        if task is None or task.owner != owner:
            raise TaskNotFoundError(f"There is no task {id!r:.80}. Its id is wrong, or it is no longer kept.")
        return task

    def of(self, owner: tuple[str, str]) -> list[HostedTask]:
        """All tasks of this owner, the last one first."""
        return [each for each in reversed(self._kept.values()) if each.owner == owner]
