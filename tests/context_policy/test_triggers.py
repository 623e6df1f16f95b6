"""Triggers of the policy: tokens, messages, refusals of the provider, requests of the model and of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from reactivex import operators as ops

from agentscope_rx import Msg
from agentscope_rx.context_policy import CompactionHook, ContextPolicy, StrategyContext, Summarize
from agentscope_rx.context_policy.compacting import BUDGET, sent_view
from agentscope_rx.context_policy.sizes import refused
from agentscope_rx.errors import (
    CompactionError,
    ConfigurationError,
    ContextOverflowError,
    HookError,
    InvalidInputError,
    PromptTooLongError,
)
from agentscope_rx.messages import COMPRESSED
from agentscope_rx.models import OllamaChatModel
from agentscope_rx.models.capabilities import Capabilities
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.tokens import TextCounter
from agentscope_rx.models.wrappers import FallbackModel
from agentscope_rx.models.wrappers.truncating import TruncatingModel, max_input
from agentscope_rx.parts import PartState, PartStates
from agentscope_rx.reactive import just
from agentscope_rx.testing import ScriptedModel
from tests.context_policy.parts import (
    COUNT,
    Shorten,
    Summariser,
    asked,
    compacted,
    conversation,
    sent_tokens,
    written,
)

FIXED = COUNT.count([Msg.system("Be brief.")])


class Known(Summariser):
    """A model with a context window."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(context_window=4_000, max_output=500)


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_nothing_is_done_up_to_the_trigger() -> None:
    history = conversation(30)
    size = FIXED + sum(map(COUNT.message, history))
    assert ContextPolicy(max_tokens=size, trigger=1.0).compact(asked(history)) is None
    assert compacted(ContextPolicy(max_tokens=size - 1, trigger=1.0), asked(history)).replaced
    assert compacted(ContextPolicy(max_tokens=size), asked(history)).replaced


def test_a_compaction_goes_to_the_target() -> None:
    history = conversation(100)
    policy = ContextPolicy([Shorten(), Summarize(max_tokens=200)], max_tokens=6_000, target=0.3)
    after = written(history, compacted(policy, asked(history)))
    assert sent_tokens(after) <= 0.3 * 6_000


def test_the_budget_is_that_of_the_model() -> None:
    history = conversation(60)
    assert max_input(Known()) == 3_150
    assert max_input(Known(), GenerateOptions(max_tokens=2_000)) == 1_800
    assert max_input(TruncatingModel(Known(), max_tokens=900)) == 900
    assert max_input(TruncatingModel(ScriptedModel("x"), max_tokens=900)) == 900
    assert max_input(FallbackModel(Known(), TruncatingModel(Known(), max_tokens=900))) == 900
    assert max_input(FallbackModel(Known(), ScriptedModel("x"))) is None
    for body in ({"num_ctx": 1_000}, {"options": {"num_ctx": 1_000}}):
        # beyond it Ollama cuts a conversation, and says nothing
        llama = OllamaChatModel("llama3.2", options=GenerateOptions(additional_body_params=body, max_tokens=200))
        assert max_input(llama) == 720
        assert max_input(Known(), llama.options) == 720
    assert max_input(OllamaChatModel("llama3.2")) is None
    (event,) = compacted(ContextPolicy(), asked(history, model=Known())).events
    assert event.tokens_after < 0.5 * 3_150 < event.tokens_before


def test_an_unknown_window_needs_a_budget() -> None:
    with pytest.raises(ConfigurationError, match="max_tokens"):
        ContextPolicy().compact(asked(conversation(3)))


def test_tools_and_the_output_schema_belong_to_the_request() -> None:
    history = conversation(30)
    policy = ContextPolicy(max_tokens=3_000)
    assert policy.compact(asked(history)) is None
    tool = ToolSchema("look", "Look around. " * 200, {"type": "object"})
    assert compacted(policy, asked(history, tools=[tool])).replaced
    shape = {"type": "json_schema", "json_schema": {"schema": {"description": "word " * 600}}}
    assert compacted(policy, asked(history, options=GenerateOptions(response_format=shape))).replaced


