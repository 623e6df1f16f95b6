"""What happens to sessions on a server when the network or the server fails: whole states, typed errors, and recovery.

A jump of a clock changes nothing: time-outs are measured by the loop's monotonic clock, versions are random, and the
expiry of sessions in Redis is that of the server alone.
"""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Iterator

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.errors import SessionConflictError, SessionLockedError, SessionServerError, SessionStorageError
from agentscope_rx.reactive import Flow
from agentscope_rx.session import ListTail, Saved, Session, SqlSession
from agentscope_rx.testing import ScriptedModel, collect_dropped
from tests.session.server_stores import KINDS, Link, fresh, linked, store, until, url_at
from tests.support.faulty_link import Fate, FaultyLink
from tests.support.servers import PASSWORD, Server

OLD = Saved({"v": 1}, {"l": [1, 2]})
NEW = Saved({"v": 2}, {"l": [1, 2, 3]})
TIMEOUT = 0.5


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(kind)


@pytest.fixture
def at(kind: str, server: Server) -> Iterator[Link]:
    with linked(kind, server) as found:
        yield found


def begun(session: Session) -> Session:
    """A store that has the old state, and a connection in its pool."""
    session.save_all("k", {"v": 1}, {"l": [1, 2]}).run()
    return session


def attempt(session: Session, before: str | None) -> SessionServerError | None:
    """Save the new state over the old one; the error, if it was not saved."""
    (outcome,) = asyncio.run(together(session.save_all("k", {"v": 2}, {"l": ListTail([3])}, expected=before)))
    if outcome is None or isinstance(outcome, str):
        return None
    assert isinstance(outcome, SessionServerError) and isinstance(outcome, SessionStorageError)
    assert outcome.retryable and outcome.key == "k"
    return outcome


async def together(*flows: Flow[str | None]) -> list[object]:
    """What comes of each: its value or its error."""
    return await asyncio.gather(*(each.as_task() for each in flows), return_exceptions=True)


def check(link: FaultyLink, session: Session, error: SessionServerError | None) -> None:
    """Healed, the store has one state as a whole, and works on."""
    link.heal()
    found = session.load_all("k").run()
    assert found in (OLD, NEW), "all of it, or nothing"
    if error is None:
        assert found == NEW
    elif not error.unsure:
        assert found == OLD, "without doubt nothing was written"
    session.save_all("k", {"v": 3}, {"l": ListTail([4], 2)}, expected=found.version).run()
    assert session.load_all("k").run() == Saved({"v": 3}, {"l": [1, 2, 4]})


@pytest.mark.spec("W69")
@pytest.mark.parametrize("fate", [Fate.CUT, Fate.NO_ANSWER], ids=["cut", "no answer"])
def test_the_network_fails_at_any_request_of_a_save(kind: str, at: Link, fate: Fate):
    link, make = at
    session = begun(make())
    outcomes: list[bool] = []
    for number in range(30):
        version = session.save_all("k", {"v": 1}, {"l": [1, 2]}).run()
        link.at(number, fate)
        before = len(link.requests)
        error = attempt(session, version)
        if len(link.requests) - before <= number:
            # it took fewer requests than that
            break
        if error is not None:
            outcomes.append(error.unsure)
        check(link, session, error)
    assert outcomes.count(True) >= 1, "the answer to the last request was lost"
    assert kind == "redis" or outcomes.count(False) >= 3, "before the commit there is no doubt"


@pytest.mark.parametrize("fate", [Fate.CUT, Fate.NO_ANSWER, Fate.STALL], ids=["cut", "no answer", "stall"])
def test_a_change_whose_answer_is_lost_is_told_as_unsure(kind: str, at: Link, fate: Fate):
    link, make = at
    session = begun(make(timeout=TIMEOUT))
    version = session.load_all("k", []).run().version
    # (in Redis the request with the new item)
    link.when(b"COMMIT;" if kind == "postgres" else b"\r\n3\n\r\n", fate)
    error = attempt(session, version)
    assert error is not None and error.unsure and "may have taken place" in str(error)
    assert error.server in str(error) and PASSWORD not in str(error)
    link.heal()
    assert session.load_all("k").run() == (NEW if fate is Fate.NO_ANSWER else OLD)
    check(link, session, error)


@pytest.mark.parametrize("operation", ["load_all", "exists", "delete", "keys"])
def test_an_operation_on_a_silent_network_ends_in_time(kind: str, at: Link, operation: str):
    link, make = at
    session = begun(make(timeout=TIMEOUT))
    link.on_request = lambda data: Fate.STALL
    arguments = [] if operation == "keys" else ["k"]
    with pytest.raises(SessionServerError, match=r"no answer within 0\.5 s") as caught:
        getattr(session, operation)(*arguments).run()
    assert caught.value.retryable
    link.heal()
    session.save("other", "v", 1).run()
    assert session.load("other", "v").run() == 1


