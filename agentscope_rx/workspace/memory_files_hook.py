"""`MemoryFilesHook`: notes of each conversation in `memory/2026-11-23.md`, distilled into MEMORY.md."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Final, Literal, TypeVar

from agentscope_rx.errors import ConfigurationError, DeadlineError, DistillationError
from agentscope_rx.events import Event, PostCallEvent
from agentscope_rx.hooks.problem_reports import report_to
from agentscope_rx.long_term_memory.record_queue import RecordingHook, RecordQueue
from agentscope_rx.long_term_memory.sqlite.distill import BadDistillationError, Distiller
from agentscope_rx.messages import GenerateReason, Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.checks import check_count, check_one_of, check_seconds
from agentscope_rx.models.registry import get_model
from agentscope_rx.models.tokens import EstimatedTokens, TokenCounter
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, catch, empty, from_callable, just, on_worker, then, timeout
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.options import check_flag
from agentscope_rx.workspace.daily_log import DailyLog, entry, mark_of
from agentscope_rx.workspace.layout import as_workspace
from agentscope_rx.workspace.memory_distiller import MemoryDistiller
from agentscope_rx.workspace.memory_file import MemoryFile
from agentscope_rx.workspace.new_messages import Batch, NewMessages

T = TypeVar("T")

RecordWhen = Literal["background", "await"]

GAP: Final = 30 * 60.0
MEMORY_TOKENS: Final = 4000
KEEP_DAYS: Final = 90
VERSIONS: Final = 20
_ATTEMPTS: Final = 2
_NOT_ENDED: Final = frozenset(
    {
        GenerateReason.INTERRUPTED,
        GenerateReason.TOOL_CALLS,
        GenerateReason.TOOL_SUSPENDED,
        GenerateReason.APPROVAL_REQUIRED,
        GenerateReason.REASONING_STOP_REQUESTED,
        GenerateReason.ACTING_STOP_REQUESTED,
    }
)


class MemoryFilesHook(RecordingHook):
    """Writes the memory files of a workspace, after the calls of its agents, by a model.

        PostCall  --> reply
            '--> (background)  new messages -- model --> facts --> the daily file        each message once
                               the gap has passed: MEMORY.md, new notes -- model --> MEMORY.md
                               old daily files --> memory/archive/

    | option | |
    |---|---|
    | `model` | finds facts and distils them; a small one will do. Its tokens are not in `run.usage` |
    | `daily` | False: no notes of conversations |
    | `distill` | False: MEMORY.md stays as it is |
    | `record` | "background": the reply does not wait (see `drained`); "await": it does |
    | `min_gap` | seconds between two distillations, over all agents and processes on the workspace |
    | `max_tokens` | of MEMORY.md, by `counter` (default: an estimate) |
    | `keep_days` | the age of daily files that go to `memory/archive/`; None: none |
    | `versions` | the earlier MEMORY.md that are kept there |
    | `timeout` | seconds for a record with its distillation (None: no limit) |
    | `queue_limit` | background records; a run that finds so many waits for its own |
    | `on_error` | gets each error in the place of the dropped-error hook |
    | `clock`, `zone` | the time in seconds since the epoch, the time zone of days (default: the machine's) |
    | `name` | the name of its state (the messages noted already) in each conversation |

    What can happen:

    | if | then |
    |---|---|
    | a model call or a write fails, or takes too long | it is reported, no file changes, the next call tries it |
    | the process ends during a record | the same: facts and the mark of their place are one write |
    | MEMORY.md was changed meanwhile | it is distilled once more; changed again, it stays |
    | an answer is empty, cut off, too long, or less than half of what there was | it is sent back once, then an error |
    | the run was interrupted, failed, or waits | nothing is noted; a later call notes it |
    | `.agentscope/memory.json` is damaged | an error that says so; delete it, and all daily files are distilled again |

    Models find the notes by the `grep` and `read_file` of `FileTools`. Notes are data in the prompts of the model, and
    cannot close their tag there. A model may still take a planted sentence for a fact, so MEMORY.md is marked as data.
    """

    kinds: tuple[type[Event], ...] | None = (PostCallEvent,)

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str],
        model: ChatModel | str,
        *,
        daily: bool = True,
        distill: bool = True,
        record: RecordWhen = "background",
        min_gap: float = GAP,
        max_tokens: int = MEMORY_TOKENS,
        counter: TokenCounter | None = None,
        keep_days: int | None = KEEP_DAYS,
        versions: int = VERSIONS,
        timeout: float | None = 300.0,
        queue_limit: int = 64,
        on_error: Callable[[Exception], object] | None = None,
        clock: Callable[[], float] = time.time,
        zone: tzinfo | None = None,
        name: str = "workspace_memory",
        priority: int = 900,
    ) -> None:
        model = get_model(model) if isinstance(model, str) else model
        if not isinstance(model, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"MemoryFilesHook takes a model that finds the facts, or its name: {model!r:.60}.")
        check_flag("daily", daily)
        check_flag("distill", distill)
        check_one_of("record", record, ("background", "await"), optional=False)
        check_seconds("min_gap", min_gap, zero=True)
        check_count("max_tokens", max_tokens)
        check_count("versions", versions)
        check_count("keep_days", KEEP_DAYS if keep_days is None else keep_days)
        check_seconds("timeout", timeout, optional=True)
        self.workspace: Workspace = as_workspace(workspace)
        self.priority = priority
        self.record: RecordWhen = record
        self._daily, self._distills, self._keep_days = daily, distill, keep_days
        self._min_gap, self._timeout, self._on_error = min_gap, timeout, on_error
        self._clock, self._zone = clock, zone
        self._queue = RecordQueue(queue_limit, self._failed, "a record of memory files")
        self._log = DailyLog(self.workspace)
        self._file = MemoryFile(self.workspace, self._log, versions=versions)
        self._new = NewMessages(name)
        self._extractor = Distiller(model, _ATTEMPTS)
        self._distiller = MemoryDistiller(model, _count_by(counter or EstimatedTokens()), max_tokens, _ATTEMPTS)
        # the day on which old files were last looked for
        self._archived = ""

    def on_event(self, event: Event) -> Flow[Event] | None:
        if not isinstance(event, PostCallEvent) or event.message.generate_reason in _NOT_ENDED:
            return None
        unchanged: Event = event
        record = self._bounded(partial(self._record, event), "noting a call in the memory files")
        if self.record == "background":
            record = self._queue.put(record)
        return record.pipe(catch(self._reported), then(lambda: just(unchanged)))

    def maintain(self) -> Flow[None]:
        """Distil new notes and archive old ones now, regardless of `min_gap`; for a scheduled job.

        Signals: one None; a `ModelError`, a `DistillationError`, a `WorkspaceError`, a `DeadlineError`.
        Cancels: the model call; a file is replaced whole or not at all.
        """
        return self._bounded(partial(self._maintain, 0.0), "distilling the memory files")

    # --- a record -----------------------------------------------------------------------------------------------------

    async def _record(self, event: PostCallEvent) -> None:
        if self._daily:
            today = self._now().date()
            # of two days: a call may be noted after midnight that was begun before
            marks = await _worker(partial(self._log.marks, (today, today - timedelta(days=1))))
            before = self._new.state(event.source)
            for batch in self._new.of(event, marks):
                await self._note(event, batch)
                self._new.advance(event.source, before, batch.through)
                before = batch.through
        await self._maintain(self._min_gap)

    async def _note(self, event: PostCallEvent, batch: Batch) -> None:
        if not batch.messages:
            return
        at = self._now()
        try:
            facts = await self._extractor.extract(batch.messages, at)
        except BadDistillationError as error:
            raise DistillationError("The model gave no usable facts, and nothing was noted.", error.problems) from error
        if facts:
            mark = mark_of(batch.through)
            text = entry([fact.text for fact in facts], event.agent, at, mark)
            await _worker(partial(self._log.append, at.date(), text, mark))

    async def _maintain(self, gap: float) -> None:
        if self._distills:
            await self._distill(gap)
        today = self._now().date()
        if self._keep_days is not None and self._archived != today.isoformat():
            self._archived = today.isoformat()
            await _worker(partial(self._archive, self._keep_days))

    async def _distill(self, gap: float) -> None:
        claim = await _worker(lambda: self._file.claim(self._clock(), gap))
        if claim is None:
            return
        # a second time, if MEMORY.md was changed while the model was at work
        for _ in range(2):
            text = await self._distiller.distill(claim.text, claim.news, self._now())
            if await _worker(partial(self._file.replace, claim, text, self._clock())):
                return
            claim = await _worker(partial(self._file.again, claim))

    def _archive(self, keep_days: int) -> None:
        # what is to be distilled stays until it is
        done = self._file.done() if self._distills else None
        self._log.archive(self._now().date(), keep_days, done)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC).astimezone(self._zone)

    # --- errors -------------------------------------------------------------------------------------------------------

    def _bounded(self, work: Callable[[], Coroutine[object, object, None]], what: str) -> Flow[None]:
        flow = from_callable(work)
        if self._timeout is None:
            return flow
        return flow.pipe(timeout(total=self._timeout, error=lambda which, limit: DeadlineError(which, limit, what)))

    def _reported(self, error: Exception) -> Flow[None]:
        self._failed(error)
        return empty()

    def _failed(self, error: Exception) -> None:
        where = f"the memory files of {self.workspace!r}"
        report_to(self._on_error, error, where, "on_error of a MemoryFilesHook")

    def __repr__(self) -> str:
        return f"<MemoryFilesHook {str(self.workspace.root)!r}>"


def _worker(call: Callable[[], T]) -> Flow[T]:
    """The call on a thread: files do not hold the loop."""
    return on_worker(call, ENGINE_WORKERS)


def _count_by(counter: TokenCounter) -> Callable[[str], int]:
    return lambda text: counter.count((Msg.system(text),))