def test_a_counter_of_the_program_counts() -> None:
    history = conversation(30)
    counter = TextCounter(lambda text: 10 * len(text))
    event = compacted(ContextPolicy(max_tokens=50_000, counter=counter), asked(history)).events[0]
    assert event.counted and event.tokens_before > 50_000

    class Lines:
        def count(self, messages: Sequence[Msg], tools: Sequence[ToolSchema] = ()) -> int:
            return 100 * len(messages)

    (event,) = compacted(ContextPolicy(max_tokens=5_000, counter=Lines()), asked(history)).events
    assert (event.tokens_before, event.messages_before) == (6_200, 61)


def test_the_count_of_the_provider_corrects_the_estimate() -> None:
    history = conversation(30)
    size = FIXED + sum(map(COUNT.message, history))
    policy = ContextPolicy([Shorten()], max_tokens=2 * size)
    assert policy.compact(asked(history)) is None
    assert policy.compact(asked(history, last=(61, size))) is None
    (event,) = compacted(policy, asked(history, last=(61, 2 * size))).events
    assert event.counted and abs(event.tokens_before - 2 * size) <= 1
    # messages behind those that were counted are counted with the same factor
    half = FIXED + sum(map(COUNT.message, history[:31]))
    (event,) = compacted(policy, asked(history, last=(31, 2 * half))).events
    assert abs(event.tokens_before - 2 * size) <= 2


@pytest.mark.parametrize("last", [(0, 100), (99, 100), (5, 0), (61, 10), (61, 10_000_000)])
def test_a_count_of_another_request_is_left_out(last: tuple[int, int]) -> None:
    history = conversation(30)
    (event,) = compacted(ContextPolicy(max_tokens=2_000), asked(history, last=last)).events
    assert not event.counted and event.tokens_before == FIXED + sum(map(COUNT.message, history))


def test_the_correction_is_known_after_a_compaction() -> None:
    history, parts = conversation(30), PartStates()
    size = FIXED + sum(map(COUNT.message, history))
    policy = ContextPolicy([Shorten()], max_tokens=2 * size, keep_rounds=0)
    after = written(history, compacted(policy, asked(history, parts=parts, last=(61, 2 * size))))
    more = [*after, *conversation(60)[61:]]
    event = compacted(policy, asked(more, parts=parts)).events[0]
    assert event.tokens_before == pytest.approx(2 * (FIXED + sent_tokens(more)), rel=0.02)


# --- messages ---------------------------------------------------------------------------------------------------------


def test_messages_trigger_a_compaction() -> None:
    history = conversation(30)
    policy = ContextPolicy(trigger_messages=50, trigger=0.8, target=0.32)
    assert policy.compact(asked(history[:49])) is None
    (event,) = compacted(policy, asked(history)).events
    assert event.cause == "messages" and event.messages_before == 61 and event.messages_after <= 20


def test_tokens_come_first_if_both_are_too_many() -> None:
    history = conversation(60)
    policy = ContextPolicy(max_tokens=3_000, trigger_messages=50)
    (event,) = compacted(policy, asked(history)).events
    assert event.cause == "tokens" and event.messages_after <= 31


# --- refusals ---------------------------------------------------------------------------------------------------------


def overflow(text: str, **fields: object) -> ContextOverflowError:
    return ContextOverflowError(text, status=400, **fields)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "limit", "sent"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9,012 tokens.",
            8_192,
            9_012,
        ),
        (
            "This model's maximum context length is 16385 tokens. However, you requested 20000 tokens (19000 in the "
            "messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            15_385,
            19_000,
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000, 210_000),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
            1_200_000,
        ),
        ("Range of input length should be [1, 129024]", 129_024, None),
        ("the request exceeds the available context size (4096 tokens)", 4_096, None),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4_096, 5_000),
        ("too many tokens", None, None),
    ],
)
def test_refusals_name_limits(text: str, limit: int | None, sent: int | None) -> None:
    assert refused(overflow(text)) == (limit, sent)
    assert refused(overflow("refused", body=text)) == (limit, sent)


