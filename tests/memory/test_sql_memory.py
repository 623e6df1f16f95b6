"""`SqlMemory`: a conversation in a real database, of which a run reads what it needs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event

from agentscope_rx import InMemoryMemory, Memory, Msg, ReActAgent, TextBlock
from agentscope_rx.errors import ConfigurationError, InvalidInputError, MemoryConflictError, SessionError
from agentscope_rx.memory import TokenWindow, sent
from agentscope_rx.memory.sql import SqlMemory
from agentscope_rx.memory.sql.rows import Rows
from agentscope_rx.memory.sql.tables import MemoryDatabase
from agentscope_rx.memory.views import without_dropped
from agentscope_rx.messages import COMPRESSED, HIDDEN, TRANSIENT, ToolResultBlock, ToolUseBlock, open_calls
from agentscope_rx.models.tokens import TextCounter
from agentscope_rx.reactive import Flow
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import check_memory
from agentscope_rx.testing.scripted_model import ScriptedModel
from tests.memory.histories import histories, ids, marked_histories
from tests.memory.test_marks import called, result, whole
from tests.support.servers import Server, postgres_url


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


class Counted:
    """What was sent to databases, and what came back."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.rows = 0

    def clear(self) -> None:
        self.statements.clear()
        self.rows = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    counts = Counted()
    read = Rows._message

    def message(self: Rows, body: bytes) -> Msg:
        counts.rows += 1
        return read(self, body)

    def statement(connection, cursor, statement, *rest) -> None:
        counts.statements.append(statement.split()[0])

    monkeypatch.setattr(Rows, "_message", message)
    event.listen(Engine, "before_cursor_execute", statement)
    yield counts
    event.remove(Engine, "before_cursor_execute", statement)


def turns(number: int, start: int = 0) -> list[Msg]:
    pairs = range(start, start + number)
    return [each for n in pairs for each in (Msg.user(f"question {n}"), Msg.assistant(f"answer {n}", "Friday"))]


def texts(memory: SqlMemory) -> list[str]:
    return [message.text for message in memory.get().run()]


def test_all_laws_of_memories_hold_on_sqlite(url: str):
    numbers = count()
    report = check_memory(lambda: SqlMemory(url, f"key {next(numbers)}"), name="SqlMemory", real_time=True)
    assert {"order", "atomic", "threads", "marks", "compressed", "disposal", "add 3.13"} <= set(report.checked)


def test_all_laws_of_memories_hold_on_postgresql(postgres: Server):
    url, numbers = postgres_url(postgres), count()
    check_memory(lambda: SqlMemory(url, f"key {next(numbers)}"), name="SqlMemory", real_time=True)


def test_another_process_finds_the_conversation(url: str):
    messages = [Msg.user("hi").marked("m"), called("1"), result("1"), Msg.user("look \ud83d\ude00 \x00")]
    SqlMemory(url, "ann \x00 Ä").add(messages).run()
    other = SqlMemory(url, "ann \x00 Ä")
    assert other.get().run() == messages and other.count().run() == 4
    assert SqlMemory(url, "ANN").get().run() == []


def test_turn_10001_reads_the_window_and_nothing_it_has_written(url: str, counted: Counted):
    SqlMemory(url, "ann").add(turns(10_000)).run()
    memory = SqlMemory(url, "ann", window=50)
    friday = ReActAgent("Friday", ScriptedModel("hello", "again"), memory=memory)
    counted.clear()
    assert friday.call("question").run().text == "hello"
    assert counted.rows == 50
    assert counted.statements.count("SELECT") <= 5, "the tables, the conversation, its messages"
    counted.clear()
    friday.call("more").run()
    assert counted.rows == 0 and "SELECT" not in counted.statements
    assert counted.statements == ["UPDATE", "INSERT"] * 2, "the question and the answer"
    assert memory.count().run() == 20_004
    assert 52 <= len(memory.get().run()) <= 100


def test_what_a_turn_writes_is_the_same_at_any_length(url: str, counted: Counted):
    found = []
    for length in (10, 2_000):
        memory = SqlMemory(url, f"{length}", window=50)
        memory.add(turns(length)).run()
        counted.clear()
        for number in range(100):
            memory.add(turns(1, number)).run()
        found.append((counted.rows, len(counted.statements)))
    assert found[0] == found[1] == (0, 200)


