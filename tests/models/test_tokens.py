"""Counting: what the estimate is off by, exact counts, pictures by their vendors' rules, each message counted once."""

from __future__ import annotations

import base64
import gc
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg
from agentscope_rx.errors import ConfigurationError, MissingExtraError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    FramesSource,
    ImageBlock,
    Source,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.tokens import (
    ANTHROPIC,
    GEMINI,
    OPENAI,
    OPENAI_MINI,
    QWEN,
    Costs,
    EstimatedTokens,
    FileTokens,
    OpenAITokens,
    TextCounter,
    TokenCounter,
    estimated_tokens,
)
from agentscope_rx.models.tokens.costs import size_of
from agentscope_rx.models.tokens.cuts import most_that_fits
from tests.models.conversations import conversations

ROOT = Path(__file__).parent.parent.parent
SAMPLES = {
    "prose": (ROOT / "CONTRIBUTING.md").read_text(),
    "python": (ROOT / "agentscope_rx" / "models" / "accumulate.py").read_text(),
    "json": '{"name":"search","parameters":{"type":"object","properties":{"query":{"type":"string"}}}}' * 5,
    "chinese": "本文件围绕智能体的执行流程进行系统化梳理，重点解析整体执行路径，包括输入处理、记忆管理与循环控制。" * 3,
    "japanese": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗い所で泣いていた。" * 3,
    "korean": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다." * 3,
    "german": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft begabt." * 3,
    "russian": "Все люди рождаются свободными и равными в своем достоинстве и правах." * 3,
    "emoji": "I am happy 😀😃 and tired 😴😴 of it 🎉🎉🎉! " * 3,
}


@pytest.fixture(scope="module")
def openai() -> OpenAITokens:
    pytest.importorskip("bpe_openai")
    return OpenAITokens()


@pytest.mark.parametrize("name", SAMPLES)
def test_estimate_is_near(name: str, openai: OpenAITokens) -> None:
    """Between 20 % too few and 50 % too many of gpt-4o's tokens, whatever the script."""
    exact = openai.count_text(SAMPLES[name])
    assert 0.8 * exact <= estimated_tokens(SAMPLES[name]) <= 1.5 * exact


@given(st.text(), st.text())
def test_estimate_laws(one: str, other: str) -> None:
    """0 for nothing only; no more for two texts apart than the two and what a border can split."""
    assert (estimated_tokens(one) == 0) == (not one)
    assert estimated_tokens(one) <= 2 * len(one)
    assert estimated_tokens(one + other) <= estimated_tokens(one) + estimated_tokens(other) + 1


def test_openai_counts(openai: OpenAITokens) -> None:
    assert openai.encoding == "o200k_base"
    assert OpenAITokens("gpt-4-0613").encoding == "cl100k_base"
    assert OpenAITokens("gpt-4.1").encoding == "o200k_base"
    assert openai.count_text("hello world") == 2
    assert openai.count_text("<|endoftext|>") > 1
    long = "The quick brown fox. 你好 " * 12_000
    assert openai.count_text(long) == 12_000 * openai.count_text(" The quick brown fox. 你好") + 1
    # the cookbook's rule: 3 for each message, its words, 1 for a name, 3 before the answer
    messages = [Msg.system("You are kind."), Msg.user("Hello", "Ann")]
    words = sum(map(openai.count_text, ("You are kind.", "Hello", "Ann")))
    assert openai.count(messages) == 3 + 2 * 3 + 1 + words


def test_a_missing_tokenizer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentscope_rx.models.tokens import tokenizers as exact

    exact._encoding.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "bpe_openai", None)
    with pytest.raises(MissingExtraError, match=r"agentscope-rx\[tokens\]"):
        OpenAITokens()
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"agentscope-rx\[tokens\]"):
        FileTokens("tokenizer.json")


def test_file_counts(tmp_path: Path) -> None:
    wordllama = pytest.importorskip("wordllama")
    folder = Path(os.path.dirname(wordllama.__file__)) / "tokenizers"
    counter = FileTokens(folder / "l2_supercat_tokenizer_config.json")
    assert counter.count_text("hello world") == 2
    assert counter.count_text("word " * 3_000) >= 3_000
    with pytest.raises(ConfigurationError, match="no file"):
        FileTokens(tmp_path / "nothing.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"not a valid tokenizer\.json"):
        FileTokens(tmp_path / "bad.json")


def test_a_tokenizer_as_a_function() -> None:
    counter = TextCounter(lambda text: len(text.split()), Costs(request=0, message=0, name=0, call=0, result=0, tool=0))
    call = ToolUseBlock("1", "look up", {"q": "a b"})
    messages = [
        Msg.user("a b c"),
        Msg.assistant([ThinkingBlock("d e"), call]),
        Msg.tool(ToolResultBlock.of(call, "f g h")),
    ]
    assert counter.count(messages) == 3 + 2 + (2 + 2) + 3
    assert counter.count((), [ToolSchema("t", "says hello", {})]) == 2
    assert isinstance(counter, TokenCounter)


def test_scale() -> None:
    text = [Msg.user("hello there " * 50)]
    assert EstimatedTokens(scale=2).count(text) > 1.9 * EstimatedTokens().count(text)
    with pytest.raises(ConfigurationError, match="scale"):
        EstimatedTokens(scale=0)


def png(width: int, height: int) -> Base64Source:
    return Base64Source.of(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height), "image/png")


