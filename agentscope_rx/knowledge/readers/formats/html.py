"""HTML by lxml, in the encoding that beautifulsoup4 finds: what a reader of the page sees, under its headings.

The tree is walked without recursion, because a page may nest as deeply as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import BinaryIO, Protocol, cast

from bs4.dammit import UnicodeDammit

from agentscope_rx.knowledge.readers.formats.parts import FormatError, Outline, Part, cut, one_line, table_parts
from agentscope_rx.knowledge.readers.languages import LANGUAGES

lxml = import_module("lxml.etree")
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
_LINES = frozenset(("br", "dd", "dt", "li", "tr"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-)([\w+#-]{1,40})")
_LAYOUT = 200_000
"""The characters of a table that is still one: a larger one is taken for the layout of the page."""


def parts(file: BinaryIO, unpacked: int) -> Iterator[Part]:
    """The parts of a page, in order."""
    data = file.read()
    if b"\0" in data[:1024] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError("it is no HTML: it has NUL bytes")
    # (it looks at the marks, the page's own word in its first bytes, then UTF-8 and Windows-1252)
    encoding = UnicodeDammit(data[:65536], is_html=True).original_encoding
    root = _tree(data, encoding)
    if root is None:
        return
    title = root.find(".//title")
    yield from _Walk(Outline("".join(title.itertext()) if title is not None else "")).parts(root)


def _tree(data: bytes, encoding: str | None) -> _Element | None:
    # (comments, processing instructions and entities of a page's own are left out; nothing is fetched)
    parser = lxml.HTMLParser(encoding=encoding, no_network=True, remove_comments=True, remove_pis=True)
    try:
        parser.feed(data)
        return cast("_Element | None", parser.close())
    except lxml.XMLSyntaxError as error:
        if not data.strip():
            return None
        raise FormatError(f"it is no HTML ({error})") from error


class _Element(Protocol):
    """What is used of an element of lxml, which brings no types."""

    tag: object
    text: str | None
    tail: str | None

    def get(self, name: str) -> str | None: ...

    def find(self, path: str) -> _Element | None: ...

    def iter(self, *tags: str) -> Iterator[_Element]: ...

    def itertext(self, *tags: str, with_tail: bool = True) -> Iterator[str]: ...

    def __iter__(self) -> Iterator[_Element]: ...

    def __reversed__(self) -> Iterator[_Element]: ...


class _Walk:
    """One pass over a tree."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._text: list[str] = []
        self._size = 0

    def parts(self, root: _Element) -> Iterator[Part]:
        """The parts of the tree, as they are complete."""
        pending: list[_Element | str] = [root]
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

    def _enter(self, element: _Element, tag: str, pending: list[_Element | str]) -> None:
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

    def _code(self, element: _Element) -> Iterator[Part]:
        yield from self._flush()
        text = "".join(str(each) for each in element.itertext(with_tail=False)).strip("\n")
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


def _is_hidden(element: _Element) -> bool:
    return (
        element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or _HIDDEN.search(element.get("style") or "") is not None
    )


def _visible(element: _Element) -> str:
    """The text in an element, without what is dropped or hidden."""
    found: list[str] = []
    pending: list[_Element | str] = [*reversed(element), element.text or ""]
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


def _rows(table: _Element) -> list[list[str]] | None:
    """The rows of a table; None if it is used for the layout of a page."""
    if table.get("role") in ("presentation", "none") or table.find(".//table") is not None:
        return None
    rows = [row for row in table.iter("tr") if not _is_hidden(row)]
    cells = [[cell for cell in row if cell.tag in ("td", "th") and not _is_hidden(cell)] for row in rows]
    if len(rows) < 2 or max(map(len, cells)) < 2 or any(True for _ in table.iter("h1", "h2", "h3", "pre")):
        return None
    found = [[_visible(cell) for cell in row] for row in cells]
    return found if sum(len(cell) for row in found for cell in row) <= _LAYOUT else None
