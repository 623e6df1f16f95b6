"""One call of a sub-agent: its run, as the items that a tool emits.

    the sub-agent's stream     PreCall .. chunk "It" .. chunk " is" .. PostCall|
    signals                    n ........ n c "It" .... n c " is" .... n  result|     n: ToolNested, c: ToolChunk

| how the run ends                          | the call                                                               |
|-------------------------------------------|------------------------------------------------------------------------|
| a reply                                   | gets its text, with the conversation's id                              |
| a reply with pending calls                | gets a placeholder, and is pending, too                                |
| interrupted, by itself or with its parent | gets a result of kind `interrupted`, with the reply                    |
| cut off by a shutdown, with its parent    | gets a placeholder; the run continues when the call is run again       |
| an error                                  | fails with `SubAgentError`; the next attempt continues from there      |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, cast

from agentscope_rx.agent.input import CallInput
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.run_state import RunState
from agentscope_rx.agent.sub_agent.child_tool import headed
from agentscope_rx.agent.sub_agent.conversations import SubConversation, SubConversations
from agentscope_rx.agent.sub_agent.parent_link import ParentLink
from agentscope_rx.agent.sub_agent.pending import placeholder_of
from agentscope_rx.errors import AgentShuttingDownError, ConfigurationError, SubAgentError, ToolError
from agentscope_rx.events import (
    ErrorEvent,
    Event,
    EventSource,
    PostCallEvent,
    ReasoningChunkEvent,
    SummaryChunkEvent,
)
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import (
    GenerateReason,
    Msg,
    OutputBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.messages.blocks import OUTPUT_TYPES
from agentscope_rx.models.retryable import is_retryable
from agentscope_rx.reactive import Flow, Outcome, Scope, SourceCancelledError, cancelled_alone, just, using
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.tools import ToolChunk, ToolContext, ToolNested

Forward = Literal["events", "text", "none"]
"""The part of a sub-agent's run in the parent's stream: its events, with its text as progress; its text; or none."""

ResultForm = Callable[[ToolUseBlock, Msg], ToolResultBlock]
"""Makes the result of a call of the sub-agent's reply."""

CUT_OFF = "The agent was cut off by a shutdown; it continues when the call is run again."


@dataclass(frozen=True, slots=True)
class AgentToolConfig:
    """The options of `AgentTool`, checked."""

    forward: Forward = "events"
    memory: Callable[[], Memory] = InMemoryMemory
    max_conversations: int = 100
    interrupt_grace: float | None = 30.0
    on_run: Callable[[RunState], None] | None = None
    """Called with each run as it begins, before its limits apply."""

    def __post_init__(self) -> None:
        if self.forward not in ("events", "text", "none"):
            raise ConfigurationError(f"forward must be 'events', 'text' or 'none', not {self.forward!r}.")
        if not callable(self.memory):
            raise ConfigurationError(
                f"memory must be a function that makes one, such as InMemoryMemory, not {self.memory!r:.60}: each "
                "conversation has its own."
            )
        count = cast("object", self.max_conversations)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigurationError(f"max_conversations must be a whole number of at least 1, not {count!r}.")
        grace = cast("object", self.interrupt_grace)
        if grace is not None and not (isinstance(grace, (int, float)) and not isinstance(grace, bool) and grace >= 0):
            raise ConfigurationError(f"interrupt_grace must be >= 0 seconds or None, not {grace!r}.")


def run_child(
    agent: AgentCore,
    child: SubConversation,
    children: SubConversations,
    message: str | Sequence[Msg] | None,
    context: ToolContext,
    host: Run | None,
    config: AgentToolConfig,
    output: object = None,
    form: ResultForm | None = None,
) -> Flow[object]:
    """The run of a child that was taken: it begins with the message, or continues. `output` is as for `call`.

    `form` makes the results; without it they have the form that a model reads. With it a child whose own source was
    cancelled, while the loop goes on, has failed: otherwise that ends the run of its parent, too.

    Signals: as in the table above; completion when the sub-agent's conversation is free.
    Cancels: the run, with its clean-up.
    """
    link = ParentLink(host, context.call.id)
    memory, conversation = child.memory, child.conversation
    assert conversation is not None

    def started(run: RunState) -> None:
        link.attach(run)
        if config.on_run is not None:
            config.on_run(run)

    def begin() -> Flow[object]:
        conversation.on_run = started
        # a run that continues has the request for its output already
        asked = None if child.begun else output
        events = agent.nested(_input_of(child, message), context.runtime, memory, asked)

        def connect(sink: Sink[object], scope: Scope) -> None:
            items = _ToolItems(sink, scope, agent.name, child, context, link, config, form)
            sink.on_subscribe(items)
            if not items.disposed:
                items.start()
                attach(events, items, scope)

        return Flow(connect)

    def release(_: ParentLink, ending: Outcome) -> None:
        link.end()
        if conversation.on_run is started:
            conversation.on_run = None
        if host is None and child.reply is None:
            # without a parent's run nothing else records that the call has its result
            children.settle(context.call.id)

    return using(lambda: just(link), lambda _: begin(), release)


def _input_of(child: SubConversation, message: str | Sequence[Msg] | None) -> CallInput:
    if not child.begun:
        return Msg.user(message) if isinstance(message, str) else message
    results = [Msg.tool(tuple(child.results.values()))] if child.results else []
    return [*results, *child.answers.values()] or None


