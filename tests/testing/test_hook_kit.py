"""`check_hook`: hooks of every form keep the laws, and each kind of fault is found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    PostActingEvent,
    PostReasoningEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
)
from agentscope_rx.hooks import DROP, Hook, PendingToolRecovery, hook, hook_operator
from agentscope_rx.hooks.shipped.tts import TTSHook
from agentscope_rx.messages import AudioBlock, Msg, TextBlock, ToolUseBlock
from agentscope_rx.testing import check_hook
from tests.models.test_speech import Voice
from tests.testing.faults import broken


@hook(PreReasoningEvent)
def hints(event: PreReasoningEvent) -> Event:
    return event.with_hint("Answer briefly.")


@hook(PostActingEvent)
async def waits(event: PostActingEvent) -> None:
    await asyncio.sleep(1)


@hook(PostReasoningEvent)
def observable(event: PostReasoningEvent) -> reactivex.Observable[Event]:
    return reactivex.timer(1).pipe(ops.map(lambda _: event))


@hook(ReasoningChunkEvent)
def masks(event: ReasoningChunkEvent) -> Any:
    return DROP if event.text == "sunny." else event.replace(delta=TextBlock("***"))


@hook(ErrorEvent, observe=True)
def notes(event: ErrorEvent) -> str:
    return "ignored"


class Counts(Hook):
    """Counts the events of each run."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    async def on_event(self, event: Event) -> Event | None:  # type: ignore[override]
        number = self.counts[event.run_id] = self.counts.get(event.run_id, 0) + 1
        await asyncio.sleep(0.1)
        return event.with_hint(f"event {number}") if isinstance(event, PreReasoningEvent) else None


SHIPPED = [hints, waits, observable, masks, notes, hook_operator(ActingChunkEvent, ops.sample(0.1)), Counts]


@pytest.mark.parametrize("given", SHIPPED, ids=lambda each: getattr(each, "name", "factory"))
def test_each_form_of_a_hook_keeps_the_laws(given: Any):
    report = check_hook(given)
    assert set(report.checked) >= {"definition", "one event", "unchanged", "apart", "run", "disposal"}
    assert any(rule.endswith(" 1.08") for rule in report.checked)


def test_the_shipped_recovery_keeps_the_laws():
    pending = (ToolUseBlock("c1", "look", {}),)
    event = PreCallEvent(input=(Msg.user("hi"),), pending=pending)
    report = check_hook(PendingToolRecovery, event=event)
    assert report.subject == "PendingToolRecovery" and "pre_call 1.10" in report.checked


def test_a_hook_with_work_in_the_background_keeps_the_laws():
    async def play(sound: AudioBlock) -> None:
        await asyncio.sleep(1)

    report = check_hook(lambda: TTSHook(Voice(), play), idle=lambda hook: hook.idle())  # type: ignore[attr-defined]
    assert {"apart", "disposal", "reasoning_chunk 1.08"} <= set(report.checked)
    broken(lambda: check_hook(lambda: TTSHook(Voice(), play)), "disposal")


def test_a_hook_without_events_is_checked_in_runs():
    class Tools(Hook):
        kinds = ()

    report = check_hook(Tools())
    assert report.checked == ("definition", "run", "disposal")
    assert dict(report.skipped) == dict.fromkeys(("one event", "unchanged", "apart"), "it gets no events")


def test_a_hook_that_gets_none_of_the_events_is_refused():
    with pytest.raises(ConfigurationError, match=r"gets none of these events: PreCallEvent\. Give the kit one"):
        check_hook(hints, event=PreCallEvent())


# --- faults -----------------------------------------------------------------------------------------------------------


class NoPriority(Hook):
    priority = "first"  # type: ignore[assignment]


class WrongKinds(Hook):
    kinds = (PreCallEvent, "post_call")  # type: ignore[assignment]

    @property
    def name(self) -> str:
        return "WrongKinds"


class NoName(Hook):
    @property
    def name(self) -> str:
        return " "


class AnotherKind(Hook):
    kinds = (PreCallEvent,)

    def on_event(self, event: Event) -> Event:
        return PostReasoningEvent()


class TwoEvents(Hook):
    kinds = (PostReasoningEvent,)

    def on_event(self, event: Event) -> Any:
        return reactivex.of(event, event)


class NoEvent(Hook):
    kinds = (PostReasoningEvent,)

    def on_event(self, event: Event) -> Any:
        return reactivex.empty()


class Fails(Hook):
    kinds = (ErrorEvent,)

    def on_event(self, event: Event) -> None:
        raise LookupError("nothing there")


class ChangesIt(Hook):
    kinds = (PreCallEvent,)

    def on_event(self, event: Event) -> None:
        object.__setattr__(event, "input", (*event.input, Msg.user("more")))  # type: ignore[attr-defined]


class OneState(Hook):
    """Keeps the state of a run in the hook."""

    kinds = (PreCallEvent, PreReasoningEvent)
    count = 0

    async def on_event(self, event: Event) -> Event | None:  # type: ignore[override]
        if isinstance(event, PreCallEvent):
            self.count = 0
            return None
        self.count += 1
        await asyncio.sleep(1)
        return event.with_hint(f"round {self.count}")  # type: ignore[attr-defined]


class ForOneCall(Hook):
    """Breaks when a conversation goes on."""

    kinds = (PreReasoningEvent,)

    def on_event(self, event: Event) -> None:
        assert isinstance(event, PreReasoningEvent)
        if len(event.messages) > 4:
            raise IndexError("no such message")


class LeavesATask(Hook):
    kinds = (PostActingEvent,)

    def on_event(self, event: Event) -> Awaitable[None]:
        async def later() -> None:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_later(999, lambda: None)
                raise

        return later()


FAULTS: list[tuple[type[Hook], str]] = [
    (NoPriority, "definition"),
    (WrongKinds, "definition"),
    (NoName, "definition"),
    (AnotherKind, "one event"),
    (TwoEvents, "one event"),
    (NoEvent, "one event"),
    (Fails, "one event"),
    (ChangesIt, "unchanged"),
    (OneState, "apart"),
    (ForOneCall, "run"),
    (LeavesATask, "disposal"),
]


@pytest.mark.parametrize(("kind", "rule"), FAULTS, ids=lambda each: getattr(each, "__name__", each))
def test_a_fault_of_a_hook_is_found(kind: type[Hook], rule: str):
    broken(lambda: check_hook(kind), rule)


def test_each_rule_has_a_fault():
    own = {rule for rule in check_hook(hints).checked if " " not in rule or rule == "one event"}
    assert own == {rule for _, rule in FAULTS}
