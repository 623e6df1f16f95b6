"""`fitted`: sections of files as one text within a token budget.

    <workspace_context>
    <agents_context path="AGENTS.md">
    Instructions of the user ...
    (the text of the file, its first lines or none)
    [160 more lines, from line 41 on, are left out here. Read AGENTS.md if you need them.]
    </agents_context>
    ...
    </workspace_context>

First each section gets the room for its frame and a notice, in order of priority; then each, in the same order, all of
its lines or as many of the first as fit. Each step is measured on the whole text, so the text is never above the
budget, whatever the counter does. A section without room for its frame is left out, and with none of them the text is
empty. It is a function of its input alone: the same files give the same bytes.

A text cannot close its tag: `<` before the name of a tag, or its end, becomes `&lt;`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from html import escape
from typing import Final

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.tags import Tags
from agentscope_rx.models.tokens.cuts import most_that_fits
from agentscope_rx.tools.files.paths import on_one_line

OUTER: Final = "workspace_context"
AGENTS_TAG: Final = "agents_context"
MEMORY_TAG: Final = "memory_context"
KNOWLEDGE_TAG: Final = "domain_knowledge_context"
FILES_TAG: Final = "knowledge_files"
FILE_TAG: Final = "file_context"
SESSION_TAG: Final = "session_context"

CONTEXT_TAGS: Final = Tags(OUTER, AGENTS_TAG, MEMORY_TAG, KNOWLEDGE_TAG, FILES_TAG, FILE_TAG, SESSION_TAG)
SHORT: Final = 200
"""Characters of a section that is shown whole or not at all."""
_HINT = "A line in square brackets at the end of a section is not part of the file."


@dataclass(frozen=True, slots=True)
class Section:
    """One tag: `about` says what its text is; `more` that the file goes on behind `text`.

    `text` may be empty, with the `problem` that there is in its place.
    """

    tag: str
    text: str
    path: str = ""
    about: str = ""
    problem: str = ""
    more: bool = False
    lines: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        text = CONTEXT_TAGS.escaped(self.text.rstrip())
        # (not splitlines: that takes form feeds and other characters for line ends, which editors do not)
        object.__setattr__(self, "lines", tuple(text.split("\n")) if text else ())

    def shown(self, count: int) -> str:
        """The section with its first `count` lines."""
        path = f' path="{escape(shown_path(self.path))}"' if self.path else ""
        notice = self._notice(count)
        parts = [
            f"<{self.tag}{path}>",
            *([self.about] if self.about else []),
            *self.lines[:count],
            *([notice] if notice else []),
            f"</{self.tag}>",
        ]
        return "\n".join(parts)

    def _notice(self, count: int) -> str:
        if self.problem:
            return f"[{CONTEXT_TAGS.escaped(self.problem)}]"
        left = len(self.lines) - count
        if not left and not self.more:
            return ""
        where = shown_path(self.path) or "the rest"
        if not count:
            return f"[The text is left out here for lack of room. Read {where} if you need it.]"
        many = f"{left} more line{'' if left == 1 else 's'}" if not self.more else "More lines"
        return f"[{many}, from line {count + 1} on, left out here for lack of room. Read {where} if you need them.]"


def shown_path(path: str) -> str:
    """A path on one line, whatever characters are in it, and with no tag of a context in it."""
    return CONTEXT_TAGS.escaped(on_one_line(path))


def fitted(sections: Sequence[Section], priority: Sequence[int], max_tokens: int, count: Callable[[str], int]) -> str:
    """The sections in their order as one text of at most `max_tokens`; `priority` lists their indexes."""
    shown: dict[int, int] = {}

    def measured(change: Mapping[int, int]) -> bool:
        return count(_joined(sections, {**shown, **change})) <= max_tokens

    for index in priority:
        section = sections[index]
        # (the notice of a short section would take more room than its text)
        least = (len(section.lines), 0) if len(section.text) <= SHORT else (0,)
        found = next((lines for lines in least if measured({index: lines})), None)
        if found is not None:
            shown[index] = found
    for index, least in [(index, shown[index]) for index in priority if index in shown]:
        most = len(sections[index].lines)
        shown[index] = most_that_fits(least, most, lambda lines, index=index: measured({index: lines}))
    return _joined(sections, shown)


def _joined(sections: Sequence[Section], shown: Mapping[int, int]) -> str:
    if not shown:
        return ""
    parts = [sections[index].shown(shown[index]) for index in sorted(shown)]
    return "\n".join((f"<{OUTER}>", _HINT, *parts, f"</{OUTER}>"))
