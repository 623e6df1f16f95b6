"""Conversations with large results, arguments and media, and the context that a strategy gets."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import strategies as st

from agentscope_rx import Msg
from agentscope_rx.context_policy import StrategyContext
from agentscope_rx.context_policy.rounds import rounds_of
from agentscope_rx.memory.short_forms import sent_form
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models.tokens import EstimatedTokens
from agentscope_rx.testing import ScriptedModel

COUNTER = EstimatedTokens()
PICTURE = ImageBlock(Base64Source.of(b"\x89PNG" + b"x" * 300, "image/png"))


def measure(message: Msg) -> int:
    return COUNTER.message(sent_form(message))


def context_of(
    history: Sequence[Msg], *, target: int = 0, protected: Collection[str] = (), **others: object
) -> StrategyContext:
    """The context of a conversation that has to become as small as it can, unless there is a target."""
    return StrategyContext(
        history=history,
        rounds=rounds_of(history),
        protected=protected,
        measure=measure,
        tokens=sum(map(measure, history)),
        target=target,
        model=ScriptedModel("a"),
        **others,  # pyright: ignore[reportArgumentType]
    )


def put(history: Sequence[Msg], changed: Sequence[Msg]) -> list[Msg]:
    """The conversation with the changed messages in their places."""
    new = {message.id: message for message in changed}
    assert len(new) == len(changed) and new.keys() <= {message.id for message in history}
    return [new.get(message.id, message) for message in history]


pieces = st.sampled_from(
    [
        "word ",
        "\n",
        "语言模型",
        "日本語の",
        "한국어",
        "😀👩‍👩‍👧",
        "{'a': 1}, ",
        "0123456789",
        "e\u0301",
        "\r\n",
        "x" * 70,
    ]
)
texts = st.builds(
    lambda piece, times, end: piece * times + end, pieces, st.integers(0, 400), st.sampled_from(["", "."])
)
media = st.sampled_from(
    [
        PICTURE,
        ImageBlock(URLSource("http://x/1.png")),
        AudioBlock(Base64Source.of(b"RIFF" * 20, "audio/wav")),
        VideoBlock(URLSource("http://x/1.mp4")),
        FileBlock(Base64Source.of(b"%PDF" * 50, "application/pdf"), "report.pdf"),
    ]
)
pictures = st.just(PICTURE)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def conversations(draw: st.DrawFn, kinds: st.SearchStrategy = media) -> list[Msg]:
    """A conversation of some rounds, each with calls that have results."""
    messages: list[Msg] = []
    for number in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            messages.append(Msg.user([TextBlock(draw(texts)), *draw(st.lists(kinds, max_size=1))]))
        names = st.sampled_from(["look", "read_file", "read_result"])
        calls = [
            ToolUseBlock(
                f"call_{number}_{n}",
                draw(names),
                draw(st.dictionaries(st.sampled_from(["text", "more"]), values, max_size=2)),
                metadata={"thought_signature": "c2ln"},
            )
            for n in range(draw(st.integers(0, 3)))
        ]
        thought: list[ContentBlock] = [ThinkingBlock("hm", "signed")] if draw(st.booleans()) else []
        messages.append(Msg.assistant([*thought, TextBlock(draw(texts)), *calls], "Friday"))
        results = [
            ToolResultBlock(
                call.id,
                call.name,
                tuple(draw(st.lists(texts.map(TextBlock) | kinds, max_size=3))),
                draw(st.sampled_from([None, None, ToolResultKind.FAILED])),
                {"own": 1},
            )
            for call in calls
        ]
        if draw(st.booleans()):
            messages += [Msg.tool(result) for result in results]
        elif results:
            messages.append(Msg.tool(results))
    return messages
