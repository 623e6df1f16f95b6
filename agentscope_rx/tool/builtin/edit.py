"""`replaced`: one exact piece of a text becomes another; `changes`: what that did, as a small diff.

The piece is found once, or the error says what to do: how often it is there and where, or which lines come close.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from agentscope_rx.errors import ToolError
from agentscope_rx.tool.builtin.paths import shown
from agentscope_rx.tool.builtin.text import lines_of

CONTEXT = 3
MAX_DIFF = 80
"""Lines of a diff that are shown."""
MAX_COMPARED = 5_000
"""Lines that are compared one with the other."""


def replaced(text: str, old: str, new: str, *, every: bool, path: str) -> tuple[str, int]:
    """The text with `new` for `old`, and how often; `ToolError` unless `old` is there once (or at all, for `every`).

    Where the text ends its lines with CR LF and the model wrote LF, CR LF is meant.
    """
    if not old:
        raise ToolError("old_string is empty. Give the text to replace, or write the file with write_file.")
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.")
    if old not in text and "\r\n" in text:
        old, new = (_windows(each) for each in (old, new))
    elif "\r\n" in old and old not in text:
        old, new = (each.replace("\r\n", "\n") for each in (old, new))
    count = text.count(old)
    if not count:
        raise ToolError(f"old_string is not in {shown(path)}. {_closest(text, old)}")
    if count > 1 and not every:
        lines = list(_lines_with(text, old))
        where = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
        raise ToolError(
            f"old_string is in {shown(path)} {count} times, at lines {where}. Add lines around it until it is there "
            "once, or set replace_all."
        )
    return text.replace(old, new), count


def changes(before: str, after: str) -> str:
    """The lines that differ, as a unified diff, bounded."""
    old, new = lines_of(before), lines_of(after)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first = max(0, start - CONTEXT)
    old, new = (lines[first : len(lines) - max(0, end - CONTEXT)] for lines in (old, new))
    if max(len(old), len(new)) > MAX_COMPARED:
        return f"(Lines {start + 1} and on differ; too many to show.)"
    # without the names of the files, which come first
    found = list(difflib.unified_diff(old, new, n=CONTEXT, lineterm=""))[2:]
    told = [_moved(line, first) if line.startswith("@@") else line[:500] for line in found[:MAX_DIFF]]
    if len(found) > MAX_DIFF:
        told.append(f"... and {len(found) - MAX_DIFF} more lines")
    return "\n".join(told)


def _windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_with(text: str, piece: str) -> Iterator[int]:
    line, seen, at = 1, 0, text.find(piece)
    while at >= 0:
        line += text.count("\n", seen, at)
        seen = at
        yield line
        at = text.find(piece, at + len(piece))


def _closest(text: str, old: str) -> str:
    """What the model may have meant."""
    lines, wanted = lines_of(text), lines_of(old)
    bare, bare_wanted = [" ".join(each.split()) for each in lines], [" ".join(each.split()) for each in wanted]
    for at in range(len(bare) - len(bare_wanted) + 1):
        if bare[at : at + len(bare_wanted)] == bare_wanted:
            exact = "\n".join(lines[at : at + len(wanted)])[:1000]
            where = f"lines {at + 1} to {at + len(wanted)}"
            return f"It differs in white space only from {where}, which are exactly:\n{exact}"
    key = max(bare_wanted, key=len, default="")[:200]
    close = difflib.get_close_matches(key, [each[:200] for each in bare[:MAX_COMPARED]], 3, 0.6)
    if not close:
        return "No line comes close. Read the file again, and copy the text exactly, without line numbers."
    found = [f"{at + 1}: {lines[at][:200]}" for at, each in enumerate(bare[:MAX_COMPARED]) if each[:200] in close][:3]
    return "The closest lines are:\n" + "\n".join(found) + "\nCopy the text exactly, without line numbers."


def _moved(header: str, by: int) -> str:
    """`@@ -1,7 +1,8 @@` with the line numbers of the whole file."""
    ranges: list[str] = []
    for each in header.split()[1:3]:
        number, comma, size = each[1:].partition(",")
        ranges.append(f"{each[0]}{int(number) + by}{comma}{size}")
    return f"@@ {' '.join(ranges)} @@"
