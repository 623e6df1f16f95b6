"""Truncation: the laws by hypothesis, steps instead of one message a turn, a cost that does not grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import GenerateOptions, Msg, ReActAgent
from agentscope_rx.errors import ConfigurationError, ModelError, PromptTooLongError
from agentscope_rx.messages import MsgRole, ToolResultBlock, ToolUseBlock
from agentscope_rx.models import OpenAIChatModel, get_model
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.tokens import Costs, EstimatedTokens, TextCounter
from agentscope_rx.models.wire.speaker_names import AS_IT_IS, hint_message
from agentscope_rx.models.wrappers.multi_agent import MultiAgentModel
from agentscope_rx.models.wrappers.truncating import TruncatingModel, truncated
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual, verify
from tests.models.conversations import conversations


class Letters(TextCounter):
    def __init__(self) -> None:
        super().__init__(lambda text: len(text), Costs(request=0, message=1, name=0, call=1, result=0, tool=0))

    def _message(self, message: Msg) -> int:
        return 1 + sum(len(b.text) for m in (message,) for b in m.content if b.type == "text")


def tens(count: int) -> list[Msg]:
    """A user and an assistant in turn, 10 tokens each."""
    return [(Msg.user if n % 2 == 0 else Msg.assistant)(f"{n:09}") for n in range(count)]


def texts(messages: Sequence[Msg]) -> list[str]:
    return [message.text for message in messages]


def test_what_fits_is_left_alone() -> None:
    messages = [Msg.system("s" * 9), *tens(4)]
    assert truncated(messages, 50, Letters()) is messages
    assert truncated([], 1, Letters()) == []


def test_the_oldest_are_left_out_and_it_is_said() -> None:
    messages = [Msg.system("s" * 9), *tens(20)]
    sent = truncated(messages, 150, Letters(), notice="{count} gone")
    assert sent[0] is messages[0]
    assert sent[1].text == f"{len(messages) - len(sent) + 1} gone"
    assert sent[1].metadata.get(AS_IT_IS)
    assert list(sent[2:]) == messages[-len(sent) + 2 :]
    assert Letters().count(sent) <= 150
    assert texts(truncated(messages, 150, Letters(), notice=None))[1:] == texts(messages)[-len(sent) + 2 :]


def test_the_last_user_message_stays_through_a_long_run() -> None:
    """Of 100 rounds of one run the newest are sent, and before them what was asked."""
    question = Msg.user("What is it?")
    rounds = []
    for n in range(100):
        call = ToolUseBlock(f"c{n}", "look", {})
        rounds += [Msg.assistant(call), Msg.tool(ToolResultBlock.of(call, "x" * 20))]
    messages = [Msg.system("S"), *tens(10), question, *rounds, hint_message("Now answer.")]
    sent = truncated(messages, 400, EstimatedTokens())
    assert sent[2] is question
    assert sent[3].tool_calls
    assert sent[-1].text == "Now answer."


def test_the_least_must_fit() -> None:
    messages = [Msg.system("s" * 50), *tens(3)]
    with pytest.raises(PromptTooLongError, match="max_tokens=55") as caught:
        truncated(messages, 55, Letters(), notice=None)
    # the system message, and the last user message, which is what came last
    assert (caught.value.tokens, caught.value.max_tokens) == (61, 55)
    assert isinstance(caught.value, ModelError)
    assert not caught.value.retryable
    with pytest.raises(PromptTooLongError):
        truncated([Msg.system("s" * 50)], 20, Letters())


def test_a_call_whose_result_is_too_long() -> None:
    call = ToolUseBlock("c", "look", {})
    messages = [Msg.user("q"), Msg.assistant(call), Msg.tool(ToolResultBlock.of(call, "x " * 500))]
    with pytest.raises(PromptTooLongError):
        truncated(messages, 300, EstimatedTokens())


@settings(max_examples=150)
@given(conversations, st.integers(1, 120), st.sampled_from([0.0, 0.5, 0.7, 0.9]))
def test_laws(messages: list[Msg], limit: int, keep: float) -> None:
    """Never too long; nothing lost that must be sent; calls with their results; the order kept; the same each time."""
    counter = Letters()
    try:
        sent = truncated(messages, limit, counter, keep=keep)
    except PromptTooLongError:
        return
    assert counter.count(sent) <= limit
    assert truncated(messages, limit, counter, keep=keep) == sent
    if counter.count(messages) <= limit:
        assert sent is messages
        return
    own = [m for m in sent if not m.id.startswith("left-out-")]
    places = [next(i for i, m in enumerate(messages) if m is each) for each in own]
    assert places == sorted(set(places))
    head = [m for m in messages[:1] if m.role is MsgRole.SYSTEM]
    assert list(sent[: len(head)]) == head
    assert own[-1] is messages[-1]
    users = [m for m in messages if m.role is MsgRole.USER]
    assert not users or users[-1] in own
    # a result has its call, and a call that was answered its results
    called = {c.id for m in own for c in m.tool_calls}
    answered = {r.id for m in own for r in m.tool_results}
    assert answered <= called
    assert called & {r.id for m in messages for r in m.tool_results} == answered


@pytest.mark.parametrize("keep", [0.5, 0.7, 0.9])
def test_steps(keep: float) -> None:
    """A prompt's beginning stays the same for long: it is cut anew only every so many messages."""
    messages = [Msg.system("S"), *tens(3000)]
    counter, limit = Letters(), 1000
    begins: list[str] = []
    for length in range(200, 3000):
        sent = truncated(messages[:length], limit, counter)
        begins.append(sent[2].id)
        assert counter.count(sent) > 0.6 * limit
    changes = sum(a != b for a, b in pairwise(begins))
    # 30 messages are between 70 % and all of the limit: a cut holds for at least half of that
    assert changes <= len(begins) / 15
    # and it does not go back
    assert list(dict.fromkeys(begins)) == sorted(dict.fromkeys(begins), key=[m.id for m in messages].index)


