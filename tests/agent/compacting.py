"""What the tests of compaction share: a hook that compacts when it is told to, and ways to look at a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from agentscope_rx import Hook, Msg, TextBlock, ToolUseBlock
from agentscope_rx.events import ContextEvent
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.memory.changes import compressed
from agentscope_rx.memory.short_forms import shortened
from agentscope_rx.messages import COMPRESSED
from agentscope_rx.reactive import Flow, from_callable
from agentscope_rx.testing.scripted_model import ScriptedModel

SUMMARY = "What was before."


def look(number: int) -> ToolUseBlock:
    """A call of the tool `weather`."""
    return ToolUseBlock(f"c{number}", "weather", {"city": f"Town {number}"})


def texts(messages: Sequence[Msg]) -> list[str]:
    """The texts of messages; results and calls by their ids."""
    return [each.text or "+".join(block.id for block in (*each.tool_calls, *each.tool_results)) for each in messages]


def requests(model: ScriptedModel) -> list[list[str]]:
    """The texts of each request, without the system message."""
    return [texts(request.messages)[1:] for request in model.requests]


def step(request: CompactionRequest, after: Sequence[Msg], name: str = "summarize") -> ContextEvent:
    """The event of a step."""
    cause = {"round": "messages", "overflow": "overflow", "manual": "manual"}[request.why]
    return ContextEvent(
        step=name,
        cause=cause,  # type: ignore[arg-type]
        tokens_before=100 * len(request.messages),
        tokens_after=100 * len(after),
        messages_before=len(request.messages),
        messages_after=len(after),
    )


def summarized(request: CompactionRequest, keep: int, summary: str = SUMMARY) -> Compaction:
    """All messages but the last `keep` and the question, compressed."""
    old = [
        number
        for number, each in enumerate(request.history[: len(request.history) - keep])
        if each.id not in request.question and COMPRESSED not in each.marks
    ]
    if not old:
        return Compaction()
    new_of = {id(before): after for before, after in compressed(request.history, old, summary)}
    after = [new_of.get(id(each), each) for each in request.history]
    return Compaction(replaced=tuple(new_of.values()), events=(step(request, after[-keep:]),))


def with_short_results(request: CompactionRequest) -> Compaction:
    """Every result in its short form."""
    forms = [
        shortened(each, {at: block.replace(output=(TextBlock("short"),)) for at, block in enumerate(each.tool_results)})
        for each in request.history
        if each.tool_results
    ]
    return Compaction(replaced=forms, events=(step(request, request.messages, "shorten results"),))


class Compacts(Hook):
    """Compacts as `make` says, after `delay` seconds, if there are more than `above` messages to send."""

    priority = 10

    def __init__(
        self,
        make: Callable[[CompactionRequest], Compaction | None] = lambda request: summarized(request, 2),
        *,
        above: int = 0,
        delay: float = 0.0,
        why: Sequence[str] = ("round", "overflow", "manual"),
    ) -> None:
        self.make = make
        self.above = above
        self.delay = delay
        self.why = why
        self.asked: list[CompactionRequest] = []
        self.begun = 0
        self.ended = 0

    def compact(self, request: CompactionRequest) -> Flow[Compaction] | Compaction | None:
        self.asked.append(request)
        if request.why not in self.why or len(request.messages) <= self.above:
            return None
        if not self.delay:
            return self.make(request)

        async def work() -> Compaction:
            self.begun += 1
            try:
                await asyncio.sleep(self.delay)
                return self.make(request) or Compaction()
            finally:
                self.ended += 1

        return from_callable(work)