class _ToolItems(OperatorSink):
    """Turns the sub-agent's events into the items of a tool."""

    __slots__ = (
        "_admitted",
        "_agent",
        "_call",
        "_child",
        "_config",
        "_form",
        "_link",
        "_path",
        "_reply",
        "_run_id",
        "_scope",
        "_sink",
        "_timer",
    )

    def __init__(
        self,
        sink: Sink[object],
        scope: Scope,
        agent: str,
        child: SubConversation,
        context: ToolContext,
        link: ParentLink,
        config: AgentToolConfig,
        form: ResultForm | None,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._agent = agent
        self._child = child
        self._call = context.call
        self._path = () if link.parent is None else (*link.parent.source.path, context.call.id)
        self._link = link
        self._config = config
        self._form = form
        self._admitted = False
        self._run_id: str | None = None
        self._reply: Msg | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._link.listen(self._start_grace)

    # --- the events of the sub-agent ----------------------------------------------------------------------------------

    def on_next(self, event: Event) -> None:
        if self._run_id is None:
            self._run_id = event.run_id
        own = event.run_id == self._run_id
        if own:
            self._record(event)
        if self._config.forward == "events":
            self._sink.on_next(ToolNested(self._call, self._placed(event)))
        if own and isinstance(event, (ReasoningChunkEvent, SummaryChunkEvent)) and self._config.forward != "none":
            text = event.text
            if text and self._form is None and not self.disposed:
                self._sink.on_next(ToolChunk(self._call, (TextBlock(text),)))

    def _record(self, event: Event) -> None:
        if not self._admitted and not isinstance(event, ErrorEvent):
            # it has taken its input
            self._admitted = self._child.begun = True
            self._child.wait_for(None)
        if isinstance(event, PostCallEvent):
            self._reply = event.message

    def _placed(self, event: Event) -> Event:
        """The event with its path, which an agent that overrides `stream` may not have set."""
        path = self._path
        if event.path[: len(path)] == path:
            return event
        source = EventSource(event.run_id, event.agent, (*path, *event.path), event.source.context, event.source.parts)
        return replace(event, source=source)

    def on_completed(self) -> None:
        self._upstream = None
        self._stop()
        if self._reply is None:
            self.on_error(ToolError("it ended without a reply"))
        else:
            self._finish(self._result(self._reply))

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._stop()
        parent = self._link.parent
        if isinstance(error, SourceCancelledError) and (self._form is None or not cancelled_alone(error)):
            self._sink.on_error(error)
        elif isinstance(error, AgentShuttingDownError) and parent is not None and parent.interruption.is_shutdown:
            self._finish(self._cut_off())
        else:
            failed = SubAgentError(self._agent, self._child.id, error)
            failed.__cause__ = error
            # errors of other libraries are judged by their type or HTTP status
            failed.retryable = is_retryable(error)
            self._sink.on_error(failed)

    # --- the result -----------------------------------------------------------------------------------------------

    def _result(self, reply: Msg) -> ToolResultBlock:
        call = self._call
        if reply.pending_calls:
            self._child.wait_for(reply)
            return placeholder_of(call, reply)
        if self._form is not None:
            return self._form(call, reply)
        reason = reply.generate_reason
        named = {} if self._child.label is None else {"label": self._child.label}
        metadata = {
            "agent": self._agent,
            "conversation_id": self._child.id,
            **named,
            "run_id": self._run_id,
            "generate_reason": reason.value,
        }
        words, *media = _output_of(reply)
        status = "interrupted" if reason is GenerateReason.INTERRUPTED else "ok"
        text = headed(self._child.id, cast("TextBlock", words).text, self._child.label, status)
        if reason is GenerateReason.INTERRUPTED:
            return replace(ToolResultBlock.error(call, ToolResultKind.INTERRUPTED, text), metadata=metadata)
        return ToolResultBlock(call.id, call.name, (TextBlock(text), *media), None, metadata)

    def _cut_off(self) -> ToolResultBlock:
        return ToolResultBlock(self._call.id, self._call.name, (TextBlock(CUT_OFF),), ToolResultKind.SUSPENDED)

    def _finish(self, result: ToolResultBlock) -> None:
        self._sink.on_next(result)
        if not self.disposed:
            self._sink.on_completed()

    # --- an end from outside -------------------------------------------------------------------------------

    def _start_grace(self) -> None:
        grace = self._config.interrupt_grace
        if grace is not None and self._timer is None and not self.disposed:
            self._timer = self._scope.call_later(grace, self._out_of_time)

    def _out_of_time(self) -> None:
        """The run was interrupted, and has not ended in time."""
        self._timer = None
        if self.disposed:
            return
        upstream, self._upstream = self._upstream, None
        self._link.end()
        if upstream is not None:
            upstream.dispose()
        parent = self._link.parent
        if parent is not None and parent.interruption.is_shutdown:
            self._finish(self._cut_off())
            return
        grace = f"{self._config.interrupt_grace:g} s"
        late = f"Agent {self._agent!r} was interrupted and did not end within {grace}."
        text = headed(self._child.id, late, self._child.label, "interrupted")
        self._finish(ToolResultBlock.error(self._call, ToolResultKind.INTERRUPTED, text))

    def dispose(self) -> None:
        self._stop()
        super().dispose()

    def _stop(self) -> None:
        self._link.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _output_of(reply: Msg) -> tuple[OutputBlock, ...]:
    """The text of a reply as one block, then its media. A run that was stopped at a result gives the result's."""
    results = [block for result in reply.tool_results for block in result.output]
    blocks: list[OutputBlock] = results or [block for block in reply.content if isinstance(block, OUTPUT_TYPES)]
    text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return (TextBlock(text), *(block for block in blocks if not isinstance(block, TextBlock)))
