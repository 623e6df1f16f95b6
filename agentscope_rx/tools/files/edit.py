"""`replaced`: replaces one exact piece of a text; `changes`: the difference as a small diff.

The piece must occur once. Otherwise the error gives the number and lines of its occurrences, or the closest lines. The
work is linear in the length of any text: a model chooses both texts, and the comparing thread cannot be interrupted.
"""

from __future__ import annotations

import difflib
import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate, islice

from agentscope_rx.errors import ToolError, WorkspaceError
from agentscope_rx.tools.files.encoding import line_count, lines_of, unix
from agentscope_rx.tools.files.paths import shown

CONTEXT = 3
MAX_DIFF = 80
"""How many lines of a diff are shown."""
MAX_COMPARED = 5_000
"""How many lines are compared with each other."""
MAX_STEPS = 500_000
"""Steps for finding the smallest diff; beyond them each line is compared with the one at the same place."""
MAX_SEARCHED = 50_000
"""How many lines are searched for a text that differs in white space only."""
MAX_KEY = 200
"""How many characters of a line are compared."""
NEAR = 0.6
"""The similarity from which on two lines are close."""


def replaced(text: str, old: str, new: str, *, every: bool, path: str, max_size: int | None = None) -> tuple[str, int]:
    """The text with `new` for `old`, and the number of replacements; `ToolError` unless `old` occurs once.

    With `every`, all occurrences are replaced. In a text with CR LF, an LF in `old` and `new` means CR LF. A result of
    more than `max_size` characters is refused before it is made.
    """
    if not old:
        raise ToolError("old_string is empty. Give the text to replace, or write the file with write_file.")
    if old == new:
        raise ToolError("old_string and new_string are the same, so nothing would change.")
    if old not in text and "\r\n" in text:
        old, new = (_windows(each) for each in (old, new))
    elif "\r\n" in old and old not in text:
        old, new = (each.replace("\r\n", "\n") for each in (old, new))
    count = text.count(old)
    if not count:
        raise ToolError(f"old_string is not in {shown(path)}. {_closest(text, old)}")
    if count > 1 and not every:
        lines = list(islice(_lines_with(text, old), 11))
        where = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
        raise ToolError(
            f"old_string is in {shown(path)} {count} times, at lines {where}. Add surrounding lines until it occurs "
            "once, or set replace_all."
        )
    size = len(text) + count * (len(new) - len(old))
    if max_size is not None and size > max_size:
        raise WorkspaceError(
            f"{shown(path)} would be {size:,} characters, and at most {max_size:,} bytes may be written.",
            path=path,
            reason="too_large",
        )
    return text.replace(old, new), count


def changes(before: str, after: str) -> str:
    """The lines that differ, as a unified diff of bounded size."""
    before, after = unix(before), unix(after)
    start, end = _same_ends(before, after)
    first = before.count("\n", 0, start)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(line_count(old), line_count(new)) > MAX_COMPARED:
        return f"(Lines {first + 1} and on differ; too many to show.)"
    above, below = _lines_above(before, start), _lines_below(before, len(before) - end)
    first -= len(above)
    old_lines, new_lines = ([*above, *lines_of(each), *below] for each in (old, new))
    try:
        found = _unified(old_lines, new_lines, first)
    except _TooLongError:
        if len(old_lines) != len(new_lines):
            return f"(Lines {first + len(above) + 1} and on differ; too much to compare.)"
        found = _in_place(old_lines, new_lines, first)
    return "\n".join([*found[:MAX_DIFF], *([f"... and {len(found) - MAX_DIFF} more lines"] * (len(found) > MAX_DIFF))])


def _windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_with(text: str, piece: str) -> Iterator[int]:
    line, seen, at = 1, 0, text.find(piece)
    while at >= 0:
        line += text.count("\n", seen, at)
        seen = at
        yield line
        at = text.find(piece, at + len(piece))


# --- hints for a piece not found --------------------------------------------------------------------------------------


def _closest(text: str, old: str) -> str:
    text, old = unix(text), unix(old)
    if hint := _but_for_space(text, old):
        return hint
    key = max((_bare(line[:MAX_KEY]) for line in _beginning(old, MAX_COMPARED)), key=len, default="")
    wanted = _pairs(key)
    found: list[tuple[float, int, str]] = []
    for at, line in enumerate(_beginning(text, MAX_COMPARED)):
        bare = _bare(line[:MAX_KEY])
        # lines of very different lengths cannot be similar
        if 2 * min(len(bare), len(key)) >= NEAR * (len(bare) + len(key)):
            mine = _pairs(bare)
            near = 2 * len(mine & wanted) / (len(mine) + len(wanted))
            if near >= NEAR:
                found.append((near, -at, line[:MAX_KEY]))
    if not found or not key:
        return "No line is similar. Read the file again, and copy the text exactly, without line numbers."
    best = sorted((-at, line) for _, at, line in heapq.nlargest(3, found))
    lines = "\n".join(f"{at + 1}: {line}" for at, line in best)
    return f"The closest lines are:\n{lines}\nCopy the text exactly, without line numbers."


