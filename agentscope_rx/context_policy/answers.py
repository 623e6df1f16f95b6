"""`fields_of_answer`: the fields of a summary in the answer of a model, in any of the forms that models answer in.

    {"goal": ...}    {"summary": {"Current state": ...}}    Here it is: ```json ... ```
    ## Goal          **Goal:** find it        1. Goal          - Goal: find it          Goal of the user: find it

One answer has one form, that of its first heading: a line of another form is text, so that a text that the model quotes
opens no section. Each line is read once, and nothing is searched by an expression that could take long.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Final, cast

from agentscope_rx.context_policy.summary import CLOSE, TAGS, TITLES, bullets, without_headings
from agentscope_rx.frozen_values import dataclass

_TEXTS: Final = ("goal", "state")
_NAMES: Final[Mapping[str, str]] = {
    "goal": "goal",
    "goals": "goal",
    "state": "state",
    "decision": "decisions",
    "decisions": "decisions",
    "open end": "open_ends",
    "open ends": "open_ends",
    "fact": "facts",
    "facts": "facts",
    "outdated": "outdated",
    "outdated fact": "outdated",
    "outdated facts": "outdated",
}
"""The names of the fields by the words of their headings, without the additions."""
_ADDITIONS: Final = frozenset(
    re.findall(
        r"\w+",
        "a all and any are conversation current far final for from have important in is keep key latest list made main "
        "new now of our overall present s session so still task that the their this to until user users were",
    )
)
"""Words that models add to a heading. Others make it a heading of something else: `State of the build` is none."""

_HASH, _BOLD, _BOLD_INLINE = "#", "bold", "bold, with text on its line"
_NUMBERED, _BULLETED, _BARE = "numbered", "bulleted", "bare"
_MARKED: Final[Mapping[str, frozenset[str]]] = {
    _HASH: frozenset((_HASH, _BOLD)),
    _BOLD: frozenset((_HASH, _BOLD, _BOLD_INLINE)),
    _BOLD_INLINE: frozenset((_HASH, _BOLD, _BOLD_INLINE)),
}
"""The forms of headings in an answer, by that of its first one; the others stand alone."""
_NUMBER: Final = re.compile(r"\(?\d{1,2}[.):、．]")
_TITLE: Final = re.compile(r"[A-Za-z'’ _-]+")
_WORD: Final = re.compile(r"[a-z]+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BULLETS: Final = "-*+•‣◦▪●–—·"
_ENDS: Final = (":", "：", "**", "__", " - ", " – ", " — ")
"""What may end the words of a heading whose text is on the same line."""
_FENCE: Final = "```"
_LONGEST: Final = 60
"""The characters of a heading's words; a longer line is text."""
_AROUND: Final = 200
"""The characters that may stand before or after an object or a fence."""
_TRIES: Final = 8
"""The braces at which an object is looked for: each costs a look at the whole text."""
_DEPTH: Final = 3
_DECODER: Final = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that is a heading: its form, its field, and the text after it."""

    form: str
    name: str
    rest: str


def fields_of_answer(text: str) -> Mapping[str, object]:
    """The fields of a JSON object, or the sections under headings; {} for an answer with neither."""
    text = _without_thoughts(text)
    fields = _object_in(text) or _sections(_unfenced(text.splitlines()))
    return {name: _clean(name, value) for name, value in fields.items()}


def _without_thoughts(text: str) -> str:
    """The text after the thoughts that some servers leave in it; '' if they do not end: they are no answer."""
    begun = text.lstrip()
    for name in ("think", "thinking"):
        if begun.startswith(f"<{name}>"):
            return begun.partition(f"</{name}>")[2]
    return text


def _clean(name: str, value: object) -> object:
    """The value as it is read again once it was written: without the escapes, and without lines like headings."""
    if name in _TEXTS:
        return without_headings(TAGS.unescaped(value.strip())) if isinstance(value, str) else None
    if isinstance(value, str):
        return TAGS.unescaped(value)
    return [TAGS.unescaped(each) for each in cast("list[str]", value)]


# --- JSON -------------------------------------------------------------------------------------------------------------


def _object_in(text: str) -> dict[str, object]:
    """The fields of the object that is the answer, with at most a few words around it; {} if there is none."""
    answers: list[dict[str, object]] = []
    start = 0
    for _ in range(_TRIES):
        at = text.find("{", start)
        if at < 0:
            break
        before = "" if answers else text[:at].strip()
        if len(before) > _AROUND or any(map(_heading, before.splitlines())):
            return {}
        try:
            found, start = cast("tuple[object, int]", _DECODER.raw_decode(text, at))
            answers += [fields] if (fields := _fields_of_object(found, _DEPTH)) else []
        except (ValueError, RecursionError):
            if text[at + 1 : at + 80].lstrip().startswith('"'):
                return {}  # an object that is cut off: one within it is not the answer
            start = at + 1
    # of two objects, one would be lost: a text that a page has planted, or the answer
    return answers[0] if len(answers) == 1 and len(text[start:].strip()) <= _AROUND else {}


def _fields_of_object(found: object, depth: int) -> dict[str, object]:
    """The fields of the object, or of the only object, or text, in it."""
    if isinstance(found, str):
        return dict(_sections(_unfenced(found.splitlines())))
    if not isinstance(found, dict) or not depth:
        return {}
    content = cast("dict[str, object]", found)
    fields: dict[str, object] = {}
    for key, value in content.items():
        name = _name_of(_CAMEL.sub(" ", key[:_LONGEST]))
        if name in _TEXTS:
            if (text := _text_of(value)) is not None:
                fields[name] = f"{fields[name]}\n{text}" if name in fields else text
        elif name is not None:
            fields[name] = [*cast("list[str]", fields.get(name, [])), *_items_of(value)]
    if fields:
        return fields
    inner: list[object] = [each for each in content.values() if isinstance(each, dict)]
    inner = inner or [each for each in content.values() if isinstance(each, str)]
    return _fields_of_object(inner[0], depth - 1) if len(inner) == 1 else {}


def _text_of(value: object) -> str | None:
    """The text of a goal or state: a text, or a list or object of texts; None for a number, or a part of a schema."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "type" in value:
        return None
    lines = _items_of(cast("object", value))
    return "\n".join(lines) if lines else None