def test_a_truncating_model_names_its_limit() -> None:
    assert refused(PromptTooLongError(tokens=900, max_tokens=700)) == (700, None)
    assert refused(None) == (None, None)


def test_a_refused_request_gets_smaller_without_any_limit() -> None:
    history = conversation(30)
    compaction = compacted(ContextPolicy(), asked(history, why="overflow", error=overflow("too many tokens")))
    (event,) = compaction.events
    assert event.cause == "overflow" and event.tokens_after <= event.tokens_before / 2


def test_a_refused_request_keeps_the_newest_round_only() -> None:
    """The last rounds alone may be too long; the results of the newest one have not been read."""
    history = conversation(3, words=1_200)
    policy = ContextPolicy(max_tokens=3_000)
    (event,) = compacted(policy, asked(history)).events
    assert event.step == BUDGET
    error = overflow("maximum context length is 3000 tokens")
    compaction = compacted(policy, asked(history, why="overflow", error=error))
    after = sent_view(written(history, compaction))
    assert compaction.events[-1].error == "" and compaction.events[-1].tokens_after <= 3_000
    assert after[0].text.startswith("<summary>")
    assert after[1] == history[0] and after[-2:] == history[-2:]
    # a strategy that has failed is not asked twice
    failing = Summariser(change=lambda number, prompt: "I cannot do that.")
    compaction = compacted(policy, asked(history, model=failing, why="overflow", error=error))
    assert len(failing.prompts) <= 1 and not compaction.replaced


def test_the_limit_of_a_refusal_is_known_from_then_on() -> None:
    history, parts, model = conversation(30), PartStates(), Summariser()
    policy = ContextPolicy([Summarize(max_tokens=200)], max_tokens=100_000)
    error = overflow("maximum context length is 1500 tokens. However, your messages resulted in 4,000 tokens.")
    request = asked(history, model=model, parts=parts, why="overflow", error=error)
    (event,) = compacted(policy, request).events
    assert event.tokens_before == pytest.approx(4_000, abs=2) and event.counted and event.tokens_after <= 1_500
    assert policy.budget_of(request) == 1_500
    other = replace(request, model=Known())
    other.model.model_name = "another"
    assert policy.budget_of(other) == 100_000
    again = compacted(policy, asked(history, model=model, parts=parts))
    assert [each.cause for each in again.events] == ["tokens"]


# --- requests ---------------------------------------------------------------------------------------------------------


def test_the_model_asks_for_a_compaction_once() -> None:
    history, parts = conversation(30), PartStates()
    hook = CompactionHook(max_tokens=100_000)
    assert hook.compact(asked(history, parts=parts)) is None
    hook.ask(parts)
    compaction = compacted(hook.policy, asked(history, parts=parts))
    assert [each.cause for each in compaction.events] == ["tool"] and compaction.replaced
    assert hook.compact(asked(written(history, compaction), parts=parts)) is None


def test_a_request_with_nothing_to_do_is_answered() -> None:
    hook, parts = CompactionHook(max_tokens=100_000), PartStates()
    hook.ask(parts)
    compaction = compacted(hook.policy, asked(conversation(2), parts=parts))
    (event,) = compaction.events
    assert event.step == BUDGET and "nothing" in event.error and compaction.replaced == ()
    assert hook.compact(asked(conversation(2), parts=parts)) is None


@pytest.mark.spec("D6")
@pytest.mark.parametrize("why", ["round", "manual", "overflow"])
def test_a_short_conversation_keeps_its_question(why: str) -> None:
    """Few messages, far above the budget: what was just asked is sent all the same."""
    history = [*conversation(1, words=900), Msg.user("And what now?").replace(id="now")]
    policy = ContextPolicy([Summarize(max_tokens=100)], max_tokens=300, keep_rounds=0)
    after = written(history, compacted(policy, asked(history, why=why, question=["now"])))
    assert [each.text for each in sent_view(after)][1:] == ["And what now?"] and len(sent_view(after)) == 2


