"""`sessions`, and conversations in other stores than the default folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentscope_rx.cli.main import main
from agentscope_rx.reactive import just
from agentscope_rx.session import JsonSession, SessionLease, SqliteSession, open_session
from agentscope_rx.testing import ScriptedModel

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("bare")


def filled(path: str) -> None:
    store = open_session(path)
    store.save_all("ann", {"state": {"turn": 1}}, {"memory": ["one", "two"]}).run()
    store.save("b\x1bob", "state", "x" * 1000).run()
    store.close().run()


@pytest.mark.parametrize("store", ["chat.db", "folder"])
def test_list_prints_the_keys(capsys: Captured, store: str) -> None:
    assert main(["sessions", "list", store]) == 0
    assert capsys.readouterr().err.startswith("agentscope-rx: there are no sessions in <")
    filled(store)
    assert main(["sessions", "list", store]) == 0
    assert capsys.readouterr().out == "ann\nb\\x1bob\n"
    assert main(["sessions", "list", store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["ann", "b\x1bob"]


def test_show_prints_the_entries(capsys: Captured) -> None:
    filled("chat.db")
    assert main(["sessions", "show", "chat.db", "ann"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ann, version 1-") and out.endswith('\nstate: {"turn": 1}\nmemory: 2 items\n')
    assert main(["sessions", "show", "chat.db", "ann", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["key"], shown["values"]) == ("ann", {"state": {"turn": 1}}) and shown["lists"]["memory"][1] == "two"
    assert main(["sessions", "show", "chat.db", "eve"]) == 2
    assert capsys.readouterr().err == "agentscope-rx: error: There is no session 'eve' in <SqliteSession in chat.db>.\n"


def test_export_and_import_move_sessions_between_stores(capsys: Captured) -> None:
    filled("chat.db")
    assert main(["sessions", "export", "chat.db", "backup"]) == 0
    assert capsys.readouterr().out == "copied ann\ncopied b\\x1bob\n"
    assert JsonSession("backup").load_list("ann", "memory").run() == ["one", "two"]
    assert main(["sessions", "import", "new.db", "backup", "ann"]) == 0
    assert SqliteSession("new.db").load_all("ann").run() == SqliteSession("chat.db").load_all("ann").run()
    assert SqliteSession("new.db").keys().run() == ["ann"]


def test_what_is_there_is_not_replaced_and_the_rest_is_copied(capsys: Captured) -> None:
    filled("chat.db")
    JsonSession("backup").save("ann", "state", "mine").run()
    assert main(["sessions", "export", "chat.db", "backup"]) == 2
    out, err = capsys.readouterr()
    assert out == "copied b\\x1bob\n" and "Session 'ann' was not saved" in err and err.count("\n") == 1
    assert JsonSession("backup").load("ann", "state").run() == "mine"


def test_delete_names_what_does_not_exist(capsys: Captured) -> None:
    filled("chat.db")
    assert main(["sessions", "delete", "chat.db", "eve", "ann"]) == 2
    out, err = capsys.readouterr()
    assert out == "deleted ann\n" and "There is no session 'eve'" in err
    assert SqliteSession("chat.db").keys().run() == ["b\x1bob"]


@pytest.mark.parametrize("store", ["ftp://host", "notes.db", "missing/chat.db"])
def test_a_store_that_cannot_be_used_is_one_line(capsys: Captured, bare: Path, store: str) -> None:
    (bare / "notes.db").write_text("Things to do. " * 50)
    assert main(["sessions", "list", store]) == 2
    err = capsys.readouterr().err
    assert err.startswith("agentscope-rx: error: ") and err.count("\n") == 1


def test_a_conversation_may_be_in_a_database(capsys: Captured, bare: Path) -> None:
    assert main(["ask", "I am Ada.", "--session", "chat.db", "-q"], model=ScriptedModel("Hello.")) == 0
    model = ScriptedModel("Ada.")
    assert main(["ask", "Who am I?", "--session", "chat.db", "-q"], model=model) == 0
    assert [message.text for message in model.requests[0].messages][1:] == ["I am Ada.", "Hello.", "Who am I?"]
    assert capsys.readouterr().err == "agentscope-rx: session: main (new)\nagentscope-rx: session: main (goes on)\n"
    assert not (bare / ".agentscope_rx").exists()


def test_a_store_holds_conversations_by_name(capsys: Captured) -> None:
    for name in ("ada", "bob"):
        flags = ["--store", "chat.db", "--session", name, "-q"]
        assert main(["ask", f"I am {name}.", *flags], model=ScriptedModel("Hello.")) == 0
    model = ScriptedModel("Bob.")
    assert main(["ask", "Who am I?", "--store", "chat.db", "-c", "-q"], model=model) == 0
    assert model.requests[0].messages[1].text == "I am bob."
    assert SqliteSession("chat.db").keys().run() == ["ada", "bob"]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--session", "a.db", "--store", "b.db"], "names a store, and so does --store"),
        (["--store", "b.db"], "name one with --session NAME"),
        (["--store", "b.db", "-c"], "There is no saved conversation"),
        (["--store", "memory:", "-c"], "in a folder or a .db file only"),
    ],
)
def test_flags_that_name_no_conversation_are_refused(capsys: Captured, flags: list[str], text: str) -> None:
    assert main(["ask", "Hello.", *flags], model=ScriptedModel("Hello.")) == 2
    assert text in capsys.readouterr().err


def test_the_advice_names_the_store(capsys: Captured, bare: Path) -> None:
    (bare / "bank.py").write_text(
        "from agentscope_rx import tool\n\n@tool(requires_approval=True)\ndef pay() -> str:\n"
        '    """Pay."""\n    return "Paid."\n'
    )
    from agentscope_rx.testing.scripted_model import call

    flags = ["--tools", "bank:pay", "--store", "my chats.db", "--session", "ada"]
    assert main(["ask", "Pay.", *flags], model=ScriptedModel(call("pay"))) == 3
    advice = "Go on with: agentscope-rx ask --store 'my chats.db' --session ada --approve pay"
    assert advice in capsys.readouterr().err


def test_a_session_that_is_only_leased_has_nothing_to_copy(capsys: Captured) -> None:
    store = open_session("chat.db")
    SessionLease(store, "ann").around(just(None)).run()
    filled("chat.db")
    store.save_all("eve", {"lease": store.load("ann", "lease").run()}).run()
    assert main(["sessions", "export", "chat.db", "backup"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "copied ann\ncopied b\\x1bob\n"
    assert captured.err == "agentscope-rx: there is nothing to copy in eve\n"
    assert list(JsonSession("backup").load_all("ann").run().values) == ["state"]
