"""The hooks of a script. They count over the whole script, whatever process it is in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from reactivex import of
from reactivex import operators as ops

from agentscope_rx import Hook, Msg
from agentscope_rx.events import (
    ActingChunkEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    ReasoningChunkEvent,
)
from agentscope_rx.hooks import hook_operator
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolUseBlock
from tests.support.scripts.steps import Hooked

REDACTED = "(seen)"
BY_HOOK = "by a hook"
BY_HOOK_N = 1
"""What a hook makes of arguments: `pay` needs an approval for it."""


class HookFailed(Exception):
    """What a hook of a script fails with."""


OPERATORS = {
    "held_back": ops.delay(0.125),
    "thinned": ops.filter_indexed(lambda _, index: index % 2 == 0),
    "doubled": ops.flat_map(lambda event: of(event, event)),
}


def hooks_of(each: Hooked) -> list[Hook]:
    """The hooks that do what this says."""
    if each.what not in OPERATORS:
        return [Scripted(each)]
    return [hook_operator(kind, OPERATORS[each.what]) for kind in (ReasoningChunkEvent, ActingChunkEvent)]


class Scripted(Hook):
    """Does what `Hooked` says."""

    def __init__(self, what: Hooked) -> None:
        self.what = what.what
        self.at = what.at
        self.count = 0
        self.failed_at: str | None = None

    def _now(self) -> bool:
        self.count += 1
        return self.count == self.at + 1

    def on_event(self, event: Event) -> Event | Awaitable[None] | None:
        if event.type in ("error", "retry", "memory"):
            # observed only: what fails there is reported, and no part of the run
            return None
        match self.what:
            case "sleepy":
                return None if "chunk" in event.type else asyncio.sleep(0.25)
            case "stop_reasoning" if isinstance(event, PostReasoningEvent) and self._now():
                return event.stop()
            case "stop_acting" if isinstance(event, PostActingEvent) and self._now():
                return event.stop()
            case "goto" if isinstance(event, PostReasoningEvent) and self._now():
                results = [ToolResultBlock.of(call, BY_HOOK) for call in event.message.tool_calls]
                return event.goto_reasoning([Msg.tool(results)] if results else "Think again.")
            case "fail" if self._now():
                self.failed_at = event.type
                raise HookFailed(event.type)
            case "fail_later" if self._now():
                self.failed_at = event.type
                return self._fail(event)
            case "redact" if isinstance(event, PostActingEvent):
                result = event.result
                return event.with_result(replace(result, output=(*result.output, TextBlock(REDACTED))))
            case "rewrite" if isinstance(event, PostReasoningEvent):
                message = event.message
                return event.replace(message=message.replace(content=(*message.content, TextBlock(" So it is."))))
            case "drop_calls" if isinstance(event, PostReasoningEvent) and self._now():
                kept = [block for block in event.message.content if not isinstance(block, ToolUseBlock)]
                return event.replace(message=event.message.replace(content=kept or (TextBlock("(nothing)"),)))
            case "input" if isinstance(event, PreCallEvent):
                return event.replace(input=(*event.input, Msg.user("(as always)")))
            case "arguments" if isinstance(event, PreActingEvent) and event.tool_use.input_error is None:
                return event.replace(tool_use=replace(event.tool_use, input={**event.tool_use.input, "n": BY_HOOK_N}))
            case "reply" if isinstance(event, PostCallEvent):
                message = event.message
                return event.replace(message=message.replace(content=(*message.content, TextBlock("(checked)"))))
            case _:
                return None

    async def _fail(self, event: Event) -> None:
        await asyncio.sleep(0.25)
        raise HookFailed(event.type)
