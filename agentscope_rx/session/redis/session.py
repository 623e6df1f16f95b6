"""`RedisSession`: sessions in Redis, each read and each change by one script (`scripts`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast
from uuid import uuid4

from agentscope_rx.errors import ConfigurationError, InvalidInputError, SessionConflictError, SessionDamagedError
from agentscope_rx.reactive import Flow, defer
from agentscope_rx.session.entry import EntryKind, StoredEntry, check_key, check_name, check_names, decode, encode
from agentscope_rx.session.manifest import text_of
from agentscope_rx.session.redis.scripts import (
    BUCKETS,
    DELETE,
    LOAD,
    REMOVE,
    SAVE,
    VERSION,
    Keys,
    bytes_of,
    index_of,
)
from agentscope_rx.session.redis.server import Argument, Commands, Server, place_of
from agentscope_rx.session.server_client import TIMEOUT, ServerClient, check_timeout
from agentscope_rx.session.session import ANY_VERSION, Expected, Items, Saved, Session, check_expected

PREFIX: Final = "agentscope_rx:session:"
_VERSION = re.compile(r"[0-9a-f]{32}")


class RedisSession(Session):
    """Keeps sessions in Redis 5 or newer, or Valkey: `RedisSession("redis://:password@host:6379/0")`.

    With `ttl` a session expires as a whole, so many seconds after it was last saved or loaded. `cluster=True` is for a
    Redis Cluster, of which the URL names a node. A save is one script, and is reported when Redis has it in memory: how
    much a crash of the server loses depends on its `appendfsync`. Set no eviction policy that removes keys without a
    TTL: a list that was evicted is lost, and a `SessionDamagedError`.

    Each operation ends within `timeout` seconds, at worst with a `SessionServerError`. Any loop and any thread may use
    the store; a forked child opens its own connections.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = PREFIX,
        ttl: float | None = None,
        timeout: float = TIMEOUT,
        cluster: bool = False,
    ) -> None:
        check_timeout(timeout)
        if ttl is not None and not ttl >= 0.001:
            raise ConfigurationError(f"ttl must be more than 0 seconds, or None, not {ttl!r}.")
        place = self._place = place_of(url, prefix, cluster)
        self._ttl = "" if ttl is None else f"{ttl * 1000:.0f}"
        # (no reference to this object: it is closed when this is garbage)
        self._server = ServerClient(lambda: Server(place, timeout), Server.close, f"sessions in {place.server}")

    @property
    def prefix(self) -> str:
        """What its keys begin with."""
        return self._place.prefix

    def __repr__(self) -> str:
        return f"<RedisSession in {self._place.server}, keys {self._place.prefix}*>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RedisSession) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        def save() -> Flow[str | None]:
            entries = encode(key, values, lists)

            async def write(server: Server) -> str | None:
                return await _save(server, key, entries, expected, self._ttl)

            async def look(server: Server) -> str | None:
                found = await _version(server, key)
                check_expected(key, expected, found)
                return found

            return self._server.change(key, write) if entries else self._server.look(look)

        return defer(save)

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        def load() -> Flow[Saved]:
            check_key(key)
            wanted = check_names(names)
            return self._server.look(lambda server: _load(server, key, wanted, self._ttl))

        return defer(load)

    def remove(self, key: str, name: str) -> Flow[bool]:
        def remove() -> Flow[bool]:
            check_key(key)
            check_name(name)

            async def write(server: Server) -> bool:
                at = Keys(server.prefix, key)
                keys = [at.index, at.session, at.list_of(name)]
                arguments = [uuid4().hex, self._ttl, at.code, bytes_of(name)]
                return bool(await server.run(REMOVE, key, keys, arguments, changes=True))

            return self._server.change(key, write)

        return defer(remove)

    def delete(self, key: str) -> Flow[bool]:
        def delete() -> Flow[bool]:
            check_key(key)

            async def write(server: Server) -> bool:
                at = Keys(server.prefix, key)
                return bool(await server.run(DELETE, key, [at.index, at.session], [at.code], changes=True))

            return self._server.change(key, write)

        return defer(delete)

    def exists(self, key: str) -> Flow[bool]:
        def exists() -> Flow[bool]:
            check_key(key)

            async def look(server: Server) -> bool:
                return await _version(server, key) is not None

            return self._server.look(look)

        return defer(exists)

    def keys(self) -> Flow[list[str]]:
        """Emits the sorted keys of all sessions. Cancels as `load_all`."""
        return self._server.look(_keys)

    def close(self) -> Flow[None]:
        """Close the connections, when the work that has begun has ended. The next use opens others."""
        return self._server.close()


