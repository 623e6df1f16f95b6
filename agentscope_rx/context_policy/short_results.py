"""Short forms of results and arguments: pure functions of blocks, for the strategies and the eviction hook.

result    text (90,000 tokens) . picture        memory keeps it whole
short     head [... of ... characters are left out here. Read them with read_result ...] tail . picture
dropped   [The result (310,000 characters, 1 image) is left out. Read it with read_result ...]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from agentscope_rx.context_policy.rounds import last_rounds
from agentscope_rx.context_policy.strategy import Measure, StrategyContext, oldest_first
from agentscope_rx.memory.short_forms import sent_form, shortened
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileBlock,
    FileSource,
    FramesSource,
    ImageBlock,
    Msg,
    TextBlock,
    ToolResultBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.tools.results.origin import READ_RESULT
from agentscope_rx.tools.results.result_limit import ends, size_of

MediaBlock = ImageBlock | AudioBlock | VideoBlock | FileBlock
MEDIA: Final = (ImageBlock, AudioBlock, VideoBlock, FileBlock)

READING: Final = frozenset(
    {
        *("read_file", "list_directory", "glob", "grep", "list_files", "grep_files", "glob_files"),
        *("memory_search", "memory_get", "session_search", "retrieve_from_memory"),
        *("load_skill", "read_skill_file"),
    }
)
"""Tools whose results are bounded already, or are asked for again at no cost: by default these are not evicted."""

_NOTICE = 40
"""About the characters of a notice, without its numbers and the place of the whole."""
_ENDS = 64
"""The characters of both ends that a cut text keeps at least."""

Form = Callable[[ContentBlock, ContentBlock], ContentBlock | None]
"""The short form of a block, given as memory has it and as it is sent now; None if it stays as it is."""


def with_forms(message: Msg, form: Form, measure: Measure) -> Msg | None:
    """The message with the short forms of those blocks that become smaller by them; None if none does."""
    found: dict[int, ContentBlock] = {}
    for index, (whole, shown) in enumerate(zip(message.content, sent_form(message).content, strict=True)):
        short = form(whole, shown)
        if short is None or short is shown:
            continue
        if measure(message.replace(content=short, metadata={})) < measure(message.replace(content=shown, metadata={})):
            found[index] = short
    return shortened(message, found) if found else None


def change_old(context: StrategyContext, keep_rounds: int, form: Form) -> Sequence[Msg]:
    """The messages outside of the last `keep_rounds` rounds with the short forms that `form` gives.

    Oldest first, until the target is reached; messages that would not become smaller are left out.
    """
    rounds = context.rounds
    old = rounds[: len(rounds) - len(last_rounds(rounds, keep_rounds))]
    return oldest_first(replace(context, rounds=old), lambda message: with_forms(message, form, context.measure))


def text_counter(measure: Measure) -> Callable[[str], int]:
    """Counts the tokens of text by the measure of messages."""
    return lambda text: measure(Msg.user(text))


def may_exceed(result: ToolResultBlock, tokens: int) -> bool:
    """False if the result is so short that it need not be counted."""
    chars, media = size_of(result)
    # no tokenizer makes more than four tokens of a character
    return media > 0 or 4 * chars + 100 > tokens


def place_of(result: ToolResultBlock) -> str:
    """How the model reads the whole of this result."""
    if result.name == READ_RESULT:
        return "Read it again as before."
    return f"To read it, call {READ_RESULT} with call_id={result.id!r}."


def cut_text(text: str, tokens: int, where: str, count: Callable[[str], int]) -> str:
    """Both ends of the text with a notice between, of at most so many tokens; the text itself if it has no more.

    Lines and characters stay whole if possible. A few words of each end are kept in any case.
    """
    # no tokenizer makes more than four tokens of a character
    if 4 * len(text) <= tokens or (total := count(text)) <= tokens:
        return text
    least = len(where) + _NOTICE + 2 * len(f"{len(text):,}") + _ENDS
    limit = int(len(text) * tokens / total)
    for _ in range(12):
        limit = max(limit, least)
        if limit >= len(text):
            return text
        short, _left_out = ends(text, text, len(text), limit, where)
        found = count(short)
        if found <= tokens or limit == least:
            return short
        limit = int(limit * min(0.95, tokens / found))
    return ends(text, text, len(text), least, where)[0]


def shortened_result(
    whole: ToolResultBlock,
    shown: ToolResultBlock,
    tokens: int,
    count: Callable[[str], int],
    *,
    media: bool = True,
    where: str | None = None,
) -> ToolResultBlock:
    """The result with its text cut to so many tokens; with `media=False` also with notices in the place of media.

    `shown` is the result as it is sent now: media that it lacks stay away.
    """
    place = place_of(whole) if where is None else where
    kept = {id(block) for block in whole.output if media and block in shown.output}
    text = cut_text(whole.text, tokens, place, count)
    output: list[ContentBlock] = []
    if text == whole.text:
        output.extend(block for block in whole.output if isinstance(block, TextBlock))
    else:
        output.append(TextBlock(text))
    for number, block in enumerate(whole.output, 1):
        if isinstance(block, MEDIA):
            output.append(block if id(block) in kept else TextBlock(media_notice(block, whole, number)))
    return shown.replace(output=cast("list[MediaBlock]", output))


def dropped_result(whole: ToolResultBlock) -> ToolResultBlock:
    """The result without its output: its size, and how to read it."""
    return whole.replace(output=f"[The result ({size_text(whole)}) is left out to save room. {place_of(whole)}]")


def size_text(result: ToolResultBlock) -> str:
    """The size of a result in words: `12,000 characters, 2 images`."""
    kinds = Counter(block.type for block in result.output if isinstance(block, MEDIA))
    media = [f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in sorted(kinds.items())]
    return ", ".join([f"{len(result.text):,} characters", *media])


def media_notice(block: MediaBlock, result: ToolResultBlock | None = None, number: int = 0) -> str:
    """What was in the place of media, and for the block `number` of a result how to see it again."""
    again = ""
    if result is not None:
        again = f" To see it, call {READ_RESULT} with call_id={result.id!r} and block={number}."
    return f"[{media_text(block)} is left out to save room.{again}]"


def media_text(block: MediaBlock) -> str:
    """Media in words: `Image (image/png, 12,000 bytes)`."""
    name = f" {block.name!r:.80}" if isinstance(block, FileBlock) and block.name else ""
    source = block.source
    match source:
        case Base64Source():
            size = len(source.data) * 3 // 4 - source.data[-2:].count("=")
            about = f"{source.media_type:.60}, {size:,} bytes"
        case URLSource():
            about = f"{source.url:.200}"
        case FileSource():
            about = f"{source.path:.200}"
        case FramesSource():
            about = f"{len(source.frames)} frames"
    return f"{block.type.capitalize()}{name} ({about})"


def shorter_arguments(
    arguments: Mapping[str, object], tokens: int, count: Callable[[str], int]
) -> Mapping[str, object] | None:
    """The arguments with the same keys and shorter strings, at any depth; None if no string is longer."""
    changed = False

    def shorter(value: object) -> object:
        nonlocal changed
        if isinstance(value, str):
            cut = cut_text(value, tokens, "The call had all of them.", count)
            changed |= cut is not value
            return cut
        if isinstance(value, Mapping):
            return {key: shorter(each) for key, each in cast("Mapping[str, object]", value).items()}
        if isinstance(value, Sequence):
            return [shorter(each) for each in cast("Sequence[object]", value)]
        return value

    made = cast("dict[str, object]", shorter(arguments))
    return made if changed else None
