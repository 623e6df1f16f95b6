"""Hooks as a user writes them, of every form: checked by the type checker (strict), and run by test_user_hooks.py."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import Awaitable
from typing import assert_type

import reactivex as rx
from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import Hook, Msg, ReActAgent, hook, tool
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    ErrorEvent,
    Event,
    MemoryEvent,
    OutputChunkEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    ReasoningChunkEvent,
    RetryEvent,
)
from agentscope_rx.hooks import DROP, hook_operator
from agentscope_rx.hooks.base import Answer
from agentscope_rx.reactive import Flow, just
from agentscope_rx.testing import ScriptedModel, call

NOTED: list[object] = []


class Audit(Hook):
    priority = 900
    kinds = (PreActingEvent, PostReasoningEvent)

    def on_event(self, event: Event) -> Event | None:
        if isinstance(event, PostReasoningEvent):
            return event.stop()
        return None


class Late(Hook):
    async def on_event(self, event: Event) -> Event | None:
        return event.replace(seq=3)


class Reactive(Hook):
    def on_event(self, event: Event) -> Answer:
        return just(event)

    def tools(self):
        return (clock,)


@tool
def clock() -> str:
    """Time."""
    return "noon"


@hook(PreReasoningEvent, priority=10)
async def remind(event: PreReasoningEvent) -> PreReasoningEvent:
    return event.with_hint("Be brief.").append_system_content("Never guess.")


@hook(PreReasoningEvent)
def inferred(event: PreReasoningEvent):
    return event.replace(messages=event.messages[-2:])


@hook(PostReasoningEvent)
def guard(event: PostReasoningEvent) -> PostReasoningEvent | None:
    assert_type(event.stop(), PostReasoningEvent)
    assert_type(event.replace(message=event.message), PostReasoningEvent)
    return None if event.message.tool_calls else assert_type(event.goto_reasoning([Msg.user("x")]), PostReasoningEvent)


@hook(PostActingEvent)
def stops(event: PostActingEvent) -> Flow[PostActingEvent]:
    assert_type(event.stop(), PostActingEvent)
    assert_type(event.with_result(event.result), PostActingEvent)
    return just(event.stop())


@hook(ReasoningChunkEvent)
def no_thinking(event: ReasoningChunkEvent):
    return DROP if event.thinking else None


@hook(ReasoningChunkEvent)
async def later(event: ReasoningChunkEvent):
    return DROP if event.thinking else event


@hook(ActingChunkEvent)
def several(event: ActingChunkEvent) -> Observable[ActingChunkEvent]:
    return rx.of(event, event)


@hook(PreSummaryEvent)
def an_awaitable(event: PreSummaryEvent) -> Awaitable[PreSummaryEvent | None]:
    assert_type(event.with_hint("x"), PreSummaryEvent)

    async def answer() -> PreSummaryEvent | None:
        return None

    return answer()


@hook(RetryEvent)
def retried(event: RetryEvent) -> None:
    NOTED.append(event.attempt)


@hook(MemoryEvent)
def changed(event: MemoryEvent) -> None:
    NOTED.append(event.removed)


@hook(OutputChunkEvent)
def piece(event: OutputChunkEvent) -> None:
    NOTED.append(event.value)


@hook(PostCallEvent)
def ended(event: PostCallEvent) -> None:
    NOTED.extend((event.input, event.history))


@hook(ChunkEvent)
def chunk(event: ChunkEvent) -> None:
    NOTED.append(event.text)


@hook(PreReasoningEvent)
def with_lambda_like(event: PreReasoningEvent) -> None:
    return None


def doubled(chunks: Observable[ReasoningChunkEvent]) -> Observable[ReasoningChunkEvent]:
    return chunks.pipe(ops.flat_map(lambda event: rx.of(event, event)))


sampled = hook_operator(ReasoningChunkEvent, ops.sample(0.1))
filtered = hook_operator(ReasoningChunkEvent, ops.filter(lambda event: bool(event.text)))
taken = hook_operator(OutputChunkEvent, ops.take(1))
own = hook_operator(ReasoningChunkEvent, doubled, priority=3)
inline = hook(PreCallEvent)(lambda event: event.replace(input=(*event.input, Msg.user("x"))))


class Guard:
    @hook(PreActingEvent, priority=3)
    def check(self, event: PreActingEvent) -> PreActingEvent:
        assert event.schema is not None
        return event.replace(tool_use=event.tool_use.with_input({"a": 1}))

    @hook(PostSummaryEvent)
    async def summed(self, event: PostSummaryEvent):
        return event.replace(message=event.message)


class Careful(ReActAgent):
    def post_acting(self, event: PostActingEvent):
        return event.stop() if event.result.is_error else None

    async def on_error(self, event: ErrorEvent) -> None:
        NOTED.append(event.error_text)

    def on_retry(self, event: RetryEvent) -> None:
        NOTED.append(event.attempt)

    @hook(PreReasoningEvent, priority=10)
    async def be_brief(self, event: PreReasoningEvent):
        return event.with_hint("Be brief.")


Careful.add_class_hook(remind)
HOOKS = [
    Audit(), Late(), Reactive(), remind, inferred, guard, no_thinking, later, several, an_awaitable, sampled, filtered,
    taken, own, inline, Guard().check, Guard().summed, retried, changed, piece, ended, chunk,
]  # fmt: skip


def made() -> Careful:
    """An agent with all of them."""
    return Careful("Friday", ScriptedModel(call("clock"), "Noon."), hooks=HOOKS)


# --- what the type checker finds ---------------------------------------------------------------------------------


def wrong_answer(event: PreCallEvent) -> str:
    """No answer of a hook."""
    return event.type


def wrong_event(event: PostCallEvent) -> None:
    """Takes another kind of event."""


def mistakes() -> None:
    """Never run."""
    hook(PreCallEvent)(wrong_answer)  # pyright: ignore[reportCallIssue, reportArgumentType]
    hook(PreCallEvent)(wrong_event)  # pyright: ignore[reportCallIssue, reportArgumentType]
    hook_operator(ActingChunkEvent, doubled)  # pyright: ignore[reportArgumentType]
    ReActAgent("Friday", ScriptedModel(), hooks=[remind.function])  # pyright: ignore[reportArgumentType]
    PreCallEvent().stop()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
