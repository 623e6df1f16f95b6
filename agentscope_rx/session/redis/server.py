"""`Server`: a pool of connections to one Redis, on one loop; a script or some commands in bounded time."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cache
from typing import Protocol, TypeVar, cast
from urllib.parse import urlsplit

from redis import exceptions as faults
from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from agentscope_rx.errors import ConfigurationError, SessionServerError
from agentscope_rx.frozen_values import dataclass

T = TypeVar("T")

Argument = str | bytes | int
CONNECTIONS = 16
"""The most connections at once; more operations wait."""
_CLOSE_SECONDS = 2.0
_DATABASE = re.compile(r"/?|/[0-9]+/?")
_RETRYABLE = (
    *(faults.BusyLoadingError, faults.ClusterDownError, faults.MasterDownError),
    *(faults.ReadOnlyError, faults.TryAgainError),
)
"""Answers of a server that starts, or whose replica takes over."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the sessions are. Two places are equal if they are the same keys of the same server."""

    server: str
    prefix: str
    cluster: bool = field(compare=False)
    # a password is in here
    url: str = field(compare=False, repr=False)


def place_of(url: str, prefix: str, cluster: bool) -> Place:
    """The place that the arguments name; `ConfigurationError` if they name none."""
    if set(prefix) & set("{}") or not prefix.isprintable():
        raise ConfigurationError(f"prefix must be plain text without braces, and not {prefix!r:.60}.")
    try:
        options = parse_url(url)
        # redis-py takes "redis:host" for the local server, and "redis://host/name" for its database 0
        place = urlsplit(url)
        if not url[len(place.scheme) :].startswith("://"):
            raise ValueError("not understood as a whole")
    except (ValueError, AttributeError, TypeError):
        # the cause would show the URL, with its password
        raise ConfigurationError(
            "This is no URL of a Redis server. Give RedisSession one such as 'redis://:password@host:6379/0'."
        ) from None
    database = options.get("db", 0)
    if place.scheme != "unix" and not _DATABASE.fullmatch(place.path):
        # redis-py would take database 0
        raise ConfigurationError("The path of a URL of Redis is the number of a database: 'redis://host:6379/0'.")
    if (path := options.get("path")) is not None:
        return Place(f"unix://{path}?db={database}", prefix, cluster, url)
    server = f"redis://{options.get('host', 'localhost')}:{options.get('port', 6379)}/{database}"
    return Place(server, prefix, cluster, url)


class Pipeline(Protocol):
    """Commands that are sent together."""

    def zrangebyscore(self, name: str, least: str, most: str, /) -> object: ...
    def execute(self) -> Awaitable[list[list[bytes]]]: ...


class Commands(Protocol):
    """What is used of redis-py's clients, whose types are incomplete."""

    def evalsha(self, digest: str, count: int, /, *arguments: Argument) -> Awaitable[object]: ...
    def eval(self, script: str, count: int, /, *arguments: Argument) -> Awaitable[object]: ...
    def time(self) -> Awaitable[tuple[int, int]]: ...
    def pipeline(self, *, transaction: bool) -> Pipeline: ...


class _Progress:
    """`unsure` from the moment that a change is sent until its answer is there."""

    __slots__ = ("unsure",)

    def __init__(self) -> None:
        self.unsure = False


class Server:
    """The keys of a place. It belongs to the loop that it is made on."""

    def __init__(self, place: Place, timeout: float) -> None:
        self.prefix: str = place.prefix
        self.server: str = place.server
        self._timeout = timeout
        # redis-py would repeat a change whose answer was lost, and find its own version in the way
        once = Retry(NoBackoff(), 0)
        options = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": once, "protocol": 2}
        if place.cluster:
            self._client: Redis | RedisCluster = RedisCluster.from_url(
                place.url, max_connections=CONNECTIONS, **options
            )
        else:
            pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] (its **kwargs)
                place.url, max_connections=CONNECTIONS, timeout=timeout, decode_responses=False, **options
            )
            self._client = Redis.from_pool(pool)

    async def run(
        self,
        script: str,
        key: str,
        keys: Sequence[str | bytes],
        arguments: Sequence[Argument],
        *,
        changes: bool = False,
    ) -> object:
        """The result of a script, for the session of this key."""

        async def evaluate(client: Commands, progress: _Progress) -> object:
            progress.unsure = changes
            return await _evaluate(client, script, keys, arguments)

        return await self._do(key, evaluate)

    async def query(self, work: Callable[[Commands], Awaitable[T]]) -> T:
        """The result of commands that change nothing."""
        return await self._do(None, lambda client, progress: work(client))

    async def close(self) -> None:
        """Close the connections; those whose server does not answer are cut off."""
        with suppress(TimeoutError, OSError, faults.RedisError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._client.aclose()

    async def _do(self, key: str | None, work: Callable[[Commands, _Progress], Awaitable[T]]) -> T:
        progress = _Progress()
        with self._our_errors(key, progress):
            async with asyncio.timeout(self._timeout):
                if isinstance(self._client, RedisCluster):
                    return await work(cast("Commands", self._client), progress)
                connected = self._client.client()
                try:
                    # before anything is sent: a failure to connect leaves no doubt
                    await connected.initialize()
                    return await work(cast("Commands", connected), progress)
                finally:
                    # (redis-py's `async with` gives the connection up if it is cancelled meanwhile)
                    await asyncio.shield(connected.aclose())

    @contextmanager
    def _our_errors(self, key: str | None, progress: _Progress) -> Generator[None]:
        def told(reason: str, *, retryable: bool, unsure: bool = False) -> SessionServerError:
            return SessionServerError(key, self.server, reason, retryable=retryable, unsure=unsure)

        try:
            yield
        except (TimeoutError, faults.TimeoutError) as error:
            reason = f"there was no answer within {self._timeout:g} s"
            raise told(reason, retryable=True, unsure=progress.unsure) from error
        except _RETRYABLE as error:
            raise told(str(error), retryable=True) from error
        except (faults.AuthenticationError, faults.AuthorizationError, faults.ResponseError) as error:
            # the server has answered, and a script is refused before it begins
            raise told(str(error), retryable=False) from error
        except (faults.ConnectionError, faults.ClusterError, OSError) as error:
            raise told(str(error), retryable=True, unsure=progress.unsure) from error
        except faults.RedisError as error:
            raise told(str(error), retryable=False, unsure=progress.unsure) from error


async def _evaluate(
    client: Commands, script: str, keys: Sequence[str | bytes], arguments: Sequence[Argument]
) -> object:
    try:
        return await client.evalsha(_digest(script), len(keys), *keys, *arguments)
    except faults.NoScriptError:
        return await client.eval(script, len(keys), *keys, *arguments)


@cache
def _digest(script: str) -> str:
    """The name that Redis gives to a script."""
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