def test_the_whole_is_read_in_pages_as_it_is_needed(url: str, counted: Counted):
    memory = SqlMemory(url, "ann", window=20)
    memory.add(turns(500)).run()
    counted.clear()

    async def first_ten() -> list[str]:
        found: list[str] = []
        messages = aiter(memory.read())
        while len(found) < 10:
            found.append((await anext(messages)).text)
        await messages.aclose()
        return found

    assert asyncio.run(first_ten())[0] == "question 0"
    assert counted.rows <= 300, "not the 1,000 that there are"
    assert [each.text for each in memory.read().to_list().run()] == [each.text for each in turns(500)]


def test_marks_are_searched_for_in_the_whole(url: str):
    memory = SqlMemory(url, "ann", window=10)
    old = turns(100)
    memory.add(old[:1], marks=["first"]).run()
    memory.add(old[1:]).run()
    assert ids(memory.get_memory("first").run()) == [old[0].id]
    assert memory.update_messages_mark("seen", msg_ids=[old[3].id, old[-1].id]).run() == 2
    assert ids(memory.get_memory("seen").run()) == [old[3].id, old[-1].id]
    assert len(memory.get_memory(exclude_mark="seen").run()) == 198
    assert memory.update_messages_mark(None, "seen").run() == 2
    assert memory.delete_by_mark("first").run() == 1
    assert memory.count().run() == 199 and SqlMemory(url, "ann").count().run() == 199


def test_a_summary_far_back_is_sent_and_its_messages_are_kept(url: str):
    memory = SqlMemory(url, "ann", window=10)
    messages = turns(100)
    memory.add(messages).run()
    assert memory.compress(ids(messages[:150]), "the past").run() == 150
    for each in (memory, SqlMemory(url, "ann", window=10)):
        assert each.compressed_summary().run() == "the past"
        assert sent(each.get().run())[0].text == "the past" and len(sent(each.get().run())) <= 21
        assert each.count().run() == 200
    again = SqlMemory(url, "ann", window=10)
    assert again.compress(ids(messages[150:152]), "more of it").run() == 2
    assert again.compressed_summary().run() == "more of it"
    assert again.delete([messages[151].id]).run() == 1, "it carried the summary"
    assert SqlMemory(url, "ann", window=10).compressed_summary().run() == "more of it"
    again.clear().run()
    assert SqlMemory(url, "ann").compressed_summary().run() == "" and SqlMemory(url, "ann").count().run() == 0


def test_the_summary_outlives_the_deletion_of_many(url: str):
    memory = SqlMemory(url, "ann", window=10)
    messages = turns(300)
    memory.add(messages).run()
    memory.compress(ids(messages[:590]), "the past").run()
    assert memory.delete(ids(messages[50:590])).run() == 540
    for each in (memory, SqlMemory(url, "ann", window=10)):
        assert each.compressed_summary().run() == "the past"
        assert sent(each.get().run())[0].text == "the past"


def test_only_the_newest_summary_is_handed_on(url: str):
    old, new = (Msg.user(text).marked(COMPRESSED) for text in ("old", "new"))
    old, new = (each.replace(metadata={**each.metadata, "memory_summary": each.text}) for each in (old, new))
    for memory in (InMemoryMemory(), SqlMemory(url, "two", window=2)):
        memory.add([old, new, *turns(2)]).run()
        assert memory.compressed_summary().run() == "new"
        assert memory.delete([old.id]).run() == 1
        assert memory.compressed_summary().run() == "new"


def test_a_compression_leaves_one_summary(url: str):
    old = Msg.user("old").marked(COMPRESSED)
    old = old.replace(metadata={**old.metadata, "memory_summary": "old"})
    for memory in (InMemoryMemory(), SqlMemory(url, "one", window=2)):
        others = turns(20)
        # a copied conversation may bring summaries along
        memory.add([old, others[0].replace(metadata=old.metadata), *others[1:]]).run()
        memory.compress([others[9].id], "all").run()
        carriers = [each for each in memory.read().to_list().run() if "memory_summary" in each.metadata]
        assert [each.id for each in carriers] == [others[9].id]


