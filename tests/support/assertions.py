"""Assertions that several parts share: about conversations, and about the CPU time of a call."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from agentscope_rx import Msg, MsgRole, fold
from agentscope_rx.events import Event
from agentscope_rx.messages import ToolResultBlock, results_first
from agentscope_rx.testing import ScriptedModel

T = TypeVar("T")


def results(messages: Iterable[Msg]) -> list[ToolResultBlock]:
    """All results of these messages."""
    return [result for message in messages for result in message.tool_results]


def results_in(messages: Iterable[Msg]) -> dict[str, tuple[str | None, str]]:
    """What became of each call: kind and text of its result, by id; a second result is an error."""
    found: dict[str, tuple[str | None, str]] = {}
    for message in messages:
        for result in message.tool_results:
            assert result.id not in found, f"a second result for {result.id}"
            found[result.id] = (result.kind, result.text)
    return found


def assert_prompts_are_whole(model: ScriptedModel, *, besides: Sequence[str] = ()) -> None:
    """In each prompt, the results of a message's calls stand right behind it, as strict providers demand.

    `besides` are the names of speakers whose calls are not this agent's to settle.
    """
    for number, request in enumerate(model.requests):
        expected: list[str] = []
        for message in results_first(request.messages):
            if message.role is not MsgRole.ASSISTANT:
                for result in message.tool_results:
                    assert result.id in expected, f"request {number}: a result for {result.id} that has no call"
                    expected.remove(result.id)
            if message.role is MsgRole.TOOL:
                continue
            assert not expected, f"request {number}: {expected} unanswered before {message.role} {message.text!r}"
            if message.name not in besides:
                expected = [call.id for call in message.tool_calls]
        assert not expected, f"request {number}: {expected} unanswered at the end"


def assert_one_truth(events: Sequence[Event], before: Sequence[Msg], after: Sequence[Msg]) -> None:
    """What the events amount to is what was added to memory, and the reply is the last event's message."""
    folded = fold(events)
    assert folded.history == tuple(after[len(before) :])
    last = events[-1]
    if last.type == "post_call":
        assert folded.message == last.message  # pyright: ignore


TRIES = 3
"""How often a call is measured before it counts as slow."""


def in_cpu_time(call: Callable[[], T], seconds: float, tries: int = TRIES) -> T:
    """The result of a call that may be repeated; fails if each try takes more CPU time of this thread.

    CPU time does not count the turns of other processes, but it grows with them: caches are cold, cores are shared.
    A loaded machine is slow in one try, a call without its bounds in all. The garbage collector is off, because it
    walks the whole heap of the tests.
    """
    spent: list[float] = []
    for _ in range(tries):
        gc.disable()
        begun = time.thread_time()
        try:
            result = call()
        finally:
            spent.append(time.thread_time() - begun)
            gc.enable()
        if spent[-1] < seconds:
            return result
    raise AssertionError(f"{[round(each, 3) for each in spent]} s of CPU time, all more than {seconds} s")


def stable_id(value: object) -> str:
    """The value as the id of a parameter, without its address: workers must find the same tests."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
