"""`ResultLimit`: bounds the size of a result; a larger one is cut, or stored.

    text     head . . . . . . . . . . . . tail        longer than `chars`
    shown    head [90,000 of 190,000 characters are left out here. ...] tail

Both ends are kept, as the beginning identifies the text and the end has its outcome; the text with the notice is at
most `chars` long. Lines and characters stay whole if possible. Media of more than `media` characters in base64 are
replaced by a notice. With an `evictor` the whole result is stored first, and the notice says where.

`result.metadata["limited"]` has the numbers. Progress, and the answer of a hook or a person, is not cut.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, cast

from reactivex import abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import (
    Base64Source,
    FileSource,
    FramesSource,
    OutputBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

CHARS = 100_000
"""About 25,000 tokens: more than a model makes good use of, and little enough not to fill its context."""

MEDIA = 20_000_000
"""About the limit of providers for one request."""

LEAST = 500
"""The smallest limit that has room for a notice."""

ASK_FOR_LESS = "To see more, ask for less at a time: a part, or a filter."

Reference = str | Awaitable[str] | abc.ObservableBase[str]


class ResultEvictor(Protocol):
    """Stores results that are too large to show. A function of the same two arguments is one, too."""

    def store(self, call: ToolUseBlock, result: ToolResultBlock, /) -> Reference:
        """Store the whole result; returns where, in words that a model can act on.

        The reference is a `str`, or an awaitable or Observable of one. A plain method runs on a worker thread.
        """
        ...


def _check(name: str, value: int | None, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"ResultLimit: {name} must be a whole number of at least {least}, or None for no limit, not {value!r}."
        )


@dataclass(frozen=True, slots=True)
class ResultLimit:
    """The size limit of a result: `chars` of text, `media` characters of base64 (or URL); None: no limit.

        text     head . . . . . . . . . . . . tail        longer than `chars`
        shown    head [90,000 of 190,000 characters are left out here. ...] tail

    A large result would fill the model's context for good, because memory keeps it. Both ends stay, because the
    beginning shows the kind of result, and the end its outcome. Text and notice together have at most `chars`
    characters; lines and characters stay whole if possible. Several texts become one, with media behind it. A notice
    replaces media beyond `media`.

    `evictor` stores the whole result first, and the notice names the place. It has `patience` seconds. If it fails, is
    late, or returns a reference longer than half the limit, the result is only cut, and a warning is logged. With an
    evictor a joined stream is held in memory as a whole.

    `result.metadata["limited"]` has `chars` (of the whole), `left_out`, `media_left_out`, `reference` and `error`, as
    far as they apply. Errors are limited like results. Progress, results that a hook replaces, and answers of a person
    or a client are not limited.
    """

    chars: int | None = CHARS
    media: int | None = MEDIA
    evictor: ResultEvictor | Callable[[ToolUseBlock, ToolResultBlock], Reference] | None = None
    patience: float = 30.0

    def __post_init__(self) -> None:
        _check("chars", self.chars, LEAST)
        _check("media", self.media, 0)
        store = self.store
        if self.evictor is not None and not callable(store):
            raise ConfigurationError(
                f"An evictor is a function of (call, result), or has such a method `store`; not {self.evictor!r:.60}."
            )
        if not self.patience > 0:
            raise ConfigurationError(f"patience must be more than 0 seconds, not {self.patience!r}.")

    @property
    def store(self) -> Callable[[ToolUseBlock, ToolResultBlock], Reference]:
        """The function that stores a result."""
        return getattr(self.evictor, "store", cast("Callable[..., Reference]", self.evictor))

    def holds(self, result: ToolResultBlock) -> bool:
        """True if the result is within the limit."""
        output = result.output
        if len(output) == 1 and type(output[0]) is TextBlock:
            return self.chars is None or len(output[0].text) <= self.chars
        chars, media = size_of(result)
        return (self.chars is None or chars <= self.chars) and (self.media is None or media <= self.media)


DEFAULT_LIMIT = ResultLimit()


def limit_of(own: int | ResultLimit | None, default: ResultLimit | None) -> ResultLimit | None:
    """The limit of a tool: its own over the toolkit's; a number changes the characters alone."""
    if own is None:
        return default
    if isinstance(own, ResultLimit):
        return own
    return ResultLimit(own) if default is None else replace(default, chars=own)


def check_limit(limit: object, where: str) -> ResultLimit | None:
    """The limit of a tool or toolkit; `ConfigurationError` if it is not one."""
    if limit is None or isinstance(limit, ResultLimit):
        return limit
    if isinstance(limit, int) and not isinstance(limit, bool):
        return ResultLimit(limit)
    raise ConfigurationError(
        f"max_result of {where} must be a number of characters or a ResultLimit, not {limit!r:.60}."
    )


