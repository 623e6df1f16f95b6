"""`AgUiStream`: the events of a run, in AG-UI's form, for one client.

    RUN_STARTED  MESSAGES_SNAPSHOT?  ( blocks | TOOL_CALL_RESULT | STATE_DELTA | SUBAGENT_* ... )*
    ( MESSAGES_SNAPSHOT?  RUN_FINISHED | RUN_ERROR )

| the run                                   | the last event                                     |
|-------------------------------------------|----------------------------------------------------|
| has an answer                             | RUN_FINISHED, with a structured output as `result` |
| waits for a result of a client's own tool | RUN_FINISHED of success, with `pendingToolCallIds` |
| waits for a person                        | RUN_FINISHED with the interrupts: see `interrupts` |
| was interrupted, or stopped at a limit    | RUN_FINISHED, cancelled                            |
| failed                                    | RUN_ERROR                                          |

Runs of sub-agents are SUBAGENT_STARTED to SUBAGENT_FINISHED or SUBAGENT_ERROR; their events have the `subagentRunId`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    TokenUsage,
    ToolCallResultEvent,
)
from ag_ui.encoder import EventEncoder as Encoder

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors.text import encode_json
from agentscope_rx.events import ErrorEvent, Event, PostCallEvent
from agentscope_rx.events.blocks import BlockView
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.events.kinds import (
    ContextEvent,
    InputEvent,
    MemoryEvent,
    PostActingEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreCallEvent,
)
from agentscope_rx.messages import ChatUsage, GenerateReason, Msg
from agentscope_rx.messages.msg import SUB_AGENT
from agentscope_rx.service.protocols.ag_ui.failures import LostError, words_of
from agentscope_rx.service.protocols.ag_ui.interrupts import APPROVAL, interrupt_of
from agentscope_rx.service.protocols.ag_ui.messages import content_of, result_id
from agentscope_rx.service.protocols.ag_ui.running import ShownRun
from agentscope_rx.service.protocols.ag_ui.state import AgUiState
from agentscope_rx.service.protocols.ag_ui.transcript import Transcript
from agentscope_rx.tools.background import BACKGROUND

_STOPPED = (GenerateReason.INTERRUPTED, GenerateReason.MAX_ITERATIONS, GenerateReason.LIMIT_REACHED)


class AgUiStream:
    """The `EventEncoder` of one run."""

    def __init__(self, input: RunAgentInput, transcript: Transcript, state: AgUiState) -> None:
        self._input = input
        self._transcript = transcript
        self._state = state
        self._encode = Encoder().encode
        self._view = BlockView(session_id=input.thread_id)
        self._runs: dict[str, ShownRun] = {}
        self._answered: set[str] = set()
        """The calls whose results were shown."""
        self._usage: dict[str, ChatUsage] = {}
        self._reply: Msg | None = None
        self._error: Exception | None = None
        self._began = False

    def encode(self, logged: LoggedEvent) -> bytes:
        """The events that this event of the run is."""
        return self._bytes(self.see(logged.event))

    def fail(self, error: Exception) -> bytes:
        """RUN_ERROR."""
        message, code = words_of(error)
        return self._bytes(iter([RunErrorEvent(message=message, code=code, usage=self._usages())]))

    def close(self) -> bytes:
        """RUN_FINISHED; raises the error of a failed run."""
        return self._bytes(self.end())

    def see(self, event: Event) -> Iterator[BaseEvent]:
        """The events that this event of the run is."""
        if isinstance(event, ErrorEvent) and not event.depth:
            # raised at the end: a client that left now would leave the run with an error that nobody has read
            self._error = event.error if isinstance(event.error, Exception) else LostError(event)
            return
        yield from self._begin()
        run = self._runs.get(event.run_id)
        if run is None:
            run = self._runs[event.run_id] = ShownRun(event)
            yield from self._started(run)
        if isinstance(event, PreCallEvent) and not event.depth:
            self._transcript.take(event.input)
        for block in self._view.add(event):
            yield from run.show(block)
        if not isinstance(event, ChunkEvent):
            yield from self._after(event, run)
        yield from self._state_changes()
        yield from self._snapshot()

    def end(self) -> Iterator[BaseEvent]:
        """What comes after the run's last event."""
        if self._error is not None:
            raise self._error
        yield from self._begin()
        for run in reversed(self._runs.values()):
            yield from run.cut_off()
        self._transcript.end()
        yield from self._state_changes()
        yield from self._snapshot()
        reply = self._reply
        yield RunFinishedEvent(
            thread_id=self._input.thread_id,
            run_id=self._input.run_id,
            outcome=self._outcome(reply),
            result=reply.structured() if reply is not None and reply.has_structured else None,
            usage=self._usages(),
            metadata=None if reply is None else {"generateReason": reply.generate_reason.value},
        )

    def _begin(self) -> Iterator[BaseEvent]:
        if not self._began:
            self._began = True
            yield RunStartedEvent(
                thread_id=self._input.thread_id,
                run_id=self._input.run_id,
                protocol_version=PROTOCOL_VERSION,
                parent_run_id=self._input.parent_run_id,
            )

    def _started(self, run: ShownRun) -> Iterator[BaseEvent]:
        if run.id is None:
            return
        call = run.prefix[:-1]
        around = self._runs.get(run.path[-3]) if len(run.path) > 2 else None
        known = around is not None and call in around.calls
        yield SubagentStartedEvent(
            subagent_run_id=run.id,
            name=run.agent,
            parent_subagent_run_id=None if around is None else around.id,
            parent_tool_call_id=call if known else None,
            parent_message_id=around.calls[call] if around is not None and known else None,
        )

    def _after(self, event: Event, run: ShownRun) -> Iterator[BaseEvent]:
        """What an event other than a chunk is besides its blocks."""
        if isinstance(event, (PostReasoningEvent, PostSummaryEvent)):
            self._count(event.model_name, event.usage)
            self._transcript.add(event.message, run.prefix, run.id)
            run.finish_message()
        elif isinstance(event, PostActingEvent):
            yield from self._acted(event, run)
        elif isinstance(event, PostCallEvent):
            yield from self._replied(event.message, run)
        elif isinstance(event, ErrorEvent) and run.id is not None:
            yield from run.close()
            run.ended = True
            # its text may name paths and hosts
            message = f"The sub-agent failed: {event.error_type}."
            yield SubagentErrorEvent(subagent_run_id=run.id, message=message, code=event.error_type)
        elif isinstance(event, ContextEvent):
            self._count(event.model_name, event.usage)
        elif isinstance(event, InputEvent) and not event.depth:
            self._transcript.take(event.input)
        elif isinstance(event, MemoryEvent) and not event.depth:
            self._transcript.replace(event.replaced)
            self._transcript.remove(event.removed)
            for message in event.added:
                self._transcript.add(message, shown=False)
        if run.void:
            run.void, self._transcript.differs = False, True

    def _acted(self, event: PostActingEvent, run: ShownRun) -> Iterator[BaseEvent]:
        in_background = any(BACKGROUND in result.metadata for result in event.message.tool_results)
        for other in () if in_background else reversed(self._runs.values()):
            if other.around(event.tool_use.id, run.path):
                yield from other.cut_off()
        for place, result in enumerate(event.message.tool_results):
            id = run.prefix + result.id
            self._answered.add(id)
            yield ToolCallResultEvent(
                message_id=result_id(event.message, place),
                tool_call_id=id,
                content=content_of(result),
                role="tool",
                subagent_run_id=run.id,
                metadata=None if result.kind is None else {"error": result.kind.value},
            )
        self._transcript.add(event.message, run.prefix, run.id)

    def _replied(self, reply: Msg, run: ShownRun) -> Iterator[BaseEvent]:
        waits = [result for result in reply.tool_results if result.kind is not None and result.kind.waits]
        if not waits:
            self._transcript.add(reply, run.prefix, run.id)
        run.finish_message()
        if run.id is None:
            self._reply = reply
            return
        yield from run.close()
        run.ended = True
        suspended = None
        if waits:
            own = {result.id: result for result in waits if SUB_AGENT not in result.metadata}
            asked = [
                _qualified(interrupt_of(call, own[call.id]), run) for call in reply.pending_calls if call.id in own
            ]
            suspended = SubagentFinishedSuspendedOutcome(interrupt_ids=asked or None)
        yield SubagentFinishedEvent(subagent_run_id=run.id, outcome=suspended)

    def _outcome(self, reply: Msg | None) -> RunFinishedOutcome:
        if reply is not None and reply.generate_reason in _STOPPED:
            return RunFinishedCancelledOutcome()
        if reply is not None:
            interrupts = self._interrupts(reply)
            if interrupts:
                return RunFinishedInterruptOutcome(interrupts=interrupts)
        started = [id for run in self._runs.values() for id in run.calls]
        return RunFinishedSuccessOutcome(
            pending_tool_call_ids=[id for id in started if id not in self._answered] or None
        )

    def _interrupts(self, reply: Msg) -> list[Interrupt]:
        """The calls that wait for a person, and those that wait for a result of no tool of the client."""
        own = {each.name for each in self._input.tools or ()}
        placeholders = {result.id: result for result in reply.tool_results}
        owners = {id: run.id for run in self._runs.values() for id in run.calls}
        asked = [
            (call, interrupt_of(call, placeholders.get(call.id), owners.get(call.id))) for call in reply.pending_calls
        ]
        return [each for call, each in asked if each.id.startswith(APPROVAL) or call.name not in own]

    def _state_changes(self) -> Iterator[BaseEvent]:
        changes = self._state.take_changes()
        if changes is not None:
            value, patch = changes
            if patch is None:
                yield StateSnapshotEvent(snapshot=value)
            else:
                yield StateDeltaEvent.model_validate({"delta": patch})

    def _snapshot(self) -> Iterator[BaseEvent]:
        # a client would lose a message that is being written
        if self._transcript.differs and all(run.quiet for run in self._runs.values()):
            yield self._transcript.snapshot()

    def _count(self, model: str, usage: ChatUsage | None) -> None:
        if usage is not None:
            self._usage[model] = self._usage.get(model, ChatUsage()) + usage

    def _usages(self) -> list[TokenUsage] | None:
        return [_tokens(model, usage) for model, usage in self._usage.items()] or None

    def _bytes(self, events: Iterator[BaseEvent]) -> bytes:
        return encode_json("".join([self._encode(event) for event in events]))


def _tokens(model: str, usage: ChatUsage) -> TokenUsage:
    return TokenUsage(
        model=model or None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        # 0 is also what is not known
        cached_input_tokens=usage.cached_tokens or None,
        reasoning_tokens=usage.reasoning_tokens or None,
    )


def _qualified(interrupt: Interrupt, run: ShownRun) -> str:
    kind, _, id = interrupt.id.partition(":")
    return f"{kind}:{run.prefix}{id}"
