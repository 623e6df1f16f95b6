"""Laws of the strategies without a model: smaller, legal for every provider, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import Msg
from agentscope_rx.context_policy import (
    DropOldResults,
    DropPictures,
    EvictLargeResults,
    ShortenArguments,
    ShortenResults,
)
from agentscope_rx.context_policy.rounds import last_rounds, rounds_of
from agentscope_rx.context_policy.short_results import cut_text
from agentscope_rx.memory.short_forms import restored, sent_form
from agentscope_rx.messages import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.models.dashscope import formatter as dashscope
from agentscope_rx.models.tokens import estimated_tokens
from agentscope_rx.models.wire.chat_turns import turns_of
from tests.context_policy.conversations import (
    PICTURE,
    context_of,
    conversations,
    measure,
    pictures,
    put,
    texts,
)
from tests.models.test_pairing import FORMATTERS, _chat

PROVIDERS = {
    **FORMATTERS,
    "dashscope": lambda messages: _chat(dashscope.format_turns(turns_of(messages), "multimodal")),
}
STRATEGIES = {
    "evict": lambda keep: EvictLargeResults(120, 100, keep_rounds=keep),
    "evict-media": lambda keep: EvictLargeResults(120, 100, media="notice", keep_rounds=keep),
    "arguments": lambda keep: ShortenArguments(60, keep_rounds=keep),
    "results": lambda keep: ShortenResults(90, keep_rounds=keep),
    "pictures": lambda keep: DropPictures(keep_rounds=keep),
    "drop": lambda keep: DropOldResults(keep_rounds=keep),
}
names = st.sampled_from(sorted(STRATEGIES))


def result(text: str, name: str = "look", id: str = "call_1", *more: object) -> Msg:
    return Msg.tool(ToolResultBlock(id, name, (TextBlock(text), *more)))  # pyright: ignore[reportArgumentType]


def rounds(*results: Msg) -> list[Msg]:
    """A conversation with a round for each of these results, and an answer."""
    messages = [Msg.user("Go.")]
    for message in results:
        block = message.tool_results[0]
        messages += [Msg.assistant(ToolUseBlock(block.id, block.name, {}), "Friday"), message]
    return [*messages, Msg.assistant("Done.", "Friday")]


# --- laws -------------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(conversations(), names, st.integers(0, 2), st.data())
def test_what_changes_is_smaller_and_nothing_is_lost(history: list[Msg], name: str, keep: int, data: st.DataObject):
    protected = set(data.draw(st.lists(st.sampled_from([message.id for message in history]), max_size=2)))
    strategy = STRATEGIES[name](keep)
    changed = strategy.apply(context_of(history, protected=protected))
    by_id = {message.id: message for message in history}
    kept = {message.id for each in last_rounds(rounds_of(history), keep) for message in each.messages}
    for message in changed:
        before = by_id[message.id]
        assert message.id not in protected and message.id not in kept
        assert measure(message) < measure(before)
        assert restored(message) == before and message.content == before.content
        assert Msg.from_json(message.to_json()) == message
        _same_but_short(before, sent_form(message))


def _same_but_short(before: Msg, after: Msg) -> None:
    assert len(before.content) == len(after.content)
    for old, new in zip(before.content, after.content, strict=True):
        if isinstance(old, ToolUseBlock):
            assert isinstance(new, ToolUseBlock)
            assert (old.id, old.name, old.metadata) == (new.id, new.name, new.metadata)
            _same_shape(old.input, new.input)
        elif isinstance(old, ToolResultBlock):
            assert isinstance(new, ToolResultBlock)
            assert (old.id, old.name, old.kind, old.metadata) == (new.id, new.name, new.kind, new.metadata)
            assert new.output or not old.output
        elif isinstance(old, (TextBlock, ThinkingBlock)):
            assert old == new


def _same_shape(old: object, new: object) -> None:
    if isinstance(old, dict):
        assert isinstance(new, dict) and list(old) == list(new)
        for key in old:
            _same_shape(old[key], new[key])
    elif isinstance(old, list):
        assert isinstance(new, list) and len(old) == len(new)
        for one, other in zip(old, new, strict=True):
            _same_shape(one, other)
    elif isinstance(old, str):
        assert isinstance(new, str)
    else:
        assert old == new


@settings(max_examples=40)
@given(conversations(), names, st.integers(0, 2))
def test_a_second_time_changes_nothing(history: list[Msg], name: str, keep: int):
    strategy = STRATEGIES[name](keep)
    once = put(history, strategy.apply(context_of(history)))
    assert list(strategy.apply(context_of(once))) == []


@settings(max_examples=40)
@given(conversations(), st.lists(names, min_size=2, max_size=5))
def test_strategies_one_after_the_other_only_get_smaller(history: list[Msg], order: list[str]):
    now = history
    for name in order:
        new = put(now, STRATEGIES[name](0).apply(context_of(now)))
        assert sum(map(measure, new)) <= sum(map(measure, now))
        now = new
    assert [restored(message) for message in now] == history


@settings(max_examples=25)
@given(conversations(pictures), st.lists(names, min_size=1, max_size=3), st.sampled_from(sorted(PROVIDERS)))
def test_every_provider_gets_the_same_calls_and_results(history: list[Msg], order: list[str], provider: str):
    now = history
    for name in order:
        now = put(now, STRATEGIES[name](0).apply(context_of(now)))
    before, _ = PROVIDERS[provider](history)
    after, _ = PROVIDERS[provider]([sent_form(message) for message in now])
    assert [each for each in before if each != "other"] == [each for each in after if each != "other"]


@settings(max_examples=40)
@given(conversations(), names)
def test_no_more_than_needed_is_changed_oldest_first(history: list[Msg], name: str):
    most = STRATEGIES[name](0).apply(context_of(history))
    if not most:
        return
    tokens = sum(map(measure, history))
    part = STRATEGIES[name](0).apply(context_of(history, target=tokens - 1))
    first = next(each for each in rounds_of(history) if {m.id for m in each.messages} & {m.id for m in most})
    assert part and {message.id for message in part} <= {message.id for message in first.messages}
    assert STRATEGIES[name](0).apply(context_of(history, target=tokens)) == []


@given(texts, st.integers(1, 400), st.text(max_size=80))
def test_a_cut_text_fits_and_keeps_its_ends(text: str, tokens: int, where: str):
    short = cut_text(text, tokens, where, estimated_tokens)
    if estimated_tokens(text) <= tokens:
        assert short == text
    elif short != text:
        assert len(short) < len(text) and where in short
        least = estimated_tokens(where) + 2 * 64 + 40
        assert estimated_tokens(short) <= max(tokens, least)
        assert short[:10] == text[:10] and short[-10:] == text[-10:]


# --- each strategy ----------------------------------------------------------------------------------------------------


def sent_results(history: Sequence[Msg], changed: Sequence[Msg]) -> list[ToolResultBlock]:
    return [block for message in put(history, changed) for block in sent_form(message).tool_results]


@pytest.mark.parametrize("piece", ["a line of text\n", "语言模型读取", "x"])
def test_a_large_result_is_sent_as_its_ends_counted_in_tokens(piece: str):
    text = "HEAD" + piece * (40_000 // len(piece)) + "TAIL"
    history = rounds(result(text), result("short", id="call_2"))
    changed = EvictLargeResults(3_000, 500).apply(context_of(history))
    large, small = sent_results(history, changed)
    assert small.text == "short" and len(changed) == 1
    assert large.text.startswith("HEAD") and large.text.endswith("TAIL")
    assert f"of {len(text):,} characters are left out here" in large.text
    assert "call read_result with call_id='call_1'" in large.text
    assert 250 <= estimated_tokens(large.text) <= 500


def test_excluded_tools_and_readings_are_not_evicted():
    text = "a line of text\n" * 1_500
    history = rounds(result(text, "read_file"), result(text, "read_result", "call_2"), result(text, "look", "call_3"))
    assert [m.tool_results[0].name for m in EvictLargeResults().apply(context_of(history))] == []
    few = EvictLargeResults(500, 200)
    assert [m.tool_results[0].name for m in few.apply(context_of(history))] == ["look"]
    none = EvictLargeResults(500, 200, exclude=())
    assert [m.tool_results[0].name for m in none.apply(context_of(history))] == ["read_file", "look"]


def test_a_result_of_many_blocks_keeps_its_pictures_once():
    lines = TextBlock("a line of text\n" * 2_000)
    history = rounds(result("first", "look", "call_1", PICTURE, lines, PICTURE))
    changed = EvictLargeResults(500, 200).apply(context_of(history))
    (shown,) = sent_results(history, changed)
    assert [block.type for block in shown.output] == ["text", "image", "image"]
    assert shown.text.startswith("first") and shown.output[1] is PICTURE
    assert changed[0].to_json().count(PICTURE.source.data) == 2, "none in the short form"  # pyright: ignore[reportAttributeAccessIssue]
    notices = EvictLargeResults(500, 200, media="notice").apply(context_of(history))
    (shown,) = sent_results(history, notices)
    assert "[Image (image/png, 304 bytes) is left out" in shown.text and "block=4" in shown.text


def test_arguments_keep_their_keys_ids_and_signatures():
    code = "def f():\n" + "    pass\n" * 2_000
    call = ToolUseBlock("call_1", "write", {"path": "a.py", "parts": [{"text": code, "n": 1}]}, metadata={"sig": "x"})
    message = Msg.assistant([ThinkingBlock("hm", "signed"), TextBlock("Writing."), call], "Friday")
    history = [Msg.user("Go."), message, Msg.tool(ToolResultBlock("call_1", "write", "ok")), Msg.assistant("Done.")]
    (changed,) = ShortenArguments(50, keep_rounds=1).apply(context_of(history))
    thinking, text, short = sent_form(changed).content
    assert thinking == message.content[0] and text == message.content[1]
    assert isinstance(short, ToolUseBlock) and short.metadata == {"sig": "x"}
    assert short.input["path"] == "a.py" and short.input["parts"][0]["n"] == 1
    cut = short.input["parts"][0]["text"]
    assert cut.startswith("def f():") and "The call had all of them." in cut and estimated_tokens(cut) <= 80
    assert ShortenArguments(50, keep_rounds=1, exclude=["write"]).apply(context_of(history)) == []
    assert ShortenArguments(50).apply(context_of(history)) == []


def test_arguments_that_are_no_json_stay():
    broken = ToolUseBlock("call_1", "look", {}, raw='{"a": ' + "x" * 9_000, input_error="no JSON")
    history = [Msg.user("Go."), Msg.assistant(broken), Msg.tool(ToolResultBlock("call_1", "look", "no"))]
    assert ShortenArguments(50, keep_rounds=0).apply(context_of(history)) == []


def test_old_media_become_notices_that_say_what_they_were():
    history = [
        Msg.user([TextBlock("What is it?"), PICTURE]),
        Msg.assistant([TextBlock("See: "), ToolUseBlock("call_1", "shot", {})], "Friday"),
        result("the page", "shot", "call_1", PICTURE),
        Msg.assistant([TextBlock("A cat."), PICTURE], "Friday"),
        Msg.user([TextBlock("And this?"), PICTURE]),
    ]
    changed = put(history, DropPictures(keep_rounds=0).apply(context_of(history, protected={history[-1].id})))
    asked, _, seen, answer, last = [sent_form(message) for message in changed]
    assert asked.text == "What is it?\n[Image (image/png, 304 bytes) is left out to save room.]"
    assert seen.tool_results[0].text == (
        "the page\n[Image (image/png, 304 bytes) is left out to save room. To see it, call read_result with "
        "call_id='call_1' and block=2.]"
    )
    assert isinstance(answer.content[1], TextBlock) and isinstance(last.content[1], ImageBlock)


def test_dropped_results_say_how_to_read_them():
    failed = Msg.tool(ToolResultBlock("call_2", "look", "Error: " + "no " * 90, ToolResultKind.FAILED))
    history = rounds(result("a line\n" * 50, "look", "call_1", PICTURE), failed, result("ok", id="call_3"))
    changed = DropOldResults(keep_rounds=1).apply(context_of(history))
    first, second, third = sent_results(history, changed)
    assert first.text == (
        "[The result (350 characters, 1 image) is left out to save room. To read it, call read_result with "
        "call_id='call_1'.]"
    )
    assert second.kind is ToolResultKind.FAILED and "277 characters" in second.text
    assert third.text == "ok", "a line would be longer"


def test_dropped_pictures_stay_away_when_text_is_cut():
    history = rounds(result("a line of text\n" * 300, "look", "call_1", PICTURE))
    now = put(history, DropPictures(keep_rounds=0).apply(context_of(history)))
    now = put(now, ShortenResults(100, keep_rounds=0).apply(context_of(now)))
    (shown,) = sent_results(now, ())
    assert [block.type for block in shown.output] == ["text", "text"] and "block=2" in shown.text