def _but_for_space(text: str, old: str) -> str | None:
    wanted = lines_of(old)
    if not 0 < len(wanted) <= MAX_SEARCHED:
        return None
    lines = _beginning(text, MAX_SEARCHED)
    # a single search in one text: comparing each run of lines would take the product of both lengths
    bare = "\n".join(["", *map(_bare, lines), ""])
    at = bare.find("\n".join(["", *map(_bare, wanted), ""]))
    if at < 0:
        return None
    first = bare.count("\n", 0, at)
    exact = "\n".join(lines[first : first + len(wanted)])[:1000]
    where = f"lines {first + 1} to {first + len(wanted)}"
    return f"It differs in white space only from {where}, which are exactly:\n{exact}"


def _bare(line: str) -> str:
    return " ".join(line.split())


def _pairs(text: str) -> set[str]:
    """The pairs of adjacent characters. Comparing them takes time linear in the lengths of two lines."""
    return {text[at : at + 2] for at in range(len(text) - 1)} or {text}


def _beginning(text: str, count: int) -> list[str]:
    """The first lines of a text with LF line ends."""
    lines = text.split("\n", count)
    if len(lines) > count or lines[-1] == "":
        lines.pop()
    return lines


# --- diffs ------------------------------------------------------------------------------------------------------------


class _TooLongError(Exception):
    """Finding the smallest diff would take more than `MAX_STEPS`."""


class _Bounded(difflib.SequenceMatcher[str]):
    """Counts its steps, which for many equal lines grow with the cube of their number."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        super().__init__(None, old, new)
        counts = Counter(new)
        self._sums = [0, *accumulate(counts[line] + 1 for line in old)]
        self._left = MAX_STEPS

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        # it visits these lines, and for each of them all equal ones
        self._left -= self._sums[-1 if ahi is None else ahi] - self._sums[alo]
        if self._left < 0:
            raise _TooLongError
        return super().find_longest_match(alo, ahi, blo, bhi)


def _unified(old: list[str], new: list[str], first: int) -> list[str]:
    """A unified diff without file names, of lines that have `first` lines above them."""
    found: list[str] = []
    for group in _Bounded(old, new).get_grouped_opcodes(CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        found.append(f"@@ -{_range(old_from, old_to, first)} +{_range(new_from, new_to, first)} @@")
        for kind, old_at, old_end, new_at, new_end in group:
            if kind == "equal":
                found += [f" {line[:500]}" for line in old[old_at:old_end]]
                continue
            found += [f"-{line[:500]}" for line in old[old_at:old_end]]
            found += [f"+{line[:500]}" for line in new[new_at:new_end]]
    return found


def _range(start: int, end: int, first: int) -> str:
    """A range as unified diffs write it: from 1, the line above if it is empty, the length unless it is 1."""
    size = end - start
    return f"{first + start + (size > 0)}{'' if size == 1 else f',{size}'}"


def _in_place(old: list[str], new: list[str], first: int) -> list[str]:
    """The lines that differ, each compared with the one at the same place."""
    found: list[str] = []
    for at, (was, now) in enumerate(zip(old, new, strict=True), first + 1):
        if was != now:
            found += [f"@@ -{at} +{at} @@", f"-{was[:500]}", f"+{now[:500]}"]
    return found


def _same_ends(before: str, after: str) -> tuple[int, int]:
    """The lengths of the equal whole lines at the beginning and at the end of both texts."""
    most = min(len(before), len(after))
    start = _shared(lambda size: before[:size] == after[:size], most)
    start = before.rfind("\n", 0, start) + 1
    end = _shared(lambda size: before[len(before) - size :] == after[len(after) - size :], most - start)
    line_end = before.find("\n", len(before) - end)
    return start, len(before) - line_end - 1 if end and line_end >= 0 else 0


def _shared(same: Callable[[int], bool], most: int) -> int:
    """The largest size up to which the texts are the same, by bisection."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same(middle) else (low, middle - 1)
    return low


def _lines_above(text: str, at: int) -> list[str]:
    start = at
    for _ in range(CONTEXT):
        start = text.rfind("\n", 0, max(0, start - 1)) + 1
    return lines_of(text[start:at])


def _lines_below(text: str, at: int) -> list[str]:
    end = at
    for _ in range(CONTEXT):
        end = text.find("\n", end) + 1 or len(text)
    return lines_of(text[at:end])
