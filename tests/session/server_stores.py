"""Stores on real servers for tests, each with names of its own; and a program of its own that writes to one.

`python -m tests.session.server_stores KIND URL PREFIX NAME COUNT` puts COUNT items behind a list, with versions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from uuid import uuid4

from agentscope_rx.errors import SessionConflictError
from agentscope_rx.session import ListTail, RedisSession, Session, SqlSession
from tests.support.faulty_link import FaultyLink
from tests.support.servers import PASSWORD, Server

KINDS = ("postgres", "redis")


class Link(NamedTuple):
    """A link to a server that can fail, and makes stores that use it."""

    link: FaultyLink
    make: Callable[..., Session]


def store(kind: str, url: str, prefix: str, **options: float) -> Session:
    """A store of this kind."""
    if kind == "redis":
        return RedisSession(url, prefix=f"{prefix}:", **options)
    return SqlSession(url, prefix=f"{prefix}_", **options)


def url_at(kind: str, port: int, password: str = PASSWORD, database: str = "") -> str:
    """The URL of the server behind a port."""
    if kind == "redis":
        return f"redis://127.0.0.1:{port}/{database or 0}"
    return f"postgresql://postgres:{password}@127.0.0.1:{port}/{database or 'postgres'}"


def fresh() -> str:
    """A prefix that nothing else has."""
    return f"t{uuid4().hex[:10]}"


@contextmanager
def linked(kind: str, server: Server) -> Iterator[Link]:
    """A link to the server, and stores of one prefix behind it."""
    prefix = fresh()
    made: list[Session] = []

    def make(**options: float) -> Session:
        made.append(store(kind, url_at(kind, link.port), prefix, **options))
        return made[-1]

    with FaultyLink(server.socket).open() as link:
        yield Link(link, make)
        link.heal()
        for each in made:
            each.close().run()


def until(condition: Callable[[], object]) -> None:
    """Wait for another process or thread."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)


def append(session: Session, name: str, count: int) -> None:
    """Put items behind the list of the session "shared", each at a version that was read before."""
    for number in range(count):
        while True:
            saved = session.load_all("shared", ["turns"]).run()
            length = len(saved.lists.get("turns", []))
            tail = ListTail([[name, number]], length)
            try:
                session.save_all("shared", {"length": length + 1}, {"turns": tail}, expected=saved.version).run()
            except SessionConflictError:
                continue
            break


if __name__ == "__main__":
    own = store(*sys.argv[1:4])
    append(own, sys.argv[4], int(sys.argv[5]))
    own.close().run()
