"""`SqliteLongTermMemory` without a model: what it finds, whose it is, what it knows already, and the file."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import ExecutionConfig, Msg, RuntimeContext, TextBlock, ToolResultBlock
from agentscope_rx.errors import (
    AgentScopeError,
    ConfigurationError,
    InvalidInputError,
    LongTermMemoryFormatError,
    LongTermMemoryStorageError,
    ModelConnectionError,
)
from agentscope_rx.long_term_memory import MemoryScope, NoteSource, SqliteLongTermMemory, StaticLongTermMemory
from agentscope_rx.messages.terms import gist, index_terms, match_of, normalized
from agentscope_rx.models.embedding import EmbeddingModel, Embeddings
from agentscope_rx.reactive import Flow, defer, just, throw
from agentscope_rx.testing import ScriptedModel, collect_dropped
from tests.long_term_memory.parts import agent, notes_in

ANN, BOB = MemoryScope(user="ann"), MemoryScope(user="bob")


def kept(ltm: SqliteLongTermMemory, *texts: str, scope: MemoryScope = ANN, at: int = 1) -> None:
    source = NoteSource(at=datetime(2026, 1, at, tzinfo=UTC))
    ltm.record([Msg.user(text) for text in texts], scope=scope, source=source).run()


def found(ltm: SqliteLongTermMemory, query: str, scope: MemoryScope = ANN, limit: int = 5) -> list[str]:
    return [note.text for note in ltm.retrieve(query, limit, scope=scope).run()]


def texts(ltm: SqliteLongTermMemory, scope: MemoryScope = ANN, **options: Any) -> list[str]:
    return [fact.text for fact in ltm.facts(scope, **options).run()]


@pytest.fixture
def ltm(tmp_path: Path) -> SqliteLongTermMemory:
    return SqliteLongTermMemory(tmp_path / "notes.db")


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我喜欢喝咖啡，住在上海", "咖啡"),
        ("我喜欢喝咖啡，住在上海", "你知道我喜欢喝什么吗？"),
        ("我喜欢喝咖啡，住在上海", "海"),
        ("コーヒーが好きです", "コーヒー"),
        ("ผมชอบกาแฟ", "กาแฟ"),
        ("Her café is in Zürich", "cafe zurich"),
        ("She runs marathons", "running a marathon"),
        ("I use Python3 and C++", "python3"),
        ("Ｆｕｌｌｗｉｄｔｈ text", "fullwidth"),
        ("GPT咖啡机 works", "咖啡机"),
        ("meet at 10:30 on 2026-05-01", "2026-05-01"),
    ],
)
def test_words_of_many_scripts_are_found(ltm: SqliteLongTermMemory, text: str, query: str):
    kept(ltm, "something else entirely", text, "北京今天下雨")
    assert found(ltm, query)[0] == text


def test_a_question_finds_the_fact_and_not_its_small_words(ltm: SqliteLongTermMemory):
    kept(ltm, "What is the time?", "The name of my dog is Rex.", "I am in the garden.")
    assert found(ltm, "What is the name of my dog?") == ["The name of my dog is Rex."]
    # of small words alone, these count
    assert found(ltm, "what is it?") != []


def test_the_file_is_the_same_from_any_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    ltm = SqliteLongTermMemory("notes.db")
    kept(ltm, "Ann lives in Rome.")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert texts(ltm) == texts(SqliteLongTermMemory("~/notes.db")) == ["Ann lives in Rome."]
    assert list((tmp_path / "other").iterdir()) == []


def test_equal_matches_come_newest_first(ltm: SqliteLongTermMemory):
    for day in (3, 1, 2):
        kept(ltm, f"tea on day {day}", at=day)
    assert found(ltm, "tea") == ["tea on day 3", "tea on day 2", "tea on day 1"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_a_query_and_finds_itself(text: str, query: str):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'porter unicode61 remove_diacritics 2')")
        connection.execute("INSERT INTO t VALUES (?)", (index_terms(text),))
        for asked in (query, text):
            if match := match_of(asked):
                hits = connection.execute("SELECT count(*) FROM t WHERE t MATCH ?", (match,)).fetchone()[0]
                assert asked != text or hits or not any(c.isascii() and c.isalnum() for c in text)


@given(st.text(max_size=60))
def test_case_and_space_make_no_other_fact(text: str):
    assert normalized(f"  {text}\n") == normalized(text) == normalized(text.replace(" ", "  "))
    assert gist(f"tea {text}") == gist(f"The tea {text}.")


def test_long_messages_become_several_notes(ltm: SqliteLongTermMemory):
    kept(ltm, "A sentence about tea. " * 200 + "x" * 3000)
    assert all(len(text) <= 1000 for text in texts(ltm)) and len(texts(ltm)) >= 4


def test_results_of_tools_can_be_notes(ltm: SqliteLongTermMemory):
    result = Msg.tool(ToolResultBlock("c1", "weather", (TextBlock("sunny in Oslo"),)))
    ltm.record([Msg.user("how is it?"), result], scope=ANN).run()
    assert texts(ltm) == ["how is it?", "sunny in Oslo"]


# --- scopes -----------------------------------------------------------------------------------------------------------


def test_the_default_scope_fills_what_a_call_lacks(tmp_path: Path):
    ltm = SqliteLongTermMemory(tmp_path / "notes.db", scope=ANN)
    ltm.record([Msg.user("tea")]).run()
    ltm.record([Msg.user("coffee")], scope=MemoryScope(agent="friday")).run()
    assert texts(ltm) == ["tea"] and texts(ltm, MemoryScope(agent="friday")) == ["tea", "coffee"]
    assert found(ltm, "tea", BOB) == []


def test_no_user_sees_another_ones_facts(ltm: SqliteLongTermMemory):
    kept(ltm, "Ann's code is 1234", scope=ANN)
    kept(ltm, "code of no user", scope=MemoryScope())
    kept(ltm, "Bob's code is 9", scope=BOB)
    for scope, mine in ((ANN, "Ann's code is 1234"), (BOB, "Bob's code is 9"), (MemoryScope(), "code of no user")):
        assert found(ltm, "code", scope) == texts(ltm, scope) == [mine]
    for name in ("ANN", "ann ", "a", "%", "ann' OR 1=1 --"):
        assert found(ltm, "code", MemoryScope(user=name)) == []


@pytest.mark.parametrize("name", ["", " ", 7, "x" * 513, "\ud800"])
def test_a_scope_needs_names(name: Any):
    with pytest.raises(InvalidInputError, match=r"MemoryScope\(user="):
        MemoryScope(user=name)


# --- what is known already --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["I like tea.", "i  LIKE tea", "I like the tea!", "Ｉ like tea", "I really like tea"])
def test_what_is_known_is_not_stored_twice(ltm: SqliteLongTermMemory, again: str):
    kept(ltm, "I like tea.", at=1)
    kept(ltm, again, at=2)
    (fact,) = ltm.facts(ANN).run()
    assert fact.text == "I like tea." and (fact.updated.day, fact.confirmed.day) == (1, 2)


@pytest.mark.parametrize("other", ["I do not like tea.", "You like tea", "I like 3 tea", "I liked tea", "tea like I"])
def test_what_differs_is_kept(ltm: SqliteLongTermMemory, other: str):
    kept(ltm, "I like tea.", other)
    assert texts(ltm) == ["I like tea.", other]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like C++.", "I like C#."),
        ("It is -5 degrees.", "It is 5 degrees."),
        ("It costs $5", "It costs €5"),
        ("It is 1.5 m", "It is 1 5 m"),
        ("Ann is married?", "Ann is married."),
        ("🎉", "👍"),
        ("ฉันชอบเสือ", "ฉันชอบเสื้อ"),  # a tiger, a shirt: one mark
        ("मुझे काम चाहिए", "मुझे कम चाहिए"),  # work, less: one vowel sign
        ("x" * 70 + "a", "x" * 70 + "b"),
    ],
)
def test_a_sign_that_means_something_makes_another_fact(ltm: SqliteLongTermMemory, one: str, other: str):
    kept(ltm, one, other)
    assert texts(ltm) == [one, other]


def test_hindi_words_are_found_whole(ltm: SqliteLongTermMemory):
    kept(ltm, "मेरी माँ पुणे में रहती है", "मुझे काम चाहिए", "मेरा नाम कमल है")
    assert found(ltm, "काम", limit=1) == ["मुझे काम चाहिए"]
    assert found(ltm, "पुणे में", limit=1) == ["मेरी माँ पुणे में रहती है"]


def test_another_scope_has_its_own_copy(ltm: SqliteLongTermMemory):
    kept(ltm, "tea")
    kept(ltm, "tea", scope=MemoryScope(user="ann", session="s1"))
    kept(ltm, "tea", scope=BOB)
    assert len(ltm.facts(MemoryScope(user="ann", session="s1")).run()) == 2


# --- managing ---------------------------------------------------------------------------------------------------------


def test_each_fact_has_its_source(ltm: SqliteLongTermMemory):
    source = NoteSource(
        session_key="chat", run_id="r1", message_ids=("m1", "m2"), agent="Friday", at=datetime(2026, 2, 3, tzinfo=UTC)
    )
    ltm.record([tea := Msg.user("tea")], scope=ANN, source=source).run()
    (fact,) = ltm.facts(ANN).run()
    (note,) = ltm.retrieve("tea", scope=ANN).run()
    # (a note is of one message)
    assert (fact.source.session_key, fact.source.run_id, fact.source.agent) == ("chat", "r1", "Friday")
    assert fact.source.at == source.at and fact.source.message_ids == (tea.id,)
    assert fact.source == note.source and note.id == fact.id and note.scope == ANN
    ltm.record([message := Msg.user("coffee")], scope=ANN).run()
    assert ltm.facts(ANN).run()[1].source.message_ids == (message.id,)


def test_forgotten_facts_leave_no_trace(ltm: SqliteLongTermMemory):
    kept(ltm, "my code is xyzzy", "tea", "xyzzy again")
    first, _, third = ltm.facts(ANN).run()
    assert ltm.forget(first.id).run() is True and ltm.forget(first.id).run() is False
    assert ltm.forget(third.id).run() is True
    assert texts(ltm, history=True) == ["tea"] and found(ltm, "xyzzy") == []
    assert b"xyzzy" not in Path(ltm.path).read_bytes()


def test_forgotten_facts_leave_no_trace_in_a_shared_file(ltm: SqliteLongTermMemory):
    # a session in the same file keeps it in WAL mode, and open
    with closing(sqlite3.connect(ltm.path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE others (x)")
        other.commit()
        kept(ltm, "my code is xyzzy", "tea")
        assert other.execute("SELECT count(*) FROM ltm_facts").fetchone() == (2,)
        assert ltm.forget(ltm.facts(ANN).run()[0].id).run() is True
        for name in os.listdir(os.path.dirname(ltm.path)):
            assert b"xyzzy" not in Path(ltm.path).with_name(name).read_bytes(), name
    assert texts(ltm) == ["tea"]


def test_a_cleared_user_leaves_no_name(ltm: SqliteLongTermMemory):
    mary = MemoryScope(user="mary-poppins")
    kept(ltm, "tea", scope=mary)
    assert ltm.clear(mary).run() == 1
    assert b"mary-poppins" not in Path(ltm.path).read_bytes()


def test_clear_erases_a_user_or_a_part_of_it(ltm: SqliteLongTermMemory):
    session = MemoryScope(user="ann", session="s1")
    kept(ltm, "a", "b")
    kept(ltm, "c", scope=session)
    kept(ltm, "d", scope=BOB)
    assert ltm.clear(session).run() == 1 and texts(ltm, session) == ["a", "b"]
    assert ltm.clear(ANN).run() == 2 and texts(ltm) == [] and texts(ltm, BOB) == ["d"]
    assert ltm.clear(ANN).run() == 0


def test_the_export_is_plain_json(ltm: SqliteLongTermMemory):
    import json

    kept(ltm, "tea")
    (fact,) = json.loads(json.dumps(ltm.export(ANN).run()))
    assert fact["text"] == "tea" and fact["scope"] == {"user": "ann", "agent": None, "session": None}
    assert fact["created"] == "2026-01-01T00:00:00+00:00" and fact["version"] == 1


# --- meaning ----------------------------------------------------------------------------------------------------------


class Topics(EmbeddingModel):
    """Two topics: drinks and pets; `broken` makes it fail."""

    def __init__(self) -> None:
        super().__init__("topics", execution_config=ExecutionConfig(max_attempts=1))
        self.broken = False
        self.embedded: list[str] = []

    def do_embed(self, batch: Sequence[Any]) -> Flow[Embeddings]:
        def embed() -> Flow[Embeddings]:
            if self.broken:
                return throw(ModelConnectionError("no network"))
            self.embedded += batch
            return just(Embeddings(tuple(self._vector(str(text).lower()) for text in batch)))

        return defer(embed)

    def _vector(self, text: str) -> tuple[float, ...]:
        drinks, pets = ("tea", "coffee", "beverage"), ("dog", "cat", "animal")
        return (float(any(w in text for w in drinks)), float(any(w in text for w in pets)), 0.1)


def test_meaning_finds_what_words_do_not(tmp_path: Path):
    topics = Topics()
    ltm = SqliteLongTermMemory(tmp_path / "notes.db", embedding_model=topics)
    kept(ltm, "I like tea.", "Rex is my dog.", "I live in Rome.")
    assert found(ltm, "favourite beverage") == ["I like tea."]
    # words and meaning together come first
    kept(ltm, "A coffee a day.")
    assert found(ltm, "which beverage, coffee?")[0] == "A coffee a day."
    assert found(ltm, "Rome") == ["I live in Rome."]


def test_a_search_is_embedded_as_a_query_and_facts_are_not(tmp_path: Path):
    class Roles(Topics):
        asked: tuple[str, ...] = ()

        def do_embed_queries(self, batch: Sequence[Any]) -> Flow[Embeddings]:
            self.asked += tuple(batch)
            return just(Embeddings(tuple(self._vector(str(text).lower()) for text in batch)))

    roles = Roles()
    ltm = SqliteLongTermMemory(tmp_path / "notes.db", embedding_model=roles)
    kept(ltm, "I like tea.")
    assert found(ltm, "favourite beverage") == ["I like tea."]
    assert (roles.asked, roles.embedded) == (("favourite beverage",), ["I like tea."])


def test_a_failing_embedding_model_loses_nothing(tmp_path: Path):
    topics, heard = Topics(), list[Exception]()
    ltm = SqliteLongTermMemory(tmp_path / "notes.db", embedding_model=topics, on_error=heard.append)
    topics.broken = True
    kept(ltm, "I like tea.")
    assert len(heard) == 1 and texts(ltm) == ["I like tea."]
    # a search that cannot be made is an error, and no empty answer
    with pytest.raises(ModelConnectionError):
        found(ltm, "beverage")
    topics.broken = False
    kept(ltm, "Rex is my dog.")
    assert found(ltm, "beverage") == ["I like tea."]


def test_another_embedding_model_embeds_anew(tmp_path: Path):
    path = tmp_path / "notes.db"
    kept(SqliteLongTermMemory(path), "I like tea.")
    topics = Topics()
    kept(SqliteLongTermMemory(path, embedding_model=topics), "Rex is my dog.")
    assert sorted(topics.embedded) == ["I like tea.", "Rex is my dog."]


def test_vectors_of_other_dimensions_are_like_nothing(tmp_path: Path):
    class Longer(Topics):
        def _vector(self, text: str) -> tuple[float, ...]:
            return (*super()._vector(text), 1.0)

    path = tmp_path / "notes.db"
    kept(SqliteLongTermMemory(path, embedding_model=Topics()), "I like tea.")
    # the same name, and other vectors: even the least likeness does not find them
    changed = SqliteLongTermMemory(path, embedding_model=Longer(), min_similarity=-1)
    assert found(changed, "beverage") == [] and found(changed, "tea") == ["I like tea."]


def test_many_vectors_give_the_same_with_and_without_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from agentscope_rx.long_term_memory.sqlite import search

    ltm = SqliteLongTermMemory(tmp_path / "notes.db", embedding_model=Topics())
    kept(ltm, *[f"{'tea' if n % 3 else 'dog'} number {n}" for n in range(100)])
    first = found(ltm, "beverage", limit=50)
    monkeypatch.setattr(search, "_numpy", lambda: None)
    assert found(ltm, "beverage", limit=50) == first and len(first) == 50


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", ":memory:", "file:x?mode=memory", 7])
def test_a_path_of_no_file_is_refused(path: Any):
    with pytest.raises((ConfigurationError, TypeError)):
        SqliteLongTermMemory(path)


def test_a_file_of_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "notes.db"
    path.write_text("these are no tables, but a text of many words " * 50)
    with pytest.raises(LongTermMemoryFormatError, match="not a database"):
        kept(SqliteLongTermMemory(path), "tea")
    assert path.read_text().startswith("these are no tables")


def test_a_newer_file_is_refused(tmp_path: Path):
    ltm = SqliteLongTermMemory(tmp_path / "notes.db")
    kept(ltm, "tea")
    connection = sqlite3.connect(ltm.path)
    connection.execute("UPDATE ltm_format SET version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(LongTermMemoryFormatError, match="format 99"):
        found(ltm, "tea")


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path: Path):
    with pytest.raises(LongTermMemoryStorageError, match="unable to open") as caught:
        kept(SqliteLongTermMemory(tmp_path / "no" / "notes.db"), "tea")
    assert not caught.value.retryable and isinstance(caught.value.__cause__, sqlite3.Error)


def test_a_locked_file_is_a_retryable_error(tmp_path: Path):
    ltm = SqliteLongTermMemory(tmp_path / "notes.db", busy_seconds=0)
    kept(ltm, "tea")
    other = sqlite3.connect(ltm.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LongTermMemoryStorageError, match="another process has been writing") as caught:
        kept(ltm, "coffee")
    assert caught.value.retryable
    other.rollback()
    other.close()
    kept(ltm, "coffee")
    assert texts(ltm) == ["tea", "coffee"]


def test_a_failed_record_stores_nothing(ltm: SqliteLongTermMemory, monkeypatch: pytest.MonkeyPatch):
    from agentscope_rx.long_term_memory.sqlite import store

    kept(ltm, "tea")
    add, calls = store.add, list[str]()

    def fails_at_the_third(connection: Any, entry: Any, scope: Any, after: Any = None) -> str:
        calls.append(entry.text)
        if len(calls) == 3:
            raise sqlite3.OperationalError("database or disk is full")
        return add(connection, entry, scope, after)

    monkeypatch.setattr(store, "add", fails_at_the_third)
    with pytest.raises(LongTermMemoryStorageError, match="disk is full"):
        kept(ltm, "a", "b", "c")
    assert texts(ltm) == ["tea"] and found(ltm, "a") == []


def test_the_file_may_hold_other_tables(tmp_path: Path):
    path = tmp_path / "app.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    ltm = SqliteLongTermMemory(path)
    kept(ltm, "tea")
    assert found(ltm, "tea") == ["tea"]


def _writes(path: str, name: str, barrier: Any) -> None:
    ltm = SqliteLongTermMemory(path)
    barrier.wait(30)
    for number in range(20):
        kept(ltm, f"{name} says {number}", f"both know {number}")


def test_two_processes_record_at_once(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    path, barrier = os.fspath(tmp_path / "notes.db"), context.Barrier(2)
    processes = [context.Process(target=_writes, args=(path, name, barrier)) for name in ("ann", "bob")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    found = texts(SqliteLongTermMemory(path))
    assert len(found) == len(set(found)) == 60


def _writes_until_killed(path: str, pipe: Any) -> None:
    ltm = SqliteLongTermMemory(path)
    for number in range(10_000):
        kept(ltm, f"fact{number} first", f"fact{number} second")
        pipe.send(number)


def test_a_killed_process_leaves_whole_records(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    path = os.fspath(tmp_path / "notes.db")
    here, there = context.Pipe()
    process = context.Process(target=_writes_until_killed, args=(path, there))
    process.start()
    assert here.poll(60)
    while here.recv() < 20:
        pass
    process.kill()
    process.join(60)
    here.close()
    there.close()
    ltm = SqliteLongTermMemory(path)
    found = texts(ltm)
    # both notes of a record or none, and each is in the index
    assert len(found) >= 42 and [text.split()[1] for text in found] == ["first", "second"] * (len(found) // 2)
    last = found[-1].split()[0]
    assert len(ltm.retrieve(last, scope=ANN).run()) == 2
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        words = connection.execute("SELECT count(*) FROM ltm_words").fetchone()[0]
    assert words == len(found)


def test_an_agent_remembers_across_conversations(tmp_path: Path):
    async def main() -> None:
        path = tmp_path / "notes.db"
        first = agent(ScriptedModel("Nice."), hooks=[StaticLongTermMemory(SqliteLongTermMemory(path))])
        await first.call("My dog is called Rex.", context=RuntimeContext(user_id="ann"))
        model = ScriptedModel("Rex.", "I do not know.")
        second = agent(model, hooks=[StaticLongTermMemory(SqliteLongTermMemory(path), record="off")])
        await second.call("What is my dog called?", context=RuntimeContext(user_id="ann"))
        await second.call("What is my dog called?", context=RuntimeContext(user_id="bob"))
        assert "My dog is called Rex." in notes_in(model, 0)[0] and notes_in(model, 1) == []

    asyncio.run(main())


def test_an_on_error_that_fails_is_reported(tmp_path: Path):
    def deaf(error: Exception) -> None:
        raise ValueError("deaf")

    topics = Topics()
    topics.broken = True
    ltm = SqliteLongTermMemory(tmp_path / "notes.db", embedding_model=topics, on_error=deaf)
    with collect_dropped() as dropped:
        kept(ltm, "tea")
    assert len(dropped.as_lines()) == 2 and texts(ltm) == ["tea"]
    assert issubclass(LongTermMemoryStorageError, AgentScopeError)


def test_a_new_file_is_its_owners_only(tmp_path: Path):
    (tmp_path / "shared.db").touch(0o644)
    for name in ("notes.db", "shared.db"):
        SqliteLongTermMemory(tmp_path / name).record([Msg.user("I live in Oslo.")]).run()
    if os.name == "posix":
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert modes == {"notes.db": 0o600, "shared.db": 0o644}
