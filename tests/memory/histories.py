"""Conversations at random: parallel calls, thinking, calls that wait, messages between a call and its result."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from agentscope_rx import Msg, TextBlock
from agentscope_rx.messages import (
    COMPRESSED,
    HIDDEN,
    TRANSIENT,
    ContentBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

texts = st.integers(0, 60).map(lambda size: "word " * size)


def ids(messages: Iterable[Msg]) -> list[str]:
    return [message.id for message in messages]


@st.composite
def rounds(draw: st.DrawFn, number: int) -> list[Msg]:
    """One model round: an answer, perhaps with calls, whose results come in any order, or not at all."""
    blocks: list[ContentBlock] = []
    if draw(st.booleans()):
        blocks.append(ThinkingBlock(draw(texts)))
    blocks.append(TextBlock(draw(texts)))
    calls = [ToolUseBlock(f"{number}-{each}", "look", {}) for each in range(draw(st.integers(0, 3)))]
    messages = [Msg.assistant([*blocks, *calls], "Friday")]
    answered = draw(st.permutations(calls)) if draw(st.integers(0, 4)) else calls[:1]
    together = draw(st.booleans())
    results = [ToolResultBlock(call.id, "look", (TextBlock(draw(texts)),)) for call in answered]
    for result in [results] if together and results else [[each] for each in results]:
        if draw(st.integers(0, 5)) == 0:
            messages.append(Msg.user(draw(texts), "Bob"))
        messages.append(Msg.tool(result))
    return messages


@st.composite
def histories(draw: st.DrawFn) -> list[Msg]:
    """A conversation of some turns."""
    messages: list[Msg] = [Msg.system("rules")] if draw(st.integers(0, 5)) == 0 else []
    for number in range(draw(st.integers(1, 8))):
        if draw(st.integers(0, 3)):
            messages.append(Msg.user(draw(texts), "Ann"))
        messages += draw(rounds(number))
    return [message.replace(id=f"m{number}") for number, message in enumerate(messages)]


@st.composite
def marked_histories(draw: st.DrawFn) -> list[Msg]:
    """A conversation with marks on some messages, and perhaps a summary."""
    messages = draw(histories())
    for number in draw(st.lists(st.integers(0, len(messages) - 1), max_size=5)):
        messages[number] = messages[number].marked(draw(st.sampled_from([HIDDEN, COMPRESSED, TRANSIENT, "own"])))
    carriers = [number for number, message in enumerate(messages) if COMPRESSED in message.marks]
    if carriers and draw(st.booleans()):
        last = messages[carriers[-1]]
        messages[carriers[-1]] = last.replace(metadata={**last.metadata, "memory_summary": "the past"})
    return messages
