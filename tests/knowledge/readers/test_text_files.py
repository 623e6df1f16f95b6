"""Readers that read files of text in this process: text, code, Markdown and CSV."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agentscope_rx.errors import (
    ConfigurationError,
    DamagedDocumentError,
    DocumentError,
    DocumentTooLargeError,
    UnsupportedDocumentError,
)
from agentscope_rx.knowledge import CodeReader, CsvReader, MarkdownReader, Reader, ReadLimits, Section, TextReader
from agentscope_rx.reactive import Flow
from agentscope_rx.testing import run_virtual
from tests.knowledge.readers.reading import read, source

CHINESE = "知识库的检索很好用。"
LINES = st.sampled_from(
    ["", "a | b", "--- | ---", "1 | 2", "# One", "## Two `x`", "###", "words", "- item", "> quoted", "===", "---",
     "```py", "```", "~~~", "    indented", "# no heading #", "#none", "\u6c49\u5b57"]
)  # fmt: skip


def text(sections: list[Section]) -> str:
    return "".join(each.text for each in sections)


@given(st.lists(LINES).map("\n".join))
def test_markdown_keeps_every_character(content: str):
    assert text(read(MarkdownReader(), "a.md", content.encode())) == content


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_markdown_has_the_headings_that_a_parser_finds(content: str):
    if content.startswith("---\n"):
        # front matter to one of them, a rule to the other
        content = f"\n{content}"
    tokens = MarkdownIt().enable("table").parse(content)
    expected = [
        " ".join(tokens[at + 1].content.replace("`", "").split())
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and tokens[at + 1].content
    ]
    entered: list[str] = []
    before: tuple[str, ...] = ()
    for each in read(MarkdownReader(), "a.md", content.encode()):
        if each.headings and (each.headings != before or each.text.startswith("#")):
            entered.append(each.headings[-1])
        before = each.headings
    # (the same heading twice, one after the other without a text, is seen once here)
    assert [*dict.fromkeys(entered)] == [*dict.fromkeys(expected)]


def test_markdown_has_code_and_tables_of_their_own():
    content = (
        "---\ntitle: 'Guide'\ntags: [a]\n---\n# Guide\n\nIntro\n\n## Use\n\n```py\n# x\n```\n\n| a | b |\n|---|---|\n"
        "| 1 | 2 |\n\nEnd\n"
    )
    found = read(MarkdownReader(), "a.md", content.encode())
    assert [(each.kind, each.headings, each.language) for each in found] == [
        ("text", ("Guide",), ""),
        ("text", ("Guide",), ""),
        ("text", ("Guide", "Use"), ""),
        ("code", ("Guide", "Use"), "python"),
        ("table", ("Guide", "Use"), ""),
        ("text", ("Guide", "Use"), ""),
    ]
    assert "tags: [a]" in found[0].text and found[3].text.startswith("```py\n# x\n```")


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.sampled_from(["utf-8", "utf-16", "utf-8-sig"])
)
def test_text_keeps_its_characters(content: str, encoding: str):
    if encoding == "utf-16" and content.startswith("\0"):
        # a NUL behind its mark makes it the mark of UTF-32
        content = content.lstrip("\0")
    expected = content.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    reader = TextReader(encoding="utf-8") if encoding == "utf-8" else TextReader()
    data = content.encode(encoding)
    if expected.startswith("\ufeff") and encoding == "utf-8":
        expected = expected[1:]
    assert text(read(reader, "a.txt", data)) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("r\xe9sum\xe9 na\xefve".encode("cp1252"), "r\xe9sum\xe9 na\xefve"),
        (CHINESE.encode("gbk"), CHINESE),
        ((CHINESE * 3).encode() + b"\xff", CHINESE * 3 + "\ufffd"),
        ("a\ud800b".encode("utf-16", "surrogatepass"), "a\ufffdb"),
    ],
    ids=["western", "chinese", "a-bad-byte", "lone-surrogate"],
)  # fmt: skip
def test_the_encoding_is_found(data: bytes, expected: str):
    assert text(read(TextReader(), "a.txt", data)) == expected


def test_text_that_is_none_is_damaged():
    with pytest.raises(DamagedDocumentError, match=r"a\.txt: it is not text"):
        read(TextReader(), "a.txt", b"%PDF-1.7\0\1\2\xff")


def test_an_unknown_encoding_is_refused():
    with pytest.raises(ConfigurationError, match="gb18030"):
        TextReader(encoding="klingon")


def test_code_has_its_language():
    (found,) = read(CodeReader(), "src/Main.java", b"class Main {\n}\n")
    assert (found.kind, found.language) == ("code", "java")


def test_rows_of_csv_have_the_names_of_their_columns():
    data = b'name;price;note\nTea;2,50;"hot\nor cold"\nMilk;3;\n'
    (found,) = read(CsvReader(), "a.csv", data)
    assert found.text == "name: Tea; price: 2,50; note: hot or cold\nname: Milk; price: 3\n\n"
    assert read(CsvReader(), "a.tsv", b"a\tb, c\n1\t2\n")[0].text == "a: 1; b, c: 2\n\n"


def test_csv_with_one_row_keeps_it():
    assert read(CsvReader(), "a.csv", b"just,this\n")[0].text == "just; this\n\n"


def test_csv_comes_in_parts_of_whole_rows():
    data = b"id,word\n" + b"".join(b"%d,word\n" % number for number in range(1000))
    found = read(CsvReader(), "a.csv", data)
    assert len(found) > 5 and all(each.text.startswith("id: ") and len(each.text) < 1100 for each in found)


@pytest.mark.parametrize("field", [b'"' + b"x\n" * 700_000, b"x" * 200_000], ids=["open-quote", "huge-field"])
def test_csv_with_a_huge_row_is_too_large(field: bytes):
    with pytest.raises(DocumentTooLargeError) as caught:
        read(CsvReader(), "a.csv", b"a,b\n1," + field)
    assert caught.value.limit == "row"


def test_a_header_is_not_repeated_if_it_is_huge():
    # 1 MB of names over 10,000 rows would be 10 GB of text
    data = b",".join(b"n" * 500 for _ in range(200)) + b"\n" + b"1,2\n" * 10_000
    assert len(text(read(CsvReader(), "a.csv", data))) < 2 * len(data)


class TestFiles:
    def reads(self, path: Path, root: Path | None = None, reader: Reader | None = None) -> Flow[Section]:
        return (reader or TextReader()).read(source(path.name, path=path, root=root))

    def test_a_folder_a_pipe_and_a_device_are_refused(self, tmp_path: Path):
        os.mkfifo(tmp_path / "pipe.txt")
        for path in (tmp_path, tmp_path / "pipe.txt", Path("/dev/zero")):
            with pytest.raises(UnsupportedDocumentError, match="not a regular file"):
                run_virtual(self.reads(path))

    def test_a_file_that_is_not_there_is_a_document_error(self, tmp_path: Path):
        with pytest.raises(DocumentError, match="could not be opened"):
            run_virtual(self.reads(tmp_path / "none.txt"))

    def test_a_link_that_leaves_the_root_is_refused(self, tmp_path: Path):
        (tmp_path / "out.txt").write_text("secret")
        root = tmp_path / "in"
        root.mkdir()
        (root / "own.txt").write_text("own")
        (root / "link.txt").symlink_to(root / "own.txt")
        (root / "leaves.txt").symlink_to(tmp_path / "out.txt")
        assert run_virtual(self.reads(root / "link.txt", root)).text == "own"
        with pytest.raises(UnsupportedDocumentError, match="leads out"):
            run_virtual(self.reads(root / "leaves.txt", root))

    def test_a_large_file_is_refused_before_it_is_read(self, tmp_path: Path):
        # a gigabyte without a block on the disk
        with (tmp_path / "a.txt").open("wb") as file:
            file.truncate(2**30)
        with pytest.raises(DocumentTooLargeError, match=r"ReadLimits\.size") as caught:
            run_virtual(self.reads(tmp_path / "a.txt"))
        assert caught.value.limit == "size"

    def test_a_file_is_read_with_little_memory(self, tmp_path: Path):
        path = tmp_path / "a.txt"
        path.write_bytes(b"no line end " * 700_000)

        async def main() -> int:
            tracemalloc.start()
            try:
                return sum([len(each.text) async for each in self.reads(path)])
            finally:
                self.peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()

        assert run_virtual(main()) == path.stat().st_size
        assert self.peak < 3 * 2**20

    def test_more_text_than_allowed_ends_the_reading(self, tmp_path: Path):
        (tmp_path / "a.txt").write_text("x" * 200_000)
        seen: list[Section] = []

        async def main() -> None:
            async for each in self.reads(tmp_path / "a.txt", reader=TextReader(limits=ReadLimits(text=100_000))):
                seen.append(each)

        with pytest.raises(DocumentTooLargeError, match=r"ReadLimits\.text"):
            run_virtual(main())
        assert 0 < sum(len(each.text) for each in seen) <= 100_000

    def test_sections_are_read_on_demand_and_the_file_is_closed(self, tmp_path: Path):
        path = tmp_path / "a.txt"
        path.write_text("word " * 400_000)

        async def main() -> None:
            stream = self.reads(path).__aiter__()
            await stream.__anext__()
            (opened,) = [each for each in os.listdir("/proc/self/fd") if _target(each) == str(path)]
            assert _position(opened) < 500_000
            await stream.aclose()

        run_virtual(main())
        assert not [each for each in os.listdir("/proc/self/fd") if _target(each) == str(path)]


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def _position(descriptor: str) -> int:
    return int(Path(f"/proc/self/fdinfo/{descriptor}").read_text().split()[1])


@pytest.mark.parametrize("bad", [{"size": 0}, {"memory": 1}, {"seconds": float("nan")}, {"text": 1.5}, {"size": True}])
def test_limits_that_cannot_work_are_refused(bad: dict[str, int]):
    with pytest.raises(ConfigurationError, match="ReadLimits"):
        ReadLimits(**bad)