async def _save(server: Server, key: str, entries: Mapping[str, StoredEntry], expected: Expected, ttl: str) -> str:
    at, version = Keys(server.prefix, key), uuid4().hex
    if isinstance(expected, str):
        # (a text that is no version must not be sent: it may be of any form)
        mode, wanted = "at", expected if _VERSION.fullmatch(expected) else ""
    else:
        mode, wanted = "none" if expected is None else "any", ""
    arguments: list[Argument] = [mode, wanted, version, ttl, at.code, len(entries)]
    for name, entry in entries.items():
        start = "" if entry.start is None else entry.start
        kind = "l" if entry.kind is EntryKind.LIST else "v"
        arguments += [bytes_of(name), kind, start, len(entry.lines), *entry.lines]
    keys = [at.index, at.session, *(at.list_of(name) for name in entries)]
    answer, *more = cast("list[bytes | int]", await server.run(SAVE, key, keys, arguments, changes=True))
    if answer == b"saved":
        return version
    if answer == b"conflict":
        found = cast("bytes", more[0]).decode()
        raise SessionConflictError(key, None if expected is ANY_VERSION else expected, found or None)
    name = list(entries)[cast("int", more[0])]
    if answer == b"damaged":
        raise _damaged(server, key, name, cast("int", more[1]), cast("int", more[2]))
    kind = EntryKind.VALUE if more[1] == b"value" else EntryKind.LIST
    entries[name].start_in(key, name, kind, cast("int", more[2]))
    raise InvalidInputError(f"Entry {name!r} of session {key!r} does not take this tail.")


async def _load(server: Server, key: str, names: Sequence[str] | None, ttl: str) -> Saved:
    at = Keys(server.prefix, key)
    wanted: list[Argument] = ["all"] if names is None else ["some", *map(bytes_of, dict.fromkeys(names))]
    found = await server.run(LOAD, key, [at.index, at.session], [ttl, at.code, *wanted], changes=False)
    version: str | None = None
    entries: dict[str, StoredEntry] = {}
    for number, each in enumerate(cast("list[bytes | list[object]]", found)):
        if isinstance(each, bytes):
            version = each.decode() if number == 0 else version
            continue
        name, content, *lines = cast("tuple[bytes, bytes, list[bytes]]", each)
        text = name.decode("utf-8", "surrogatepass")
        if not lines:
            entries[text] = StoredEntry(EntryKind.VALUE, (content,))
            continue
        if len(lines[0]) != int(content):
            raise _damaged(server, key, text, len(lines[0]), int(content))
        entries[text] = StoredEntry(EntryKind.LIST, tuple(lines[0]))
    return decode(key, entries, version)


async def _version(server: Server, key: str) -> str | None:
    at = Keys(server.prefix, key)
    found = cast("bytes | None", await server.run(VERSION, key, [at.index, at.session], []))
    return None if found is None else found.decode()


async def _keys(server: Server) -> list[str]:
    async def codes(client: Commands) -> list[list[bytes]]:
        seconds, micros = await client.time()
        now = seconds * 1000 + micros // 1000
        pipeline = client.pipeline(transaction=False)
        for bucket in range(BUCKETS):
            pipeline.zrangebyscore(index_of(server.prefix, bucket), f"({now}", "+inf")
        return await pipeline.execute()

    found = await server.query(codes)
    return sorted(key for bucket in found for code in bucket if (key := text_of(code.decode())) is not None)


def _damaged(server: Server, key: str, name: str, found: int, length: int) -> SessionDamagedError:
    what = f"entry {name!r} of session {key!r} has {found} of {length} items (was it evicted?)"
    advice = f"Restore a copy, or give it up with remove({key!r}, {name!r})."
    return SessionDamagedError(key, server.server, what, advice)