def test_conversations_do_not_know_of_each_other() -> None:
    hook, one, other = CompactionHook(max_tokens=100_000), PartStates(), PartStates()
    hook.ask(one)
    assert hook.compact(asked(conversation(30), parts=other)) is None
    assert hook.compact(asked(conversation(30), parts=one)) is not None


def test_the_state_is_saved_with_the_conversation() -> None:
    hook, one, other = CompactionHook(max_tokens=100_000), PartStates(), PartStates()
    hook.ask(one)
    other.restore(one.dump())
    assert hook.compact(asked(conversation(30), parts=other)) is not None


@pytest.mark.parametrize(
    "state", [None, 3, [], {"asked": "yes"}, {"factor": 0.0}, {"factor": float("nan")}, {"failed": {"a": "b"}}]
)
def test_a_damaged_state_is_begun_anew(state: object) -> None:
    parts = PartStates()
    assert parts.swap("context_policy", None, PartState(1, state))
    assert ContextPolicy(max_tokens=100_000).compact(asked(conversation(5), parts=parts)) is None


def test_the_state_of_a_newer_release_is_refused() -> None:
    parts = PartStates()
    assert parts.swap("context_policy", None, PartState(9, {}))
    with pytest.raises(InvalidInputError, match="version 9"):
        ContextPolicy(max_tokens=100_000).compact(asked(conversation(5), parts=parts))


# --- above the budget -------------------------------------------------------------------------------------------------


def test_what_cannot_be_small_enough_is_reported_once() -> None:
    history = conversation(4, words=1_000)
    policy, parts = ContextPolicy(max_tokens=1_000, keep_rounds=4), PartStates()
    compaction = compacted(policy, asked(history, parts=parts))
    (event,) = compaction.events
    assert event.step == BUDGET and "more than 1000" in event.error and compaction.replaced == ()
    assert compacted(policy, asked(history, parts=parts)).events == ()
    # what can be done is done all the same
    (step, event) = compacted(
        ContextPolicy([Shorten()], max_tokens=1_000, keep_rounds=2), asked(history, parts=PartStates())
    ).events
    assert step.step == "shorten" and not step.error and event.step == BUDGET


def test_it_is_not_tried_again_before_it_has_grown() -> None:
    shorten, parts = Shorten(), PartStates()
    policy = ContextPolicy([shorten], max_tokens=3_000, trigger=0.5, target=0.4, keep_rounds=0)
    history = conversation(30)
    for _ in range(10):
        history = written(history, compacted(policy, asked(history, parts=parts)))
    assert len(shorten.contexts) == 1


# --- strategies -------------------------------------------------------------------------------------------------------


class Gives:
    """A strategy that gives this."""

    name = "gives"

    def __init__(self, given: object) -> None:
        self.given = given

    def apply(self, context: StrategyContext):
        if isinstance(self.given, Exception):
            raise self.given
        return self.given(context) if callable(self.given) else self.given


def test_strategies_may_be_observables_of_any_kind() -> None:
    shorten = Shorten()
    policy = ContextPolicy([Gives(lambda context: just(shorten.apply(context)).pipe(ops.delay(3)))], max_tokens=2_000)
    assert compacted(policy, asked(conversation(40))).events[0].step == "gives"


def test_a_failed_strategy_leaves_it_to_the_next_one() -> None:
    policy = ContextPolicy([Gives(CompactionError("gives", "no space")), Shorten()], max_tokens=2_000)
    first, second, *_ = compacted(policy, asked(conversation(40))).events
    assert (first.step, first.error) == ("gives", "no space") and second.step == "shorten"


