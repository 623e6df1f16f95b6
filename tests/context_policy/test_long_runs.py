"""Runs of many rounds stay within their budget, by what the provider counts; `make soak` runs 2,000 rounds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from types import FrameType

import pytest

from agentscope_rx import Hook, InMemoryMemory, Msg, ReActAgent, hook
from agentscope_rx.context_policy import CompactionHook, Summarize
from agentscope_rx.context_policy.summary import Summary
from agentscope_rx.events import ContextEvent, MemoryEvent, PreReasoningEvent, fold
from agentscope_rx.hooks.shipped.runtime_state import RuntimeStateHook
from agentscope_rx.memory.changes import compressed
from agentscope_rx.messages import call_places
from agentscope_rx.models import (
    AnthropicChatModel,
    DashScopeChatModel,
    GeminiChatModel,
    OllamaChatModel,
    OpenAIChatModel,
)
from agentscope_rx.models.http_model import HttpChatModel
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.testing import run_virtual
from tests.context_policy.long_task import Explorer, explored, explorer, plain, rooms_tool
from tests.context_policy.parts import conversation

ROUNDS = 300
BUDGET = 4_000


def large(room: int) -> str:
    return plain(room) * (1 + room % 7)


def run_long(rounds: int, *, scale: float = 0.0, budget: int = BUDGET, **options) -> Explorer:
    """A run of so many rounds, each request of which has been checked."""

    def check(number: int, messages: Sequence[Msg]) -> None:
        results = {(n, at) for n, each in enumerate(messages) for at, b in enumerate(each.content) if _is_result(b)}
        assert results == set(call_places(messages)), "a result has lost its call"
        if not messages[-1].text.startswith(("<conversation>", "<previous_summary>")):
            assert messages[0].text == "You explore."
            assert any(each.text == "Look at every room. What was in room 3?" for each in messages)

    model = Explorer(rounds, scale=scale, on_request=check)
    compaction = CompactionHook(max_tokens=budget, **options)
    assert run_virtual(explored(explorer(model, compaction, rooms_tool(large)))) == "value3"
    return model


def _is_result(block: object) -> bool:
    return getattr(block, "type", "") == "tool_result"


@pytest.mark.parametrize("scale", [0.0, 0.8, 1.3])
def test_every_request_is_within_the_budget(scale: float) -> None:
    model = run_long(ROUNDS, scale=scale)
    assert max(model.sizes) <= BUDGET
    # a compaction goes far below the trigger, so that it is rare
    assert model.summaries <= ROUNDS / 4


@hook(PreReasoningEvent)
def notes(event: PreReasoningEvent) -> PreReasoningEvent:
    return event.replace(messages=[Msg.user("Doors creak. " * 150).replace(id="notes"), *event.messages])


@hook(PreReasoningEvent)
def hints(event: PreReasoningEvent) -> PreReasoningEvent:
    return event.replace(hints=[*event.hints, Msg.user("Doors creak. " * 150)])


@hook(PreReasoningEvent)
def rules(event: PreReasoningEvent) -> PreReasoningEvent:
    return event.replace(system_message=Msg.system("You explore. " + "Doors creak. " * 150))


@pytest.mark.parametrize("scale", [0.0, 1.6])
@pytest.mark.parametrize(
    "adds", [RuntimeStateHook(minutes=1, folder="/house"), notes, hints, rules], ids=lambda h: h.name
)
def test_what_hooks_add_is_within_the_budget(adds: Hook, scale: float) -> None:
    """And what the provider counts corrects the estimate all the same."""
    counted: list[bool] = []
    model = Explorer(100, scale=scale)
    agent = explorer(model, CompactionHook(max_tokens=BUDGET), rooms_tool(large), adds)

    async def main() -> None:
        async for event in agent.stream(Msg.user("Look at every room. What was in room 3?", "Ann")):
            if isinstance(event, ContextEvent):
                counted.append(event.counted)

    run_virtual(main())
    # (it is made smaller as soon as it is beyond the trigger, and one round has no more than a fifth of the budget)
    assert max(model.sizes) <= 0.9 * BUDGET
    assert counted and set(counted) == {scale > 0}


def test_late_rounds_cost_what_early_ones_do() -> None:
    """In calls of Python functions, which are the same on every machine."""
    calls, at = [0], list[int]()

    def count(frame: object, event: str, argument: object) -> None:
        calls[0] += event == "call"

    model = Explorer(ROUNDS, on_request=lambda number, messages: at.append(calls[0]))
    agent = explorer(model, CompactionHook(max_tokens=BUDGET), rooms_tool(large))

    async def main() -> None:
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            await agent.call(Msg.user("Look at every room. What was in room 3?", "Ann"))
        finally:
            sys.setprofile(before)

    run_virtual(main())
    quarter = len(at) // 4
    assert at[-1] - at[-quarter] < 1.5 * (at[2 * quarter] - at[quarter])


@pytest.mark.parametrize("kept", [False, True])
def test_compactions_cost_the_same_after_a_long_past(kept: bool) -> None:
    """The same run, after 20 rounds that a summary stands for and after 2,000; `kept`: their question is sent."""

    def calls(rounds: int) -> int:
        counted = [0]

        def count(frame: FrameType, event: str, argument: object) -> None:
            counted[0] += event == "call" and "/agentscope_rx/" in frame.f_code.co_filename

        model = Explorer(40)
        agent = explorer(model, CompactionHook(max_tokens=BUDGET), rooms_tool(large))

        async def main() -> None:
            await agent.memory.add(past(rounds, kept=kept))
            before = sys.getprofile()
            sys.setprofile(count)
            try:
                await agent.call(Msg.user("Look at every room. What was in room 3?", "Ann"))
            finally:
                sys.setprofile(before)

        run_virtual(main())
        assert model.summaries >= 3
        return counted[0]

    assert calls(2_000) < 1.02 * calls(20)


def test_the_past_is_not_looked_through_again() -> None:
    """In steps of the interpreter, from the second compaction on: loops over all messages would count, too."""

    def steps(rounds: int) -> int:
        counted = [0]

        def count(frame: FrameType, event: str, argument: object) -> object:
            if "/agentscope_rx/" not in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            counted[0] += event == "opcode"
            return count

        model = Explorer(50)

        @hook(PreReasoningEvent)
        def begin(event: PreReasoningEvent) -> None:
            # (the end of a run looks for transient messages once)
            sys.settrace(count if 1 <= model.summaries < 4 else None)

        agent = explorer(model, CompactionHook(max_tokens=BUDGET), rooms_tool(large), begin)

        async def main() -> None:
            await agent.memory.add(past(rounds, kept=True))
            before = sys.gettrace()
            try:
                await agent.call(Msg.user("Look at every room. What was in room 3?", "Ann"))
            finally:
                sys.settrace(before)

        run_virtual(main())
        assert model.summaries >= 4
        return counted[0]

    assert steps(500) < 1.01 * steps(20)


def past(rounds: int, *, kept: bool) -> list[Msg]:
    """A conversation that a summary stands for, but for its question."""
    messages = [each.replace(id=f"past-{each.id}") for each in conversation(rounds)]
    text = Summary(goal="Look.", state="Looking.", facts=("FACT room3 = value3",)).text()
    changed = compressed(messages, range(1 if kept else 0, len(messages)), text)
    new = {each.id: each for _, each in changed}
    return [new.get(each.id, each) for each in messages]


def test_summaries_alone_keep_it_within_the_budget() -> None:
    model = run_long(ROUNDS, strategies=[Summarize(max_tokens=300)])
    assert max(model.sizes) <= BUDGET


def test_messages_are_within_their_number() -> None:
    numbers: list[int] = []
    model = Explorer(ROUNDS, on_request=lambda _, messages: numbers.append(len(messages)))
    compaction = CompactionHook(trigger_messages=50, trigger=0.8, target=0.32)
    assert run_virtual(explored(explorer(model, compaction, rooms_tool(plain)))) == "value3"
    assert max(numbers) <= 51


def test_events_and_memory_tell_the_same() -> None:
    model = Explorer(120)
    agent = explorer(model, CompactionHook(max_tokens=BUDGET), rooms_tool(large))

    async def main():
        return [event async for event in agent.stream(Msg.user("Look at every room.", "Ann"))]

    events = run_virtual(main())
    assert isinstance(agent.memory, InMemoryMemory)
    assert list(fold(events).history) == list(agent.memory.messages)
    steps = [event for event in events if isinstance(event, ContextEvent)]
    assert steps and not any(each.error for each in steps)
    assert all(each.tokens_after < each.tokens_before for each in steps)
    for at, event in enumerate(events):
        if isinstance(event, MemoryEvent) and event.replaced:
            assert isinstance(events[at - 1], ContextEvent)


class Recorder(Explorer):
    """Keeps the messages of each request for a round."""

    def __init__(self, rooms: int) -> None:
        self.asked: list[Sequence[Msg]] = []
        super().__init__(rooms, on_request=self._note)

    def _note(self, number: int, messages: Sequence[Msg]) -> None:
        if "<conversation>" not in messages[-1].text:
            self.asked.append(list(messages))


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini", "dashscope", "ollama"])
def test_between_compactions_requests_begin_alike(vendor: str) -> None:
    """On the wire, byte for byte: what a prompt cache has stays of use."""
    model = Recorder(120)
    compacted: list[int] = []

    @hook(ContextEvent, observe=True)
    def note(event: ContextEvent) -> None:
        if not event.error:
            compacted.append(len(model.asked))

    agent = explorer(model, CompactionHook(max_tokens=BUDGET), rooms_tool(large), note)
    assert run_virtual(explored(agent)) == "value3"
    bodies = [_wire(vendor, messages) for messages in model.asked]
    assert len(compacted) > 2
    for number in range(1, len(bodies)):
        same = bodies[number][: len(bodies[number - 1])] == bodies[number - 1]
        assert same == (number not in compacted), number
    # the system message stays in any case
    assert len({body[0] for body in bodies}) == 1


def _wire(vendor: str, messages: Sequence[Msg]) -> list[str]:
    """The messages of a request as a vendor gets them, the system message first."""
    model = MODELS[vendor]()
    body = json.loads(model.exchange(messages, (), model.options).request.body)
    found = body.get("input", body)
    system = body.get("system") or body.get("systemInstruction")
    return [*([encode_json(system)] if system else []), *map(encode_json, found.get("messages") or found["contents"])]


MODELS: dict[str, Callable[[], HttpChatModel]] = {
    "openai": lambda: OpenAIChatModel("gpt-5-mini", api_key="k"),
    "anthropic": lambda: AnthropicChatModel("claude-sonnet-5", api_key="k"),
    "gemini": lambda: GeminiChatModel("gemini-2.5-flash", api_key="k"),
    "dashscope": lambda: DashScopeChatModel("qwen3-max", api_key="k"),
    "ollama": lambda: OllamaChatModel("llama3"),
}


def test_without_a_need_nothing_is_asked_or_changed() -> None:
    model = Explorer(20)
    agent: ReActAgent = explorer(model, CompactionHook(max_tokens=1_000_000), rooms_tool(plain))
    assert run_virtual(explored(agent)) == "value3"
    assert model.summaries == 0 and isinstance(agent.memory, InMemoryMemory) and not agent.memory.marked
