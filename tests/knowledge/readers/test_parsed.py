"""Readers whose parsers run in a child process: what they find, and what becomes of the child."""

from __future__ import annotations

import ast
import asyncio
import io
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import DamagedDocumentError, MissingExtraError
from agentscope_rx.knowledge import DocxReader, HtmlReader, PdfReader, PptxReader, Section, XlsxReader, keep_parsers
from agentscope_rx.knowledge.readers import formats, parsed
from agentscope_rx.knowledge.readers.formats import html
from agentscope_rx.knowledge.readers.formats.parts import MOST, FormatError
from agentscope_rx.knowledge.readers.parser_process import ParserProcess
from agentscope_rx.reactive import concat_map, from_callable, from_iterable
from agentscope_rx.testing import run_virtual
from tests.knowledge.readers.reading import read, source
from tests.support.office import WORD, pdf, slides, with_member, word, workbook

PAGE = """<html><head><title>Guide</title><script>run()</script></head><body><nav>Home</nav><h1>Tickets</h1>
<p>A <b>ticket</b> costs\n three euros.<!-- really --><p style="color:red; display: none">hidden</p><ul>
<li>one<li>two</ul>
<table><tr><th>zone<th>price<tr><td>A|B<td>3</table><pre><code class="language-py">x = 1\n  y</code></pre>
<h2>Refunds</h2><p hidden>no</p>Within 14 days.<img alt="a clock" src="file:///etc/passwd"></body></html>"""
PIECES = re.findall(
    r"\S+",
    "<p> </p> <table> <tr> <td> <pre> <li> <h2> </h2> <b> x &nbsp; &#0; </td> </table> <!-- --> <script> </script> é",
)
LONG = "".join(f"<h1>Part {number}</h1><p>{'words ' * 300}</p>" for number in range(500)).encode()


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    yield
    assert children() == []


def children() -> list[int]:
    """The parsers that this process has started, by any of its threads. (Other tests keep servers running.)"""
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        try:
            found += map(int, Path(f"/proc/self/task/{thread}/children").read_text().split())
        except OSError:
            continue
    return [each for each in found if _is_parser(each)]


def _is_parser(number: int) -> bool:
    try:
        return b"child.py" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False


def shown(found: list[Section]) -> list[tuple[object, ...]]:
    return [(each.kind, each.page, each.headings, each.text.strip()) for each in found]


def test_html_is_what_can_be_seen():
    found = read(HtmlReader(), "a.html", PAGE.encode())
    assert shown(found) == [
        ("text", None, ("Guide", "Tickets"), "Tickets\n\nA ticket costs three euros.\n\n- one\n- two"),
        ("table", None, ("Guide", "Tickets"), "| zone | price |\n| --- | --- |\n| A\\|B | 3 |"),
        ("code", None, ("Guide", "Tickets"), "x = 1\n  y"),
        ("text", None, ("Guide", "Tickets", "Refunds"), "Refunds\n\nWithin 14 days. a clock"),
    ]
    assert found[2].language == "python"


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("", "utf-8"),
        ("", "utf-16"),
        ("<meta charset=gb2312>", "gbk"),
        ("<meta charset='klingon'>", "cp1252"),
        ("", "cp1252"),
    ],
)
def test_the_encoding_of_html_is_found(head: str, encoding: str):
    words = "知识库" if encoding != "cp1252" else "naïve"
    (part,) = html.parts(io.BytesIO(f"{head}<p>{words}".encode(encoding)), 0)
    assert part.text == f"{words}\n\n"


def test_pages_and_outline_of_a_pdf():
    data = pdf(
        ["First page\nsecond line", "Second page", "Third"],
        title="Report",
        headings=[(0, "Start"), (1, "Rest"), (1, "End")],
    )
    assert shown(read(PdfReader(), "a.pdf", data)) == [
        ("text", 1, ("Report", "Start"), "First page\nsecond line"),
        ("text", 2, ("Report", "Rest"), "Second page"),
        ("text", 3, ("Report", "End"), "Third"),
    ]


def test_headings_and_tables_of_a_word_document():
    assert shown(read(DocxReader(), "a.docx", word())) == [
        ("text", None, ("Handbook", "Tickets"), "Tickets\n\nA ticket costs three euros."),
        ("table", None, ("Handbook", "Tickets"), "| zone | price |\n| --- | --- |\n| A | 3 |"),
        ("text", None, ("Handbook", "Tickets", "Refunds"), "Refunds\n\nAsk within 14 days."),
    ]