def test_a_store_closes_on_a_silent_network(kind: str, at: Link):
    link, make = at
    session = begun(make(timeout=TIMEOUT))
    link.on_request = lambda data: Fate.STALL
    session.close().run()


def test_the_server_is_killed_and_comes_back(kind: str, server: Server, at: Link):
    link, make = at
    session = begun(make(timeout=5))
    version = session.load_all("k", []).run().version
    server.kill()
    try:
        for operation in (session.load_all("k"), session.save("k", "v", 9), session.delete("k"), session.keys()):
            with pytest.raises(SessionServerError) as caught:
                operation.run()
            assert caught.value.retryable
    finally:
        server.start()
    found = session.load_all("k").run()
    assert found == OLD and found.version == version, "what was acknowledged is there"
    check(link, session, attempt(session, version))


def test_no_server_and_no_access_are_told(kind: str, server: Server):
    with socket.socket() as taken:
        # a port that is bound and on which nothing listens
        taken.bind(("127.0.0.1", 0))
        told(store(kind, url_at(kind, taken.getsockname()[1]), fresh()), "refused|Connect call failed", retryable=True)
    with FaultyLink(server.socket).open() as link:
        database = "99" if kind == "redis" else "nowhere"
        told(store(kind, url_at(kind, link.port, database=database), fresh()), "out of range|does not exist")
        if kind == "postgres":
            told(store(kind, url_at(kind, link.port, "wr0ng-secret"), fresh()), "password authentication failed")
        else:
            told(store(kind, f"redis://ann:wr0ng-secret@127.0.0.1:{link.port}", fresh()), "WRONGPASS|invalid username")


def told(session: Session, match: str, *, retryable: bool = False) -> None:
    for operation in (session.save("k", "v", 1), session.load_all("k"), session.keys()):
        with pytest.raises(SessionServerError, match=match) as caught:
            operation.run()
        error = caught.value
        assert error.retryable is retryable and not error.unsure and error.server in str(error)
        text = "".join(traceback.format_exception(error)) + repr(session)
        assert "wr0ng-secret" not in text and PASSWORD not in text
    session.close().run()


def test_a_disposed_save_ends_before_the_next_begins(kind: str, at: Link):
    session = begun(at.make())

    async def main() -> None:
        for number in range(20):
            first = session.save("k", "v", "first").as_task()
            for _ in range(number % 5):
                await asyncio.sleep(0)
            first.cancel()
            await session.save("k", "v", number)
            assert await session.load("k", "v") == number

    asyncio.run(main())


def test_a_save_left_on_a_silent_network_is_told_as_dropped(at: Link):
    link, make = at
    session = begun(make(timeout=TIMEOUT))

    async def main() -> None:
        link.on_request = lambda data: Fate.STALL
        save = session.save("k", "v", 2).as_task()
        before = len(link.requests)
        await asyncio.to_thread(until, lambda: len(link.requests) > before)
        save.cancel()
        with pytest.raises(asyncio.CancelledError):
            await save

    with collect_dropped() as dropped:
        asyncio.run(main())
    assert [type(error) for error in dropped] == [SessionServerError]
    link.heal()
    assert session.load_all("k").run() in (OLD, Saved({"v": 2}, {"l": [1, 2]}))


def test_an_agent_whose_save_got_no_answer_saves_on(kind: str, at: Link):
    """The next save finds its own work under the key, and no conflict."""
    link, make = at
    session = make(timeout=5)
    agent = ReActAgent("Friday", ScriptedModel(["One."], ["Two."]))
    agent.bind(session, "ann").run()
    link.when(b"COMMIT;" if kind == "postgres" else b"EVALSHA", Fate.NO_ANSWER)
    with pytest.raises(SessionServerError):
        agent.call("First").run()
    link.heal()
    agent.call("Second").run()
    texts = [message["content"][0]["text"] for message in session.load_list("ann", "memory").run()]  # type: ignore[index]
    assert texts == ["First", "One.", "Second", "Two."]
    other = ReActAgent("Friday", ScriptedModel([]))
    assert other.load(session, "ann").run() and other.memory.messages == agent.memory.messages


def test_a_sqlite_file_that_another_program_locks(tmp_path: object):
    import sqlite3

    session = SqlSession(f"sqlite:///{tmp_path}/x.db", timeout=0.3)
    session.save("k", "v", 1).run()
    other = sqlite3.connect(f"{tmp_path}/x.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises((SessionLockedError, SessionServerError)) as caught:
        session.save("k", "v", 2).run()
    assert caught.value.retryable
    other.execute("ROLLBACK")
    other.close()
    assert session.load("k", "v").run() == 1
    with pytest.raises(SessionConflictError):
        session.save_all("k", {"v": 3}, expected="0" * 32).run()
    session.close().run()
    nowhere = SqlSession(f"sqlite:///{tmp_path}/no/such/folder/x.db")
    with pytest.raises(SessionServerError, match="unable to open database file"):
        nowhere.keys().run()
    nowhere.close().run()
