"""`index`, `search`, and `--knowledge` of `ask`: what they print, remember and refuse; a bar at a terminal, Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentscope_rx.cli import knowledge_place
from agentscope_rx.cli.arguments import parser
from agentscope_rx.cli.completion import print_completion
from agentscope_rx.cli.index_view import BarView, LineView, QuietView, size, summary
from agentscope_rx.cli.main import main
from agentscope_rx.errors import DamagedDocumentError
from agentscope_rx.knowledge import IndexProgress
from agentscope_rx.models.embedding import EmbeddingModel
from agentscope_rx.testing import ScriptedModel, call
from tests.knowledge.indexing.parts import WordEmbedding

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory with a folder of documents; embedding models know words."""

    def counting(spec: str) -> EmbeddingModel:
        real(spec) if spec not in ("static", "multilingual") and not spec.startswith("openai:") else None
        return WordEmbedding(spec)

    real = knowledge_place.embedding_of
    monkeypatch.setattr(knowledge_place, "embedding_of", counting)
    docs = bare / "docs"
    docs.mkdir()
    (docs / "zoo.md").write_text("# Zoo\n\n## Prices\n\nA ticket costs 12 euros.\n")
    (docs / "train.md").write_text("# Train\n\nIt leaves at nine.\n")
    return bare


def indexed(capsys: Captured, *flags: str, status: int = 0) -> tuple[str, str]:
    assert main(["index", "docs", *flags]) == status
    return capsys.readouterr()


def test_index_prints_a_summary(capsys: Captured, folder: Path) -> None:
    out, err = indexed(capsys)
    assert out.startswith("2 documents: 2 indexed (2 chunks, 71 bytes) in ")
    assert out.endswith(", in docs/.agentscope/knowledge.db\n")
    assert err == 'agentscope-rx: ask with: agentscope-rx ask --knowledge docs "..."\n'
    (folder / "docs" / "train.md").unlink()
    assert indexed(capsys)[0].startswith("1 document: 1 unchanged, 1 removed in ")


def test_quiet_and_json(capsys: Captured, folder: Path) -> None:
    assert indexed(capsys, "-q") == ("", "")
    out, _ = indexed(capsys, "--json", "--rebuild")
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[-1]["phase"] == "done" and lines[-1]["done"] == 2 and lines[0]["phase"] == "looking"


def test_a_document_that_fails_is_named(capsys: Captured, folder: Path) -> None:
    (folder / "docs" / "bad\x1b.docx").write_bytes(b"no archive")
    (folder / "docs" / "empty.md").write_text("")
    out, err = indexed(capsys, status=1)
    assert "1 failed" in out
    assert "not indexed: bad\\x1b.docx: " in err and "1 document without text" in err


def test_a_folder_without_documents(capsys: Captured, folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "empty" / "a.bin").write_bytes(b"1")
    assert main(["index", "empty"]) == 2
    assert "empty has no document that can be read, but 1 file of other kinds." in capsys.readouterr().err
    assert [each.name for each in (folder / "empty").iterdir()] == ["a.bin"]
    assert main(["search", "empty", "x"]) == 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["index", "none"], "none: there is no such folder."),
        (["index", "docs/zoo.md"], "it is a file. Give the folder that holds it."),
        (["index", "docs", "--embedding", "fast"], "'fast' is no embedding model. Give static, multilingual,"),
        (["index", "docs", "--into", "ftp://x"], "'ftp://x' is no store."),
        (["index", "docs", "--into", "none/x.db"], "none: there is no such folder."),
        (["index", "docs", "--include", "../x"], "include: "),
        (["search", "docs", " "], "There is no question."),
        (["search", "none.db", "x"], "none.db has no index; there is no such file."),
        (["search", "docs", "x", "--no-index"], "index it with: agentscope-rx index docs"),
        (["ask", "--knowledge", "none", "x"], "none: there is no such folder."),
        (["ask", "--agent", "x:y", "--knowledge", "docs", "x"], "leave --knowledge out"),
    ],
)
def test_what_cannot_begin(capsys: Captured, arguments: list[str], named: str) -> None:
    assert main(arguments, model=ScriptedModel("Hi.")) == 2
    out, err = capsys.readouterr()
    assert named in err and out == "" and err.count("\n") == 1