def jpeg(width: int, height: int) -> bytes:
    table = b"\xff\xc4\0\x04ab"
    return (
        b"\xff\xd8\xff\xe0\0\x04JF" + table + b"\xff\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width) + b"\0" * 9
    )


SIZES = {
    "png": png(640, 480),
    "gif": Base64Source.of(b"GIF89a" + struct.pack("<HH", 640, 480), "image/gif"),
    "jpeg": Base64Source.of(jpeg(640, 480), "image/jpeg"),
    "webp, lossy": Base64Source.of(b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + struct.pack("<HH", 640, 480), "image/webp"),
    "webp, lossless": Base64Source.of(
        b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + (639 | 479 << 14).to_bytes(4, "little"), "image/webp"
    ),
    "webp, extended": Base64Source.of(
        b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little"), "image/webp"
    ),
}


@pytest.mark.parametrize("kind", SIZES)
def test_the_size_of_a_picture(kind: str) -> None:
    assert size_of(SIZES[kind]) == (640, 480)


@given(st.binary(min_size=1), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF1234WEBP", b"GIF89a"]))
def test_no_size_is_no_error(data: bytes, magic: bytes) -> None:
    size = size_of(Base64Source.of(magic + data, "image/png"))
    assert size is None or (size[0] > 0 and size[1] > 0)
    for costs in (OPENAI, OPENAI_MINI, ANTHROPIC, GEMINI, QWEN):
        assert costs.picture.of(Base64Source.of(magic + data, "image/png")) > 0


URL = URLSource("http://x/a.png")
PICTURES: list[tuple[str, Costs, Source, int]] = [
    # the vendors' own examples
    ("OpenAI, 1024 x 1024: 4 tiles", OPENAI, png(1024, 1024), 765),
    ("OpenAI, 2048 x 4096: 6 tiles", OPENAI, png(2048, 4096), 1105),
    ("OpenAI, small: 1 tile", OPENAI, png(512, 512), 255),
    ("OpenAI, unknown", OPENAI, URL, 765),
    ("OpenAI mini, 1024 x 1024: 1024 patches", OPENAI_MINI, png(1024, 1024), 1659),
    ("Anthropic, 1000 x 1000: about 1334", ANTHROPIC, png(1000, 1000), 1334),
    ("Anthropic, 200 x 200: about 54", ANTHROPIC, png(200, 200), 54),
    ("Anthropic, huge", ANTHROPIC, png(8000, 8000), 1600),
    ("Gemini, 384 x 384", GEMINI, png(384, 384), 258),
    ("Gemini, 960 x 540: 6 crops", GEMINI, png(960, 540), 6 * 258),
    ("Qwen, 1024 x 1024", QWEN, png(1024, 1024), 1282),
    ("Qwen, 280 x 280", QWEN, png(280, 280), 102),
]


@pytest.mark.parametrize(("name", "costs", "source", "tokens"), PICTURES, ids=[p[0] for p in PICTURES])
def test_pictures(name: str, costs: Costs, source: Source, tokens: int) -> None:
    assert costs.picture.of(source) == tokens


def test_media_count_wherever_they_are() -> None:
    costs = Costs(request=0, message=0, result=0, audio=7, video=11, file=13, picture=OPENAI.picture)
    counter = EstimatedTokens(costs)
    image = ImageBlock(png(512, 512))
    frames = VideoBlock(FramesSource((png(512, 512), png(512, 512))))
    media = [image, AudioBlock(URL), VideoBlock(URL), FileBlock(URL), frames]
    assert counter.count([Msg.user(media)]) == 255 + 7 + 11 + 13 + 510
    assert counter.count([Msg.tool(ToolResultBlock("1", "f", tuple(media)), "tool")]) == 255 + 7 + 11 + 13 + 510
    assert base64.b64decode(png(1, 1).data)


@given(conversations)
def test_counts_add_up(messages: list[Msg]) -> None:
    counter = EstimatedTokens()
    whole = counter.count(messages) - counter.count(())
    assert whole == sum(counter.count([message]) - counter.count(()) for message in messages)


def test_a_message_is_counted_once_in_its_life() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return 1

    counter = TextCounter(count)
    tools = [ToolSchema("t", "", {})]
    messages = [Msg.user(TextBlock(str(n))) for n in range(100)]
    first = counter.count(messages, tools)
    assert counter.count(messages, list(tools)) == first
    assert len(asked) == 101
    assert len(counter.message) == 100
    del messages
    gc.collect()
    assert len(counter.message) == 0


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_the_most_that_fits_is_found_in_few_steps(least: int, more: int, limit: int) -> None:
    most, tried = least + more, list[int]()

    def fits(number: int) -> bool:
        tried.append(number)
        return number <= limit

    assert most_that_fits(least, most, fits) == max(least, min(most, limit))
    assert len(tried) <= 20 and all(least < number <= most for number in tried)