def size_of(result: ToolResultBlock) -> tuple[int, int]:
    """The characters of text and of media in a result."""
    text, media = -1, 0
    for block in result.output:
        if type(block) is TextBlock:
            text += len(block.text) + 1
        else:
            media += weight(block)
    return max(text, 0), media


def cut(result: ToolResultBlock, limit: ResultLimit, reference: str = "", error: str = "") -> ToolResultBlock:
    """The result within the limit; `reference` is the place of the whole, `error` the reason why it has none."""
    numbers: dict[str, object] = {}
    if reference:
        numbers["reference"] = reference
    if error:
        numbers["error"] = error
    output = _without_media(result.output, limit.media, _where(reference), numbers)
    text = "\n".join(block.text for block in output if isinstance(block, TextBlock))
    if limit.chars is not None and len(text) > limit.chars:
        short, left_out = ends(text, text, len(text), limit.chars, _where(reference))
        numbers.update(chars=len(text), left_out=left_out)
        output = (TextBlock(short), *(block for block in output if not isinstance(block, TextBlock)))
    return replace(result, output=output, metadata={**result.metadata, "limited": numbers})


def ends(head: str, tail: str, total: int, limit: int, where: str) -> tuple[str, int]:
    """The two ends of a text with a notice between, at most `limit` characters, and the number of those left out.

    `head` is its beginning, `tail` its end, each at least half of the limit long; or both are the text.
    """
    room = limit - len(_notice(total, total, where)) - 2
    first = _head_end(head, room - room // 2)
    last = _tail_begin(tail, len(tail) - room // 2)
    left_out = total - first - (len(tail) - last)
    return f"{head[:first]}\n{_notice(left_out, total, where)}\n{tail[last:]}", left_out


def _notice(left_out: int, total: int, where: str) -> str:
    return f"[{left_out:,} of {total:,} characters are left out here. {where}]"


def _where(reference: str) -> str:
    return f"The whole is in: {reference}" if reference else ASK_FOR_LESS


def _without_media(
    output: tuple[OutputBlock, ...], limit: int | None, where: str, numbers: dict[str, object]
) -> tuple[OutputBlock, ...]:
    """Media as long as there is room; a notice in the place of others."""
    if limit is None:
        return output
    kept: list[OutputBlock] = []
    room, left_out = limit, 0
    for block in output:
        size = weight(block)
        if size <= room or isinstance(block, TextBlock):
            room -= size
            kept.append(block)
            continue
        left_out += size
        kept.append(TextBlock(left_out_text(block, where)))
    if left_out:
        numbers["media_left_out"] = left_out
    return tuple(kept)


def left_out_text(block: OutputBlock, where: str = ASK_FOR_LESS) -> str:
    """The notice in the place of media that are too large."""
    source = None if isinstance(block, TextBlock) else block.source
    kind = f" ({source.media_type:.60})" if isinstance(source, Base64Source) else ""
    return (
        f"[{block.type.capitalize()}{kind} of {weight(block):,} characters in base64 is left out: too large. {where}]"
    )


def weight(block: OutputBlock) -> int:
    """The characters of base64, or of the URL, of media; 0 for text."""
    if isinstance(block, TextBlock):
        return 0
    source = block.source
    sources = source.frames if isinstance(source, FramesSource) else (source,)
    return sum(len(_content(each)) for each in sources)


def _content(source: Source) -> str:
    if isinstance(source, Base64Source):
        return source.data
    # a file's bytes are bounded where they are read
    return source.path if isinstance(source, FileSource) else source.url


def _head_end(text: str, most: int) -> int:
    """The place to cut so that at most so many characters come before: behind a line, or else between characters."""
    line = text.rfind("\n", most - most // 4, most)
    if line >= 0:
        return line
    for end in range(most, max(most - 32, 0), -1):
        if not _joins(text, end):
            return end
    return most


def _tail_begin(text: str, least: int) -> int:
    """The place to cut so that the rest begins there or later."""
    line = text.find("\n", least, least + (len(text) - least) // 4)
    if line >= 0:
        return line + 1
    for begin in range(least, min(least + 32, len(text))):
        if not _joins(text, begin):
            return begin
    return least


def _joins(text: str, at: int) -> bool:
    """True if this place is inside of a sequence that a reader sees as one character."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    return (
        unicodedata.category(after) in ("Mn", "Me", "Mc")
        or "\N{ZERO WIDTH JOINER}" in (before, after)
        or "\N{EMOJI MODIFIER FITZPATRICK TYPE-1-2}" <= after <= "\N{EMOJI MODIFIER FITZPATRICK TYPE-6}"
        or (before == "\r" and after == "\n")
    )