@pytest.mark.parametrize("flag", ["--ignore", "--exclude"])
def test_flags_are_remembered(capsys: Captured, folder: Path, flag: str) -> None:
    indexed(capsys, "--embedding", "multilingual", "--include", "z*", flag, "drafts/")
    saved = json.loads((folder / "docs" / ".agentscope" / "knowledge.json").read_text())
    assert saved == {"embedding": "multilingual", "into": "", "include": ["z*"], "ignore": ["drafts/"]}
    assert indexed(capsys)[0].startswith("1 document: 1 unchanged")
    assert main(["search", "docs", "ticket"]) == 0
    assert capsys.readouterr().out.startswith("1. zoo.md, Zoo")


def test_settings_with_the_older_name_are_read(capsys: Captured, folder: Path) -> None:
    indexed(capsys)
    settings = {"embedding": "static", "into": "", "include": [], "exclude": ["zoo.md"]}
    (folder / "docs" / ".agentscope" / "knowledge.json").write_text(json.dumps(settings))
    assert indexed(capsys)[0].startswith("1 document: 1 unchanged, 1 removed")


def test_another_model_says_what_to_do(capsys: Captured, folder: Path) -> None:
    indexed(capsys)
    assert main(["index", "docs", "--embedding", "multilingual"]) == 2
    assert "or make it anew with: agentscope-rx index docs --rebuild" in capsys.readouterr().err
    # what was refused is not remembered
    assert indexed(capsys)[0].startswith("2 documents: 2 unchanged")
    indexed(capsys, "--embedding", "multilingual", "--rebuild")
    assert indexed(capsys)[0].startswith("2 documents: 2 unchanged")


def test_what_leaves_the_machine_is_named_each_time(capsys: Captured, folder: Path) -> None:
    # the folder, and with it what is remembered, may come from others
    indexed(capsys, "--embedding", "openai:small")
    for command in (["index", "docs"], ["search", "docs", "x"], ["ask", "--knowledge", "docs", "x"]):
        assert main(command, model=ScriptedModel("Hi.")) == 2
        assert "--embedding openai:small" in capsys.readouterr().err
    assert main(["search", "docs", "ticket", "--embedding", "openai:small"]) == 0
    settings = {"embedding": "static", "into": "http://elsewhere", "include": [], "exclude": []}
    (folder / "docs" / ".agentscope" / "knowledge.json").write_text(json.dumps(settings))
    for command in (["index", "docs"], ["search", "docs", "x"]):
        assert main(command) == 2
        assert "http://elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", '{"embedding": 1}', '{"embedding": "static", "into": "", "include": "x"}'])
def test_remembered_flags_that_are_damaged(capsys: Captured, folder: Path, text: str) -> None:
    indexed(capsys)
    (folder / "docs" / ".agentscope" / "knowledge.json").write_text(text)
    assert main(["index", "docs"]) == 2
    assert "knowledge.json" in capsys.readouterr().err


def test_an_index_elsewhere(capsys: Captured, folder: Path) -> None:
    out, err = indexed(capsys, "--into", "my.db")
    assert f"in {folder}/my.db" in out and "--knowledge" in err
    assert indexed(capsys, "--into", "my.db")[0].startswith("2 documents: 2 unchanged")
    # what is remembered may come from others: nothing is written elsewhere because of it
    assert main(["index", "docs"]) == 2
    assert f"add --into {folder}/my.db" in capsys.readouterr().err
    assert main(["search", "docs", "ticket"]) == 2
    assert "give that in place of the folder" in capsys.readouterr().err
    assert main(["search", "my.db", "ticket"]) == 0
    assert "zoo.md" in capsys.readouterr().out


