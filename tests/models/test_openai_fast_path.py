"""The short way for chunks of nothing but text says what the general way says, of any chunk."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import ModelError
from agentscope_rx.models import ChatResponse
from agentscope_rx.models.openai.fast_path import plain_text
from agentscope_rx.models.openai.parser import ChunkParser

ODD = st.sampled_from((None, "", "x", 0, 1, False, True, [], {}, [{}], {"message": "x"}, {"prompt_tokens": 1}))
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(("word", "w\u20ac", "", None, "\ud83d", 3, [{"type": "text", "text": "part"}])),
        "role": st.sampled_from(("assistant", None, 1)),
        **dict.fromkeys(("reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "images"), ODD),
    },
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "delta": st.one_of(DELTAS, DELTAS, ODD),
        "index": st.sampled_from((0, 0, None, 1, False, 0.0, "0")),
        "finish_reason": st.sampled_from((None, None, "stop", "", "error", 1)),
        "error": ODD,
        "usage": ODD,
        "logprobs": st.none(),
    },
)
CHUNKS = st.one_of(
    ODD,
    st.fixed_dictionaries(
        {},
        optional={
            "choices": st.one_of(st.lists(CHOICES, max_size=2), CHOICES.map(lambda choice: [choice]), ODD),
            "id": st.sampled_from(("c1", None, 7)),
            **dict.fromkeys(("usage", "error", "x_groq", "object"), ODD),
        },
    ),
)
FIRST = {"id": "c1", "choices": [{"index": 0, "delta": {"content": "begun "}}]}


def outcome(parser: ChunkParser, chunk: object, *, short: bool) -> object:
    parser._at_rest = parser._at_rest and short
    try:
        return parser.feed(chunk)
    except ModelError as error:
        return (type(error), str(error))


@given(st.lists(CHUNKS, max_size=4))
@example([{"choices": [{"delta": {"content": "a", "tool_calls": None}}], "usage": None}])
@example([{"choices": [{"delta": {"content": "word", "images": [{}]}}]}])
@settings(deadline=None, max_examples=300)
def test_any_chunks_are_read_alike_by_both_ways(chunks: list[object]) -> None:
    short, general = ChunkParser(lambda: 0.0), ChunkParser(lambda: 0.0)
    for chunk in (FIRST, *chunks):
        found = outcome(short, chunk, short=True)
        assert found == outcome(general, chunk, short=False)
        if not isinstance(found, tuple) or (found and not isinstance(found[0], ChatResponse)):
            return
    ends: list[object] = []
    for parser in (short, general):
        try:
            ends.append(parser.end())
        except ModelError as error:
            ends.append((type(error), str(error)))
    assert ends[0] == ends[1]


def test_the_short_way_is_taken_for_what_servers_mostly_send() -> None:
    nulls = {"role": None, "tool_calls": None, "reasoning_content": None, "refusal": None}
    for delta in ({"content": "word"}, {"content": "word", "role": "assistant"}, {"content": "word", **nulls}):
        choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
        assert plain_text({"id": "c1", "choices": [choice], "usage": None}) == "word"
