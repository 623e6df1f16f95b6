"""`check_session`: the shipped stores keep the laws, and each kind of fault is found."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.errors import SessionConflictError
from agentscope_rx.reactive import Flow, concat, defer, from_callable, just
from agentscope_rx.session import (
    ANY_VERSION,
    InMemorySession,
    Items,
    ListTail,
    RedisSession,
    Saved,
    Session,
    SqlSession,
)
from agentscope_rx.session.entry import check_key
from agentscope_rx.testing import check_session
from tests.session.stores import STORES
from tests.support.servers import Server, postgres_url, redis_url
from tests.testing.faults import broken


@pytest.mark.spec("§12.2", "case 141", "case 139", "case 140", "case 142", "W71")
@pytest.mark.parametrize("kind", list(STORES))
def test_a_shipped_session_keeps_the_laws(kind: str, tmp_path: Path):
    numbers = count()
    report = check_session(lambda: STORES[kind](tmp_path / f"{next(numbers)}"), name=kind)
    assert {"round trip", "odd keys", "writers", "load_all 1.08", "save_all 3.13"} <= set(report.checked)


def keeps_the_laws(make: Callable[[str], Session], name: str) -> None:
    """Each store of a rule has names of its own on the one server."""
    made: list[Session] = []

    def new() -> Session:
        made.append(make(f"kit{len(made)}_"))
        return made[-1]

    report = check_session(new, name=name, real_time=True)
    for each in made:
        each.close().run()
    assert {"round trip", "odd keys", "writers", "threads", "load_all 1.08", "save_all 3.13"} <= set(report.checked)


@pytest.mark.spec("W70", "W71")
def test_sessions_in_postgresql_keep_the_laws(postgres: Server):
    keeps_the_laws(lambda prefix: SqlSession(postgres_url(postgres), prefix=prefix), "PostgreSQL")


def test_sessions_in_sqlite_by_sqlalchemy_keep_the_laws(tmp_path: Path):
    keeps_the_laws(lambda prefix: SqlSession(f"sqlite:///{tmp_path / prefix}.db"), "SQLite")


@pytest.mark.spec("W70", "W71")
@pytest.mark.parametrize("ttl", [None, 3600.0])
def test_sessions_in_redis_keep_the_laws(redis: Server, ttl: float | None):
    keeps_the_laws(lambda prefix: RedisSession(redis_url(redis), prefix=f"{prefix}{ttl}:", ttl=ttl), "Redis")


class Faulty(InMemorySession):
    """A store whose saves pass through `saving`, and whose loads pass through `loaded`."""

    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        return super().save_all(key, values, lists, expected=expected)

    def loaded(self, key: str, names: Any, saved: Saved) -> Saved:
        return saved

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Any = ANY_VERSION,
    ) -> Flow[str | None]:
        return defer(lambda: self.saving(key, values, lists, expected))

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        load = super().load_all

        async def read() -> Saved:
            return self.loaded(key, names, await load(key, names))

        return from_callable(read)


class LoadsAll(Faulty):
    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        return InMemorySession.load_all(self, key)


class MissingIsEmpty(Faulty):
    def loaded(self, key: str, names: Any, saved: Saved) -> Saved:
        return saved if saved.version else Saved({"state": {}} if names is None else {}, version="0")


class PythonValues(Faulty):
    """Keeps the objects themselves, copied."""

    def __init__(self) -> None:
        super().__init__()
        self.tuples: dict[tuple[str, str], object] = {}

    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        for name, value in values.items():
            self.tuples[key, name] = copy.deepcopy(value)
        return super().saving(key, values, lists, expected)

    def loaded(self, key: str, names: Any, saved: Saved) -> Saved:
        return Saved({name: self.tuples[key, name] for name in saved.values}, saved.lists, saved.version)


class OneByOne(Faulty):
    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        save = super().saving
        if expected is not ANY_VERSION or len(values) < 2 or "x" in values:
            return save(key, values, lists, expected)
        parts = [save(key, {name: value}, None, ANY_VERSION) for name, value in values.items()]

        async def last() -> Any:
            return await concat(*parts, save(key, {}, lists, ANY_VERSION))

        return from_callable(last)


class AnyKey(Faulty):
    def exists(self, key: str) -> Flow[bool]:
        return super().exists(key) if key.strip() else just(False)


class TakesTextAtOnce(Faulty):
    def save_all(self, key: str, values: Any, lists: Any = None, *, expected: Any = ANY_VERSION) -> Flow[str | None]:
        try:
            early = json.loads(json.dumps(values)), json.loads(json.dumps(lists))
        except (TypeError, ValueError):
            early = values, lists
        if any(isinstance(name, int) for name in values):
            early = values, lists
        return InMemorySession.save_all(self, key, *early, expected=expected)


class Hot(Faulty):
    def save_all(self, key: str, values: Any, lists: Any = None, *, expected: Any = ANY_VERSION) -> Flow[Any]:
        flow = InMemorySession.save_all(self, key, values, lists, expected=expected)
        if values == {"v": 1} and not lists and expected is ANY_VERSION:
            flow.subscribe()
        return flow


class NoVersion(Faulty):
    def close(self) -> Flow[Any]:
        return just(True)


class Merges(Faulty):
    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        if len(values) == 1 and not lists:
            ((name, value),) = values.items()
            found = InMemorySession.load_all(self, key)

            async def merged() -> Any:
                old = (await found).values.get(name)
                both = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
                return await super(Merges, self).saving(key, {name: both}, lists, expected)

            return from_callable(merged)
        return super().saving(key, values, lists, expected)


class ValuesAreLists(Faulty):
    def load_list(self, key: str, name: str) -> Flow[list[object]]:
        async def items() -> list[object]:
            saved = await self.load_all(key, [name])
            return saved.lists.get(name) or [saved.values[name]] if name in saved.values else saved.lists.get(name, [])

        return from_callable(items)


class NothingMakesASession(Faulty):
    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        if not values and not lists:
            self.empty = key
        return super().saving(key, values, lists, expected)

    empty: str | None = None

    def exists(self, key: str) -> Flow[bool]:
        return just(True) if key == self.empty else super().exists(key)


class Unsorted(Faulty):
    def keys(self) -> Flow[list[str]]:
        return defer(lambda: just(list(self._sessions)))


class FoldsCase(Faulty):
    """As a file system may."""

    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        check_key(key)
        return super().saving(key.lower(), values, lists, expected)


class OnlyAppends(Faulty):
    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        given = (lists or {}).items()
        behind = {name: ListTail(each.items) if isinstance(each, ListTail) else each for name, each in given}
        return super().saving(key, values, behind, expected)


class IgnoresVersions(Faulty):
    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        return super().saving(key, values, lists, ANY_VERSION)


class ChecksTooEarly(Faulty):
    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        save = super().saving

        async def late() -> Any:
            if expected is not ANY_VERSION:
                found = (await InMemorySession.load_all(self, key)).version
                if found != expected:
                    raise SessionConflictError(key, expected, found)
            # `encode` is the first thing, so that values are taken at subscription
            taken = copy.deepcopy((values, lists))
            await asyncio.sleep(0)
            return await save(key, *taken, ANY_VERSION)

        return from_callable(late)


class OneThread(Faulty):
    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        if threading.get_ident() != self.thread:
            raise RuntimeError("used on another thread than that it was made on")
        return super().saving(key, values, lists, expected)


class LeavesAPart(Faulty):
    def saving(self, key: str, values: Any, lists: Any, expected: Any) -> Flow[Any]:
        save = super().saving

        async def parts() -> Any:
            await save(key, values, None, expected)
            await asyncio.sleep(0)
            return await save(key, {}, lists, ANY_VERSION)

        split = values == {"v": 2} and lists == {"l": [2]} and expected is ANY_VERSION
        return from_callable(parts) if split else save(key, values, lists, expected)


FAULTS: list[tuple[Callable[[], Session], str]] = [
    (LoadsAll, "round trip"),
    (MissingIsEmpty, "missing"),
    (PythonValues, "json"),
    (OneByOne, "refused"),
    (AnyKey, "blank"),
    (TakesTextAtOnce, "copies"),
    (Hot, "cold"),
    (NoVersion, "one signal"),
    (Merges, "overwrite"),
    (OnlyAppends, "tails"),
    (ValuesAreLists, "kinds"),
    (NothingMakesASession, "deletion"),
    (Unsorted, "apart"),
    (FoldsCase, "odd keys"),
    (IgnoresVersions, "versions"),
    (ChecksTooEarly, "writers"),
    (OneThread, "threads"),
    (LeavesAPart, "disposal"),
]


@pytest.mark.parametrize(("make", "rule"), FAULTS, ids=lambda each: getattr(each, "__name__", each))
def test_a_fault_of_a_session_is_found(make: Callable[[], Session], rule: str):
    broken(lambda: check_session(make), rule)


def test_each_rule_has_a_fault():
    own = [rule for rule in check_session(InMemorySession).checked if not rule.startswith(("load_all ", "save_all "))]
    assert set(own) == {rule for _, rule in FAULTS}
