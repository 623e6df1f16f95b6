"""HTML by lxml: what a reader of the page sees, under its headings.

The tree is walked without recursion, because a page may nest as deeply as it likes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from importlib import import_module
from typing import BinaryIO, cast

from agentscope_rx.knowledge.readers.formats.elements import Element
from agentscope_rx.knowledge.readers.formats.parts import FormatError, Outline, Part, cut, one_line, table_parts
from agentscope_rx.knowledge.readers.languages import LANGUAGES

_lxml = import_module("lxml.etree")
# (it brings no types)
_DROPPED = frozenset(
    re.findall(
        r"\w+",
        """
        script style template noscript iframe object embed svg math canvas audio video head select datalist nav
        dialog button input textarea frame frameset applet map
        """,
    )
)
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        """
        address article aside blockquote body br caption center dd details div dl dt fieldset figcaption figure
        footer form header hr html legend li main ol p pre section summary table tbody td tfoot th thead tr ul
        """,
    )
)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_LARGER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "us-ascii": "cp1252",
    "shift_jis": "cp932",
    "utf-16": "utf-8",
}
_LINES = frozenset(("br", "dd", "dt", "li", "tr"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-)([\w+#-]{1,40})")
_DEPTH = 2_000
"""The elements in each other that are read; libxml2 stops at 2,048."""
_LAYOUT = 200_000
"""The characters of a table that is still one: a larger one is taken for the layout of the page."""


def parts(file: BinaryIO, unpacked: int) -> Iterator[Part]:
    """The parts of a page, in order."""
    data = file.read()
    if b"\0" in data[:1024] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError("it is no HTML: it has NUL bytes")
    data = _utf_8(data)
    root = _tree(data)
    # (a large page takes many times its size as a tree)
    del data
    if root is None:
        return
    _check_depth(root)
    title = root.find(".//title")
    yield from _Walk(Outline("".join(title.itertext()) if title is not None else "")).parts(root)


def _utf_8(data: bytes) -> bytes:
    """The page in UTF-8: by its mark, by what it says in its head, as UTF-8, or as Windows-1252."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace").encode()
    found = _CHARSET.search(data[:4096])
    named = found[1].decode("ascii").lower() if found else ""
    try:
        # (what pages call so is read in the larger encoding by all browsers)
        encoding = codecs.lookup(_LARGER.get(named, named or "utf-8")).name
        text = data.decode(encoding, "replace" if named else "strict")
    except (LookupError, UnicodeError):
        # unknown, or a codec that makes no text of bytes
        text = data.decode("cp1252", "replace")
    return text.encode("utf-8", "replace")


def _tree(data: bytes) -> Element | None:
    # (comments, processing instructions and entities of a page's own are left out; nothing is fetched)
    parser = _lxml.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        parser.feed(data)
        return cast("Element | None", parser.close())
    except _lxml.XMLSyntaxError as error:
        if not data.strip():
            return None
        raise FormatError(f"it is no HTML ({error})") from error


def _check_depth(root: Element) -> None:
    """`FormatError` if the parser has stopped at its greatest depth, which it does without a word."""
    depth = 0
    last: Element | None = root
    while last is not None:
        last = next(reversed(last), None)
        depth += 1
        if depth >= _DEPTH:
            raise FormatError("it is nested too deeply")


class _Walk:
    """One pass over a tree."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._text: list[str] = []
        self._size = 0

    def parts(self, root: Element) -> Iterator[Part]:
        """The parts of the tree, as they are complete."""
        pending: list[Element | str] = [root]
        while pending:
            each = pending.pop()
            if isinstance(each, str):
                self._add(each)
                if self._size > 1_000_000:
                    yield from self._flush()
                continue
            if each.tail:
                pending.append(re.sub(r"\s+", " ", each.tail))
            tag = each.tag if isinstance(each.tag, str) else ""
            if not tag or tag in _DROPPED or _is_hidden(each):
                continue
            if tag in _HEADINGS:
                yield from self._flush()
                heading = _visible(each)
                self._outline.enter(_HEADINGS[tag], heading)
                self._add(f"\n\n{one_line(heading)}\n\n")
            elif tag == "pre":
                yield from self._code(each)
            elif tag == "table" and (rows := _rows(each)) is not None:
                yield from self._flush()
                yield from table_parts(rows, None, self._outline.headings)
            else:
                self._enter(each, tag, pending)
        yield from self._flush()

    def _enter(self, element: Element, tag: str, pending: list[Element | str]) -> None:
        """Put what the element holds on the list, so that it comes next."""
        if tag in _BLOCKS:
            if tag not in _LINES:
                pending.append("\n\n")
            self._add({"li": "\n- "}.get(tag, "\n") if tag in _LINES else "\n\n")
        pending.extend(reversed(element))
        if tag == "img":
            self._add(f" {element.get('alt') or ''} ")
        elif element.text:
            pending.append(re.sub(r"\s+", " ", element.text))

    def _code(self, element: Element) -> Iterator[Part]:
        yield from self._flush()
        text = _visible(element).strip("\n")
        if text.strip():
            inner = element.find("code")
            named = f"{element.get('class') or ''} {inner.get('class') or '' if inner is not None else ''}"
            found = _LANGUAGE.search(named)
            language = found[1].lower() if found else ""
            language = LANGUAGES.get(f".{language}", language)
            yield from cut(Part(text + "\n\n", None, self._outline.headings, "code", language))

    def _add(self, text: str) -> None:
        self._text.append(text)
        self._size += len(text)

    def _flush(self) -> Iterator[Part]:
        whole = "".join(self._text)
        self._text, self._size = [], 0
        lines = (" ".join(line.split()) for line in whole.split("\n"))
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        text = re.sub(r"^- *\n+", "- ", text, flags=re.MULTILINE)
        if text.strip():
            yield from cut(Part(text + "\n\n", None, self._outline.headings))


def _is_hidden(element: Element) -> bool:
    return (
        element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or _HIDDEN.search(element.get("style") or "") is not None
    )


def _visible(element: Element) -> str:
    """The text in an element, without what is dropped or hidden."""
    found: list[str] = []
    pending: list[Element | str] = [*reversed(element), element.text or ""]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            found.append(each)
            continue
        pending.append(each.tail or "")
        if isinstance(each.tag, str) and each.tag not in _DROPPED and not _is_hidden(each):
            if each.tag in _BLOCKS:
                found.append("\n")
            pending.extend(reversed(each))
            pending.append(each.text or "")
    return "".join(found)


def _rows(table: Element) -> list[list[str]] | None:
    """The rows of a table; None if it is used for the layout of a page."""
    if table.get("role") in ("presentation", "none") or table.find(".//table") is not None:
        return None
    rows = [row for row in table.iter("tr") if not _is_hidden(row)]
    cells = [[cell for cell in row if cell.tag in ("td", "th") and not _is_hidden(cell)] for row in rows]
    if len(rows) < 2 or max(map(len, cells)) < 2 or any(True for _ in table.iter("h1", "h2", "h3", "pre")):
        return None
    found = [[_visible(cell) for cell in row] for row in cells]
    return found if sum(len(cell) for row in found for cell in row) <= _LAYOUT else None