def test_the_window_is_full_after_a_deletion(url: str):
    memory = SqlMemory(url, "ann", window=5)
    waiting = [*turns(1), called("open")]
    memory.add([*waiting, *turns(20, 1)]).run()
    again = SqlMemory(url, "ann", window=5)
    whole_of = again.read().to_list().run()
    assert len(again.get().run()) >= 6
    again.delete([whole_of[-2].id]).run()
    left = [each for each in whole_of if each is not whole_of[-2]]
    assert ids(again.get().run())[-5:] == ids(left[-5:])


def test_a_result_without_a_call_leaves_the_window_full(url: str):
    memory = SqlMemory(url, "ann", window=5)
    memory.add([*turns(6), result("lost"), *turns(1, 6)]).run()
    memory.replace(memory.get().run()[-1]).run()
    memory.add(turns(1, 7)).run()
    whole_of = memory.read().to_list().run()
    assert ids(memory.get().run())[-5:] == ids(whole_of[-5:])


def test_a_result_that_carries_the_summary_brings_its_call(url: str):
    memory = SqlMemory(url, "ann", window=4)
    pair = [called("c1"), result("c1")]
    memory.add([*turns(5), *pair, *turns(30, 5)]).run()
    memory.compress([pair[1].id], "the weather").run()
    for each in (memory, SqlMemory(url, "ann", window=4)):
        history = each.get().run()
        whole(history, history)
        assert open_calls(history[:2], "Friday") == () and ids(history[:2]) == ids(pair)
        assert [message.text for message in sent(history)][:2] == ["the weather", "question 33"]


def test_calls_that_wait_are_read_however_far_back(url: str):
    waiting = [Msg.user("do it"), called("c1", "c2"), result("c1")]
    SqlMemory(url, "ann").add([*turns(20), *waiting, *(Msg.user(f"news {n}", "Bob") for n in range(100))]).run()
    memory = SqlMemory(url, "ann", window=10)
    history = memory.get().run()
    assert [call.id for call in open_calls(history, "Friday")] == ["c2"] and len(history) < 20
    whole(history, history)
    memory.add([result("c2")]).run()
    again = SqlMemory(url, "ann", window=10)
    assert open_calls(again.get().run(), "Friday") == ()


def test_a_long_run_keeps_its_own_messages(url: str):
    memory = SqlMemory(url, "ann", window=10)
    memory.add(turns(30)).run()
    memory.add([Msg.user("begin")]).run()
    for number in range(40):
        memory.add([called(f"c{number}")]).run()
        memory.add([result(f"c{number}")]).run()
    history = memory.get().run()
    assert "begin" in [each.text for each in history] and len(history) >= 81
    memory.add([Msg.user("next")]).run()
    assert len(memory.get().run()) <= 12


def test_a_window_of_tokens_is_read_by_tokens(url: str, counted: Counted):
    counter = TextCounter(lambda text: len(text.split()))
    SqlMemory(url, "ann", window=TokenWindow(100, counter)).add(turns(200)).run()
    counted.clear()
    memory = SqlMemory(url, "ann", window=TokenWindow(100, counter))
    history = memory.get().run()
    assert 100 <= counter.count(history) <= 120 and counted.rows < 60
    assert history[-1].text == "answer 199"


def test_what_was_deleted_at_the_end_is_filled_up(url: str):
    memory = SqlMemory(url, "ann", window=10)
    messages = turns(50)
    memory.add(messages).run()
    assert memory.delete(ids(messages[-12:])).run() == 12
    assert ids(memory.get().run())[-10:] == ids(messages[78:88])
    assert memory.replace(messages[3].replace(content="changed")).run() is True
    assert memory.replace(Msg.user("x").replace(id="unknown")).run() is False
    assert [each.text for each in memory.read().to_list().run()][3] == "changed"


def test_transient_messages_of_an_ended_process_are_gone(url: str):
    SqlMemory(url, "ann").add([Msg.user("hi"), Msg.user("noon").marked(TRANSIENT)]).run()
    memory = SqlMemory(url, "ann")
    assert texts(memory) == ["hi"] and memory.count().run() == 1
    memory.add([Msg.user("more")]).run()
    assert [each.text for each in SqlMemory(url, "ann").read().to_list().run()] == ["hi", "more"]


# --- agents -------------------------------------------------------------------------------------------------------


