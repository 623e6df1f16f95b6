"""`agent.observe`: how the messages of other agents are remembered: their text and media, under the sender's name.

| in the message of another agent | is remembered as                                                                  |
|---------------------------------|-----------------------------------------------------------------------------------|
| text, media                     | the same                                                                          |
| thinking                        | nothing                                                                           |
| tool calls, results             | nothing; if there is nothing else, the results' output, or the names of the calls |
| role assistant                  | role user: messages with role assistant are the agent's own                       |

So a call of another agent is never taken for a pending call of this one, nor a result for one that it waits for. And a
request to a provider holds no call without its result, and does not end with another agent's text as the model's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentscope_rx.agent.input import CallInput, ParsedInput, check_input_messages, messages_of, parse_input
from agentscope_rx.events import EventSource, PostObserveEvent, PreObserveEvent
from agentscope_rx.hooks import CompiledHooks, Hooks
from agentscope_rx.memory import Memory
from agentscope_rx.messages import ContentBlock, Msg, MsgRole, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, concat_map, defer, just, then

_NOT_OBSERVED = (ThinkingBlock, ToolUseBlock, ToolResultBlock)


def as_observed(message: Msg) -> Msg:
    """The message as others remember it, with the same id, name and metadata; itself if nothing changes."""
    if message.role is MsgRole.USER and not any(isinstance(block, _NOT_OBSERVED) for block in message.content):
        return message
    return message.replace(role=MsgRole.USER, content=_content(message))


def observe_input(messages: Iterable[Msg], name: str) -> tuple[Msg, ...]:
    """The input of a call to `name`: messages of other agents as it observes them, all others unchanged."""
    return tuple(
        as_observed(message) if message.role is MsgRole.ASSISTANT and message.name != name else message
        for message in messages
    )


def parse_call(msgs: CallInput, name: str) -> ParsedInput:
    """The input of a call to the agent of this name, checked; messages of other agents as it observes them."""
    given = parse_input(msgs)
    if isinstance(msgs, str):
        # a message of the user with a text
        return given
    return given._replace(messages=check_input_messages(observe_input(given.messages, name)))


def observe_messages(name: str, hooks: Hooks, msgs: CallInput, memory: Memory) -> Flow[None]:
    """Pass the messages through the hooks of the agent of this name, and write them to this memory.

    Signals: one None; the error of memory or of a hook on PreObserveEvent.
    Cancels: the hook in progress, and the write.
    """
    messages = tuple(as_observed(message) for message in messages_of(msgs))

    def begin() -> Flow[None]:
        compiled = hooks.compiled
        if PreObserveEvent not in compiled.seen and PostObserveEvent not in compiled.seen:
            return memory.add(messages)
        source = EventSource(agent=name)
        before = PreObserveEvent(source=source, input=messages)
        return compiled.fire(before).pipe(concat_map(lambda event: remember(compiled, event)))

    def remember(compiled: CompiledHooks, event: PreObserveEvent) -> Flow[None]:
        # a hook may have added blocks that are not observed
        changed = tuple(as_observed(message) for message in event.input)
        after = PostObserveEvent(source=event.source, input=changed)
        added = memory.add(changed) if changed else just(None)
        return added.pipe(then(lambda: compiled.observe(after)), then(lambda: just(None)))

    return defer(begin)


def _content(message: Msg) -> tuple[ContentBlock, ...]:
    content = tuple(block for block in message.content if not isinstance(block, _NOT_OBSERVED))
    if content:
        return content
    output = tuple(block for result in message.tool_results for block in result.output)
    if output:
        return output
    calls = ", ".join(call.name for call in message.tool_calls)
    return (TextBlock(f"({message.name} waits for {calls}.)"),) if calls else ()
