"""`StaticLongTermMemory`: each call gets the notes that fit its input, and is recorded after its reply."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from agentscope_rx.errors import ConfigurationError, DeadlineError
from agentscope_rx.events import ErrorEvent, Event, InputEvent, PostCallEvent, PreCallEvent, PreReasoningEvent
from agentscope_rx.hooks.problem_reports import report_to
from agentscope_rx.hooks.question import last_user, said
from agentscope_rx.long_term_memory.connected import Connected, HasRuns
from agentscope_rx.long_term_memory.note import MemoryScope, Note, NoteSource, now
from agentscope_rx.long_term_memory.port import LIMIT, LongTermMemory
from agentscope_rx.long_term_memory.record_queue import RecordingHook, RecordQueue
from agentscope_rx.long_term_memory.scoping import check_scope, scope_of
from agentscope_rx.long_term_memory.wording import EXPLANATION, notes_message
from agentscope_rx.messages import GenerateReason, Msg
from agentscope_rx.messages.history import Joined
from agentscope_rx.messages.queries import query_text
from agentscope_rx.models.checks import check_count, check_one_of, check_seconds
from agentscope_rx.reactive import Flow, catch, concat_map, defer, empty, just, then, timeout

T = TypeVar("T")

RecordMode = Literal["await", "background", "off"]

_RUNS = 4096
"""Runs whose notes are kept: a disposed run sends no last event."""
_NO_REPLY = frozenset(
    {
        GenerateReason.INTERRUPTED,
        GenerateReason.TOOL_CALLS,
        GenerateReason.TOOL_SUSPENDED,
        GenerateReason.APPROVAL_REQUIRED,
        GenerateReason.REASONING_STOP_REQUESTED,
        GenerateReason.ACTING_STOP_REQUESTED,
    }
)


@dataclass(slots=True)
class _Call:
    """One call: its input so far, and the message with its notes once they are retrieved (None: there are none)."""

    input: list[Msg] = field(default_factory=list[Msg])
    retrieved: bool = False
    notes: Msg | None = None


class StaticLongTermMemory(RecordingHook):
    """Retrieves notes for each call, and records it; `ReActAgent(long_term_memory=...)` installs one.

        PreCall          the input is noted
        PreReasoning     first round: retrieve |> timeout --> one message   each round: system | notes | history | hints
        PostCall         record the input and the reply, awaited or in the background

    | option | |
    |---|---|
    | `scope` | whose facts, as far as the context of a call does not say (`MemoryScope`, `user_id`) |
    | `limit` | the number of notes |
    | `retrieve` | False: record only |
    | `retrieve_timeout` | seconds for the notes of a call (None: no limit) |
    | `record` | "await": before the call ends; "background": after it (see `drained`); "off" |
    | `record_timeout` | seconds for a record (None: no limit) |
    | `record_tools` | True: tool calls and their results are recorded, too |
    | `queue_limit` | background records; a run that finds so many waits for its own, so that none is dropped |
    | `explanation` | the sentence before the notes |
    | `on_error` | gets each error instead of the dropped-error hook |

    | the run | is recorded |
    |---|---|
    | gives its reply (also at a limit, or by a tool) | its input, also that of `enqueue`, and the reply |
    | gives the reply to a call that had to wait | the user's last message and the reply |
    | waits for approvals or results, or was stopped | when a later call gives the reply |
    | is interrupted, fails or is disposed | not |

    - **Notes belong to one call.** They are in no memory and no session, are never recorded, and are no input. A call
      without input gets the notes for the user's last message.
    - **A note cannot close its tag.** Its text is still something that a user or a tool has said: treat it as other
      input.
    - **Prompt caches** end after the system message, as notes differ from call to call; within a call they hold.
      `TruncatingModel` keeps the notes, and `MultiAgentModel` takes them for no speaker.
    - **An error**, or more than `retrieve_timeout`, is reported, and the call goes on without notes. A record that
      fails is never the run's failure.
    - **Background records** are stored one after the other, in the order of the calls, on the library's loop. A
      `GracefulShutdown` waits for them, at most `grace` seconds. A process that ends without waiting loses them.

    Its high `priority` lets it see input and reply as other hooks have left them.
    """

    kinds: tuple[type[Event], ...] | None = (PreCallEvent, InputEvent, PreReasoningEvent, PostCallEvent, ErrorEvent)

    def __init__(
        self,
        memory: LongTermMemory,
        *,
        scope: MemoryScope | None = None,
        limit: int = LIMIT,
        retrieve: bool = True,
        retrieve_timeout: float | None = 10.0,
        record: RecordMode = "await",
        record_timeout: float | None = 60.0,
        record_tools: bool = False,
        queue_limit: int = 64,
        explanation: str = EXPLANATION,
        on_error: Callable[[Exception], object] | None = None,
        priority: int = 900,
    ) -> None:
        if not isinstance(memory, LongTermMemory):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"StaticLongTermMemory takes a LongTermMemory, such as SqliteLongTermMemory('notes.db'), "
                f"not {memory!r:.60}."
            )
        check_count("limit", limit)
        check_seconds("retrieve_timeout", retrieve_timeout, optional=True)
        check_seconds("record_timeout", record_timeout, optional=True)
        check_one_of("record", record, ("await", "background", "off"), optional=False)
        for name, switch in (("retrieve", retrieve), ("record_tools", record_tools)):
            if not isinstance(switch, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"{name} must be True or False, not {switch!r:.60}.")
        self.memory = memory
        self.priority = priority
        self.limit = limit
        self.record: RecordMode = record
        self._agents = Connected()
        self._scope = check_scope("scope", scope)
        self._retrieves = retrieve
        self._retrieve_timeout = retrieve_timeout
        self._record_timeout = record_timeout
        self._record_tools = record_tools
        self._explanation = explanation
        self._on_error = on_error
        self._queue = RecordQueue(queue_limit, self._record_failed)
        self._calls: OrderedDict[str, _Call] = OrderedDict()

    def connect(self, agent: HasRuns) -> None:
        """Ask this agent for the session keys of its runs; an agent does it when it gets the hook."""
        self._agents.add(agent)

    def on_event(self, event: Event) -> Event | Flow[Event] | None:
        match event:
            case PreCallEvent():
                # (an operator around the call may try its beginning again)
                self._calls.pop(event.run_id, None)
                self._call(event.run_id).input.extend(event.input)
            case InputEvent():
                self._call(event.run_id).input.extend(event.input)
            case PreReasoningEvent() if self._retrieves:
                return self._with_notes(event)
            case PostCallEvent():
                return self._recorded(event, self._calls.pop(event.run_id, None) or _Call(list(event.input)))
            case ErrorEvent():
                self._calls.pop(event.run_id, None)
            case _:
                pass
        return None

    def _call(self, run_id: str) -> _Call:
        call = self._calls.setdefault(run_id, _Call())
        while len(self._calls) > _RUNS:
            self._calls.popitem(last=False)
        return call

    # --- retrieving ---------------------------------------------------------------------------------------------------

    def _with_notes(self, event: PreReasoningEvent) -> Event | Flow[Event] | None:
        call = self._call(event.run_id)
        if call.retrieved:
            return _placed(event, call.notes)
        asked = said(call.input) or said(last_user(event.history))
        query = query_text(asked)
        if not query:
            call.retrieved = True
            return None
        scope = scope_of(event.context, event.context.user_id, self._scope)
        found = defer(lambda: self.memory.retrieve(query, self.limit, scope=scope))
        bounded = _within(self._retrieve_timeout, found, "retrieving from long-term memory")

        def place(notes: tuple[Note, ...]) -> Event:
            call.retrieved = True
            if notes:
                call.notes = notes_message(notes[: self.limit], self._explanation)
            return _placed(event, call.notes) or event

        def failed(error: Exception) -> Flow[tuple[Note, ...]]:
            self._report(error, f"retrieving notes for a call of agent {event.agent!r}")
            return just(())

        return bounded.pipe(catch(failed), concat_map(place))

    # --- recording ----------------------------------------------------------------------------------------------------

    def _recorded(self, event: PostCallEvent, call: _Call) -> Flow[Event] | None:
        if self.record == "off" or event.message.generate_reason in _NO_REPLY:
            return None
        messages = self._delta(event, call)
        if not messages:
            return None
        context = event.context
        source = NoteSource(
            session_key=self._agents.session_key_of(event.run_id) or context.session_id,
            run_id=event.run_id,
            message_ids=tuple(message.id for message in messages),
            agent=event.agent,
            at=now(),
        )
        scope = scope_of(context, context.user_id, self._scope)
        begun = defer(lambda: self.memory.record(messages, scope=scope, source=source))
        stored = _within(self._record_timeout, begun, "recording in long-term memory")
        if self.record == "background":
            stored = self._queue.put(stored)

        def failed(error: Exception) -> Flow[None]:
            self._record_failed(error)
            return empty()

        unchanged: Event = event
        return stored.pipe(catch(failed), then(lambda: just(unchanged)))

    def _delta(self, event: PostCallEvent, call: _Call) -> tuple[Msg, ...]:
        """What this call has added: its input and the reply; with `record_tools`, what is between them, too."""
        asked = said(call.input) or said(last_user(event.history))
        reply = event.message
        if not self._record_tools:
            return (*asked, *said([reply]))
        first = {message.id for message in asked}
        start = len(event.history)
        for index in range(len(event.history) - 1, -1, -1):
            if not first:
                break
            if event.history[index].id in first:
                first.discard(event.history[index].id)
                start = index
        between = [each for each in event.history[start:] if each.id != reply.id]
        return (*between, reply)

    # --- errors -------------------------------------------------------------------------------------------------------

    def _record_failed(self, error: Exception) -> None:
        self._report(error, f"recording a call in {self.memory!r:.80}")

    def _report(self, error: Exception, where: str) -> None:
        report_to(self._on_error, error, where, "on_error of a StaticLongTermMemory")


def _placed(event: PreReasoningEvent, notes: Msg | None) -> Event | None:
    return None if notes is None else event.replace(messages=Joined((notes,), event.messages))


def _within(seconds: float | None, source: Flow[T], what: str) -> Flow[T]:
    """The source with a deadline."""
    if seconds is None:
        return source
    return source.pipe(timeout(total=seconds, error=lambda which, limit: DeadlineError(which, limit, what)))
