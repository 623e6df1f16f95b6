"""The size of results: cut in the middle, told in words and numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import pytest
from calling import answer, events, text_of, use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import ToolContext, Toolkit, tool
from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ImageBlock,
    OutputBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    URLSource,
)
from agentscope_rx.tools import ResultLimit, ToolChunk
from agentscope_rx.tools.results.result_limit import CHARS, cut, size_of

LIMIT = ResultLimit(600, media=100)
NOTICE = re.compile(r"\[([\d,]+) of ([\d,]+) characters are left out here\. [^\]]*\]")


def block_of(*output: OutputBlock, kind: ToolResultKind | None = None) -> ToolResultBlock:
    return ToolResultBlock("1", "f", output, kind)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def image(size: int) -> ImageBlock:
    return ImageBlock(Base64Source("image/png", "a" * size))


# --- text ---------------------------------------------------------------------------------------------------------

LINES = st.lists(st.text(max_size=200), max_size=30).map("\n".join)
LONG = st.one_of(LINES, st.text(min_size=1, max_size=20).map(lambda text: text * 400))


@given(LONG, st.integers(500, 5000))
def test_law_what_is_shown_fits_and_keeps_both_ends(text: str, chars: int):
    text = TextBlock(text).text
    limit = ResultLimit(chars)
    whole = block_of(TextBlock(text))
    if limit.holds(whole):
        assert len(text) <= chars
        return
    short = cut(whole, limit)
    shown = short.text
    assert len(shown) <= chars
    assert limit.holds(short)
    found = NOTICE.search(shown)
    assert found is not None
    head, tail = shown[: found.start() - 1], shown[found.end() + 1 :]
    assert text.startswith(head) and text.endswith(tail)
    assert number(found[1]) == len(text) - len(head) - len(tail) == short.metadata["limited"]["left_out"]  # pyright: ignore
    assert number(found[2]) == len(text)
    # at most a quarter of each end is given up for whole lines
    room = chars - len(found[0]) - 2
    assert min(len(head), len(tail)) >= room * 3 // 8 - 33


@given(st.lists(st.text(max_size=400), max_size=12), st.integers(500, 2000))
def test_law_cutting_is_idempotent_for_any_blocks(texts: list[str], chars: int):
    limit = ResultLimit(chars, media=0)
    output = [block for text in texts for block in (TextBlock(text), image(5))]
    once = cut(block_of(*output), limit)
    assert limit.holds(once)
    assert size_of(once)[0] == len(once.text)


def test_lines_stay_whole():
    text = "\n".join(f"line {index}" for index in range(1000))
    shown = cut(block_of(TextBlock(text)), LIMIT).text.split("\n")
    assert [line for line in shown if not line.startswith("line ")] == [
        line for line in shown if line.startswith("[")
    ], "no line is torn"
    assert shown[0] == "line 0" and shown[-1] == "line 999"


@given(st.integers(0, 5), st.sampled_from(["e\u0301\u0323", "👩\u200d👩\u200d👧", "👍🏽", "न\u093f"]))
def test_no_character_is_torn(shift: int, character: str):
    text = "a" * shift + character * 1000
    found = NOTICE.split(cut(block_of(TextBlock(text)), LIMIT).text)
    head, tail = found[0][:-1], found[-1][1:]
    assert head == "a" * shift + character * ((len(head) - shift) // len(character))
    assert tail == character * (len(tail) // len(character))
    assert head and tail and not unicodedata.combining(tail[0])


def test_one_endless_sequence_is_cut_somewhere():
    text = "e" + "\u0301" * 5000
    assert len(cut(block_of(TextBlock(text)), LIMIT).text) <= 600


def test_several_texts_are_one_and_media_follow():
    picture = image(50)
    short = cut(block_of(TextBlock("a" * 500), picture, TextBlock("b" * 500)), LIMIT)
    assert [type(block) for block in short.output] == [TextBlock, ImageBlock]
    assert short.text.startswith("aaa") and short.text.endswith("bbb") and len(short.text) <= 600


# --- media --------------------------------------------------------------------------------------------------------


def test_media_that_are_too_large_become_a_text():
    sound = AudioBlock(Base64Source("audio/wav", "b" * 2000))
    linked = ImageBlock(URLSource("https://example.org/cat.png"))
    short = cut(block_of(TextBlock("Two:"), image(90), sound, linked, image(10), kind=None), LIMIT)
    assert [type(block) for block in short.output] == [TextBlock, ImageBlock, TextBlock, TextBlock, ImageBlock]
    assert short.text.split("\n")[1] == (
        "[Audio (audio/wav) of 2,000 characters in base64 is left out: too large. To see more, ask for less at a time: "
        "a part, or a filter.]"
    )
    assert short.metadata["limited"] == {"media_left_out": 2027}


def test_no_limit_for_media_or_for_text():
    assert ResultLimit(None, media=None).holds(block_of(TextBlock("a" * 10**6), image(10**6)))
    large = block_of(TextBlock("a" * 1000), image(1000))
    assert cut(large, ResultLimit(500, media=None)).output[1] == image(1000)
    assert cut(large, ResultLimit(None, media=10)).text.startswith("a" * 1000)


# --- where it applies ---------------------------------------------------------------------------------------------


def test_a_toolkit_or_tool_may_have_its_own_limit():
    def flood(size: int) -> str:
        return "x" * size

    toolkit = Toolkit([flood])
    assert len(answer(toolkit, use("flood", size=CHARS)).text) == CHARS
    assert len(answer(toolkit, use("flood", size=CHARS + 1)).text) <= CHARS
    assert len(answer(Toolkit([flood], max_result=None), use("flood", size=CHARS + 1)).text) == CHARS + 1
    assert len(answer(Toolkit([flood], max_result=700), use("flood", size=701)).text) <= 700
    small = tool(max_result=600)(flood)
    assert len(answer(Toolkit([small], max_result=None), use("flood", size=700)).text) <= 600
    free = tool(max_result=ResultLimit(None))(flood)
    assert len(answer(Toolkit([free], max_result=600), use("flood", size=700)).text) == 700
    # overlays and copies have it too
    for other in (Toolkit([flood], max_result=700).copy(), Toolkit([flood], max_result=700).overlay()):
        assert len(answer(other, use("flood", size=701)).text) <= 700


def test_a_result_that_fits_is_untouched():
    def fits() -> str:
        return "x" * 600

    block = answer(Toolkit([fits], max_result=600), use("fits"))
    assert (block.text, block.metadata) == ("x" * 600, {})


def test_texts_of_errors_are_cut_too_and_stay_errors():
    def fails() -> None:
        raise ValueError("x" * 10_000)

    def gives(call: ToolContext) -> ToolResultBlock:
        return ToolResultBlock("", "", (TextBlock("x" * 10_000),), ToolResultKind.REJECTED, {"by": "us"})

    toolkit = Toolkit([fails, gives], max_result=600)
    failed = answer(toolkit, use("fails"))
    assert (failed.kind, len(failed.text) <= 600) == (ToolResultKind.FAILED, True)
    assert failed.text.startswith("Error: ValueError: xxx") and failed.metadata["error_type"] == "ValueError"
    given = answer(toolkit, use("gives"))
    assert (given.kind, given.metadata["by"], len(given.text) <= 600) == (ToolResultKind.REJECTED, "us", True)
    assert given.metadata["limited"]


def test_what_is_shown_meanwhile_is_not_cut():
    @tool(max_result=600)
    def chatty(context: ToolContext) -> Iterator[str]:
        context.emit("e" * 1000)
        yield "y" * 1000

    emitted, yielded, last = events(chatty)
    assert isinstance(emitted, ToolChunk) and isinstance(yielded, ToolChunk)
    assert (len(text_of(emitted)), len(text_of(yielded))) == (1000, 1000)
    assert len(text_of(last)) <= 600


def test_the_numbers_are_json():
    import json

    def flood() -> list[object]:
        return ["x" * 1000, image(200)]

    block = answer(Toolkit([flood], max_result=LIMIT), use("flood"))
    numbers = block.metadata["limited"]
    assert json.loads(json.dumps(numbers)) == numbers
    assert set(numbers) == {"chars", "left_out", "media_left_out"}  # pyright: ignore


# --- what cannot be a limit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chars", [0, 499, -1, True, 1e6, "many"])
def test_a_limit_must_have_room_for_its_notice(chars: object):
    with pytest.raises(ConfigurationError, match="at least 500, or None"):
        ResultLimit(chars)  # pyright: ignore[reportArgumentType]


def test_what_is_no_limit_is_refused_where_it_is_given():
    def fits() -> str:
        return ""

    with pytest.raises(ConfigurationError, match="max_result of a toolkit must be"):
        Toolkit(max_result="large")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="max_result of tool 'fits'"):
        tool(max_result=1.5)(fits)  # pyright: ignore
    with pytest.raises(ConfigurationError, match="at least 500"):
        tool(max_result=5)(fits)
    with pytest.raises(ToolDefinitionError, match="'last' or 'joined'"):
        tool(result="all")(fits)  # pyright: ignore
    with pytest.raises(ConfigurationError, match="media must be"):
        ResultLimit(media=-1)
    with pytest.raises(ConfigurationError, match="patience"):
        ResultLimit(patience=0)