def _items_of(value: object) -> list[str]:
    """The items of a list field: of an object, each entry is one; of a text, each line with a bullet."""
    if isinstance(value, str):
        return list(bullets(value))
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value).items()
        return [f"{key}: {line}" for key, each in entries if (line := _line_of(each))]
    if isinstance(value, list):
        return [line for each in cast("list[object]", value) if (line := _line_of(each))]
    return []


def _line_of(value: object) -> str:
    """One item as one line. What is nested deeper stays JSON, so that no value is lost."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value)
        if len(entries) == 1 and isinstance(only := next(iter(entries.values())), str):
            return only if _name_of(next(iter(entries))) else f"{next(iter(entries))}: {only}"
        if not any(isinstance(each, (dict, list)) for each in entries.values()):
            return "; ".join(f"{key}: {each}" for key, each in entries.items())
    return json.dumps(value, ensure_ascii=False)


# --- headings ---------------------------------------------------------------------------------------------------------


def _unfenced(lines: list[str]) -> list[str]:
    """The lines within a fence that is around all of them but a few words."""
    first = next((at for at, line in enumerate(lines) if _heading(line) or line.strip().startswith(_FENCE)), None)
    if first is None or _heading(lines[first]) or len("\n".join(lines[:first])) > _AROUND:
        return lines
    last = next((at for at in range(len(lines) - 1, first, -1) if lines[at].strip() == _FENCE), len(lines))
    after = "\n".join(lines[last + 1 :]).strip()
    return lines[first + 1 : last] if len(after) <= _AROUND else lines


def _sections(lines: list[str]) -> dict[str, object]:
    """The sections in the form of the first heading; in a form without marks, two of them at least.

    A goal or state that comes a second time is text of the section that it is in.
    """
    headings = [_heading(line) for line in lines]
    first = next((each.form for each in headings if each is not None), _BARE)
    forms = _MARKED.get(first, (first,))
    found: dict[str, list[str]] = {}
    section: list[str] | None = None
    for line, heading in zip(lines, headings, strict=True):
        again = heading is not None and heading.name in found and (first not in _MARKED or heading.name in _TEXTS)
        if heading is not None and heading.form in forms and not again:
            section = found.setdefault(heading.name, [])
            section += [heading.rest] if heading.rest else []
        elif line.strip() == CLOSE:
            section = None
        elif section or (section is not None and line.strip("=- \t")):  # (not the line that underlines a heading)
            section.append(line)
    enough = len(found) >= (1 if first in _MARKED else 2)
    return {name: "\n".join(each).strip() for name, each in found.items()} if enough else {}


def _heading(line: str) -> _Line | None:
    """The heading that the line is, in any form; a line that is indented by more than three spaces is none."""
    text = line.strip()
    if not text or line.find(text[0]) > 3:
        return None
    form, bold, text = _opened(text)
    words, rest = _split(text, bold)
    title = words.strip().rstrip("#").rstrip()
    title = title.partition(" (")[0] if title.endswith(")") else title
    if form in _MARKED:
        # emoji stand before many headings
        title = title.lstrip("".join(each for each in title[:4] if unicodedata.category(each) in ("So", "Mn"))).lstrip()
    if rest is None and form in (_BARE, _BULLETED) and title.lower() not in _EXACT:
        return None
    name = _name_of(title) if _TITLE.fullmatch(title) else None
    return None if name is None else _Line(_BOLD_INLINE if form == _BOLD and rest else form, name, rest or "")


def _opened(text: str) -> tuple[str, str, str]:
    """The form by the marks at the beginning, the mark of bold text, and what follows."""
    form, bold = _BARE, ""
    if text[0] == "#" and not text.startswith("#######"):
        form, text = _HASH, text.lstrip("#").lstrip()
    elif text[0] in _BULLETS and text[1:2].isspace():
        form, text = _BULLETED, text[1:].lstrip()
    if number := _NUMBER.match(text):
        form, text = (_NUMBERED if form == _BARE else form), text[number.end() :].lstrip()
    if text.startswith(("**", "__")):
        bold, text = text[:2], text[2:].lstrip()
        form = _BOLD if form in (_BARE, _NUMBERED) else form
        text = text[number.end() :].lstrip() if (number := _NUMBER.match(text)) else text
    return form, bold, text


def _split(text: str, bold: str) -> tuple[str, str | None]:
    """The words of a heading, and the text after them; None if there is neither text nor a colon."""
    head = text[: _LONGEST + 1]
    at = min((found for end in _ENDS if (found := head.find(end)) > 0), default=-1)
    if at < 0:
        return text if len(text) <= _LONGEST else "", None
    rest, closed, colon = text[at:].strip(), False, False
    for end in (":", "：", bold, ":", "：", "-", "–", "—"):
        if not end or not rest.startswith(end) or (colon and end != bold):
            continue
        closed, colon = closed or end == bold, colon or end != bold
        rest = rest[len(end) :].lstrip()
    if bold and not closed:
        rest = rest.removesuffix(bold).rstrip()
    if rest and not colon:
        return "", None
    return text[:at], rest if rest or colon else None


def _name_of(title: str) -> str | None:
    """The field of a heading or of a key: its words, without those that models add."""
    words = _WORD.findall(title[:_LONGEST].lower().replace("_", " "))
    return _NAMES.get(" ".join(each for each in words if each not in _ADDITIONS))


_EXACT: Final = frozenset(title.lower() for title in TITLES.values())
"""The words that are a heading in a line of their own, without any mark."""
