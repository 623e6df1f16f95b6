"""`Turn`: what a request asks of the stored conversation that its thread is.

A client sends its whole history with each request. The stored conversation wins where they differ:

| the request has                              | the run                                                               |
|----------------------------------------------|-----------------------------------------------------------------------|
| user messages after the assistant's last one | takes those that are not stored as its input                          |
| messages of tools, entries of `resume`       | takes those that answer calls which wait; others are left out         |
| nothing new, and the last run has not ended  | goes on where that one was cut off                                    |
| other messages that are not stored           | leaves them out: the client gets the stored ones by MESSAGES_SNAPSHOT |
| a thread that is not stored                  | takes the client's messages as its history                            |

System messages and `context` are given to the model for this run only, as information from the application.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from ag_ui.core import (
    AssistantMessage,
    DeveloperMessage,
    Message,
    RunAgentInput,
    SystemMessage,
    ToolMessage,
    UserMessage,
)

from agentscope_rx.agent import Agent, ReActAgent
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import TRANSIENT, Approve, Msg, MsgRole, Reject, ToolUseBlock
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.ag_ui.failures import OpenCallsError
from agentscope_rx.service.protocols.ag_ui.interrupts import answer_of, by_call, interrupt_of
from agentscope_rx.service.protocols.ag_ui.messages import history_of, tool_message, user_message
from agentscope_rx.service.protocols.ag_ui.transcript import Transcript

_log = logging.getLogger("agentscope_rx")


class Turn(NamedTuple):
    """The input of a run: what it begins with, and what it is given once it has begun."""

    input: list[Msg | Approve | Reject] | None
    later: list[Msg]
    """Behind the answers to calls, whose results the model must see first."""
    transcript: Transcript


class Threads:
    """The threads of one host; two requests do not begin the same one at once."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def turn(self, name: str, user: str, input: RunAgentInput) -> Turn:
        """What this request asks of its thread; `InvalidInputError` if it asks nothing, or leaves calls open."""
        host, thread = self._host, input.thread_id
        lock = self._locks.setdefault(host.key(name, user, thread), asyncio.Lock())
        if host.shared:
            # another process may have continued it: what is kept here may be old
            await host.pool(name).evict(user, thread)
        async with lock, host.pool(name).conversation(user, thread) as conversation:
            memory = conversation.memory
            stored = list(await memory.get_memory())
            history: list[Msg] = []
            if not stored:
                stored = history = history_of(input.messages[: _last_answer(input.messages)], conversation.agent.name)
                if history:
                    await memory.add(history)
            try:
                pending = await conversation.agent.pending_calls(memory=memory)
                return _turn(input, stored, {call.id: call for call in pending}, _own_calls(conversation.agent, stored))
            except InvalidInputError:
                # a request that is refused leaves nothing
                if history:
                    await memory.delete([message.id for message in history])
                raise


def _turn(
    input: RunAgentInput, stored: Sequence[Msg], pending: Mapping[str, ToolUseBlock], own: Collection[str]
) -> Turn:
    answers = _answers(input, pending, own)
    known = {message.id for message in stored}
    said = [
        user_message(message)
        for message in input.messages[_last_answer(input.messages) :]
        if isinstance(message, UserMessage) and message.id not in known
    ]
    if not answers and not said and (not stored or _is_answered(stored)):
        raise InvalidInputError(
            "messages has nothing for the agent: no message of the user that is not in the stored conversation, and no "
            "answer to a call that waits."
        )
    about = _context(input)
    results = [each for each in answers if isinstance(each, Msg)]
    transcript = Transcript(stored, [*results, *said], input.messages)
    if answers:
        return Turn(answers, [*about, *said], transcript)
    return Turn([*about, *said] or None, [], transcript)


def _own_calls(agent: Agent, stored: Sequence[Msg]) -> set[str]:
    """The calls that a client may answer by a message: those of no tool of the agent, and of no sub-agent."""
    toolkit = agent.toolkit if isinstance(agent, ReActAgent) else ()
    return {call.id for message in stored for call in message.tool_calls if call.name not in toolkit}


def _answers(
    input: RunAgentInput, pending: Mapping[str, ToolUseBlock], own_calls: Collection[str]
) -> list[Msg | Approve | Reject]:
    """The answers to the calls that wait, in their order; `OpenCallsError` unless all have one."""
    entries = by_call(input.resume or ())
    messages = {
        message.tool_call_id: message
        for message in input.messages
        if isinstance(message, ToolMessage) and message.tool_call_id in own_calls
    }
    for id in entries:
        if id not in pending:
            _log.warning("AG-UI: left out the answer to %.80r, which no call waits for", id)
    open = [call for id, call in pending.items() if id not in entries and id not in messages]
    if open:
        own = {each.name for each in input.tools or ()}
        raise OpenCallsError(open, [interrupt_of(call, None) for call in open if call.name not in own])
    return [
        answer_of(entries[id], call) if id in entries else tool_message(messages[id], call.name)
        for id, call in pending.items()
    ]


def _last_answer(messages: Sequence[Message]) -> int:
    """The place behind the last message of the assistant."""
    for place in range(len(messages), 0, -1):
        message = messages[place - 1]
        if isinstance(message, AssistantMessage) and not message.subagent_run_id:
            return place
    return 0


def _is_answered(stored: Sequence[Msg]) -> bool:
    last = stored[-1]
    return last.role is MsgRole.ASSISTANT and not last.tool_calls


def _context(input: RunAgentInput) -> list[Msg]:
    """What the application tells the model, as a message that leaves memory at the end of the run."""
    lines = [f"{each.description}: {each.value}" for each in input.context or ()]
    lines += [each.content for each in input.messages if isinstance(each, (SystemMessage, DeveloperMessage))]
    if not lines:
        return []
    text = "Information from the application:\n" + "\n".join(f"- {line}" for line in lines)
    return [Msg.user(text, name="application").marked(TRANSIENT)]
