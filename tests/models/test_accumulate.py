"""Accumulation: order kept, calls by index, malformed told from empty, cost linear, views that do not change."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ModelError
from agentscope_rx.messages import ChatUsage, ImageBlock, Msg, TextBlock, ThinkingBlock, ToolUseBlock, URLSource
from agentscope_rx.models import accumulate
from agentscope_rx.models.accumulate import ResponseAccumulator, accumulated, block_builder, parse_arguments
from agentscope_rx.models.response import ChatResponse, FinishReason, RetryNotice, ToolUseDelta, WaitNotice
from agentscope_rx.reactive import concat, from_iterable, throw
from tests.messages.values import objects


def fed(*content: object, gather: ResponseAccumulator | None = None) -> ResponseAccumulator:
    """A gather that has been fed these blocks (a str is text), each in a chunk of its own."""
    gather = gather or ResponseAccumulator()
    for block in content:
        gather.feed(ChatResponse((TextBlock(block) if isinstance(block, str) else block,)))
    return gather


def blocks(*content: object, **options: bool) -> tuple:
    return fed(*content).blocks(**options)


# --- order and joining -------------------------------------------------------------------------------------------


def test_text_is_joined_and_empty_pieces_are_none():
    assert blocks("Hel", "", "lo") == (TextBlock("Hello"),)
    assert blocks() == blocks("", "") == ()
    assert fed("").feed(ChatResponse((TextBlock(""), ThinkingBlock("")))) == []


def test_blocks_keep_the_order_in_which_they_began():
    image = ImageBlock(URLSource("https://example.org/x.png"))
    found = blocks("a", ThinkingBlock("t"), "b", image, "c", ToolUseDelta(0, "x", "tool", "{}"), "d")
    assert found == (TextBlock("ab"), ThinkingBlock("t"), image, TextBlock("cd"), ToolUseBlock("x", "tool"))
    assert found[2] is image


def test_one_text_goes_on_behind_what_falls_between() -> None:
    """The wire of most providers has no blocks: its text is one field, its thinking another."""
    gather = ResponseAccumulator()
    said = TextBlock("The ans"), ThinkingBlock("h"), TextBlock("wer "), ThinkingBlock("m"), TextBlock("is 4.")
    pieces = [piece for block in said for piece in gather.feed(ChatResponse((block,)))]
    assert gather.blocks() == (TextBlock("The answer is 4."), ThinkingBlock("hm"))
    shown = [piece.view.upto(piece.seen) for piece in pieces]
    assert shown[2] == TextBlock("The answer ") and shown[4] == TextBlock("The answer is 4.")


def test_where_blocks_are_numbered_the_numbers_decide() -> None:
    gather = ResponseAccumulator()
    for number, block in [(0, "a"), (1, "b"), (0, "c"), (2, ThinkingBlock("t")), (3, ThinkingBlock("u")), (1, "d")]:
        gather.feed(ChatResponse((TextBlock(block) if isinstance(block, str) else block,), block=number))
    assert gather.blocks() == (TextBlock("ac"), TextBlock("bd"), ThinkingBlock("t"), ThinkingBlock("u"))


@given(st.lists(st.tuples(st.sampled_from(["text", "thinking"]), st.none() | st.integers(0, 2), st.text(min_size=1))))
def test_every_piece_is_in_its_block_in_order(pieces: list[tuple[str, int | None, str]]) -> None:
    gather, expected = ResponseAccumulator(), dict[tuple[str, int | None], str]()
    for kind, number, text in pieces:
        block = TextBlock(text) if kind == "text" else ThinkingBlock(text)
        gather.feed(ChatResponse((block,), block=number))
        expected[kind, number] = expected.get((kind, number), "") + text
    found = [block.text if isinstance(block, TextBlock) else block.thinking for block in gather.blocks()]  # type: ignore[union-attr]
    assert found == list(expected.values())


def test_a_thinking_block_ends_with_its_signature():
    found = blocks(
        ThinkingBlock("one "), ThinkingBlock("two"), ThinkingBlock("", "sig1"), ThinkingBlock("three", "sig2"), "answer"
    )
    assert found == (ThinkingBlock("one two", "sig1"), ThinkingBlock("three", "sig2"), TextBlock("answer"))


def test_thinking_keeps_its_metadata():
    found = blocks(ThinkingBlock("a", metadata={"k": 1}), ThinkingBlock("b", metadata={"l": 2}))
    assert found == (ThinkingBlock("ab", None, {"k": 1, "l": 2}),)
    assert blocks(ThinkingBlock("", "only a signature")) == (ThinkingBlock("", "only a signature"),)


# --- tool calls --------------------------------------------------------------------------------------------------


def test_interleaved_calls_are_put_together_by_index():
    found = blocks(
        ToolUseDelta(0, "a", "one", '{"x"'),
        ToolUseDelta(1, "b", "two", '{"y": '),
        ToolUseDelta(0, None, None, ": 1}"),
        ToolUseDelta(1, None, None, "2}"),
    )
    assert found == (ToolUseBlock("a", "one", {"x": 1}), ToolUseBlock("b", "two", {"y": 2}))


def test_calls_without_id_get_one_that_stays():
    gather = fed(ToolUseDelta(0, None, "one", "{}"), ToolUseDelta(1, "", "one", "{}"))
    first, second = gather.blocks()
    assert first.id and second.id and first.id != second.id, "two calls of one tool are two calls"
    assert gather.blocks() == (first, second), "the same at each look"


def test_an_id_that_comes_late_does_not_split_the_call():
    gather = ResponseAccumulator()
    shown = [
        *gather.feed(ChatResponse((ToolUseDelta(0, None, "one", '{"x":'),))),
        *gather.feed(ChatResponse((ToolUseDelta(0, "late", None, " 1}"),))),
    ]
    (call,) = gather.blocks()
    assert call.input == {"x": 1}
    assert {piece.delta.id for piece in shown} == {call.id}, "pieces are shown under the id that the call has"


def test_a_name_may_come_late_or_again():
    (call,) = blocks(
        ToolUseDelta(0, "a", None, '{"x"'), ToolUseDelta(0, None, "one", ": 1}"), ToolUseDelta(0, "a", "one")
    )
    assert call == ToolUseBlock("a", "one", {"x": 1})
    (nameless,) = blocks(ToolUseDelta(0, "a", None, "{}"))
    assert nameless.name == ""
    (underscored,) = blocks(ToolUseDelta(0, "a", "__x", "{}"))
    assert underscored.name == "__x"


def test_two_calls_never_share_an_id():
    content = [
        ToolUseDelta(0, "same", "one", "{}"), ToolUseDelta(1, "same", "two", "{}"),
        ToolUseBlock("same", "three"), ToolUseBlock("same", "four"),
        ToolUseBlock("", "five"), ToolUseBlock("own", "six"),
    ]  # fmt: skip
    found = blocks(*content)
    assert [call.name for call in found] == ["one", "two", "three", "four", "five", "six"]
    assert len({call.id for call in found}) == 6
    assert found[0].id == "same" and found[5].id == "own" and found[4].id


def test_metadata_belongs_to_its_call():
    found = blocks(
        ToolUseDelta(0, "a", "one", metadata={"k": 1}),
        ToolUseDelta(1, "b", "two"),
        ToolUseDelta(0, metadata={"l": 2}),
    )
    assert [call.metadata for call in found] == [{"k": 1, "l": 2}, {}]


@given(objects, st.integers(1, 9))
def test_arguments_survive_any_cut_into_pieces(arguments: dict[str, object], size: int):
    text = json.dumps(arguments)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    (call,) = blocks(*(ToolUseDelta(0, "a", "one", piece) for piece in pieces))
    assert call == ToolUseBlock("a", "one", arguments)
    assert call.raw is None and call.input_error is None


# --- malformed, empty, cut off -----------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["", "  \n", "null", "{}", " {} "])
def test_no_arguments(raw):
    assert blocks(ToolUseDelta(0, "a", "one", raw)) == (ToolUseBlock("a", "one"),)
    assert parse_arguments(raw) == ({}, None)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ('{"x": ', "not valid JSON"),
        ('{"x": 1}}', "not valid JSON"),
        ('{}{"x": 1}', "not valid JSON"),
        ("city=Rome", "not valid JSON"),
        ("[1]", "object was expected, not list"),
        ('"x"', "object was expected, not str"),
        ("3", "object was expected, not int"),
        ('{"x": NaN}', "NaN is not"),
        ('{"x": -Infinity}', "Infinity is not"),
        ('{"x": 1e999}', "too large"),
        ("[" * 100_000, "not valid JSON"),
        ('{"x":' * 101 + "1" + "}" * 101, "nested more than 100"),
        ('{"x":' * 900 + "1" + "}" * 900, "nested more than 100"),
        ('{"x": ' + "9" * 5000 + "}", "not valid JSON"),
    ],
)
def test_malformed_arguments_are_told_from_empty_ones(raw, error):
    (call,) = blocks(ToolUseDelta(0, "a", "one", raw))
    assert call.input == {} and call.raw == raw and error in call.input_error
    assert "cut off" not in call.input_error


@pytest.mark.parametrize("cut", ["interrupted", "length"])
def test_a_call_that_was_cut_off_is_not_taken_for_a_whole_one(cut):
    gather = fed(
        ToolUseDelta(0, "a", "whole", '{"x": 1}'),
        ToolUseDelta(1, "b", "empty", ""),
        ToolUseDelta(2, "c", "begun", '{"city": "Ro'),
        ToolUseDelta(3, "d", "last", ""),
    )
    if cut == "length":
        gather.feed(ChatResponse(finish_reason=FinishReason.LENGTH, raw_finish_reason="length"))
    whole, empty, begun, last = gather.blocks(complete=cut == "length")
    assert whole.input == {"x": 1} and whole.input_error is None
    assert empty.input_error is None, "another call began after it: it has no arguments"
    assert "cut off" in begun.input_error and begun.raw == '{"city": "Ro' and begun.input == {}
    assert "cut off before any arguments" in last.input_error
    assert blocks("text", complete=False) == (TextBlock("text"),)


def test_deep_and_wide_arguments_are_kept():
    deep = '{"x":' * 100 + "1" + "}" * 100
    wide = json.dumps({"x": [[] for _ in range(1000)]})
    for raw in (deep, wide):
        (call,) = blocks(ToolUseDelta(0, "a", "one", raw))
        assert call.input_error is None and call.input == json.loads(raw)
        assert Msg.from_json(Msg.assistant(call).to_json()).tool_calls == (call,)


# --- facts -------------------------------------------------------------------------------------------------------


def test_a_later_usage_replaces_an_earlier_one():
    gather = ResponseAccumulator()
    for usage in (ChatUsage(1, 1), None, ChatUsage(1, 5), None):
        gather.feed(ChatResponse(usage=usage))
    assert gather.usage == ChatUsage(1, 5)


def test_the_answer_has_one_id_and_one_finish_reason():
    gather = ResponseAccumulator()
    gather.feed(ChatResponse((TextBlock("a"),), id="first"))
    gather.feed(ChatResponse((TextBlock("b"),), id="second", finish_reason=FinishReason.STOP, raw_finish_reason="eos"))
    gather.feed(ChatResponse(usage=ChatUsage(1)))
    assert (gather.response_id, gather.finish_reason, gather.raw_finish_reason) == ("first", FinishReason.STOP, "eos")


def test_reset_forgets_a_discarded_attempt_but_not_what_it_cost():
    gather = fed("wrong", ToolUseDelta(0, "a", "one", "{"))
    gather.feed(ChatResponse(usage=ChatUsage(7), finish_reason=FinishReason.STOP, id="x"))
    gather.reset()
    assert gather.blocks() == () and gather.finish_reason is None and gather.response_id is None
    assert gather.usage == ChatUsage(7)
    fed("right", ToolUseDelta(0, "a", "two", "{}"), gather=gather)
    assert gather.blocks() == (TextBlock("right"), ToolUseBlock("a", "two"))
    gather.feed(ChatResponse(usage=ChatUsage(2)))
    assert gather.usage == ChatUsage(9)


def test_notices_have_no_content():
    gather = fed("wrong")
    notice = RetryNotice(1, 0.0, ValueError(), model="b")
    assert gather.feed(ChatResponse(usage=ChatUsage(7), retry=notice)) == []
    for wait in (WaitNotice(), WaitNotice(2.5), WaitNotice(), WaitNotice(1.0)):
        assert gather.feed(ChatResponse(wait=wait)) == []
    fed("right", gather=gather).feed(ChatResponse(usage=ChatUsage(1)))
    assert gather.blocks() == (TextBlock("right"),)
    assert (gather.model, gather.queued) == ("b", 3.5)
    assert list(gather.costs) == [(None, ChatUsage(7)), ("b", ChatUsage(1))]


# --- what is shown -----------------------------------------------------------------------------------------------

pieces = st.one_of(
    st.builds(TextBlock, st.text(max_size=3)),
    st.builds(ThinkingBlock, st.text(max_size=3), st.none() | st.just("sig"), st.just({}) | st.just({"k": 1})),
    st.builds(
        ToolUseDelta,
        st.integers(0, 2),
        st.none() | st.sampled_from("ab"),
        st.none() | st.just("tool"),
        st.text(max_size=2),
    ),
    st.just(ImageBlock(URLSource("https://x/"))),
)


@given(st.lists(pieces, max_size=12))
def test_a_view_shows_its_block_as_it_was(content: list):
    gather = ResponseAccumulator()
    views = []
    for block in content:
        for _, view, count in gather.feed(ChatResponse((block,))):
            views.append((view, count, view.upto(count)))
    for view, count, then in views:
        assert view.upto(count) == then


@given(st.lists(pieces, max_size=12), st.data())
def test_chunking_does_not_matter(content: list, data: st.DataObject):
    """One block a chunk or many: the same blocks, but for ids that had to be made up."""

    def told(gather: ResponseAccumulator) -> list[object]:
        return [(b.name, b.input, b.raw) if isinstance(b, ToolUseBlock) else b for b in gather.blocks()]

    several = ResponseAccumulator()
    rest = list(content)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        several.feed(ChatResponse(tuple(rest[:size])))
        rest = rest[size:]
    assert told(several) == told(fed(*content))


def test_pieces_are_what_came():
    gather = ResponseAccumulator()
    (text,) = gather.feed(ChatResponse((TextBlock("a"),)))
    assert text.delta == TextBlock("a") and text.view.upto(text.seen) == TextBlock("a")
    (call,) = gather.feed(ChatResponse((ToolUseDelta(0, "x", "tool", '{"a', {"k": 1}),)))
    assert call.delta == ToolUseBlock("x", "tool", raw='{"a', metadata={"k": 1}) == call.view.upto(1)
    whole = ToolUseBlock("y", "tool", {"a": 1})
    (shown,) = gather.feed(ChatResponse((whole,)))
    assert shown.delta is whole and shown.view.upto(1) is whole


def test_whole_blocks_take_each_others_place():
    image = [ImageBlock(URLSource(f"https://x/{url}")) for url in "ab"]
    block = block_builder(image[0])
    assert [block.add(each) for each in image] == [1, 2]
    assert (block.upto(1), block.upto(2), block.upto(None)) == (image[0], image[1], image[1])


# --- cost --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "thinking", "call"])
def test_ten_thousand_pieces_cost_ten_thousand_steps(kind, monkeypatch):
    """No piece is joined, and no argument parsed, before the end; then once."""
    parsed: list[str] = []
    monkeypatch.setattr(accumulate, "parse_arguments", lambda raw: (parsed.append(raw), ({}, None))[1])
    joins: list[int | None] = []
    for owner in (accumulate.TextBuilder, accumulate.ThinkingBuilder, accumulate.ToolCallBuilder):
        real = owner.upto
        monkeypatch.setattr(owner, "upto", lambda self, count, real=real: (joins.append(count), real(self, count))[1])
    make = {
        "text": lambda number: TextBlock("ab"),
        "thinking": lambda number: ThinkingBlock("ab"),
        "call": lambda number: ToolUseDelta(0, "x", "tool", "ab"),
    }[kind]
    gather = ResponseAccumulator()
    for number in range(10_000):
        assert len(gather.feed(ChatResponse((make(number),)))) == 1
    assert joins == [] and parsed == []
    (block,) = gather.blocks()
    assert len(joins) + len(parsed) == 1
    assert "ab" * 10_000 in (getattr(block, "text", ""), getattr(block, "thinking", ""), *parsed)


def test_ten_thousand_calls_are_found_without_a_search():
    class Watched(dict):
        walks = 0

        def values(self):
            Watched.walks += 1
            return super().values()

    gather = ResponseAccumulator()
    gather._calls = Watched()
    for index in range(10_000):
        gather.feed(ChatResponse((ToolUseDelta(index, f"id{index}", "tool", "{}"),)))
    assert Watched.walks == 0 and len(gather.blocks()) == 10_000


def test_half_a_character_in_arguments_can_be_written_again() -> None:
    gather = ResponseAccumulator()
    gather.feed(ChatResponse((ToolUseDelta(0, "c", "f", '{"a": "x\\ud83d", "b": "\\ud83d\\ude00"}'),)))
    message = Msg.assistant(gather.blocks())
    assert Msg.from_json(message.to_json()) == message
    (call,) = message.tool_calls
    assert call.input["b"] == "😀"


def test_a_whole_answer_at_once():
    retry = ChatResponse((), retry=RetryNotice(1, 0.0, ModelError("again"), model="second"))
    pieces = [ChatResponse((TextBlock(text),)) for text in ("a", "b")]

    async def main() -> None:
        source = from_iterable([*pieces, retry, *pieces])
        for _ in range(2):
            answer = await accumulated(source)
            assert answer.blocks() == (TextBlock("ab"),) and answer.model == "second"
        with pytest.raises(ModelError, match="gone"):
            await accumulated(concat(source, throw(ModelError("gone"))))

    asyncio.run(main())
