"""Laws of the policy for any conversation: what stays, what fits, what comes back, and the order of strategies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg
from agentscope_rx.context_policy import ContextPolicy, Strategy, Summarize
from agentscope_rx.context_policy.compacting import BUDGET, protected_ids, sent_view
from agentscope_rx.context_policy.rounds import visible
from agentscope_rx.memory.short_forms import restored
from agentscope_rx.memory.views import groups, summary_carrier, system_head
from agentscope_rx.messages import COMPRESSED
from agentscope_rx.parts import PartStates
from tests.context_policy.parts import (
    COUNT,
    Shorten,
    Summariser,
    asked,
    compacted,
    conversation,
    hidden_ids,
    sent_tokens,
    written,
)
from tests.memory.histories import histories, marked_histories

budgets = st.integers(150, 1_500)
kept = st.integers(0, 4)
BOUND = 100


def strategies(short: bool = True) -> list[Strategy]:
    summarize = Summarize(max_tokens=BOUND)
    return [Shorten(), summarize] if short else [summarize]


@given(marked_histories(), budgets, kept, st.booleans(), st.sampled_from(["round", "manual", "overflow"]))
def test_no_call_is_separated_from_its_result(
    messages: list[Msg], budget: int, keep: int, short: bool, why: str
) -> None:
    policy = ContextPolicy(strategies(short), max_tokens=budget, keep_rounds=keep)
    before = hidden_ids(messages)
    after = written(messages, compacted(policy, asked(messages, why=why)))
    gone = hidden_ids(after) - before
    for group in groups(messages):
        ids = {messages[number].id for number in group.members}
        assert not gone & ids or ids <= hidden_ids(after)
        assert not (group.open and gone & ids)


@given(marked_histories(), budgets, kept, st.data())
def test_what_is_protected_is_sent_as_it_was(messages: list[Msg], budget: int, keep: int, data: st.DataObject) -> None:
    question = data.draw(st.sets(st.sampled_from([each.id for each in messages]), max_size=3))
    policy = ContextPolicy(strategies(), max_tokens=budget, keep_rounds=keep)
    request = asked(messages, why="manual", question=question)
    protected = protected_ids(request, keep, messages)
    after = written(messages, compacted(policy, request))
    sent = {each.id: each for each in sent_view(after)}
    for each in sent_view(messages):
        if each.id in protected:
            assert sent[each.id].content == each.content
    head = system_head(visible(messages))
    assert [each.content for each in sent_view(after)[:head]] == [each.content for each in visible(messages)[:head]]


@given(histories(), budgets, kept)
def test_it_fits_whenever_it_can(messages: list[Msg], budget: int, keep: int) -> None:
    policy = ContextPolicy(strategies(), max_tokens=budget, keep_rounds=keep)
    request = asked(messages)
    compaction = compacted(policy, request)
    after = written(messages, compaction)
    protected = protected_ids(request, keep, messages)
    fixed = COUNT.count([Msg.system("Be brief.")])
    free = [one for one in messages if one.id not in protected]
    least = fixed + sum(COUNT.message(each) for each in messages if each.id in protected) + BOUND + 10
    total = fixed + sum(map(COUNT.message, sent_view(after)))
    if free and least <= budget and not any(each.error for each in compaction.events):
        # (a round with a protected message stays whole)
        rounds_free = {each.id for each in free} - _bound_to(messages, protected)
        stuck = sum(COUNT.message(each) for each in free if each.id not in rounds_free)
        assert total <= budget or least + stuck > budget
    if total > budget and sent_tokens(messages) > budget:
        assert any(each.error for each in compaction.events)


def _bound_to(messages: Sequence[Msg], protected: set[str]) -> set[str]:
    """The ids of the messages that are in one round with a protected one."""
    from agentscope_rx.context_policy.rounds import rounds_of

    return {
        each.id
        for one in rounds_of(messages)
        if any(each.id in protected for each in one.messages)
        for each in one.messages
    }


@given(marked_histories(), budgets, kept, st.sampled_from(["round", "manual", "overflow"]))
def test_the_originals_are_all_there(messages: list[Msg], budget: int, keep: int, why: str) -> None:
    policy = ContextPolicy(strategies(), max_tokens=budget, keep_rounds=keep)
    after = written(messages, compacted(policy, asked(messages, why=why)))
    assert [_plain(each) for each in after] == [_plain(each) for each in messages]


def _plain(message: Msg) -> Msg:
    whole = restored(message).unmarked(COMPRESSED)
    return whole.replace(metadata={key: value for key, value in whole.metadata.items() if key != "memory_summary"})


@given(marked_histories(), budgets, kept)
def test_a_second_pass_changes_nothing(messages: list[Msg], budget: int, keep: int) -> None:
    policy = ContextPolicy(strategies(), max_tokens=budget, keep_rounds=keep)
    parts = PartStates()
    after = written(messages, compacted(policy, asked(messages, parts=parts)))
    again = compacted(policy, asked(after, parts=parts))
    assert again.replaced == () and again.events == ()


@given(marked_histories(), kept)
def test_asking_twice_changes_nothing_more(messages: list[Msg], keep: int) -> None:
    policy = ContextPolicy(strategies(), max_tokens=100_000, keep_rounds=keep)
    parts = PartStates()
    after = written(messages, compacted(policy, asked(messages, parts=parts, why="manual")))
    assert compacted(policy, asked(after, parts=parts, why="manual")).replaced == ()


@given(st.integers(5, 60), st.integers(800, 4_000))
def test_the_next_strategy_is_asked_only_if_needed(rounds: int, budget: int) -> None:
    messages = conversation(rounds)
    first, second = Shorten("first"), Shorten("second")
    policy = ContextPolicy([first, second], max_tokens=budget)
    compaction = compacted(policy, asked(messages))
    assert len(second.contexts) <= len(first.contexts)
    if second.contexts:
        assert not second.contexts[0].enough
    assert [each.step for each in compaction.events if not each.error] == ["first"] * bool(compaction.replaced)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=40), st.integers(700, 3_000))
def test_the_sizes_of_the_events_are_those_of_requests(words: list[int], budget: int) -> None:
    messages = [each for n, size in enumerate(words) for each in _numbered(n, size)]
    request = asked([Msg.user("Go on.").replace(id="q"), *messages])
    compaction = compacted(ContextPolicy(strategies(), max_tokens=budget), request)
    after = written(request.history, compaction)
    fixed = COUNT.count([Msg.system("Be brief.")])
    steps = [each for each in compaction.events if not each.error]
    for one, other in pairwise(steps):
        assert one.tokens_after == other.tokens_before and one.messages_after == other.messages_before
    if steps:
        assert steps[0].tokens_before == fixed + sum(map(COUNT.message, request.messages))
        assert steps[-1].tokens_after == fixed + sum(map(COUNT.message, sent_view(after)))
        assert steps[-1].messages_after == len(sent_view(after))
        assert all(each.tokens_after < each.tokens_before and each.uncached < each.tokens_after for each in steps)
    assert (summary_carrier(after) is not None) == any(each.step == "summarize" for each in steps)
    assert all(each.step == BUDGET or each.cause == "tokens" for each in compaction.events)


def _numbered(number: int, words: int) -> list[Msg]:
    _, call, result = conversation(1, words=words)
    use = call.tool_calls[0].replace(id=f"c{number}")
    return [
        call.replace(id=f"a{number}", content=[use]),
        result.replace(id=f"r{number}", content=[result.tool_results[0].replace(id=f"c{number}")]),
    ]


def test_summaries_are_made_of_what_the_prompt_contains() -> None:
    model = Summariser()
    messages = conversation(40)
    compaction = compacted(ContextPolicy(max_tokens=2_000), asked(messages, model=model))
    text = sent_view(written(messages, compaction))[0].text
    hidden = hidden_ids(written(messages, compaction))
    for number in range(40):
        assert (f"FACT room{number} = value{number}\n" in text) == (f"r{number}" in hidden)
