"""One call of a sub-agent: its run, told as a tool tells.

    the sub-agent's stream     PreCall .. chunk "It" .. chunk " is" .. PostCall|
    signals                    n ........ n c "It" .... n c " is" .... n  result|     n: ToolNested, c: ToolChunk

| how the run ends                          | what becomes of the call                                               |
|-------------------------------------------|------------------------------------------------------------------------|
| a reply                                   | its words, with the conversation's id                                  |
| a reply whose calls wait                  | a placeholder: the call waits, too                                     |
| interrupted, by itself or with its parent | a result of kind `interrupted`, with its last words                    |
| cut off by a shutdown, with its parent    | a placeholder: the call goes on when it is run again                   |
| an error                                  | `SubAgentError`; a next attempt goes on from where this one ended      |
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.heading import headed
from agentscope_rx.agent.sub_agent.parent_link import ParentLink
from agentscope_rx.agent.sub_agent.pending import placeholder_of
from agentscope_rx.errors import AgentShuttingDownError, SubAgentError, ToolError
from agentscope_rx.events import (
    ErrorEvent,
    Event,
    EventSource,
    PostCallEvent,
    ReasoningChunkEvent,
    SummaryChunkEvent,
)
from agentscope_rx.messages import (
    ApprovalAnswer,
    GenerateReason,
    Msg,
    OutputBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
)
from agentscope_rx.messages.blocks import OUTPUT_TYPES
from agentscope_rx.models.retryable import is_retryable
from agentscope_rx.reactive import Flow, SourceCancelledError, just, using
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.tools import ToolChunk, ToolContext, ToolNested

if TYPE_CHECKING:
    from agentscope_rx.agent.agent import Agent
    from agentscope_rx.agent.sub_agent.agent_tool import AgentToolConfig
    from agentscope_rx.agent.sub_agent.sub_conversations import SubConversation, SubConversations
    from agentscope_rx.reactive import Outcome, Scope

CUT_OFF = "The agent was cut off by a shutdown; it goes on when the call is run again."


def running(
    agent: Agent,
    child: SubConversation,
    children: SubConversations,
    message: str,
    context: ToolContext,
    host: Run | None,
    options: AgentToolConfig,
) -> Flow[object]:
    """The run of a taken child, from the message on or from where it has come to.

    Signals: as the table says; completion when the sub-agent's conversation may go on.
    Cancels: the run, with its clean-up.
    """
    bond = ParentLink(host, context.call.id)
    memory, conversation = child.memory, child.conversation
    assert conversation is not None

    def begin() -> Flow[object]:
        conversation.bond = bond
        events = agent.nested(_given(child, message), context.runtime, memory)

        def connect(sink: Sink[object], scope: Scope) -> None:
            told = _Telling(sink, scope, agent.name, child, context, bond, options)
            sink.on_subscribe(told)
            if not told.disposed:
                told.start()
                attach(events, told, scope)

        return Flow(connect)

    def release(_: ParentLink, ending: Outcome) -> None:
        bond.end()
        if conversation.bond is bond:
            conversation.bond = None
        if host is None and child.reply is None:
            # nobody else notes that the call has its result
            children.settled(context.call.id)

    return using(lambda: just(bond), lambda _: begin(), release)


def _given(child: SubConversation, message: str) -> Msg | list[Msg | ApprovalAnswer] | None:
    if not child.begun:
        return Msg.user(message)
    results = [Msg.tool(tuple(child.results.values()))] if child.results else []
    return [*results, *child.answers.values()] or None


class _Telling(OperatorSink):
    """The sub-agent's events in, what the tool says out."""

    __slots__ = (
        "_admitted",
        "_agent",
        "_bond",
        "_call",
        "_child",
        "_options",
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
        bond: ParentLink,
        options: AgentToolConfig,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._agent = agent
        self._child = child
        self._call = context.call
        self._path = () if bond.parent is None else (*bond.parent.source.path, context.call.id)
        self._bond = bond
        self._options = options
        self._admitted = False
        self._run_id: str | None = None
        self._reply: Msg | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._bond.listen(self._interrupted)

    # --- what the sub-agent says ----------------------------------------------------------------------------------

    def on_next(self, event: Event) -> None:
        if self._run_id is None:
            self._run_id = event.run_id
        own = event.run_id == self._run_id
        if own:
            self._note(event)
        if self._options.forward == "events":
            self._sink.on_next(ToolNested(self._call, self._placed(event)))
        if own and isinstance(event, (ReasoningChunkEvent, SummaryChunkEvent)) and self._options.forward != "none":
            text = event.text
            if text and not self.disposed:
                self._sink.on_next(ToolChunk(self._call, (TextBlock(text),)))

    def _note(self, event: Event) -> None:
        if not self._admitted and not isinstance(event, ErrorEvent):
            # what it was given is its own now
            self._admitted = self._child.begun = True
            self._child.waits(None)
        if isinstance(event, PostCallEvent):
            self._reply = event.message

    def _placed(self, event: Event) -> Event:
        """The event with its path; one of an agent that tells of its runs in its own way may not have it."""
        path = self._path
        if event.path[: len(path)] == path:
            return event
        source = EventSource(event.run_id, event.agent, (*path, *event.path), event.source.context)
        return replace(event, source=source)

    def on_completed(self) -> None:
        self._upstream = None
        self._over()
        if self._reply is None:
            self.on_error(ToolError("it ended without a reply"))
        else:
            self._finish(self._result(self._reply))

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._over()
        parent = self._bond.parent
        if isinstance(error, SourceCancelledError):
            self._sink.on_error(error)
        elif isinstance(error, AgentShuttingDownError) and parent is not None and parent.shut_down:
            self._finish(self._cut_off())
        else:
            failed = SubAgentError(self._agent, self._child.id, error)
            failed.__cause__ = error
            # (of errors that are not ours the type or the HTTP answer tells)
            failed.retryable = is_retryable(error)
            self._sink.on_error(failed)

    # --- the result -----------------------------------------------------------------------------------------------

    def _result(self, reply: Msg) -> ToolResultBlock:
        call = self._call
        if reply.pending_calls:
            self._child.waits(reply)
            return placeholder_of(call, reply)
        reason = reply.generate_reason
        metadata = {
            "agent": self._agent,
            "conversation_id": self._child.id,
            "run_id": self._run_id,
            "generate_reason": reason.value,
        }
        words, *media = _said(reply)
        text = headed(self._child.id, cast("TextBlock", words).text)
        if reason is GenerateReason.INTERRUPTED:
            return replace(ToolResultBlock.error(call, ToolResultKind.INTERRUPTED, text), metadata=metadata)
        return ToolResultBlock(call.id, call.name, (TextBlock(text), *media), None, metadata)

    def _cut_off(self) -> ToolResultBlock:
        return ToolResultBlock(self._call.id, self._call.name, (TextBlock(CUT_OFF),), ToolResultKind.SUSPENDED)

    def _finish(self, result: ToolResultBlock) -> None:
        self._sink.on_next(result)
        if not self.disposed:
            self._sink.on_completed()

    # --- the end comes from outside -------------------------------------------------------------------------------

    def _interrupted(self) -> None:
        grace = self._options.interrupt_grace
        if grace is not None and self._timer is None and not self.disposed:
            self._timer = self._scope.call_later(grace, self._late)

    def _late(self) -> None:
        """It was told to end, and does not."""
        self._timer = None
        if self.disposed:
            return
        upstream, self._upstream = self._upstream, None
        self._bond.end()
        if upstream is not None:
            upstream.dispose()
        parent = self._bond.parent
        if parent is not None and parent.shut_down:
            self._finish(self._cut_off())
            return
        grace = f"{self._options.interrupt_grace:g} s"
        text = headed(self._child.id, f"Agent {self._agent!r} was interrupted and did not end within {grace}.")
        self._finish(ToolResultBlock.error(self._call, ToolResultKind.INTERRUPTED, text))

    def dispose(self) -> None:
        self._over()
        super().dispose()

    def _over(self) -> None:
        self._bond.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _said(reply: Msg) -> tuple[OutputBlock, ...]:
    """The words of a reply as one block, then its media; of a run that stopped at a result, that one's."""
    results = [block for result in reply.tool_results for block in result.output]
    blocks: list[OutputBlock] = results or [block for block in reply.content if isinstance(block, OUTPUT_TYPES)]
    text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return (TextBlock(text), *(block for block in blocks if not isinstance(block, TextBlock)))
