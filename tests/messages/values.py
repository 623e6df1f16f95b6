"""Hypothesis strategies for everything a message can hold."""

from __future__ import annotations

from hypothesis import strategies as st

from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ChatUsage,
    FileBlock,
    FileSource,
    FramesSource,
    GenerateReason,
    ImageBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)

words = st.text(max_size=12)
ids = st.text(min_size=1, max_size=8)
counts = st.integers(0, 10**12)
numbers = st.floats(allow_nan=False, allow_infinity=False)

# what JSON can say: None at every depth, numbers beyond 64 bits, empty keys
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, json_values, max_size=4)

urls = st.builds(URLSource, ids.map("https://x/{}".format))
sources = urls | st.builds(Base64Source.of, st.binary(min_size=1, max_size=9), ids)
frames = st.builds(FramesSource, st.lists(sources, min_size=1, max_size=3).map(tuple))
texts = st.builds(TextBlock, words)
thinkings = st.builds(ThinkingBlock, words, st.none() | words, objects)
images = st.builds(ImageBlock, sources, st.none() | counts, st.none() | counts)
audios = st.builds(AudioBlock, sources)
videos = st.builds(VideoBlock, sources | frames, st.none() | numbers, st.none() | counts)
files = st.builds(FileBlock, sources, st.none() | words)
tool_uses = st.builds(ToolUseBlock, ids, words, objects, st.none() | words, st.none() | words, objects)
outputs = texts | images | audios | videos | files
tool_results = st.builds(
    ToolResultBlock,
    ids,
    words,
    st.lists(outputs, max_size=3),
    st.none() | st.sampled_from(ToolResultKind),
    objects,
)
blocks = texts | thinkings | images | audios | videos | files | tool_uses | tool_results
usages = st.builds(ChatUsage, counts, counts, counts, counts, numbers)
messages = st.builds(
    Msg,
    words,
    st.lists(blocks, max_size=4),
    st.sampled_from(MsgRole),
    id=ids,
    metadata=objects,
    timestamp=ids,
    generate_reason=st.sampled_from(GenerateReason),
    usage=st.none() | usages,
)
paths = st.text(st.characters(exclude_characters="\0/", codec="utf-8"), max_size=9).map("/x{}".format)
local_files = st.builds(FileSource, paths)
file_blocks = st.builds(FileBlock, local_files) | st.builds(ImageBlock, local_files)
messages_with_files = st.builds(Msg, words, st.lists(file_blocks, min_size=1, max_size=3), id=ids)
short_messages = st.builds(Msg, words, words, st.sampled_from(MsgRole), id=ids)