def test_word_has_inserted_text_and_content_controls():
    body = (
        b"<w:sdt><w:sdtContent><w:p><w:r><w:t>In a control</w:t></w:r></w:p></w:sdtContent></w:sdt><w:p><w:r>"
        b"<w:t>a</w:t></w:r><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del></w:p>"
    )
    data = with_member(word(), "word/document.xml", WORD + body + b"</w:body></w:document>")
    assert shown(read(DocxReader(), "a.docx", data)) == [("text", None, ("Handbook",), "In a control\n\nanew")]


def test_slides_with_notes_tables_and_groups():
    assert shown(read(PptxReader(), "a.pptx", slides())) == [
        ("text", 1, ("Plan",), "Plan\n\nBuild it."),
        ("text", 1, ("Plan",), "Notes: Say why."),
        ("text", 2, ("Costs",), "Costs\n\nIn a group."),
        ("table", 2, ("Costs",), "| item | euros |\n| --- | --- |\n| tea | 2 |"),
    ]


def test_sheets_are_pages_and_rows_have_names():
    data = workbook(("Prices", [["item", "euros"], ["tea", 2.5], [], ["milk", 3.0]]), ("Empty", []), ("One", [["x"]]))
    assert shown(read(XlsxReader(), "a.xlsx", data)) == [
        ("table", 1, ("Prices",), "item: tea; euros: 2.5\nitem: milk; euros: 3"),
        ("table", 3, ("One",), "x"),
    ]


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_html_gives_parts_of_text(pieces: list[str]):
    for part in html.parts(io.BytesIO("".join(pieces).encode()), 0):
        assert part.text.endswith("\n\n") and part.text.strip() and len(part.text) <= MOST
        assert "<script" not in part.text


@given(st.binary(max_size=300))
def test_any_bytes_are_html_or_damaged(data: bytes):
    try:
        list(html.parts(io.BytesIO(data), 0))
    except FormatError:
        return


def test_parsers_import_nothing_else_of_the_library():
    own = ("agentscope_rx.knowledge.readers.formats", "agentscope_rx.knowledge.readers.languages")
    folder = Path(formats.__file__).parent
    for path in [*folder.glob("*.py"), folder.parent / "languages.py", folder.parent / "child.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("agentscope_rx"):
                assert node.module.startswith(own), f"{path.name} imports {node.module}"


def test_a_child_waits_while_no_section_is_asked_for():
    async def main() -> None:
        stream = HtmlReader().read(source("a.html", LONG)).__aiter__()
        first = await stream.__anext__()
        assert first.headings == ("Part 0",) and len(children()) == 1
        await stream.aclose()

    run_virtual(main())


def test_a_subscriber_that_fails_ends_the_child():
    async def main() -> None:
        async for _ in HtmlReader().read(source("a.html", LONG)):
            raise KeyError("mine")

    with pytest.raises(KeyError):
        run_virtual(main())


@pytest.mark.parametrize("moment", ["_start", "_give", "_part"])
def test_disposal_kills_a_child_at_any_moment(moment: str, monkeypatch: pytest.MonkeyPatch):
    async def main() -> None:
        loop, there = asyncio.get_running_loop(), asyncio.Event()
        usual = getattr(ParserProcess, moment)

        def noted(*args: object) -> object:
            loop.call_soon_threadsafe(there.set)
            return usual(*args)

        monkeypatch.setattr(ParserProcess, moment, noted)
        task = HtmlReader().read(source("a.html", b"<b></b>" * 2_000_000)).as_task()
        await there.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_killed_child_is_a_damaged_document():
    async def main() -> None:
        async for _ in HtmlReader().read(source("a.html", LONG)):
            for each in children():
                os.kill(each, signal.SIGKILL)

    with pytest.raises(DamagedDocumentError, match=r"ended early \(exit code -9\)"):
        run_virtual(main())


def test_kept_children_parse_several_documents():
    seen: list[int] = []
    reader = HtmlReader()

    async def main() -> list[str]:
        sources = [source(f"{number}.html", f"<p>{number}".encode()) for number in range(5)]
        found: list[str] = []
        async for each in keep_parsers(from_iterable(sources).pipe(concat_map(reader.read))):
            seen.extend(children())
            found.append(each.text.strip())
        return found

    assert run_virtual(main()) == ["0", "1", "2", "3", "4"]
    assert len(set(seen)) == 1 and children() == []


def test_a_child_that_failed_is_not_kept():
    async def main() -> None:
        reader = PdfReader()

        async def both() -> None:
            with pytest.raises(DamagedDocumentError):
                await reader.read(source("a.pdf", b"no"))
            assert children() == []

        await keep_parsers(from_callable(both))

    run_virtual(main())


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parsed, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"agentscope-rx\[documents\]"):
        read(PdfReader(), "a.pdf", b"")