def test_an_agent_leaves_its_messages_in_the_database(url: str):
    session = InMemorySession()
    friday = ReActAgent("Friday", ScriptedModel("hello"), memory=SqlMemory(url, "ann"))
    friday.bind(session, "ann").run()
    friday.call([Msg.user("note").marked(HIDDEN), Msg.user("hi")]).run()
    assert session.load_all("ann").run().lists.keys() == set() and session.load_all("ann").run().values
    model = ScriptedModel("again")
    later = ReActAgent("Friday", model, memory=SqlMemory(url, "ann"))
    assert later.bind(session, "ann").run() is True
    later.call("more").run()
    assert [each.text for each in model.requests[0].messages] == ["hi", "hello", "more"]


# --- others -------------------------------------------------------------------------------------------------------


def test_two_writers_of_one_conversation_are_told(url: str, counted: Counted):
    one, other = SqlMemory(url, "ann"), SqlMemory(url, "ann")
    one.add([Msg.user("a")]).run()
    assert texts(other) == ["a"]
    one.add([Msg.user("b")]).run()
    for change in (other.add([Msg.user("c")]), other.clear(), other.update_messages_mark("m")):
        with pytest.raises(MemoryConflictError, match="another writer") as caught:
            change.run()
        assert (caught.value.key, caught.value.expected, caught.value.found) == ("ann", 1, 2)
    assert texts(other) == ["a"], "as it knew it"
    other.reload().run()
    other.add([Msg.user("c")]).run()
    assert texts(other) == ["a", "b", "c"]
    with pytest.raises(MemoryConflictError):
        one.add([Msg.user("d")]).run()


def test_two_first_writers_are_told(url: str):
    one, other = SqlMemory(url, "ann"), SqlMemory(url, "ann")
    assert texts(one) == texts(other) == []
    one.add([Msg.user("a")]).run()
    with pytest.raises(MemoryConflictError):
        other.add([Msg.user("b")]).run()
    assert texts(SqlMemory(url, "ann")) == ["a"]


@pytest.mark.parametrize("stored", [True, False])
def test_an_answer_that_is_lost_leaves_no_doubt(url: str, stored: bool, monkeypatch: pytest.MonkeyPatch):
    memory = SqlMemory(url, "ann")
    memory.add([Msg.user("a")]).run()
    write = MemoryDatabase.write

    async def lost(self, key, work):
        if stored:
            await write(self, key, work)
        raise SessionError("the network is gone", key=key)

    with monkeypatch.context() as patched:
        patched.setattr(MemoryDatabase, "write", lost)
        with pytest.raises(SessionError):
            memory.add([Msg.user("b")]).run()
    assert texts(memory) == (["a", "b"] if stored else ["a"])
    memory.add([Msg.user("c")]).run()
    assert texts(SqlMemory(url, "ann")) == [*(["a", "b"] if stored else ["a"]), "c"]


def test_a_change_of_another_after_a_lost_answer_is_told(url: str, monkeypatch: pytest.MonkeyPatch):
    memory, other = SqlMemory(url, "ann"), SqlMemory(url, "ann")
    memory.add([Msg.user("a")]).run()

    async def lost(self, key, work):
        raise SessionError("the network is gone", key=key)

    with monkeypatch.context() as patched:
        patched.setattr(MemoryDatabase, "write", lost)
        with pytest.raises(SessionError):
            memory.add([Msg.user("b")]).run()
    other.add([Msg.user("other")]).run()
    with pytest.raises(MemoryConflictError):
        memory.get().run()
    memory.reload().run()
    assert texts(memory) == ["a", "other"]


def test_wrong_arguments_are_refused(url: str):
    for wrong in ({"window": 0}, {"window": True}, {"window": "9"}, {"timeout": 0}, {"prefix": "a b"}):
        with pytest.raises(ConfigurationError):
            SqlMemory(url, "ann", **wrong)
    for lost in ("sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"):
        with pytest.raises(ConfigurationError, match="in memory"):
            SqlMemory(lost, "ann")
    with pytest.raises(ConfigurationError, match="URL"):
        SqlMemory("no url", "ann")
    with pytest.raises(ConfigurationError, match=r"'sqlite:///chat\.db'"):
        SqlMemory("chat.db", "ann")
    with pytest.raises(InvalidInputError):
        SqlMemory(url, "")
    with pytest.raises(InvalidInputError, match="A mark is a text"):
        SqlMemory(url, "ann").read(mark=["m"])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="Msg objects"):
        SqlMemory(url, "ann").add("hi").run()  # type: ignore[arg-type]


# --- laws at random -----------------------------------------------------------------------------------------------

changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "replace", "delete", "mark", "compress", "restart"]),
        st.integers(0, 10_000),
        marked_histories(),
    ),
    max_size=5,
)
databases = count()


def apply(memory: Memory, verb: str, chosen: Msg, number: int, new: list[Msg]) -> Flow[object]:
    """One change; those of a conversation without messages change nothing."""
    match verb:
        case "add":
            return memory.add(new)
        case "replace":
            return memory.replace(chosen.replace(metadata={"n": number}))
        case "delete":
            return memory.delete([chosen.id, "unknown"])
        case "mark":
            return memory.update_messages_mark(HIDDEN, msg_ids=[chosen.id])
        case _:
            return memory.compress([chosen.id], f"S{number}") if chosen.name != "none" else memory.count()


@given(histories(), changes)
@settings(max_examples=15)
def test_it_holds_what_a_memory_in_process_holds(tmp_path_factory, begin: list[Msg], done):
    folder = tmp_path_factory.getbasetemp()
    key = f"random {next(databases)}"

    def make() -> SqlMemory:
        return SqlMemory(f"sqlite:///{folder}/random.db", key, window=5)

    model, memory = InMemoryMemory(), make()
    fresh = count()

    def renamed(messages: list[Msg]) -> list[Msg]:
        number = next(fresh)
        return [
            message.replace(
                id=f"{number}-{message.id}",
                content=[
                    ToolUseBlock(f"{number}-{b.id}", b.name, b.input)
                    if isinstance(b, ToolUseBlock)
                    else ToolResultBlock(f"{number}-{b.id}", b.name, (TextBlock("r"),))
                    if isinstance(b, ToolResultBlock)
                    else b
                    for b in message.content
                ],
            ).unmarked(TRANSIENT)
            for message in messages
        ]

    for each in (model, memory):
        each.add(begin).run()
    for verb, number, messages in done:
        known = list(model.messages)
        chosen = known[number % len(known)] if known else Msg.user("none", "none")
        new = renamed(messages)
        if verb == "restart":
            memory = make()
            continue
        results = [apply(each, verb, chosen, number, new).run() for each in (model, memory)]
        assert results[0] == results[1]
    for each in (memory, make()):
        whole_of = each.read().to_list().run()
        assert whole_of == list(model.messages)
        assert each.count().run() == len(model)
        assert each.compressed_summary().run() == model.compressed_summary().run()
        part = list(each.get().run())
        assert [message for message in whole_of if message in part] == part
        # (what a summary stands for may be left out, and with it what is hidden)
        left = without_dropped(whole_of, summarized=bool(each.compressed_summary().run()))
        assert all(message in part for message in whole_of[-5:] if message in left)
        for message in part:
            for block in message.tool_results:
                callers = [other for other in whole_of if any(block.id == call.id for call in other.tool_calls)]
                assert all(other in part for other in callers)
        assert open_calls(part, "Friday") == open_calls(whole_of, "Friday")


def test_a_long_conversation_on_postgresql(postgres: Server, counted: Counted):
    url = postgres_url(postgres)
    messages = turns(1_000)
    SqlMemory(url, "long").add(messages).run()
    memory, other = SqlMemory(url, "long", window=50), SqlMemory(url, "long", window=50)
    counted.clear()
    assert memory.get().run() == messages[-50:] and counted.rows == 50
    other.get().run()
    assert memory.compress(ids(messages[:1_500]), "the past").run() == 1_500
    assert memory.update_messages_mark("seen", msg_ids=[messages[0].id]).run() == 1
    assert ids(memory.get_memory("seen").run()) == [messages[0].id]
    assert sent(SqlMemory(url, "long", window=50).get().run())[0].text == "the past"
    with pytest.raises(MemoryConflictError):
        other.add([Msg.user("late")]).run()
    assert len(memory.read().to_list().run()) == memory.count().run() == 2_000
    assert memory.delete(ids(messages[1_900:])).run() == 100
    assert ids(memory.get().run())[-50:] == ids(messages[1_850:1_900])
    memory.clear().run()
    assert SqlMemory(url, "long").get().run() == []


def test_a_new_file_is_its_owners_only(url: str, tmp_path: Path):
    memory = SqlMemory(url, "ann")
    memory.add([Msg.user("hi")]).run()
    if os.name == "posix":
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    memory.close().run()