@pytest.mark.parametrize("name", [".agentscope", "knowledge.json", "knowledge.db", "knowledge.db-wal"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_an_index_that_leads_elsewhere(capsys: Captured, folder: Path, name: str, kind: str) -> None:
    own = folder / "docs" / ".agentscope"
    path = own if name == own.name else own / name
    path.parent.mkdir(exist_ok=True)
    target = folder / "elsewhere"
    if kind == "link":
        target.mkdir() if path == own else target.write_text("theirs")
    if kind == "pipe" and path != own:
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    for command in (["index", "docs"], ["search", "docs", "ticket"]):
        assert main(command) == 2
        assert "kept in files of its own" in capsys.readouterr().err
    assert not target.is_file() or target.read_text() == "theirs"
    assert not target.is_dir() or not list(target.iterdir())


def test_search_prints_passages(capsys: Captured, folder: Path) -> None:
    assert main(["search", "docs", "ticket", "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert re.match(r"1\. zoo\.md, Zoo  \(\d\.\d\d\)\n   # Zoo ## Prices A ticket costs 12 euros\.\n", out)
    assert "docs: 2 documents: 2 indexed" in err
    assert main(["search", "docs", "ticket", "--json", "--by", "keyword"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[0]["document"] == "zoo.md" and found[0]["relevance"] > 0
    (folder / "docs" / "new.md").write_text("A penguin.")
    assert main(["search", "docs", "penguin", "--no-index", "--by", "keyword"]) == 0
    assert capsys.readouterr() == ("", "agentscope-rx: nothing was found\n")
    assert main(["search", "docs", "penguin", "--full"]) == 0
    assert capsys.readouterr().out.startswith("1. new.md")


def test_follow_until_ctrl_c(capsys: Captured, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: LineView, progress: IndexProgress) -> IndexProgress:
        if progress.phase == "watching":
            raise KeyboardInterrupt
        return progress

    monkeypatch.setattr(LineView, "show", interrupted)
    assert main(["index", "docs", "--watch"]) == 130
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("agentscope-rx: following docs; Ctrl-C ends it\n")


def test_ctrl_c_says_how_to_go_on(capsys: Captured, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: LineView, progress: IndexProgress) -> IndexProgress:
        raise KeyboardInterrupt

    monkeypatch.setattr(LineView, "show", interrupted)
    assert main(["index", "docs"]) == 130
    assert "the same command goes on with the rest" in capsys.readouterr().err


def test_lines_elsewhere_than_at_a_terminal(capsys: Captured) -> None:
    view = LineView(summaries=True)
    for elapsed in (0.0, 4.0, 6.0, 7.0, 12.0):
        view.show(
            IndexProgress(phase="indexing", found=9, done=3, elapsed=elapsed, rate=2e6, time_left=150, current="a")
        )
    view.show(IndexProgress(phase="watching", found=9, done=9, elapsed=13))
    assert capsys.readouterr().err.splitlines() == [
        "agentscope-rx: indexing: 3 of 9 documents, 2.0 MB/s, 2 min 30 s left, a",
        "agentscope-rx: indexing: 3 of 9 documents, 2.0 MB/s, 2 min 30 s left, a",
        "agentscope-rx: 9 documents: 9 indexed (0 chunks, 0 bytes) in 13.0 s",
    ]


def test_a_followed_folder_names_what_fails_once(capsys: Captured) -> None:
    error = DamagedDocumentError("a.pdf", "it is damaged")
    failed = IndexProgress(phase="watching", found=1, failed=1, errors=(error,))
    named = "agentscope-rx: not indexed: a.pdf: it is damaged"
    for view, lines in ((LineView(summaries=True), 3), (QuietView(summaries=True), 1)):
        for progress in (failed, failed, IndexProgress(phase="watching", found=1, done=1)):
            view.show(progress)
        told = capsys.readouterr().err.splitlines()
        assert told.count(named) == 1 and len(told) == lines


@pytest.mark.parametrize("content", [b"no database", b""])
def test_a_damaged_index_is_made_anew(capsys: Captured, folder: Path, content: bytes) -> None:
    indexed(capsys, "-q")
    file = folder / "docs" / ".agentscope" / "knowledge.db"
    file.write_bytes(content)
    if content:
        _, err = indexed(capsys, status=2)
        assert "Make it anew with: agentscope-rx index docs --rebuild" in err and "--embedding" not in err
    assert "2 indexed" in indexed(capsys, "--rebuild")[0]


def test_an_index_of_another_program_is_left_alone(capsys: Captured, folder: Path) -> None:
    with closing(sqlite3.connect("chat.db")) as connection:
        connection.execute("CREATE TABLE chats (x)")
    before = (folder / "chat.db").read_bytes()
    model = ScriptedModel("no")
    for command in (["search", "chat.db", "x"], ["ask", "--knowledge", "chat.db", "x"]):
        assert main(command, model=model) == 2
        assert "chat.db has no indexed documents. Index a folder with: " in capsys.readouterr().err
    assert (folder / "chat.db").read_bytes() == before


def test_an_index_is_checked_before_the_question(capsys: Captured, folder: Path) -> None:
    indexed(capsys, "-q", "--into", "my.db", "--embedding", "multilingual")
    assert main(["ask", "--knowledge", "my.db", "x"], model=ScriptedModel("no")) == 2
    err = capsys.readouterr().err
    assert "by --embedding (static, multilingual, " in err and "--rebuild" not in err and "Traceback" not in err
    assert main(["index", "docs", "--into", "docs"]) == 2
    assert "it is a folder. Give a file, such as " in capsys.readouterr().err


def test_files_of_other_kinds_are_counted(capsys: Captured, folder: Path) -> None:
    (folder / "docs" / "map.png").write_bytes(b"png")
    assert "; 1 file of other kinds left out) in " in indexed(capsys)[0]


def test_a_bar_at_a_terminal(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    view = BarView(summaries=False)
    view.show(IndexProgress(phase="looking", found=4))
    view.show(
        IndexProgress(phase="indexing", found=4, done=2, bytes_done=50, bytes_total=100, rate=10, current="[b]x.md")
    )
    view._progress.refresh()
    view.end()
    shown = capsys.readouterr().err
    assert "50%" in shown and "2 of 4 documents" in shown and "[b]x.md" in shown


def test_words() -> None:
    assert [size(value) for value in (0, 999, 1000, 1.5e6, 2e9, 3e12)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "1.5 MB",
        "2.0 GB",
        "3000.0 GB",
    ]
    report = IndexProgress(found=3, failed=1, errors=(DamagedDocumentError("a", "x"),))
    assert summary(report) == "3 documents: 1 failed in 0.0 s"
    assert summary(IndexProgress()) == "0 documents: nothing to do in 0.0 s"


def test_folders_complete_as_folders(capsys: Captured) -> None:
    pytest.importorskip("shtab")
    assert print_completion("bash") == 0
    assert "knowledge" in capsys.readouterr().out
    assert parser().parse_args(["index", "x", "--watch"]).watch


def test_missing_packages_are_named(capsys: Captured, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    assert main(["index", "docs", "--watch", "-q"]) == 2
    assert "agentscope-rx[knowledge]" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--knowledge-mode", "agentic"]])
def test_ask_answers_from_the_documents(capsys: Captured, folder: Path, flags: list[str]) -> None:
    search = call("retrieve_knowledge", query="ticket price")
    model = ScriptedModel(*([search] if flags else []), "It costs 12 euros [1].")
    assert main(["ask", "--knowledge", "docs", *flags, "What does a ticket cost?"], model=model) == 0
    out, err = capsys.readouterr()
    assert "It costs 12 euros [1]." in out
    assert re.search(r"\[1\] zoo\.md, Zoo  \(\d\.\d\d\)\n", out)
    assert "docs: 2 documents: 2 indexed" in err
    assert "A ticket costs 12 euros." in str(list(model.requests[-1].messages))


def test_ask_prints_no_sources_with_quiet_or_json(capsys: Captured, folder: Path) -> None:
    model = ScriptedModel("It costs 12 euros [1].")
    assert main(["ask", "-q", "--knowledge", "docs", "What does a ticket cost?"], model=model) == 0
    assert capsys.readouterr() == ("It costs 12 euros [1].\n", "")
    model = ScriptedModel("It costs 12 euros [1].")
    assert main(["ask", "--json", "--knowledge", "docs", "What does a ticket cost?"], model=model) == 0
    events = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert "retrieval" in events and "citation" in events


def test_chat_with_several_folders_as_they_are(capsys: Captured, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "cat.md").write_text("# Cats\n\nCats eat fish.\n")
    for name in ("docs", "more"):
        assert main(["index", name, "-q"]) == 0
    (folder / "more" / "new.md").write_text("Not indexed.")
    monkeypatch.setattr(sys, "stdin", io.StringIO("What do cats eat?\nAnd a ticket?\n"))
    model = ScriptedModel("Fish.", "12 euros.")
    flags = ["--knowledge", "docs", "--knowledge", "more", "--no-index"]
    assert main(["chat", *flags], model=model) == 0
    assert "Cats eat fish." in str(list(model.requests[0].messages))
    assert all("Not indexed." not in str(list(each.messages)) for each in model.requests)


def test_passwords_are_not_kept_or_shown(folder: Path) -> None:
    url = "postgresql://me:secret@host/db"
    knowledge_place.Settings(into=url).save(folder / "docs")
    saved = (folder / "docs" / ".agentscope" / "knowledge.json").read_text()
    assert "secret" not in saved and knowledge_place.Settings.of(folder / "docs").into == "postgresql://host/db"
    assert knowledge_place.IndexPlace.of(url).shown == "postgresql://host/db"


def test_a_folder_that_cannot_be_written_to(capsys: Captured, folder: Path) -> None:
    (folder / "docs" / ".agentscope").write_text("a file in its place")
    assert main(["index", "docs"]) == 2
    assert "Keep the index elsewhere with --into FILE." in capsys.readouterr().err
    out, err = indexed(capsys, "--into", "my.db")
    assert "2 indexed" in out and "the flags are not remembered: " in err
