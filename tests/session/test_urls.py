"""`open_session`: a store from a path or a URL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import agentscope_rx.session as session_room
from agentscope_rx.errors import ConfigurationError, MissingExtraError, SessionError
from agentscope_rx.session import (
    InMemorySession,
    JsonSession,
    RedisSession,
    SqliteSession,
    SqlSession,
    open_session,
    urls,
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("chat.db", "chat.db"),
        ("a folder/chat.SQLITE", "a folder/chat.SQLITE"),
        ("x.sqlite3", "x.sqlite3"),
        ("~/x.db3", "~/x.db3"),
        ("sqlite:chat", "chat"),
        ("sqlite:/tmp/chat", "/tmp/chat"),
        ("sqlite:///chat.db", "chat.db"),
        ("SQLite:////tmp/chat.db", "/tmp/chat.db"),
        ("./odd:name.db", "./odd:name.db"),
        ("c:\\chats\\x.db", "c:\\chats\\x.db"),
    ],
)
def test_a_database_file_is_a_sqlite_session(text: str, path: str):
    session = open_session(text)
    assert session == SqliteSession(path) == open_session(text)
    assert isinstance(session, SqliteSession) and session.path == path


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("conversations", "conversations"),
        ("~/conversations", "~/conversations"),
        ("a/b.c/", "a/b.c/"),
        ("json:conversations", "conversations"),
        ("json:x.db", "x.db"),
        ("json:///tmp/x", "/tmp/x"),
        ("json:", None),
    ],
)
def test_a_folder_is_a_json_session(text: str, root: str | None):
    assert open_session(text) == JsonSession(root) == open_session(text)


def test_what_is_at_a_path_decides_over_its_name(tmp_path: Path):
    (tmp_path / "old.db").mkdir()
    assert open_session(str(tmp_path / "old.db")) == JsonSession(tmp_path / "old.db")
    assert open_session(tmp_path / "new.db") == SqliteSession(tmp_path / "new.db")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"notes\.txt is a file.*write sqlite:"):
        open_session(tmp_path / "notes.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "old.db"], "nothing is made"


def test_stores_in_memory_are_found_again_by_name():
    one = open_session("memory:test of urls")
    one.save("k", "n", 1).run()
    assert open_session("memory:test of urls") is one and isinstance(one, InMemorySession)
    assert open_session("memory://test of urls") is one and open_session("memory:other") is not one
    one.delete("k").run()


@pytest.mark.parametrize("text", ["ftp://host/x", "sqlite3:chat.db", "redis+fast://host", "mongodb://user:secret@host"])
def test_an_unknown_scheme_lists_the_known_ones(text: str):
    with pytest.raises(ConfigurationError, match=r"sqlite:PATH, a folder, json:FOLDER.*redis://.*mysql://") as caught:
        open_session(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["", "  ", None, 3, b"chat.db", "json: ", "a\0b", "a\0.db", "\ud800", "\ud800.db"])
def test_what_is_no_path_is_refused(wrong: Any):
    with pytest.raises((ConfigurationError, TypeError)):
        open_session(wrong)


@pytest.mark.parametrize("text", ["sqlite:", "sqlite://", "sqlite:///", "sqlite://host/x.db"])
def test_a_sqlite_url_without_a_file_is_refused(text: str):
    with pytest.raises(ConfigurationError, match=r"names no file\. Write sqlite:///chat\.db"):
        open_session(text)


def test_a_sqlite_url_has_no_options():
    with pytest.raises(
        ConfigurationError, match=r"has options, and there are none\. .* write sqlite:chat\.db\?mode=ro"
    ):
        open_session("sqlite:///chat.db?mode=ro")
    assert open_session("sqlite:chat.db?mode=ro") == SqliteSession("chat.db?mode=ro")


@pytest.mark.parametrize("url", ["redis:", "redis:host", "redis:host:6379", "redis:/host"])
def test_a_url_that_would_be_read_as_another_server_is_refused(url: str):
    with pytest.raises(ConfigurationError, match="no URL of a Redis server"):
        open_session(url)


def test_the_home_of_an_unknown_user_is_told_at_use():
    for place in ("~nobody-of-this-name/x", "~nobody-of-this-name/x.db"):
        with pytest.raises((ConfigurationError, SessionError)):
            open_session(place).save("k", "n", 1).run()


@pytest.mark.parametrize("place", ["chat.db", "folder", "sqlite+aiosqlite:///sql.db"])
def test_a_relative_path_is_of_the_directory_it_was_named_in(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    store = open_session(place)
    before = hash(store)
    monkeypatch.chdir(tmp_path / "other")
    store.save("k", "n", 1).run()
    assert hash(store) == before and store != open_session(place)
    assert list((tmp_path / "other").iterdir()) == []
    store.close().run()
    monkeypatch.chdir(tmp_path)
    again = open_session(place)
    assert store == again and again.load("k", "n").run() == 1
    again.close().run()


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("redis://host:1/0", RedisSession),
        ("rediss://host", RedisSession),
        ("unix:///run/redis.sock?db=2", RedisSession),
        ("postgresql://host/db", SqlSession),
        ("postgresql+asyncpg://host/db", SqlSession),
        ("postgres://host/db", SqlSession),
        ("sqlite+aiosqlite:///chat.db", SqlSession),
    ],
)
def test_a_url_of_a_server_is_given_to_its_store(url: str, kind: type[Any]):
    opened = open_session(url)
    assert type(opened) is kind and opened == kind(url)


@pytest.mark.parametrize(("url", "extra"), [("redis://host", "redis"), ("postgresql://host/db", "sql")])
def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, url: str, extra: str):
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'client'", name="client")

    monkeypatch.setattr(urls, "import_module", missing)
    with pytest.raises(MissingExtraError, match=rf"pip install 'agentscope-rx\[{extra}\]'"):
        open_session(url)


def test_a_star_import_needs_no_extra():
    code = (
        "import sys\n"
        "sys.modules.update(redis=None, sqlalchemy=None)\n"
        "import importlib.util as util\n"
        "real = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if sys.modules.get(name, 1) is None else real(name, *more)\n"
        "from agentscope_rx.session import *\n"
        "from agentscope_rx.memory import *\n"
        "assert SqliteSession and 'RedisSession' not in dir() and 'SqlSession' not in dir()\n"
        "assert InMemoryMemory and 'SqlMemory' not in dir()\n"
        "try:\n"
        "    from agentscope_rx.session import RedisSession\n"
        "except ImportError as error:\n"
        "    assert 'agentscope-rx[redis]' in str(error)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_a_name_and_the_name_of_a_store_are_told_apart():
    assert all(urls.names_store(each) for each in ("chat.db", "a/b.SQLITE", "json:x", "redis://host", "memory:"))
    assert not any(urls.names_store(each) for each in ("ann", "ann.txt", "a/b", "c:\\x", "trip to Rome"))


def test_sqlite_is_imported_when_it_is_named():
    code = (
        "import sys, agentscope_rx, agentscope_rx.session as session\n"
        "assert 'sqlite3' not in sys.modules\n"
        "assert session.SqliteSession.__name__ == 'SqliteSession' and 'sqlite3' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        session_room.Nothing  # type: ignore[attr-defined]