class Watched(Sequence[Msg]):
    """A history that counts how often it is looked at."""

    def __init__(self, messages: list[Msg]) -> None:
        self.messages = messages
        self.looks = 0

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return self.messages[index]

    def __iter__(self) -> Iterator[Msg]:
        for message in self.messages:
            self.looks += 1
            yield message


def test_the_ten_thousandth_turn_costs_what_the_hundredth_did() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 10

    model = TruncatingModel(ScriptedModel(), 1000, counter=TextCounter(count, Costs(message=0, name=0, request=0)))
    history: list[Msg] = [Msg.system("S")]
    costs: list[tuple[int, int]] = []
    for n in range(10_000):
        # one long run: nothing but calls and results after one question
        call = ToolUseBlock(f"c{n}", "look", {})
        history += [Msg.user("q")] if n == 0 else [Msg.assistant(call), Msg.tool(ToolResultBlock.of(call, "r"))]
        watched = Watched(history)
        before = len(counted)
        model.rewrite(watched, (), GenerateOptions())
        costs.append((watched.looks, len(counted) - before))
    assert max(costs[5000:]) <= max(costs[100:300])
    assert max(look for look, _ in costs) < 600
    assert max(new for _, new in costs) <= 12


def test_tools_and_an_outputs_schema_count() -> None:
    tools = [ToolSchema("look", "x" * 300, {})]
    model = TruncatingModel(ScriptedModel(), 250, counter=EstimatedTokens(Costs()), notice=None)
    messages = tens(40)
    alone = model.rewrite(messages, (), GenerateOptions())
    assert len(model.rewrite(messages, tools, GenerateOptions())) < len(alone)
    shape = GenerateOptions(response_format={"type": "json_schema", "json_schema": {"schema": {"d": "word " * 60}}})
    assert len(model.rewrite(messages, (), shape)) < len(alone)
    with pytest.raises(PromptTooLongError):
        model.rewrite(messages, [ToolSchema("look", "word " * 400, {})], GenerateOptions())


def test_an_agent_with_a_long_memory() -> None:
    inner = ScriptedModel(*["word " * 30] * 30)
    agent = ReActAgent("A", TruncatingModel(inner, 300), "You are kind.")
    for n in range(30):
        agent.call(f"Question {n}").run()
    assert len(agent.memory.messages) == 60
    counter = EstimatedTokens()
    for request in inner.requests:
        assert counter.count(request.messages) <= 300
        assert request.messages[0].text == "You are kind."
    last = inner.requests[-1].messages
    assert "earlier messages" in last[1].text
    assert last[-1].text == "Question 29"


def test_with_several_speakers() -> None:
    inner = ScriptedModel("a")
    model = TruncatingModel(MultiAgentModel(inner), 150)
    messages = [Msg.system("S"), *(Msg.user("word " * 5, f"Guest {n}") for n in range(40))]
    verify(model.stream(messages)).expect_count(1).expect_completed().run()
    (request,) = inner.requests
    assert [m.role.value for m in request.messages] == ["system", "user", "user"]
    assert "earlier messages" in request.messages[1].text
    assert "Guest 39: word" in request.messages[2].text


def test_too_long_is_told_before_anything_is_sent() -> None:
    inner = ScriptedModel("a")
    model = TruncatingModel(inner, 10)
    verify(model.stream([Msg.user("word " * 100)])).expect_error(PromptTooLongError, match="scripted|max_tokens").run()
    assert inner.requests == []


def test_failure_and_disposal_are_the_inner_models() -> None:
    verify(TruncatingModel(ScriptedModel(ValueError("no")), 99).stream([Msg.user("x")])).expect_error(ValueError).run()

    async def disposed() -> None:
        async for _ in TruncatingModel(ScriptedModel([Delay(1), "a", HANG]), 99).stream([Msg.user("x")]):
            break

    run_virtual(disposed())


def test_the_limit_of_a_known_model() -> None:
    """The window is for question and answer: gpt-5's holds 400,000 tokens, 128,000 of them for the answer."""
    known = OpenAIChatModel("gpt-5-mini", api_key="k")
    assert TruncatingModel(known).max_tokens == 244_800
    short = OpenAIChatModel("gpt-5-mini", api_key="k", options=GenerateOptions(max_completion_tokens=10_000))
    assert TruncatingModel(short).max_tokens == 351_000
    with pytest.raises(ConfigurationError, match="max_tokens="):
        TruncatingModel(ScriptedModel())


def test_what_it_takes() -> None:
    with pytest.raises(ConfigurationError, match="max_tokens"):
        TruncatingModel(ScriptedModel(), 0)
    with pytest.raises(ConfigurationError, match="keep"):
        TruncatingModel(ScriptedModel(), 10, keep=1)


class Plain:
    """A counter of one's own: the port and nothing else."""

    def count(self, messages: Sequence[Msg], tools: Sequence[ToolSchema] = ()) -> int:
        return 2 + sum(len(m.text) for m in messages)


def test_a_counter_of_ones_own() -> None:
    model = TruncatingModel(ScriptedModel(), 60, counter=Plain(), notice=None)
    sent = model.rewrite(tens(40), (), GenerateOptions())
    assert 0 < len(sent) < 40
    assert Plain().count(sent) <= 60


def test_a_name_chooses_the_inner_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    model = TruncatingModel("anthropic:claude-sonnet-5")
    by_object = TruncatingModel(get_model("anthropic:claude-sonnet-5"))
    assert repr(model) == repr(by_object)
    assert (model.max_tokens, model.model.provider) == (by_object.max_tokens, "anthropic")
