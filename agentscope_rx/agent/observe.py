"""What others hear of a message: its words and media, under its speaker's name.

| in a peer's message     | a listener gets                                                                   |
|-------------------------|-----------------------------------------------------------------------------------|
| text, media             | them                                                                              |
| thinking                | nothing: thoughts are not said                                                    |
| tool calls, results     | nothing; of a message of tool blocks alone the results' output, or which calls wait |
| role assistant          | role user: an assistant's message is the listener's own                           |

So no peer's call can be taken for a call of the listener's that is pending, no result for one that it waits for, and
what a provider is sent holds no call without its result and does not end with another's words as the model's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentscope_rx.events import EventSource, PostObserveEvent, PreObserveEvent
from agentscope_rx.hooks import CompiledHooks, Hooks
from agentscope_rx.memory import Memory
from agentscope_rx.messages import ContentBlock, Msg, MsgRole, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, concat_map, defer, just, then

_UNHEARD = (ThinkingBlock, ToolUseBlock, ToolResultBlock)


def as_heard(message: Msg) -> Msg:
    """The message as others hear it: the same id, name and metadata. What was heard already stays the very object."""
    if message.role is MsgRole.USER and not any(isinstance(block, _UNHEARD) for block in message.content):
        return message
    return message.replace(role=MsgRole.USER, content=_heard(message))


def input_heard(messages: Iterable[Msg], name: str) -> tuple[Msg, ...]:
    """The input of a call to `name`: what other agents said as it is heard, all else as it was given."""
    return tuple(
        as_heard(message) if message.role is MsgRole.ASSISTANT and message.name != name else message
        for message in messages
    )


def observing(name: str, hooks: Hooks, heard: tuple[Msg, ...], memory: Memory) -> Flow[None]:
    """What was heard, past the hooks of the agent of this name, into this memory.

    Signals: one None; the error of memory or of a hook on PreObserveEvent.
    Cancels: the hook in progress, and the writing.
    """

    def begin() -> Flow[None]:
        now = hooks.compiled
        if PreObserveEvent not in now.seen and PostObserveEvent not in now.seen:
            return memory.add(heard)
        source = EventSource(agent=name)
        before = PreObserveEvent(source=source, input=heard)
        return now.fire(before).pipe(concat_map(lambda event: remember(now, event)))

    def remember(now: CompiledHooks, event: PreObserveEvent) -> Flow[None]:
        # a hook may have put in what is not heard
        messages = tuple(as_heard(message) for message in event.input)
        after = PostObserveEvent(source=event.source, input=messages)
        added = memory.add(messages) if messages else just(None)
        return added.pipe(then(lambda: now.observe(after)), then(lambda: just(None)))

    return defer(begin)


def _heard(message: Msg) -> tuple[ContentBlock, ...]:
    said = tuple(block for block in message.content if not isinstance(block, _UNHEARD))
    if said:
        return said
    output = tuple(block for result in message.tool_results for block in result.output)
    if output:
        return output
    calls = ", ".join(call.name for call in message.tool_calls)
    return (TextBlock(f"({message.name} waits for {calls}.)"),) if calls else ()