def test_what_makes_it_longer_is_not_taken() -> None:
    def longer(context: StrategyContext) -> list[Msg]:
        last = context.free()[0].messages[-1]
        return [
            last.marked(COMPRESSED).replace(metadata={"memory_marks": ["compressed"], "memory_summary": "x " * 5_000})
        ]

    compaction = compacted(ContextPolicy([Gives(longer)], max_tokens=2_000), asked(conversation(40)))
    assert compaction.replaced == () and "longer" in compaction.events[0].error


@pytest.mark.parametrize("change", ["content", "stranger", "protected"])
def test_a_strategy_that_breaks_the_rules_fails_the_run(change: str) -> None:
    def breaks(context: StrategyContext) -> list[Msg]:
        message = context.rounds[0].messages[0]
        if change == "content":
            return [context.free()[0].messages[0].replace(content="other")]
        return [Msg.user("new")] if change == "stranger" else [message.marked(COMPRESSED)]

    with pytest.raises(HookError, match="gives"):
        compacted(ContextPolicy([Gives(breaks)], max_tokens=2_000), asked(conversation(40)))


def test_any_other_error_of_a_strategy_fails_the_run() -> None:
    with pytest.raises(KeyError):
        compacted(ContextPolicy([Gives(KeyError("x"))], max_tokens=2_000), asked(conversation(40)))


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"trigger": 0}, "trigger"),
        ({"trigger": 1.1}, "trigger"),
        ({"trigger": "a"}, "trigger"),
        ({"target": 0.8}, "target"),
        ({"target": True}, "target"),
        ({"trigger_messages": 0}, "trigger_messages"),
        ({"keep_rounds": -1}, "keep_rounds"),
        ({"counter": 3}, "counter"),
        ({"strategies": []}, "strategy"),
        ({"strategies": "abc"}, "strategies"),
        ({"strategies": [3]}, "strategy"),
        ({"strategies": [Summarize]}, "strategy"),
        ({"strategies": [Shorten(), Shorten()]}, "shorten"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], text: str) -> None:
    for maker in (ContextPolicy, CompactionHook):
        with pytest.raises(ConfigurationError, match=text):
            maker(**options)  # pyright: ignore[reportArgumentType]


def test_a_hook_takes_a_policy_or_its_options() -> None:
    policy = ContextPolicy(max_tokens=9)
    assert CompactionHook(policy).policy is policy
    with pytest.raises(ConfigurationError, match="not both"):
        CompactionHook(policy, max_tokens=3)
    with pytest.raises(ConfigurationError, match="ContextPolicy"):
        CompactionHook(3)  # pyright: ignore[reportArgumentType]
    assert [tool.name for tool in CompactionHook().tools()] == ["compact_context", "read_result"]
    assert CompactionHook(strategies=[Shorten()], tool=False).tools() == () and CompactionHook().priority == 10


class ShortenOne(Shorten):
    """Shortens one result."""

    def __init__(self, id: str) -> None:
        super().__init__(id)

    def apply(self, context: StrategyContext) -> Sequence[Msg]:
        return [new for each in context.history if each.id == self.name and (new := self._short(each)) is not None]


@pytest.mark.parametrize("order", [("r2", "r9"), ("r9", "r2")])
def test_uncached_counts_from_the_first_change_of_all_steps(order: tuple[str, str]) -> None:
    history = conversation(14)
    policy = ContextPolicy([ShortenOne(order[0]), ShortenOne(order[1])], max_tokens=1_000, target=0.01, trigger=0.02)
    compaction = compacted(policy, asked(history))
    before, after = sent_view(history), sent_view(written(history, compaction))
    place = next(n for n, pair in enumerate(zip(before, after, strict=True)) if pair[0].content != pair[1].content)
    assert before[place].id == "r2"
    first, last = (each for each in compaction.events if each.step in order)
    assert last.uncached == sum(map(COUNT.message, after[place:])) and (first.uncached > last.uncached) is (
        order[0] == "r2"
    )
